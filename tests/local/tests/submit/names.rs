//! Names that a client chooses, and how often it asks: trouble for nobody else.

use super::{Clients, call};
use vfun::{Error, FunctionRequest, SubmitCode};
use vfun_tests_local::{args, number};

/// One more list, over a channel that is held.
const LIST: [u8; 88] = {
    let mut request = [0; 88];
    request[0] = 3;
    request
};

#[test]
#[ignore = "needs `make wasm`"]
fn no_name_keeps_anything_off_the_record_or_fills_the_disk() {
    let c = Clients::new();
    let (a, b) = (c.app("a", "my.a"), c.of("b"));
    let logs = |client: &str| {
        let all = std::fs::read_dir(c.stand.root().join("service").join(client)).unwrap().flatten();
        all.filter(|e| e.file_type().unwrap().is_file()).count()
    };
    // A service of `a-my.b`, and a grant whose folder would be called as its log.
    for name in ["a-my.b", "b.log"] {
        a.submit_module(&c.module("double").name(name)).unwrap();
        assert_eq!(call(&a, &format!("my.{name}"), 4), 8);
    }
    let held = a.function("my.b.log").unwrap();
    assert_eq!(number(&held.call(&4u64.to_le_bytes()).unwrap()), 8);
    assert_eq!(number(&b.function("factorial").unwrap().call(&args(5, 1)).unwrap()), 120);
    assert!(c.stand.status().troubles.is_empty(), "{:?}", c.stand.status().troubles);
    drop(held);
    let before = logs("a");
    for i in 0..5 {
        let name = format!("n{i}");
        a.submit_module(&c.module("double").name(&name)).unwrap();
        assert_eq!(call(&a, &format!("my.{name}"), 4), 8);
        a.withdraw_module(&name).unwrap();
    }
    assert_eq!(logs("a"), before);
}

#[test]
#[ignore = "needs `make wasm`"]
fn lists_without_end_are_refused_and_others_do_not_wait() {
    let c = Clients::new();
    let (a, b) = (c.of("a"), c.of("b"));
    a.submit_module(&c.module("double")).unwrap();
    let raw = FunctionRequest::new("submit").depth(1).cell_bytes(32 << 10);
    let raw = a.negotiate(&raw).unwrap().activate().unwrap();
    let mut refusals = 0;
    for _ in 0..250 {
        match raw.call(&LIST) {
            Ok(_) => {}
            Err(Error::Driver { code, sentence }) => {
                assert_eq!(code, SubmitCode::TooFast as i32, "{sentence}");
                assert!(sentence.contains("times a second"), "{sentence}");
                refusals += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(refusals > 0);
    assert!(b.submitted_modules().unwrap().is_empty());
    // A moment later it is heard again.
    c.stand.until("its turn", |_| a.submitted_modules().is_ok());
}
