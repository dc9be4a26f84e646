//! How guests end and how they fail to start: always with a reason, and with
//! nothing left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::common::{alive, eventually, role};
use vfun_testguest::{Guest, GuestConfig, Window};

#[test]
#[ignore = "what a_killed_harness_leaves_nothing kills"]
fn victim() {
    match Guest::boot(&GuestConfig::new("victim")) {
        Ok(guest) => {
            println!("\nvictim {} {}", guest.pid(), guest.folder().display());
            thread::sleep(Duration::from_secs(600));
        }
        Err(error) => println!("\nvictim failed: {error}"),
    }
}

#[test]
fn a_killed_harness_leaves_nothing() {
    let mut child = role("ends::victim").spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let line = out.lines().map(Result::unwrap).find(|l| l.starts_with("victim ")).unwrap();
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    let (pid, folder) = (words[1].parse().unwrap(), Path::new(words[2]));
    assert!(alive(pid) && folder.is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("QEMU is gone", || !alive(pid));
    eventually("the folder is gone", || !folder.exists());
}

#[test]
fn a_life_is_limited() {
    let life = Duration::from_secs(12);
    let guest = match Guest::boot(&GuestConfig { max_life: life, ..GuestConfig::new("short") }) {
        Ok(guest) => guest,
        Err(e) => {
            // So loaded a machine that it did not get up within its life.
            assert!(e.to_string().contains("max_life"), "{e}");
            return;
        }
    };
    let error = guest.run("sleep 1000", Duration::from_secs(60)).unwrap_err().to_string();
    assert!(error.contains("max_life") && error.contains("12s"), "{error}");
}

#[test]
fn what_cannot_boot_says_why() {
    let fails = |config: GuestConfig| Guest::boot(&config).unwrap_err().to_string();
    let dir = tempfile::tempdir().unwrap();
    let window = |size| vec![Window { path: dir.path().join("w"), size }];
    assert!(
        fails(GuestConfig { windows: window(4096), ..GuestConfig::new("w") })
            .contains("create it first")
    );
    fs::write(dir.path().join("w"), [0; 4096]).unwrap();
    assert!(
        fails(GuestConfig { windows: window(8192), ..GuestConfig::new("w") })
            .contains("make them the same")
    );
    assert!(
        fails(GuestConfig {
            files: vec![("/no/such".into(), "/x".into())],
            ..GuestConfig::new("f")
        })
        .contains("/no/such")
    );
    assert!(
        fails(GuestConfig { modules: vec!["no_such".into()], ..GuestConfig::new("m") })
            .contains("no_such")
    );
    let refused = fails(GuestConfig {
        extra_args: vec!["-device".into(), "no-such".into()],
        ..GuestConfig::new("q")
    });
    assert!(refused.contains("QEMU said") && refused.contains("no-such"), "{refused}");
    let panic = fails(GuestConfig {
        kernel_args: "rdinit=/no/init init=/no/init root=none".into(),
        ..GuestConfig::new("p")
    });
    assert!(panic.contains("panicked") && panic.contains("last lines"), "{panic}");
    let slow = fails(GuestConfig {
        boot_timeout: Some(Duration::from_millis(50)),
        ..GuestConfig::new("s")
    });
    assert!(slow.contains("was not up") && slow.contains("boot_timeout"), "{slow}");
    fs::File::create(dir.path().join("big")).unwrap().set_len(20 << 20).unwrap();
    let files = vec![(dir.path().join("big"), "/big".into())];
    let big = fails(GuestConfig { files, memory_mib: 96, ..GuestConfig::new("b") });
    assert!(big.contains("memory_mib of at least"), "{big}");
    // None of them left its folder behind.
    for name in ["w", "f", "m", "q", "p", "s", "b"] {
        let left = fs::read_dir(std::env::temp_dir())
            .unwrap()
            .filter_map(|e| e.ok()?.file_name().into_string().ok());
        let left: Vec<String> =
            left.filter(|n| n.starts_with(&format!("vfun-guest-{name}-"))).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_missing_kernel_says_what_to_run() {
    let out = role("ends::victim").env("VFUN_GUEST_KERNEL_DIR", "/no/kernel").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("/no/kernel") && text.contains("packaging/guest-kernel.sh"), "{text}");
}

/// The shell on the console, typed into by a pipe.
#[test]
fn a_person_can_leave_by_poweroff() {
    let mut child = role("ends::person").stdin(Stdio::piped()).spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    read_until(&mut out, "~ # ");
    keys.write_all(b"echo $((6*7))-$(hostname)\n").unwrap();
    read_until(&mut out, "42-person");
    keys.write_all(b"poweroff\n").unwrap();
    read_until(&mut out, "person left 0");
    child.wait().unwrap();
}

#[test]
#[ignore = "what a_person_can_leave_by_poweroff types into"]
fn person() {
    println!(
        "\nperson left {:?}",
        vfun_testguest::interactive(&GuestConfig::new("person")).unwrap()
    );
}

fn read_until(from: &mut impl Read, what: &str) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&seen).contains(what) {
        assert!(
            from.read(&mut byte).unwrap() == 1,
            "no {what:?} in {}",
            String::from_utf8_lossy(&seen)
        );
        seen.push(byte[0]);
    }
}

/// A person's guest whose harness is killed.
#[test]
fn a_killed_person_leaves_nothing() {
    let mut child = role("ends::person").stdin(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    read_until(&mut out, "~ # ");
    child.kill().unwrap();
    child.wait().unwrap();
    // QEMU holds the other end of this pipe as long as it lives.
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
}
