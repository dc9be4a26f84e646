//! Windows in libvirt's domains, with a real libvirtd and emulated guests.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use vfun_tests_local::Stand;
use vfun_tests_vm::cli::{json, vfun};
use vfun_tests_vm::libvirt::{Domain, Libvirtd, missing};
use vfun_tests_vm::runs::Runs;
use vfun_tests_vm::{LONG, config};

/// How many windows the guest sees and has given an address: its kernel shows a
/// device some milliseconds before its memory.
const COUNT: &str = "n=0; for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor; read -r c <$d/device; \
     [ $v$c = 0x1af40x1110 ] && [ -e $d/resource2 ] && n=$((n+1)); done; echo $n";

/// A file outside the test's own folders, which goes with it all the same.
struct Gone(std::path::PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_domain_has_its_window_from_the_start_and_while_it_runs() {
    if let Some(why) = missing() {
        eprintln!("\n*** LIBVIRT IS NOT TESTED: {why} ***\n");
        return;
    }
    let libvirtd = Libvirtd::start();
    // libvirt looks for plain windows in /dev/shm only.
    let stand = Stand::with(&["--window-dir", "/dev/shm"]);
    std::fs::set_permissions(stand.root(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let me = std::process::id();
    let (bell, plain) = (format!("b{me}"), format!("p{me}"));
    let add = |name: &str, transport: &str| {
        json(&stand, &["client", "add", name, "--window", "16MiB", "--transport", transport])
    };
    let bell_xml = add(&bell, "ivshmem-doorbell")["libvirt"].as_str().unwrap().to_owned();
    let plain_row = add(&plain, "ivshmem-plain");
    let plain_xml = plain_row["libvirt"].as_str().unwrap().to_owned();
    let _gone = Gone(plain_row["window_file"].as_str().unwrap().into());
    if libvirtd.unprivileged {
        // What the printed text tells people to do with setfacl.
        let file = plain_row["window_file"].as_str().unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666)).unwrap();
    }

    // Both as `vfun client add` printed them.
    let guest = libvirtd.boot(&config("first", vec![]), &format!("{bell_xml}{plain_xml}"));
    assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "2");
    let connected = |name: &str| json(&stand, &["client", "show", name])["connected"] == true;
    assert!(connected(&bell), "the manager sees the VM");
    libvirtd.must(&["destroy", "first"]);
    stand.until("its end to be seen", |_| !connected(&bell));
    drop(guest);

    // Into a domain that runs, and out again, twice.
    let guest = libvirtd.boot(&config("second", vec![]), "");
    assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "0");
    let uri = libvirtd.uri();
    // With doorbells once only: see tests/attach.rs.
    for (client, seen) in [(&bell, true), (&plain, false), (&plain, false)] {
        in_and_out(&stand, &guest, client, &uri, seen);
        if seen {
            stand.until("the manager to see its end", |_| !connected(client));
        }
    }
    what_goes_wrong_says_why(&stand, &bell, &uri);

    // A VM's window is in one VM only.
    let other = libvirtd.boot(&config("third", vec![]), "");
    json(&stand, &["attach", "third", "--client", &bell, "--connect", &uri]);
    let (code, said) = vfun(&stand, &["attach", "second", "--client", &bell, "--connect", &uri]);
    assert!(code == 1 && said.contains("in another VM already"), "{code} {said}");
    assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "0");
    assert_eq!(other.run_ok(COUNT, LONG).unwrap(), "1");
    json(&stand, &["client", "remove", &plain]);
}

/// Plugs a client's window into the domain that runs, and out again. `seen`: the manager
/// sees the VM.
fn in_and_out(stand: &Stand, guest: &Domain, client: &str, uri: &str, seen: bool) {
    let words = |what| [what, "second", "--client", client, "--connect", uri];
    let began = Instant::now();
    let done = json(stand, &words("attach"));
    let attached = began.elapsed();
    assert_eq!((&done["attached"], &done["already"]), (&true.into(), &false.into()));
    assert!(done["pci"].as_str().unwrap().starts_with("0000:"), "{done}");
    assert_eq!(done["connected"], serde_json::json!(seen.then_some(true)), "{done}");
    stand.until("the guest to see it", |_| guest.run_ok(COUNT, LONG).unwrap() == "1");
    let visible = began.elapsed();
    let twenty = guest.run_ok("vfun call factorial 20", LONG).unwrap();
    assert_eq!(twenty, "2432902008176640000");
    let called = began.elapsed();
    let again = json(stand, &words("attach"));
    assert_eq!((&again["already"], &again["pci"]), (&true.into(), &done["pci"]));
    let began = Instant::now();
    let gone = json(stand, &words("detach"));
    println!(
        "{}: attached in {attached:?} ({}), in the guest after {visible:?}, called after {called:?}; detached in {:?}",
        done["transport"],
        done["took_ms"],
        began.elapsed()
    );
    assert_eq!((&gone["attached"], &gone["already"]), (&false.into(), &false.into()));
    assert_eq!(json(stand, &words("detach"))["already"], true);
    assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "0");
}

fn what_goes_wrong_says_why(stand: &Stand, bell: &str, uri: &str) {
    let (code, said) = vfun(stand, &["attach", "nobody", "--client", bell, "--connect", uri]);
    assert!(
        code == 1 && said.contains("failed to get domain") && said.contains("list"),
        "{code} {said}"
    );
    let (code, said) = vfun(stand, &["attach", "second", "--connect", uri]);
    assert!(code == 3 && said.contains("no client 'second'"), "{code} {said}");
    let (code, said) = vfun(stand, &["attach", "first", "--client", bell, "--connect", uri]);
    assert!(code == 1 && said.contains("not running"), "{code} {said}");
    let nowhere = "qemu+unix:///system?socket=/nowhere";
    let (code, said) = vfun(stand, &["attach", "second", "--client", bell, "--connect", nowhere]);
    assert!(code == 5 && said.contains("libvirt cannot be reached"), "{code} {said}");
}
