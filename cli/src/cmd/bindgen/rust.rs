//! Rust: a module on the crate vfun, without unsafe code.

use super::{Bound, camel, identifier};
use std::fmt::Write;
use vfun::signature::{Record, Scalar, Signature, StructMember, Type};

/// Words that Rust keeps for itself: no names.
pub(super) const WORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// What the stubs' code calls its own: arguments give way.
const OWN: &[&str] = &["bytes", "from", "i", "len", "room", "to", "x"];

/// A member's name, as Rust may have it.
fn name(n: &str) -> String {
    super::safe(n, WORDS)
}

/// An argument's name, as Rust may have it.
fn param(n: &str) -> String {
    super::safe(&name(n), OWN)
}

struct RustStub<'a> {
    s: &'a Signature,
}

impl RustStub<'_> {
    fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::Scalar(s) => s.name().into(),
            Type::Struct(i) => camel(&self.s.structs[*i].name),
            Type::Array(of, n) => format!("[{}; {n}]", self.ty(of)),
        }
    }

    /// Statements that put `value` into `to` from `at` on.
    fn put(&self, ty: &Type, value: &str, at: &str, deep: usize) -> String {
        match ty {
            Type::Scalar(Scalar::Bool) => format!("to[{at}] = u8::from({value});"),
            Type::Scalar(s) => {
                format!("to[{at}..][..{}].copy_from_slice(&{value}.to_le_bytes());", s.bytes())
            }
            Type::Struct(_) => format!("{value}.put(&mut to[{at}..]);"),
            Type::Array(of, _) => {
                let inner = self.put(
                    of,
                    &format!("x{deep}"),
                    &format!("{at} + i{deep} * {}", self.s.bytes_of(of)),
                    deep + 1,
                );
                format!("for (i{deep}, x{deep}) in {value}.iter().enumerate() {{ {inner} }}")
            }
        }
    }

    /// An expression for what is in `from` at `at`.
    fn get(&self, ty: &Type, at: &str, deep: usize) -> String {
        match ty {
            Type::Scalar(Scalar::Bool) => format!("from[{at}] != 0"),
            Type::Scalar(s) => format!("{}::from_le_bytes(bytes(from, {at}))", s.name()),
            Type::Struct(_) => format!("{}::get(&from[{at}..])", self.ty(ty)),
            Type::Array(of, _) => {
                let inner =
                    self.get(of, &format!("{at} + i{deep} * {}", self.s.bytes_of(of)), deep + 1);
                format!("std::array::from_fn(|i{deep}| {inner})")
            }
        }
    }

    fn structs(&self, out: &mut String) {
        for s in &self.s.structs {
            let id = camel(&s.name);
            let field =
                |m: &StructMember| format!("        pub {}: {},\n", name(&m.name), self.ty(&m.ty));
            let fields: String = s.members.iter().map(field).collect();
            let puts: String = s
                .members
                .iter()
                .map(|m| {
                    format!(
                        "            {}\n",
                        self.put(
                            &m.ty,
                            &format!("self.{}", name(&m.name)),
                            &m.offset.to_string(),
                            0
                        )
                    )
                })
                .collect();
            let gets: String = s
                .members
                .iter()
                .map(|m| {
                    format!(
                        "                {}: {},\n",
                        name(&m.name),
                        self.get(&m.ty, &m.offset.to_string(), 0)
                    )
                })
                .collect();
            let _ = writeln!(
                out,
                "    #[derive(Clone, Copy, Debug, PartialEq)]\n    pub struct {id} {{\n{fields}    }}\n\n    impl {id} {{\n        fn put(&self, to: &mut [u8]) {{\n{puts}        }}\n        fn get(from: &[u8]) -> Self {{\n            {id} {{\n{gets}            }}\n        }}\n    }}\n"
            );
        }
    }

    fn result_type(&self) -> String {
        let r = &self.s.results;
        match (self.s.bare_result, r.is_empty()) {
            (_, true) => "()".into(),
            (true, _) => match (r.fields.first(), &r.tail) {
                (Some(f), _) => self.ty(&f.ty),
                (None, Some(t)) => format!("Vec<{}>", self.ty(&t.element)),
                (None, None) => "()".into(),
            },
            (false, _) => "Results".into(),
        }
    }

    fn results(&self, out: &mut String) {
        let r = &self.s.results;
        if self.s.bare_result || r.is_empty() {
            return;
        }
        let mut fields: String = r
            .fields
            .iter()
            .map(|f| format!("        pub {}: {},\n", name(&f.name), self.ty(&f.ty)))
            .collect();
        if let Some(t) = &r.tail {
            let _ =
                writeln!(fields, "        pub {}: Vec<{}>,", name(&t.name), self.ty(&t.element));
        }
        let _ = writeln!(
            out,
            "    /// What a call gives.\n    #[derive(Clone, Debug, PartialEq)]\n    pub struct Results {{\n{fields}    }}\n"
        );
    }

    /// The elements of a variable array of results, as an expression.
    fn tail_of(&self, r: &Record) -> Option<String> {
        let t = r.tail.as_ref()?;
        if t.element == Type::Scalar(Scalar::U8) {
            return Some(format!("from[{}..].to_vec()", t.offset));
        }
        let get = self.get(&t.element, &format!("{} + i * {}", t.offset, t.element_bytes), 0);
        Some(format!(
            "(0..(from.len() - {}) / {}).map(|i| {get}).collect()",
            t.offset, t.element_bytes
        ))
    }

    fn decode(&self) -> String {
        let r = &self.s.results;
        if r.is_empty() {
            return "()".into();
        }
        if self.s.bare_result {
            return match r.fields.first() {
                Some(f) => self.get(&f.ty, "0", 0),
                None => self.tail_of(r).unwrap_or_default(),
            };
        }
        let mut parts: Vec<String> = r
            .fields
            .iter()
            .map(|f| format!("{}: {}", name(&f.name), self.get(&f.ty, &f.offset.to_string(), 0)))
            .collect();
        if let (Some(t), Some(get)) = (&r.tail, self.tail_of(r)) {
            parts.push(format!("{}: {get}", name(&t.name)));
        }
        format!("Results {{ {} }}", parts.join(", "))
    }

    fn call(&self, out: &mut String) {
        let a = &self.s.args;
        let mut params: Vec<String> =
            a.fields.iter().map(|f| format!("{}: {}", param(&f.name), self.ty(&f.ty))).collect();
        let head = a.tail.as_ref().map_or(a.fixed_bytes, |t| t.offset);
        let mut body: String = a
            .fields
            .iter()
            .map(|f| {
                format!(
                    "            {}\n",
                    self.put(&f.ty, &param(&f.name), &f.offset.to_string(), 0)
                )
            })
            .collect();
        let mut args = "&to".to_owned();
        let buffer = match &a.tail {
            None => format!("            let mut to = [0u8; {head}];\n"),
            Some(t) => {
                let n = param(&t.name);
                params.push(format!("{n}: &[{}]", self.ty(&t.element)));
                if t.element == Type::Scalar(Scalar::U8) && a.fields.is_empty() {
                    args = n;
                    String::new()
                } else {
                    let put =
                        self.put(&t.element, "x", &format!("{head} + i * {}", t.element_bytes), 0);
                    let _ = writeln!(
                        body,
                        "            for (i, x) in {n}.iter().enumerate() {{ {put} }}"
                    );
                    format!(
                        "            let mut to = vec![0u8; {head} + {n}.len() * {}];\n",
                        t.element_bytes
                    )
                }
            }
        };
        let buffer = if body.is_empty() { buffer.replace("let mut", "let") } else { buffer };
        let r = &self.s.results;
        let fixed = r.tail.is_none();
        let check = if fixed {
            format!("from.len() != {}", r.fixed_bytes)
        } else {
            format!(
                "from.len() < {} || !(from.len() - {}).is_multiple_of({})",
                r.min_bytes(),
                r.tail.as_ref().map_or(0, |t| t.offset),
                r.step()
            )
        };
        // A host that sends more than the signature has is told apart from one that sends less.
        let from = if fixed {
            format!(
                "            let mut room = [0u8; {}];\n            let len = self.function.call_into({args}, &mut room)?;\n            let from = &room[..len];\n",
                r.fixed_bytes
            )
        } else {
            format!("            let from = &self.function.call({args})?[..];\n")
        };
        let params: String = params.iter().map(|p| format!(", {p}")).collect();
        let _ = write!(
            out,
            "        /// Calls it: `{}`.\n        #[allow(clippy::too_many_arguments)]\n        pub fn call(&self{params}) -> vfun::Result<{}> {{\n{buffer}{body}{from}            if {check} {{\n                return Err(vfun::Error::HostNonsense(format!(\"{{}} bytes of results\", from.len())));\n            }}\n            Ok({})\n        }}\n",
            self.s,
            self.result_type(),
            self.decode()
        );
    }
}

