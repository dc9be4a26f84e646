use super::*;
use serde_json::json;

#[test]
fn messages_are_taken_from_whatever_pieces_they_come_in() {
    let all = [json!({ "a": "}]\\\"{" }), json!({ "c": [1, [2, { "b": [] }]] }), json!({})];
    let text: String = all.iter().map(|v| format!(" {v}\n")).collect();
    for piece in 1..text.len() {
        let (mut values, mut got) = (Values::default(), vec![]);
        for part in text.as_bytes().chunks(piece) {
            values.push(part);
            while let Some(value) = values.take().unwrap() {
                got.push(value);
            }
        }
        assert_eq!(got, all, "in pieces of {piece}");
    }
}

#[test]
fn what_is_not_json_or_too_much_is_an_error() {
    let error = |text: &[u8]| {
        let mut values = Values::default();
        values.push(text);
        values.take().unwrap_err().to_string()
    };
    // At once, not when an object follows.
    for text in [&b"]"[..], b"}", b"[1]", b"null", b"nonsense", b"\"text", b"{} nonsense{}"] {
        let mut values = Values::default();
        values.push(text);
        let first = values.take();
        let last = if first.is_ok() { values.take() } else { first };
        assert!(last.unwrap_err().to_string().contains("begins with"), "{text:?}");
    }
    assert!(error(b"{nonsense}").contains("not JSON-RPC"));
    assert!(error(r#"{"a":"#.repeat(JSON_DEPTH_MAX + 1).as_bytes()).contains("brackets"));
    let mut long = vec![b' '; JSON_BYTES_MAX + 1];
    long[0] = b'{';
    assert!(error(&long).contains("more than"));
}
