//! From text. Every error says where and what was expected.

use crate::record::{Field, Record, Tail, lay_out, round_up};
use crate::types::{Scalar, Struct, StructMember, Type};
use crate::{BYTES_MAX, NESTING_MAX, STRUCTS_MAX, Signature, TEXT_MAX, Value};
use vfun_wire::limits::NAME_BYTES;

/// Why a text is no signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureError {
    /// Byte of the text, from 0.
    pub at: usize,
    /// What is wrong there and what would be right.
    pub reason: String,
}

impl core::fmt::Display for SignatureError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "signature, character {}: {}", self.at + 1, self.reason)
    }
}
impl std::error::Error for SignatureError {}

type Parse<T> = Result<T, SignatureError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    structs: Vec<Struct>,
}

/// A field's type as it is read.
enum Kind {
    Fixed(Type),
    Tail { element: Type, least: u64, most: Option<u64> },
}

/// Fields as they are read: name, type, default, and where each begins.
type Fields = (Vec<Field>, Option<Tail>);

impl<'a> Parser<'a> {
    fn fail<T>(&self, at: usize, reason: impl Into<String>) -> Parse<T> {
        Err(SignatureError { at, reason: reason.into() })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Whether `token` comes next; takes it.
    fn take(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn peek(&mut self, token: &str) -> bool {
        self.space();
        self.rest().starts_with(token)
    }

    fn expect(&mut self, token: &str) -> Parse<()> {
        if self.take(token) {
            return Ok(());
        }
        let found: String = self.rest().chars().take(12).collect();
        match found.is_empty() {
            true => self.fail(self.at, format!("'{token}' is missing at the end")),
            false => self.fail(self.at, format!("'{token}' is expected here, not '{found}'")),
        }
    }

    /// A word of letters, digits and `_`, if one comes next.
    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn name(&mut self, what: &str) -> Parse<String> {
        self.space();
        let at = self.at;
        let word = self.word();
        let good = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !good {
            return self.fail(
                at,
                format!(
                    "the name of {what} is expected here: a letter or _, then letters, digits and _"
                ),
            );
        }
        if word.len() > NAME_BYTES {
            return self.fail(
                at,
                format!("the name has {} bytes, at most {NAME_BYTES} are possible", word.len()),
            );
        }
        if word == "struct" || Scalar::named(word).is_some() {
            return self.fail(at, format!("'{word}' is a type and cannot be the name of {what}"));
        }
        Ok(word.to_owned())
    }

    fn count(&mut self) -> Parse<u64> {
        self.space();
        let at = self.at;
        let word = self.word();
        match word.parse::<u64>() {
            Ok(n) if n <= BYTES_MAX && word == n.to_string() => Ok(n),
            _ => self.fail(at, format!("a number of elements is expected here: 0 to {BYTES_MAX}")),
        }
    }

    fn named_type(&mut self) -> Parse<Type> {
        self.space();
        let at = self.at;
        let word = self.word();
        if let Some(s) = Scalar::named(word) {
            return Ok(Type::Scalar(s));
        }
        match self.structs.iter().position(|s| s.name == word) {
            Some(i) => Ok(Type::Struct(i)),
            None if word.is_empty() => self.fail(
                at,
                "a type is expected here: bool, u8 to u64, i8 to i64, f32, f64, a struct, or an array [TYPE; N] or [TYPE]",
            ),
            None => self.fail(
                at,
                format!("'{word}' is no type: bool, u8 to u64, i8 to i64, f32, f64, or a struct declared before"),
            ),
        }
    }

    /// A type, or a variable array where `tail` allows one.
    fn kind(&mut self, depth: usize, tail: bool) -> Parse<Kind> {
        self.space();
        let start = self.at;
        if !self.take("[") {
            return Ok(Kind::Fixed(self.named_type()?));
        }
        if depth >= NESTING_MAX {
            return self.fail(start, format!("arrays nest at most {NESTING_MAX} deep"));
        }
        let Kind::Fixed(element) = self.kind(depth + 1, false)? else {
            unreachable!("not allowed there")
        };
        let variable = |p: &Self, least, most| {
            match tail {
            true => Ok(Kind::Tail { element: element.clone(), least, most }),
            false => p.fail(start, "a variable array can only be the last argument or result; give this one a fixed length: [TYPE; N]"),
        }
        };
        if self.take("]") {
            return variable(self, 0, None);
        }
        self.expect(";")?;
        self.space();
        let at = self.at;
        let n = self.count()?;
        if !self.take("..") {
            self.expect("]")?;
            if n == 0 {
                return self.fail(at, "an array has at least one element");
            }
            return Ok(Kind::Fixed(Type::Array(Box::new(element), n)));
        }
        let most = match self.take("=") {
            true => Some(self.count()?),
            false => None,
        };
        self.expect("]")?;
        if most.is_some_and(|most| most < n || most == 0) {
            return self.fail(at, "the most elements are fewer than the least, or none");
        }
        variable(self, n, most)
    }

    fn literal(&mut self, of: Scalar) -> Parse<Value> {
        self.space();
        let at = self.at;
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)))
            .unwrap_or(rest.len());
        self.at += end;
        match Value::parse(of, &rest[..end]) {
            Ok(v) => Ok(v),
            Err(e) => self.fail(at, format!("the default: {e}")),
        }
    }

    /// Fields up to the closing parenthesis, which is taken.
    fn fields(&mut self, what: &str, defaults: bool) -> Parse<Fields> {
        let (mut fields, mut tail) = (Vec::<Field>::new(), None);
        if self.take(")") {
            return Ok((fields, tail));
        }
        loop {
            self.space();
            let at = self.at;
            if tail.is_some() {
                return self.fail(at, "nothing can come after a variable array");
            }
            let name = self.name(what)?;
            if fields.iter().any(|f| f.name == name) {
                return self.fail(at, format!("there are two of the name '{name}'"));
            }
            self.expect(":")?;
            match self.kind(0, true)? {
                Kind::Fixed(ty) => {
                    let mut default = None;
                    if self.peek("=") {
                        let Type::Scalar(s) = ty else {
                            return self.fail(self.at, "only a scalar can have a default");
                        };
                        if !defaults {
                            return self.fail(self.at, "a result has no default");
                        }
                        self.expect("=")?;
                        default = Some(self.literal(s)?);
                    }
                    if default.is_none() && fields.iter().any(|f| f.default.is_some()) {
                        return self.fail(
                            at,
                            format!("'{name}' needs a default, as an argument before it has one"),
                        );
                    }
                    fields.push(Field { name, ty, offset: 0, default });
                }
                Kind::Tail { element, least, most } => {
                    if fields.iter().any(|f| f.default.is_some()) {
                        return self
                            .fail(at, "before a variable array no argument can have a default");
                    }
                    tail = Some(Tail { name, element, offset: 0, element_bytes: 0, least, most });
                }
            }
            if self.take(")") {
                return Ok((fields, tail));
            }
            self.expect(",")?;
        }
    }

    fn record(&self, at: usize, (fields, tail): Fields, what: &str) -> Parse<Record> {
        match Record::new(fields, tail, &self.structs) {
            Some(r) => Ok(r),
            None => self.fail(
                at,
                format!("the {what} are larger than {BYTES_MAX} bytes, more than any cell holds"),
            ),
        }
    }

    fn declare(&mut self) -> Parse<()> {
        self.space();
        let at = self.at;
        let name = self.name("a struct")?;
        if self.structs.iter().any(|s| s.name == name) {
            return self.fail(at, format!("there are two structs of the name '{name}'"));
        }
        if self.structs.len() >= STRUCTS_MAX {
            return self.fail(at, format!("a signature has at most {STRUCTS_MAX} structs"));
        }
        self.expect("{")?;
        let mut members: Vec<StructMember> = vec![];
        loop {
            self.space();
            let at = self.at;
            let name = self.name("a member")?;
            if members.iter().any(|m| m.name == name) {
                return self.fail(at, format!("there are two of the name '{name}'"));
            }
            self.expect(":")?;
            let Kind::Fixed(ty) = self.kind(0, false)? else { unreachable!("not allowed there") };
            members.push(StructMember { name, ty, offset: 0 });
            if self.take("}") {
                break;
            }
            self.expect(",")?;
        }
        let laid = lay_out(members.iter().map(|m| &m.ty), &self.structs);
        let Some((offsets, end, align)) = laid else {
            return self.fail(
                at,
                format!("struct {name} is larger than {BYTES_MAX} bytes, more than any cell holds"),
            );
        };
        for (m, at) in members.iter_mut().zip(offsets) {
            m.offset = at;
        }
        let bytes = round_up(end, align).unwrap_or(end);
        self.structs.push(Struct { name, members, bytes, align });
        Ok(())
    }

    fn signature(mut self) -> Parse<Signature> {
        while self.peek("struct") {
            self.word();
            self.declare()?;
        }
        self.space();
        let at = self.at;
        self.expect("(")?;
        let fields = self.fields("an argument", true)?;
        let args = self.record(at, fields, "arguments")?;
        self.expect("->")?;
        self.space();
        let at = self.at;
        let bare_result = !self.take("(");
        let fields = match bare_result {
            false => self.fields("a result", false)?,
            true => match self.kind(0, true)? {
                Kind::Fixed(ty) => {
                    (vec![Field { name: String::new(), ty, offset: 0, default: None }], None)
                }
                Kind::Tail { element, least, most } => {
                    let name = String::new();
                    (vec![], Some(Tail { name, element, offset: 0, element_bytes: 0, least, most }))
                }
            },
        };
        let results = self.record(at, fields, "results")?;
        self.space();
        if !self.rest().is_empty() {
            return self.fail(self.at, "nothing is expected after the result");
        }
        Ok(Signature { structs: self.structs, args, results, bare_result })
    }
}

impl std::str::FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let long = |n: usize| SignatureError {
            at: TEXT_MAX,
            reason: format!("the text has {n} bytes, at most {TEXT_MAX} are possible"),
        };
        // Spaces and line ends of a manifest do not count, its own form does.
        if text.len() > 2 * TEXT_MAX {
            return Err(long(text.len()));
        }
        let signature = Parser { text, at: 0, structs: vec![] }.signature()?;
        match signature.to_string().len() {
            n if n > TEXT_MAX => Err(long(n)),
            _ => Ok(signature),
        }
    }
}
