//! A signature's text from a host that is not trusted: it parses or is
//! refused; what parses has one text form, and bytes of any length decode by
//! it or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_signature::Signature;

fuzz_target!(|data: &[u8]| {
    let (text, bytes) = data.split_at(data.iter().position(|&b| b == 0).unwrap_or(data.len()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(s) = text.parse::<Signature>() else { return };
    let canonical = s.to_string();
    let again: Signature = canonical.parse().expect("its own form parses");
    assert_eq!(again, s);
    assert_eq!(again.to_string(), canonical);
    assert_ne!(s.fingerprint(), 0);
    for r in [&s.args, &s.results] {
        assert!(r.check(r.min_bytes()).is_ok() && r.check(r.max_bytes()).is_ok());
        if let Ok(values) = s.decode(r, bytes) {
            let encoded = s.encode(r, &values).expect("what was decoded encodes");
            assert_eq!(encoded.len(), bytes.len());
        }
    }
});
