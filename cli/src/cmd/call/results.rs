//! Results, as people read them.

use crate::fail::Result;
use crate::out;
use serde_json::Value;

fn number(results: &[u8]) -> Option<[u8; 8]> {
    results.try_into().ok()
}

/// The meaning of a shipped function's results; null where there is none.
pub fn value(function: &str, element: Option<&str>, results: &[u8]) -> Value {
    match (function, number(results)) {
        ("factorial" | "fibonacci", Some(n)) => u64::from_le_bytes(n).into(),
        ("sum", Some(n)) if is_float(element) => f64::from_le_bytes(n).into(),
        ("sum", Some(n)) => u64::from_le_bytes(n).into(),
        ("echo", _) => std::str::from_utf8(results).map_or(Value::Null, Value::from),
        ("sha256", _) => hex(results).into(),
        _ => Value::Null,
    }
}

fn is_float(element: Option<&str>) -> bool {
    matches!(element, Some("f32" | "f64"))
}

/// Digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Prints them.
pub fn print(function: &str, element: Option<&str>, results: &[u8]) -> Result<()> {
    match (function, number(results)) {
        ("sum", Some(n)) if is_float(element) => out::line(f64::from_le_bytes(n).to_string()),
        ("sum", Some(n)) => out::line(u64::from_le_bytes(n).to_string()),
        ("factorial" | "fibonacci", Some(n)) => out::line(u64::from_le_bytes(n).to_string()),
        ("sha256", _) => out::line(hex(results)),
        // A line for people; --out has the bytes as they are.
        ("echo", _) => {
            out::raw(results)?;
            if results.ends_with(b"\n") { Ok(()) } else { out::line("") }
        }
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
        assert_eq!(value("factorial", None, &120u64.to_le_bytes()), 120);
        assert_eq!(value("factorial", None, &[1]), Value::Null);
        assert_eq!(value("echo", None, b"hi"), "hi");
        assert_eq!(value("echo", None, &[0xff]), Value::Null);
        assert_eq!(value("sha256", None, &[0xab, 1]), "ab01");
        assert_eq!(value("sum", Some("f32"), &2.5f64.to_le_bytes()), 2.5);
        assert_eq!(value("sum", Some("u8"), &7u64.to_le_bytes()), 7);
        assert_eq!(value("other", None, b"hi"), Value::Null);
        assert_eq!(
            dump(b"0123456789abcdefX\n"),
            "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n\
             00000010  58 0a                                            X.\n"
        );
    }
}
