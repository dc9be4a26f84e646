//! Results, as people read them.

use crate::fail::Result;
use crate::out;
use serde_json::Value;
use vfun::signature::{Scalar, Signature, Type, Value as Typed};

fn number(results: &[u8]) -> Option<[u8; 8]> {
    results.try_into().ok()
}

/// The meaning of results by the signature, or of `sum`'s by its type; null
/// where it is not known.
pub fn value(element: Option<&str>, signature: Option<&Signature>, results: &[u8]) -> Value {
    match (signature, element, number(results)) {
        (Some(s), _, _) => typed(s, results).unwrap_or(Value::Null),
        (None, Some("f32" | "f64"), Some(n)) => f64::from_le_bytes(n).into(),
        (None, Some(_), Some(n)) => u64::from_le_bytes(n).into(),
        _ => Value::Null,
    }
}

/// Bytes are text where they are UTF-8 of any length, digits where their number is fixed.
fn typed(s: &Signature, results: &[u8]) -> Option<Value> {
    let r = &s.results;
    r.check(results.len() as u64).ok()?;
    let bytes = |ty: &Type| *ty == Type::Scalar(Scalar::U8);
    if s.bare_result {
        match (r.fields.first().map(|f| &f.ty), &r.tail) {
            (Some(Type::Array(of, _)), _) if bytes(of) => return Some(hex(results).into()),
            (None, Some(t)) if bytes(&t.element) => {
                return std::str::from_utf8(results).ok().map(Value::from);
            }
            _ => {}
        }
    }
    let values = s.decode(r, results).ok()?;
    if s.bare_result {
        return values.first().map(|v| json(s, r.fields.first().map(|f| &f.ty), v));
    }
    let types = r.fields.iter().map(|f| (&f.name, Some(&f.ty)));
    let names = types.chain(r.tail.iter().map(|t| (&t.name, None)));
    let members = names.zip(&values).map(|((n, ty), v)| (n.clone(), json(s, ty, v)));
    Some(Value::Object(members.collect()))
}

fn json(s: &Signature, ty: Option<&Type>, v: &Typed) -> Value {
    match v {
        Typed::Bool(b) => (*b).into(),
        Typed::Unsigned(n) => (*n).into(),
        Typed::Signed(n) => (*n).into(),
        Typed::Float(x) => (*x).into(),
        Typed::Double(x) => (*x).into(),
        Typed::Array(all) => all.iter().map(|v| json(s, None, v)).collect(),
        Typed::Struct(all) => match ty {
            Some(Type::Struct(i)) => {
                let members = s.structs[*i].members.iter().zip(all);
                Value::Object(
                    members.map(|(m, v)| (m.name.clone(), json(s, Some(&m.ty), v))).collect(),
                )
            }
            _ => all.iter().map(|v| json(s, None, v)).collect(),
        },
    }
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Prints results: by the type that was asked for, else by the signature, else as bytes.
pub fn print(element: Option<&str>, signature: Option<&Signature>, results: &[u8]) -> Result<()> {
    match value(element, signature, results) {
        // A line for people; --out has the bytes as they are.
        Value::String(text) if text.ends_with('\n') => out::text(&text),
        Value::String(text) => out::line(text),
        Value::Number(n) => {
            out::line(n.as_f64().filter(|_| n.is_f64()).map_or(n.to_string(), |x| x.to_string()))
        }
        Value::Bool(b) => out::line(b.to_string()),
        Value::Object(members) if !members.is_empty() => {
            members.iter().try_for_each(|(name, v)| out::line(format!("{name} = {v}")))
        }
        Value::Array(all) => out::line(Value::Array(all).to_string()),
        _ if results.is_empty() => {
            out::note("(no results)");
            Ok(())
        }
        _ => out::text(&dump(results)),
    }
}

/// Offset, sixteen bytes, and what of them is text.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (i, row) in bytes.chunks(16).enumerate() {
        let digits: Vec<String> = row.iter().map(|b| format!("{b:02x}")).collect();
        let shown: String =
            row.iter().map(|&b| if (32..127).contains(&b) { b as char } else { '.' }).collect();
        text.push_str(&format!("{:08x}  {:<47}  {shown}\n", i * 16, digits.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_a_meaning_where_it_is_known() {
        let by = |s: &str, r: &[u8]| value(None, Some(&s.parse().unwrap()), r);
        assert_eq!(by("() -> u64", &120u64.to_le_bytes()), 120);
        assert_eq!(by("() -> u64", &[1]), Value::Null);
        assert_eq!(by("() -> [u8]", b"hi"), "hi");
        assert_eq!(by("() -> [u8]", &[0xff]), Value::Null);
        assert_eq!(by("() -> [u8; 2]", &[0xab, 1]), "ab01");
        assert_eq!(by("() -> [i16]", &[1, 0, 255, 255]), serde_json::json!([1, -1]));
        assert_eq!(
            by("struct p { x: u8, y: bool } () -> (at: p, n: u8)", &[3, 1, 7]),
            serde_json::json!({"at": {"x": 3, "y": true}, "n": 7})
        );
        assert_eq!(value(Some("f32"), None, &2.5f64.to_le_bytes()), 2.5);
        assert_eq!(value(Some("u8"), None, &7u64.to_le_bytes()), 7);
        assert_eq!(value(None, None, b"hi"), Value::Null);
        assert_eq!(
            dump(b"0123456789abcdefX\n"),
            "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n\
             00000010  58 0a                                            X.\n"
        );
    }
}
