//! PKCS#11 in a real guest: programs of Debian, of an ordinary user, with keys that the host has.

use std::path::Path;
use vfun_admin::Reply;
use vfun_testguest::{Doorbell, Guest};
use vfun_tests_local::Stand;
use vfun_tests_local::softhsm::{PIN, compiled, offer, remoted_module};
use vfun_tests_vm::module::{healthy, module_config};
use vfun_tests_vm::users::{as_user, load};
use vfun_tests_vm::{LONG, boot};

const MODULE: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/virtfun-pkcs11.so";
/// What runs in the guest, as Debian has it.
const PROGRAMS: [&str; 4] = [
    "/usr/bin/pkcs11-tool",
    "/usr/bin/p11tool",
    "/usr/bin/ssh-keygen",
    "/usr/lib/openssh/ssh-pkcs11-helper",
];

struct Place {
    stand: Stand,
    guest: Guest,
}

impl Place {
    fn new(lives: &Path) -> Place {
        let stand = offer();
        let added = stand.add_client("name = \"vm1\"\nwindow = \"16 MiB\"\n");
        let Ok(Reply::ClientAdded(row)) = added else { panic!("{added:?}") };
        let window = Doorbell::new(row.socket.expect("a VM has a socket"));
        let mut config = module_config("pkcs11", vec![window]);
        config.memory_mib = 512;
        config.files.push((remoted_module(), MODULE.into()));
        config.files.push((lives.into(), "/usr/bin/lives".into()));
        config.files.extend(PROGRAMS.map(|p| (p.into(), p.to_owned())));
        let place = Place { guest: boot(&config), stand };
        place.guest.run_ok(&load(), LONG).unwrap_or_else(|e| panic!("{e}"));
        place
    }

    /// What a program of the user `app` prints; it must succeed.
    fn said(&self, words: &str) -> String {
        let out = self.guest.run(&as_user("app", &format!("{words} 2>&1")), LONG);
        let out = out.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(out.status, 0, "{words}: {}\n{}", out.text(), self.stand.log());
        out.text()
    }

    fn tool(&self, words: &str) -> String {
        self.said(&format!("pkcs11-tool --module {MODULE} {words}"))
    }
}

#[test]
fn programs_of_a_guest_use_keys_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let lives = compiled("tests/local/tests/pkcs11/lives.c", dir.path());
    let p = Place::new(&lives);
    let so = "--so-pin 12345678";
    p.tool(&format!("--init-token --slot-index 0 --label t {so}"));
    p.tool(&format!("--token-label t --login --login-type so {so} --init-pin --new-pin {PIN}"));
    let user = format!("--token-label t --login --pin {PIN}");
    p.tool(&format!("{user} --keypairgen --key-type EC:prime256v1 --label k --id 01"));
    let tested = p.tool(&format!("{user} --test"));
    assert!(tested.contains("No errors"), "{tested}");
    p.said("head -c 32 /dev/zero >/tmp/hash");
    p.tool(&format!("{user} --sign --mechanism ECDSA --id 01 -i /tmp/hash -o /tmp/signature"));
    let valid = p.tool(&format!(
        "{user} --verify --mechanism ECDSA --id 01 -i /tmp/hash --signature-file /tmp/signature"
    ));
    assert!(valid.contains("Signature is valid"), "{valid}");
    let keys = p.said(&format!("ssh-keygen -D {MODULE}"));
    assert!(keys.contains("ecdsa-sha2-nistp256 "), "{keys}");
    let tokens = p.said(&format!("p11tool --provider {MODULE} --list-tokens"));
    assert!(tokens.contains("Label: t\n"), "{tokens}");
    let said = p.said(&format!("echo | lives {MODULE} {PIN}"));
    let lived = said.contains("the child ended with 0") && said.ends_with("C_Finalize(NULL) = 0x0");
    assert!(lived, "{said}");
    // Who may not use the window gets the API's own error.
    let list = format!("pkcs11-tool --module {MODULE} --list-slots 2>&1");
    let out = p.guest.run(&as_user("stranger", &list), LONG).unwrap();
    assert!(out.status != 0 && out.text().contains("group vfun"), "{}", out.text());
    p.stand.until("nothing is left of them", |s| s.grants().is_empty());
    healthy(&p.guest);
}
