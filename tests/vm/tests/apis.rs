//! A remoted API in a real guest: programs of an ordinary user, in C, that know of nothing but
//! the API's header. The engine is on the host.

use vfun_admin::Reply;
use vfun_testguest::{Doorbell, Guest, RunOutput};
use vfun_tests_local::Stand;
use vfun_tests_local::gdma::{
    LIBRARY, POOL_BYTES, Program, assert_same, assert_survived, kill_service, offer,
    remoted_library, said,
};
use vfun_tests_vm::module::{healthy, module_config};
use vfun_tests_vm::users::{as_user, load};
use vfun_tests_vm::{LONG, boot};

/// Where a package puts the library: no loader looks there by itself.
const FOLDER: &str = "/usr/lib/virtfun/apis/gdma";

/// Two contexts at once have a pool each, in one window.
const CLIENT: &str = "name = \"vm1\"\nwindow = \"32 MiB\"\n";

fn window(stand: &Stand) -> Doorbell {
    match stand.add_client(CLIENT) {
        Ok(Reply::ClientAdded(row)) => Doorbell::new(row.socket.expect("a VM has a socket")),
        other => panic!("{other:?}"),
    }
}

struct Place {
    stand: Stand,
    guest: Guest,
}

impl Place {
    fn new(programs: &[(&str, &Program)]) -> Place {
        let stand = offer();
        let mut config = module_config("apis", vec![window(&stand)]);
        config.files.push((remoted_library(), format!("{FOLDER}/{LIBRARY}")));
        for (name, program) in programs {
            config.files.push((program.path().into(), format!("/usr/bin/{name}")));
        }
        let place = Place { guest: boot(&config), stand };
        place.ok(&load());
        place
    }

    fn ok(&self, script: &str) -> String {
        self.guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", self.stand.log()))
    }

    fn run(&self, user: &str, words: &str) -> RunOutput {
        let script = format!("export {POOL_BYTES} LD_LIBRARY_PATH={FOLDER}; {words}");
        self.guest.run(&as_user(user, &script), LONG).unwrap_or_else(|e| panic!("{e}"))
    }

    /// What a program of the user `app` prints; it must succeed.
    fn said(&self, words: &str) -> String {
        let out = self.run("app", words);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status, 0, "{words}: {}{errors}\n{}", out.text(), self.stand.log());
        String::from_utf8(out.stdout).expect("text")
    }
}

#[test]
fn an_unmodified_program_in_a_guest_uses_the_hosts_engine() {
    let conform = Program::of("tests/local/tests/apis/conform.c");
    let bounce = Program::of("services/gdma/examples/bounce.c");
    let survive = Program::of("tests/local/tests/apis/survive.c");
    let p = Place::new(&[("conform", &conform), ("bounce", &bounce), ("survive", &survive)]);

    // Without the library's folder there is nothing that the program could run with.
    let out = p.guest.run(&as_user("app", "bounce 2>&1"), LONG).unwrap();
    assert!(out.status != 0 && out.text().contains(LIBRARY), "{}", out.text());
    assert_same(&said(conform.native()), &p.said("conform"));
    assert_eq!(p.said("bounce 300000"), said_by_bounce(&bounce));
    // A user who may not use the window gets the API's own error.
    let out = p.run("stranger", "bounce 2>&1");
    let words = out.text();
    assert!(out.status == 1 && words.contains("no host offers 'gdma' to this program"), "{words}");
    assert!(words.contains("group vfun"), "{words}");
    p.stand.until("nothing is left of them", |s| s.grants().is_empty());

    outlives_its_service(&p);
    p.stand.until("everything given back", |s| {
        let status = s.status();
        s.totals().1 == 0 && s.grants().is_empty() && status.buffers == 0
    });
    healthy(&p.guest);
}

fn said_by_bounce(bounce: &Program) -> String {
    let mut command = bounce.native();
    command.arg("300000");
    said(command)
}

/// The service is killed while a program of the guest uses it.
fn outlives_its_service(p: &Place) {
    std::thread::scope(|scope| {
        let program = scope.spawn(|| p.said("survive | tee /tmp/survive"));
        p.ok("until grep -q ready /tmp/survive 2>/dev/null; do usleep 20000; done");
        kill_service(&p.stand);
        assert_survived(&program.join().expect("it ends"));
    });
}
