//! Commands in a real guest: results, bounds, time limits, side by side.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::{SHORT, alive, boot};
use vfun_testguest::{Guest, GuestConfig, GuestError, limits};

#[test]
fn commands() {
    let guest = boot(&GuestConfig { cpus: 2, ..GuestConfig::new("commands") });
    println!("{} boot {:?}", guest.accel(), guest.boot_time());

    // Status, stdout and stderr apart, quoting of every kind.
    let out = guest.run("echo out; echo err >&2; exit 42", SHORT).unwrap();
    assert_eq!((out.status, &out.stdout[..], &out.stderr[..]), (42, &b"out\n"[..], &b"err\n"[..]));
    assert_eq!(guest.run("kill -SEGV $$", SHORT).unwrap().status, 139);
    assert_eq!(guest.run("no_such_program", SHORT).unwrap().status, 127);
    assert_eq!(guest.run("", SHORT).unwrap().status, 0);
    let odd = "  cat <<'X'\n \t%s \\n \\\\ $HOME `id` \"é\" 'q' \r*?~ \nX\n\n";
    assert_eq!(
        guest.run(odd, SHORT).unwrap().stdout,
        " \t%s \\n \\\\ $HOME `id` \"é\" 'q' \r*?~ \n".as_bytes()
    );
    assert_eq!(guest.run_ok("pwd; id -u; nproc", SHORT).unwrap(), "/root\n0\n2");
    let error = guest.run_ok("echo because >&2; false", SHORT).unwrap_err().to_string();
    assert!(error.contains("status 1") && error.contains("because"), "{error}");
    assert!(guest.run(&"#".repeat(limits::MAX_SCRIPT_BYTES + 1), SHORT).is_err());
    let long = format!("echo {}", "x".repeat(100_000));
    assert_eq!(guest.run(&long, SHORT).unwrap().stdout.len(), 100_001);

    // Every byte comes through.
    let all: Vec<u8> = (0..=255).collect();
    let print: String = all.iter().map(|b| format!("\\{b:03o}")).collect();
    assert_eq!(guest.run(&format!("printf '{print}'"), SHORT).unwrap().stdout, all);

    // A shell's stdin is empty, and the channel is not open to it.
    assert_eq!(guest.run("cat; ls -l /proc/self/fd | grep -c vport", SHORT).unwrap().text(), "0");

    big_output(&guest);
    time_limits(&guest);
    side_by_side(&guest);

    // What is left in the background neither blocks nor dies.
    guest.run_ok("sleep 1000 & echo $! >/tmp/pid", SHORT).unwrap();
    guest.run_ok("kill -0 $(cat /tmp/pid)", SHORT).unwrap();
    // Nothing of all that is left, once the guest has put its lock away.
    let left = || guest.run_ok("ls /run/vfun; grep -c /run/vfun /proc/mounts", SHORT).unwrap();
    let is_clean = || left().lines().count() == 2;
    assert!(
        (0..50).any(|_| is_clean() || {
            thread::sleep(Duration::from_millis(100));
            false
        }),
        "{}",
        left()
    );

    assert!(guest.console().contains("Kernel") || guest.console().len() < 10_000);
    let (pid, folder) = (guest.pid(), guest.folder().to_owned());
    assert!(alive(pid) && folder.is_dir());
    guest.shutdown(SHORT).unwrap();
    assert!(!alive(pid) && !folder.exists());
}

fn big_output(guest: &Guest) {
    let start = Instant::now();
    let out = guest.run("head -c 6000000 /dev/zero | tr '\\0' z; echo done >&2", SHORT).unwrap();
    println!("6 MB of output: {:?}", start.elapsed());
    assert!(
        out.stdout.len() == 6_000_000 && out.stdout.iter().all(|&b| b == b'z') && !out.truncated
    );
    assert_eq!(out.stderr, b"done\n");
    // More than fits: bounded, said, and the next command is well.
    let out = guest.run("yes; echo still >&2", SHORT).unwrap();
    assert!(
        out.truncated && out.stdout.len() as u64 == limits::MAX_STDOUT_BYTES,
        "{}",
        out.stdout.len()
    );
    assert!(String::from_utf8_lossy(&out.stderr).contains("still"));
    assert!(!guest.run("true", SHORT).unwrap().truncated);
}

fn time_limits(guest: &Guest) {
    let start = Instant::now();
    let limit = Duration::from_millis(1500);
    let error = guest
        .run("echo before; sleep 1001 & (trap '' TERM INT; sleep 1002); sleep 1003", limit)
        .unwrap_err();
    assert!(start.elapsed() < limit + SHORT);
    assert!(error.to_string().contains("still usable"), "{error}");
    let GuestError::CommandTimeout { output, .. } = error else { panic!("{error}") };
    assert_eq!(output.text(), "before");
    assert_eq!(guest.run("ps | grep -c 'sleep 10[0]'", SHORT).unwrap().text(), "0");
    // At once, while the script may not even have begun.
    for _ in 0..3 {
        let error = guest.run("while :; do :; done", Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, GuestError::CommandTimeout { .. }), "{error}");
    }
}

fn side_by_side(guest: &Guest) {
    thread::scope(|scope| {
        for i in 0..8 {
            scope.spawn(move || {
                let script = format!("sleep 0.{i}; head -c 20000 /dev/zero | tr '\\0' {i}");
                let out = guest.run(&script, SHORT).unwrap();
                assert!(out.stdout.len() == 20_000 && out.stdout.iter().all(|&b| b == b'0' + i));
            });
        }
    });
}
