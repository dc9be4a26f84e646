//! PKCS#11 remoted: unmodified programs, with SoftHSM and with the module that asks the host for
//! it. What they say must be the same.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use vfun_tests_local::gdma::{kill_service, said};
use vfun_tests_local::softhsm::{Native, PIN, compiled, offer, remoted};
use vfun_tests_local::{Stand, repo};

fn script() -> PathBuf {
    repo().join("tests/local/tests/pkcs11/programs.sh")
}

fn client(stand: &Stand, name: &str) {
    let manifest = format!("name = \"{name}\"\nkind = \"host\"\n");
    stand.add_client(&manifest).expect("it is taken");
}

/// A tool of OpenSC as a program of this client's; what it says, whether it fails or not.
fn tool(stand: &Stand, client: &str, words: &[&str]) -> String {
    let tool = Path::new("pkcs11-tool");
    let out = remoted(stand, client, tool, &["--module"]).args(words).output().expect("it runs");
    [out.stdout, out.stderr].map(|o| String::from_utf8_lossy(&o).into_owned()).concat()
}

const TOKEN: [&str; 6] = ["--init-token", "--slot-index=0", "--so-pin", "12345678", "--label", "t"];
const USER: [&str; 7] = [
    "--token-label=t",
    "--login",
    "--login-type=so",
    "--so-pin=12345678",
    "--init-pin",
    "--new-pin",
    PIN,
];

#[test]
fn programs_hear_the_same_from_the_host_and_from_softhsm() {
    let stand = offer();
    let native = said(Native::new().run(&script()));
    for words in ["Verified OK", "Signing CA: ECDSA", "CKR_PIN_INCORRECT"] {
        assert!(native.contains(words), "no '{words}' in {native}");
    }
    // A server to log in to is on few machines: setting one up would begin a daemon.
    if Path::new("/usr/sbin/sshd").exists() && std::env::var_os("VFUN_SSHD").is_none() {
        for words in ["in by a key of rsa", "in by a key of ecdsa"] {
            assert!(native.contains(words), "no '{words}' in {native}");
        }
    } else {
        eprintln!("\n*** A LOGIN BY ssh -I IS NOT TESTED: /usr/sbin/sshd is missing ***\n");
    }
    let remoted = said(remoted(&stand, "host", &script(), &[]));
    for (native, remoted) in native.lines().zip(remoted.lines()) {
        assert_eq!(native, remoted);
    }
    assert_eq!(native, remoted);
    stand.until("nothing is left of it", |stand| stand.grants().is_empty());
}

#[test]
fn clients_have_tokens_of_their_own() {
    let stand = offer();
    for name in ["a", "b"] {
        client(&stand, name);
    }
    let made = tool(&stand, "a", &TOKEN);
    assert!(made.contains("Token successfully initialized"), "{made}");
    let [of_a, of_b] = ["a", "b"].map(|name| tool(&stand, name, &["--list-slots"]));
    assert!(of_a.contains("token label        : t"), "{of_a}");
    assert!(!of_b.contains("token label"), "{of_b}");
    assert!(of_b.contains("uninitialized"), "{of_b}");
    let owner = |name: &str| {
        let folder = stand.root().join("writes/pkcs11").join(name);
        let meta = std::fs::metadata(folder).expect("the manager made it");
        assert_eq!(meta.mode() & 0o777, 0o700);
        meta.uid()
    };
    assert!(owner("a") != owner("b") || !rustix::process::geteuid().is_root());
    // Both at once, each with its own.
    let work = |name: &'static str, stand: &Stand| {
        let begun = tool(stand, name, &TOKEN);
        assert!(name == "a" || begun.contains("successfully"), "{begun}");
        tool(stand, name, &USER);
        let key = ["--token-label=t", "--login", "--pin", PIN, "--keypairgen"];
        let kind = ["--key-type=EC:prime256v1", "--id=01", "--label", name];
        let made = tool(stand, name, &[&key[..], &kind].concat());
        assert!(made.contains("Key pair generated"), "{made}");
        tool(stand, name, &["--token-label=t", "--login", "--pin", PIN, "--list-objects"])
    };
    let [of_a, of_b] = std::thread::scope(|scope| {
        ["a", "b"]
            .map(|name| {
                scope.spawn({
                    let stand = &stand;
                    move || work(name, stand)
                })
            })
            .map(|thread| thread.join().expect("it ends"))
    });
    for (words, own, other) in [(&of_a, "a", "b"), (&of_b, "b", "a")] {
        assert!(words.contains(&format!("label:      {own}\n")), "{words}");
        assert!(!words.contains(&format!("label:      {other}\n")), "{words}");
    }
}

#[test]
fn a_program_outlives_its_fork_and_its_service() {
    let dir = tempfile::tempdir().unwrap();
    let program = compiled("tests/local/tests/pkcs11/lives.c", dir.path());
    let stand = offer();
    assert!(tool(&stand, "host", &TOKEN).contains("successfully"));
    tool(&stand, "host", &USER);
    let mut command = remoted(&stand, "host", &program, &[]);
    command.arg(PIN).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut said).expect("text"), 0, "it ended early: {said}");
    }
    kill_service(&stand);
    drop(child.stdin.take().map(|mut to| std::io::Write::write_all(&mut to, b"\n")));
    out.read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("its child").success(), "{said}");
    let mut lines = said.lines();
    for want in [
        "p11->C_Initialize(NULL) = 0x0",
        "p11->C_Initialize(NULL) = 0x191",
        "sign(session, key) = 0x0",
        // The child.
        "a session of the parent: gone",
        "the child begins: 1",
        "begin(&session, &key) = 0x0",
        "sign(session, key) = 0x0",
        "the child ended with 0",
        // The parent goes on.
        "sign(session, key) = 0x0",
        "ready",
        // Its service was killed.
        "the end: 1",
        "p11->C_Initialize(NULL) = 0x0",
        "begin(&session, &key) = 0x0",
        "sign(session, key) = 0x0",
        "p11->C_Finalize(NULL) = 0x0",
    ] {
        assert!(lines.any(|line| line == want), "no '{want}' where it belongs in:\n{said}");
    }
    assert!(!said.contains("then: sign 0x0") && !said.contains("session 0x0\n"), "{said}");
}
