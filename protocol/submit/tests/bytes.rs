//! Both sides read what the other may have made up.

use proptest::prelude::*;
use vfun_submit::limits::{ANSWER_BYTES_MAX, REQUEST_HEAD};
use vfun_submit::{Answer, Entry, Op, Outcome, Request};

fn an_entry() -> impl Strategy<Value = Entry> {
    ("[A-Za-z0-9_][A-Za-z0-9._-]{0,60}", any::<[u8; 32]>(), any::<[u64; 3]>(), any::<[u32; 6]>())
        .prop_map(|(name, sha256, l, s)| Entry {
            name: format!("my.{name}"),
            sha256,
            signature: l[0],
            memory_bytes: l[1],
            at_s: l[2],
            version: s[0],
            max_args: s[1],
            max_result: s[2],
            deadline_ms: s[3],
            module_bytes: s[4],
            compile_us: s[5],
        })
}

proptest! {
    #[test]
    fn requests_come_back(
        name in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"),
        signature in "[a-z(): >-]{0,40}",
        module in proptest::collection::vec(any::<u8>(), 0..64),
        memory_bytes in any::<u64>(),
        deadline_ms in any::<u32>(),
        replace in any::<bool>(),
    ) {
        let r = Request {
            op: Op::Submit, replace, memory_bytes, deadline_ms,
            name: name.as_deref(), signature: &signature, module: &module,
        };
        let bytes = r.encode().unwrap();
        prop_assert_eq!(Request::decode(&bytes).unwrap(), r);
    }

    #[test]
    fn any_bytes_are_a_request_that_comes_back_or_none(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200), op in 0u8..4, quiet in any::<bool>(),
    ) {
        // Most of what is random has a wrong head: some with a right one, too.
        if quiet && bytes.len() >= REQUEST_HEAD {
            bytes[..REQUEST_HEAD].fill(0);
            bytes[0] = op;
        }
        if let Ok(r) = Request::decode(&bytes) {
            prop_assert_eq!(r.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn answers_come_back(entries in proptest::collection::vec(an_entry(), 0..5)) {
        let a = Answer { outcome: Outcome::Replaced, entries };
        prop_assert_eq!(Answer::decode(&a.encode().unwrap()).unwrap(), a);
    }

    #[test]
    fn any_bytes_are_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(a) = Answer::decode(&bytes) {
            prop_assert_eq!(a.encode().unwrap(), bytes);
        }
    }
}

#[test]
fn the_longest_answer_is_within_its_limit() {
    let e = Entry {
        name: format!("my.{}", "x".repeat(61)),
        sha256: [1; 32],
        signature: 1,
        memory_bytes: 1,
        at_s: 1,
        version: 1,
        max_args: 1,
        max_result: 1,
        deadline_ms: 1,
        module_bytes: 1,
        compile_us: 1,
    };
    let mut a = Answer { outcome: Outcome::Listed, entries: vec![e.clone(); 128] };
    assert_eq!(a.encode().unwrap().len(), ANSWER_BYTES_MAX as usize);
    a.entries.push(e);
    assert!(a.encode().is_err());
}
