//! Policy, tokens and the audit log of a real manager.

use std::process::Command;
use std::time::{Duration, Instant};
use vfun::{Error, FunctionRequest, NackCode, Session};
use vfun_admin::audit::{Query, Row};
use vfun_admin::tokens::Fresh;
use vfun_admin::{Ask, Reply};
use vfun_tests_local::{Stand, programs};

fn set(stand: &Stand, policy: &str) -> Result<String, String> {
    match stand.try_ask(&Ask::SetPolicy { text: policy.into(), file: "new.toml".into() }) {
        Ok(Reply::Done { sentence }) => Ok(sentence),
        Ok(other) => panic!("{other:?}"),
        Err(e) => Err(e.to_string()),
    }
}

fn refused<T>(r: Result<T, Error>) -> (NackCode, String) {
    match r {
        Err(Error::Refused(n)) => (n.code, n.sentence),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("it was granted"),
    }
}

fn negotiate(s: &Session, name: &str) -> Result<(), Error> {
    s.negotiate(&FunctionRequest::new(name)).map(drop)
}

fn token(stand: &Stand, client: &str, app: &str) -> Fresh {
    let order = Ask::AddToken { client: client.into(), app: app.into(), lives_ms: None };
    match stand.ask(&order) {
        Reply::TokenMade(fresh) => fresh,
        other => panic!("{other:?}"),
    }
}