/// The text of the module for these functions.
pub fn module(functions: &[Bound]) -> String {
    let mut out = String::from(
        "// Made by `vfun bindgen`; make it again after a function's signature has changed.\n",
    );
    for f in functions {
        let (id, ty) = (name(&identifier(&f.name)), camel(&f.name));
        let stub = RustStub { s: &f.signature };
        let _ = write!(
            out,
            "\n/// The function `{}`.\n#[allow(dead_code, unused_mut, clippy::all)]\npub mod {id} {{\n",
            f.name
        );
        let _ = writeln!(
            out,
            "    /// Fingerprint of `{}`.\n    pub const SIGNATURE: u64 = {:#018x};\n",
            f.signature,
            f.signature.fingerprint()
        );
        let _ = writeln!(
            out,
            "    fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {{\n        let mut to = [0; N];\n        to.copy_from_slice(&from[at..at + N]);\n        to\n    }}\n"
        );
        stub.structs(&mut out);
        stub.results(&mut out);
        let _ = write!(
            out,
            "    /// `{0}`, open.\n    pub struct {ty} {{\n        /// The function underneath.\n        pub function: vfun::Function,\n    }}\n\n    impl {ty} {{\n\
             \x20       /// Opens it; refused if the host's has another signature.\n        pub fn open(session: &vfun::Session) -> vfun::Result<Self> {{\n            Self::open_as(session, |request| request)\n        }}\n\n\
             \x20       /// The same, with more wanted of it.\n        pub fn open_as(\n            session: &vfun::Session,\n            wanted: impl FnOnce(vfun::FunctionRequest) -> vfun::FunctionRequest,\n        ) -> vfun::Result<Self> {{\n            let request = wanted(vfun::FunctionRequest::new(\"{0}\")).signature(SIGNATURE);\n            Ok({ty} {{ function: session.negotiate(&request)?.activate()? }})\n        }}\n\n",
            f.name
        );
        stub.call(&mut out);
        out.push_str("    }\n}\n");
    }
    out
}
