//! A function's signature and manifest as text, written at compile time, so
//! that they can lie in a library's section of their own.

/// What a type is, as a signature has it.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A scalar, by its name in a signature, such as `u32`.
    Scalar(&'static str),
    /// So many of a type.
    Array(&'static Shape, usize),
    /// A struct: its name and its members. All structs of one name are one.
    Struct(&'static str, &'static [(&'static str, Shape)]),
}

/// What a function's manifest says but where its library is.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    /// The function's name, as hosts offer it.
    pub name: &'static str,
    /// The function's version, `MAJOR.MINOR`.
    pub version: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Longest time of a call, ms; 0 leaves it to the host.
    pub deadline_ms: u32,
    /// Arguments of a fixed size.
    pub args: &'static [(&'static str, Shape)],
    /// The variable array after them.
    pub args_tail: Option<(&'static str, Shape)>,
    /// The result, where it has a fixed size.
    pub result: Option<Shape>,
    /// The elements of the result, where it is a variable array.
    pub result_tail: Option<Shape>,
}

/// Most structs of one signature, as `vfun_signature` has it.
const STRUCTS_MAX: usize = 64;

/// Text so far; without room only counted.
struct Writer<'a> {
    to: &'a mut [u8],
    len: usize,
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The names of structs that were written.
struct Seen {
    names: [&'static str; STRUCTS_MAX],
    len: usize,
}

impl Seen {
    const fn has(&self, name: &str) -> bool {
        let mut i = 0;
        while i < self.len {
            if same(self.names[i], name) {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl Writer<'_> {
    const fn byte(&mut self, b: u8) {
        if self.len < self.to.len() {
            self.to[self.len] = b;
        }
        self.len += 1;
    }

    const fn str(&mut self, s: &str) {
        let bytes = s.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self.byte(bytes[i]);
            i += 1;
        }
    }

    const fn number(&mut self, n: usize) {
        if n >= 10 {
            self.number(n / 10);
        }
        self.byte(b'0' + (n % 10) as u8);
    }

    /// As a string of TOML in double quotes.
    const fn quoted(&mut self, s: &str) {
        let bytes = s.as_bytes();
        self.byte(b'"');
        let mut i = 0;
        while i < bytes.len() {
            if matches!(bytes[i], b'"' | b'\\') {
                self.byte(b'\\');
            }
            assert!(
                bytes[i] >= 0x20 && bytes[i] != 0x7f,
                "a manifest's texts have no control characters"
            );
            self.byte(bytes[i]);
            i += 1;
        }
        self.byte(b'"');
    }

    const fn shape(&mut self, s: &Shape) {
        match s {
            Shape::Scalar(name) | Shape::Struct(name, _) => self.str(name),
            Shape::Array(of, n) => {
                self.byte(b'[');
                self.shape(of);
                self.str("; ");
                self.number(*n);
                self.byte(b']');
            }
        }
    }

    /// The structs that `s` is made of, each after those it is made of.
    const fn structs(&mut self, s: &Shape, seen: &mut Seen) {
        match s {
            Shape::Scalar(_) => {}
            Shape::Array(of, _) => self.structs(of, seen),
            Shape::Struct(name, members) => {
                if seen.has(name) {
                    return;
                }
                let mut i = 0;
                while i < members.len() {
                    self.structs(&members[i].1, seen);
                    i += 1;
                }
                assert!(seen.len < STRUCTS_MAX, "a signature has at most 64 structs");
                seen.names[seen.len] = name;
                seen.len += 1;
                self.str("struct ");
                self.str(name);
                self.str(" { ");
                self.fields(members);
                self.str(" } ");
            }
        }
    }

    const fn fields(&mut self, fields: &[(&'static str, Shape)]) {
        let mut i = 0;
        while i < fields.len() {
            if i > 0 {
                self.str(", ");
            }
            self.str(fields[i].0);
            self.str(": ");
            self.shape(&fields[i].1);
            i += 1;
        }
    }

    const fn variable(&mut self, of: &Shape) {
        self.byte(b'[');
        self.shape(of);
        self.byte(b']');
    }

    const fn signature(&mut self, m: &Manifest) {
        let mut seen = Seen { names: [""; STRUCTS_MAX], len: 0 };
        let mut i = 0;
        while i < m.args.len() {
            self.structs(&m.args[i].1, &mut seen);
            i += 1;
        }
        if let Some((_, of)) = &m.args_tail {
            self.structs(of, &mut seen);
        }
        if let Some(s) = &m.result {
            self.structs(s, &mut seen);
        }
        if let Some(s) = &m.result_tail {
            self.structs(s, &mut seen);
        }
        self.byte(b'(');
        self.fields(m.args);
        if let Some((name, of)) = &m.args_tail {
            if !m.args.is_empty() {
                self.str(", ");
            }
            self.str(name);
            self.str(": ");
            self.variable(of);
        }
        self.str(") -> ");
        match (&m.result, &m.result_tail) {
            (Some(s), _) => self.shape(s),
            (None, Some(of)) => self.variable(of),
            (None, None) => self.str("()"),
        }
    }

    const fn manifest(&mut self, m: &Manifest) {
        self.str("name = ");
        self.quoted(m.name);
        self.str("\nversion = ");
        self.quoted(m.version);
        if !m.summary.is_empty() {
            self.str("\nsummary = ");
            self.quoted(m.summary);
        }
        if m.deadline_ms > 0 {
            self.str("\ndeadline_ms = ");
            self.number(m.deadline_ms as usize);
        }
        self.str("\nsignature = \"");
        self.signature(m);
        self.str("\"\n");
    }
}

impl Manifest {
    /// Bytes of the signature's text.
    pub const fn signature_len(&self) -> usize {
        let mut w = Writer { to: &mut [], len: 0 };
        w.signature(self);
        w.len
    }

    /// The signature's text; `N` is [`Manifest::signature_len`].
    pub const fn signature<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        let mut w = Writer { to: &mut bytes, len: 0 };
        w.signature(self);
        assert!(w.len == N, "the length is that of the text");
        bytes
    }

    /// Bytes of the manifest's text.
    pub const fn text_len(&self) -> usize {
        let mut w = Writer { to: &mut [], len: 0 };
        w.manifest(self);
        w.len
    }

    /// The manifest's text, TOML; `N` is [`Manifest::text_len`].
    pub const fn text<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        let mut w = Writer { to: &mut bytes, len: 0 };
        w.manifest(self);
        assert!(w.len == N, "the length is that of the text");
        bytes
    }
}

/// Bytes that a [`Manifest`] wrote, as text.
///
/// # Panics
/// At compile time, if they are not UTF-8.
#[doc(hidden)]
pub const fn str_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(s) => s,
        Err(_) => panic!("the texts of a manifest are UTF-8"),
    }
}