fn audit(stand: &Stand) -> Vec<Row> {
    match stand.ask(&Ask::Audit(Query { limit: 1000, ..Query::default() })) {
        Reply::Audit { rows } => rows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_changes_while_apps_call_and_a_wrong_one_is_refused_whole() {
    let stand = Stand::start();
    let session = stand.connect("app");
    let echo = session.function("echo").unwrap();
    let sum = session.function("sum").unwrap();
    let policy = "[client.host]\nfunctions = [\"echo\"]\nchannels = 2\ndeadline_ms = 1234\n";
    let said = set(&stand, policy).unwrap();
    assert!(said.contains("1 grant was taken away"), "{said}");
    stand.until("sum to be taken away", |s| s.grants().len() == 1);
    assert!(sum.call(b"x").is_err());
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    let (code, why) = refused(negotiate(&session, "sum"));
    assert_eq!(code, NackCode::Denied);
    assert!(why.contains("functions in [client.host]"), "{why}");
    let two = session.function("echo").unwrap();
    let (code, why) = refused(negotiate(&session, "echo"));
    assert_eq!(code, NackCode::OverQuota);
    assert!(why.contains("channels in [client.host]"), "{why}");
    // What is let go can be had again at once.
    drop(two);
    stand.until("room", |_| negotiate(&session, "echo").is_ok());
    let long = FunctionRequest::new("echo").deadline(Duration::from_millis(1235));
    assert_eq!(refused(session.negotiate(&long).map(drop)).0, NackCode::BeyondLimit);

    let e = set(&stand, "[client.host]\nchannels = 0\nfunctions = [\"*\"]\n").unwrap_err();
    assert!(e.contains("new.toml:2: channels is at least 1"), "{e}");
    assert!(e.contains("stays as it was"), "{e}");
    let file = stand.root().join("admin/policy.toml");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), policy);
    assert_eq!(refused(negotiate(&session, "sum")).0, NackCode::Denied);
    // The same by an editor and a reload.
    std::fs::write(&file, "[client.host\n").unwrap();
    let e = stand.try_ask(&Ask::ReloadPolicy).unwrap_err().to_string();
    assert!(e.contains("policy.toml:1:") && e.contains("stays as it was"), "{e}");
    assert_eq!(refused(negotiate(&session, "sum")).0, NackCode::Denied);
    std::fs::write(&file, "[client.host]\nbytes = \"4 MiB\"\n[client.nobody]\n").unwrap();
    match stand.ask(&Ask::ReloadPolicy) {
        Reply::Done { sentence } => {
            assert!(sentence.contains("[client.nobody]: no client of this name"), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
    negotiate(&session, "sum").unwrap();
    let big = FunctionRequest::new("echo").depth(64).cell_bytes(64 << 10);
    let (code, why) = refused(session.negotiate(&big).map(drop));
    assert_eq!(code, NackCode::OverQuota);
    assert!(why.contains("bytes in [client.host]"), "{why}");
    std::fs::remove_file(&file).unwrap();
    stand.ask(&Ask::ReloadPolicy);
    session.negotiate(&big).map(drop).unwrap();
    assert_eq!(echo.call(b"and on").unwrap(), b"and on");
}

#[test]
fn a_manager_that_finds_a_wrong_policy_grants_nothing_until_it_is_corrected() {
    let mut stand = Stand::start();
    let session = stand.connect("app");
    let echo = session.function("echo").unwrap();
    stand.kill_vfund();
    let file = stand.root().join("admin/policy.toml");
    std::fs::write(&file, "[default]\ncolour = \"red\"\n").unwrap();
    stand.start_vfund();
    assert!(stand.log().contains("NOTHING NEW IS GRANTED"), "{}", stand.log());
    match stand.ask(&Ask::Status) {
        Reply::Status(s) => {
            assert!(s.policy_unreadable.unwrap().contains("policy.toml:2: unknown field"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(echo.call(b"goes on").unwrap(), b"goes on");
    let (code, why) = refused(negotiate(&session, "echo"));
    assert_eq!(code, NackCode::Denied);
    assert!(why.contains("vfun policy check"), "{why}");
    let check = Command::new(programs().join("vfun"))
        .args(["policy", "check", "--root"])
        .arg(stand.root())
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(1));
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(said.contains("policy.toml:2: unknown field `colour`"), "{said}");
    std::fs::write(&file, "[default]\nchannels = 10\n").unwrap();
    stand.ask(&Ask::ReloadPolicy);
    negotiate(&session, "echo").unwrap();
}

#[test]
fn a_bounded_client_is_slowed_down_and_another_is_not() {
    let stand = Stand::start();
    stand.add_client("name = \"other\"\nkind = \"host\"\n").unwrap();
    let slow = stand.connect("slow");
    let f = slow.function("echo").unwrap();
    let free = stand.options("free").client("other").connect().unwrap();
    let g = free.function("echo").unwrap();
    f.call(b"x").unwrap();
    let said = set(&stand, "[client.host.function.echo]\ncalls_per_s = 100\n").unwrap();
    assert!(said.contains("1 channel is bound to another rate"), "{said}");
    let beyond = |f: &vfun::Function| {
        let (from, mut n) = (Instant::now(), 0);
        while from.elapsed() < Duration::from_millis(500) {
            f.call(b"x").unwrap();
            n += 1;
        }
        f64::from(n) - (from.elapsed().as_secs_f64() * 100.0 + 12.0)
    };
    // The service hears of it a moment after the manager says so.
    stand.until("the bound", |_| beyond(&f) <= 0.0);
    (0..2000).for_each(|_| drop(g.call(b"x").unwrap()));
    // One that comes later is bound from the first.
    let late = slow.function("echo").unwrap();
    assert!(beyond(&late) <= 0.0);
    set(&stand, "").unwrap();
    (0..2000).for_each(|_| drop(f.call(b"x").unwrap()));
}

#[test]
fn tokens_are_rotated_without_losing_anybody_and_revoked_for_good() {
    let mut stand = Stand::start();
    stand.add_client("name = \"apps\"\nkind = \"host\"\n").unwrap();
    let fresh = token(&stand, "apps", "web-*");
    let with = |s: &Stand, app: &str, secret: &str| {
        s.options(app).client("apps").credential(secret).connect()
    };
    set(&stand, "[client.apps]\ntokens = true\n").unwrap();
    let (code, why) = refused(stand.options("web-1").client("apps").connect().map(drop));
    assert_eq!(code, NackCode::BadCredential);
    assert!(why.contains("vfun token add apps"), "{why}");
    let web = with(&stand, "web-1", &fresh.secret).unwrap();
    let echo = web.function("echo").unwrap();
    let (code, why) = refused(with(&stand, "db", &fresh.secret).map(drop));
    assert_eq!(code, NackCode::BadCredential);
    assert!(why.contains("web-*"), "{why}");
    // Both are valid for a while; then the old one opens nothing more, and
    // what it opened goes on.
    let next = match stand.ask(&Ask::RotateToken { id: fresh.kept.id, grace_ms: 600_000 }) {
        Reply::TokenMade(next) => next,
        other => panic!("{other:?}"),
    };
    assert_ne!(next.secret, fresh.secret);
    with(&stand, "web-2", &fresh.secret).unwrap();
    let web3 = with(&stand, "web-3", &next.secret).unwrap();
    let echo3 = web3.function("echo").unwrap();
    // They outlive the manager.
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(echo.call(b"on").unwrap(), b"on");
    negotiate(&web, "echo").unwrap();
    with(&stand, "web-4", &next.secret).unwrap();
    stand.ask(&Ask::RevokeToken { id: fresh.kept.id });
    stand.until("the end of what it opened", |s| s.grants().len() == 1);
    assert!(echo.call(b"x").is_err());
    assert_eq!(refused(negotiate(&web, "echo")).0, NackCode::Stale);
    assert_eq!(refused(with(&stand, "web-1", &fresh.secret).map(drop)).0, NackCode::BadCredential);
    assert_eq!(echo3.call(b"on").unwrap(), b"on");
    // One whose time is over.
    let short = Ask::AddToken { client: "apps".into(), app: "*".into(), lives_ms: Some(300) };
    let Reply::TokenMade(short) = stand.ask(&short) else { panic!() };
    let late = with(&stand, "any", &short.secret);
    stand.until("its end", |s| with(s, "any", &short.secret).is_err());
    if let Ok(late) = late {
        negotiate(&late, "echo").expect("who is in stays in");
    }
    // The file holds no secret, and is for the manager alone.
    let kept = std::fs::read_to_string(stand.root().join("admin/tokens.json")).unwrap();
    assert!(!kept.contains(&next.secret) && kept.contains(&next.kept.sha256));
}

#[test]
fn a_token_is_taken_from_the_environment() {
    let stand = Stand::start();
    stand.add_client("name = \"apps\"\nkind = \"host\"\n").unwrap();
    set(&stand, "[client.apps]\ntokens = true\n").unwrap();
    let fresh = token(&stand, "apps", "*");
    let file = stand.root().join("token");
    std::fs::write(&file, format!("{}\n", fresh.secret)).unwrap();
    let call = |name: &str, value: &str| {
        Command::new(programs().join("vfun"))
            .args(["call", "echo", "hi", "--client", "apps", "--endpoint"])
            .arg(format!("host:{}", stand.root().join("host.sock").display()))
            .env(name, value)
            .output()
            .unwrap()
    };
    let at = file.display().to_string();
    for (name, value) in [("VFUN_TOKEN_FILE", at.as_str()), ("VFUN_TOKEN", &fresh.secret)] {
        let out = call(name, value);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.stdout.trim_ascii(), b"hi");
    }
    let out = call("VFUN_TOKEN", "guess");
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn the_audit_log_tells_who_did_what_and_who_was_refused_what() {
    let mut stand = Stand::start();
    stand.add_client("name = \"picky\"\nkind = \"host\"\nfunctions = [\"echo\"]\n").unwrap();
    stand.add_client("name = \"pi cky\"\n").unwrap_err();
    stand.add_client("name = \"locked\"\nkind = \"host\"\n").unwrap();
    let session = stand.options("curious").client("picky").connect().unwrap();
    for _ in 0..200 {
        negotiate(&session, "sum").unwrap_err();
    }
    set(&stand, "[client.locked]\ntokens = true\n").unwrap();
    let fresh = token(&stand, "locked", "*");
    stand.ask(&Ask::RevokeToken { id: fresh.kept.id });
    let code = refused(stand.options("x").client("locked").connect().map(drop)).0;
    assert_eq!(code, NackCode::BadCredential);
    // It outlives the manager, however that goes.
    stand.until("the last line", |s| audit(s).iter().any(|r| r.code == "bad credential"));
    stand.kill_vfund();
    stand.start_vfund();
    let rows = audit(&stand);
    let me = rustix::process::getuid().as_raw();
    let deed = |what: &str| {
        let found = rows.iter().find(|r| r.what.starts_with(what));
        found.unwrap_or_else(|| panic!("no {what} in {rows:?}"))
    };
    let added = deed("client add picky");
    assert_eq!((added.uid, added.outcome.as_str()), (Some(me), "done"));
    assert_eq!(added.pid, Some(std::process::id() as i32));
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    // It may be cut.
    assert!(program.starts_with(&added.command) && added.command.len() >= 5, "{}", added.command);
    let failed = deed("client add pi cky");
    assert_eq!(failed.outcome, "failed");
    assert!(failed.sentence.contains("test.toml:1"), "{}", failed.sentence);
    assert_eq!(deed("policy set").outcome, "done");
    assert_eq!(deed("token add locked").client, "locked");
    assert_eq!(deed("token revoke").outcome, "done");
    let denied: Vec<_> = rows.iter().filter(|r| r.code == "denied").collect();
    // Ten at once, then one a minute: the rest is counted.
    assert!((10..=12).contains(&denied.len()), "{}", denied.len());
    assert_eq!((denied[0].app.as_str(), denied[0].function.as_str()), ("curious", "sum"));
    assert!(denied[0].sentence.contains("manifest"), "{}", denied[0].sentence);
    let bad = rows.iter().find(|r| r.code == "bad credential").unwrap();
    assert_eq!((bad.client.as_str(), bad.uid), ("locked", Some(me)));
    assert!(!format!("{rows:?}").contains(&fresh.secret), "no secret in it");
    // As people see it.
    let out = Command::new(programs().join("vfun"))
        .args(["audit", "--refused", "--client", "picky", "--root"])
        .arg(stand.root())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("curious") && text.contains("denied: "), "{text}");
    assert!(!text.contains("client add"), "{text}");
}
