//! Programs in real guests call functions of their host.

use std::time::Duration;
use vfun_testguest::Window;
use vfun_tests_local::Stand;
use vfun_tests_vm::{LONG, boot, client, config};

#[test]
fn a_program_in_a_guest_negotiates_activates_calls_and_releases() {
    let stand = Stand::start();
    let guest = boot(&config("tour", vec![client(&stand, "vm1", "")]));
    let run = |script: &str| {
        guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", stand.log()))
    };
    assert_eq!(run("vfun call factorial 20"), "2432902008176640000");
    assert_eq!(run("vfun call factorial 51 --repetitions 1000"), "18284192274659147776");
    assert_eq!(run("vfun call fibonacci 93 --repetitions 1000"), "12200160415121876738");
    assert_eq!(run("vfun call echo 'hello host'"), "hello host");
    assert_eq!(
        run("printf abc > /tmp/abc; vfun call sha256 /tmp/abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    // Larger than a line: the arguments go through the data space.
    assert_eq!(
        run(
            "head -c 1000000 /dev/zero | tr '\\0' '\\1' > /tmp/ones; vfun call sum --type u8 /tmp/ones"
        ),
        "1000000"
    );
    let path = run("vfun call null '' 2>&1");
    assert!(path.contains("ivshmem"), "the path in use is shown: {path}");
    let doctor: serde_json::Value = serde_json::from_str(&run("vfun doctor --json")).expect("JSON");
    assert!(doctor.to_string().contains("ivshmem"), "{doctor}");
    stand.until("everything given back", |s| s.totals().2 == 0);

    // Refusals arrive in the guest with their sentence and their exit code.
    let out = guest.run("vfun call nothing --hex 00", LONG).unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status, 3, "{said}");
    assert!(said.contains("no function 'nothing' is offered to client vm1"), "{said}");
    let out = guest.run("vfun call misbehave --hex 01", LONG).unwrap();
    assert_eq!(out.status, 4, "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stderr).contains("crashed"));
    // What asks the manager is for another machine.
    for command in ["status", "policy show", "top --once"] {
        let out = guest.run(&format!("vfun {command} 2>&1"), LONG).unwrap();
        let said = out.text();
        assert!(out.status == 5 && said.contains("a command of the host"), "{command}: {said}");
    }
    guest.shutdown(Duration::from_secs(20)).unwrap();
}

#[test]
fn what_is_no_window_is_named() {
    let stand = Stand::start();
    let none = boot(&config("none", vec![]));
    let out = none.run("vfun --endpoint ivshmem call echo x", LONG).unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status == 5 && said.contains("no ivshmem device"), "{}: {said}", out.status);
    none.kill();

    let blank = stand.root().join("blank");
    std::fs::write(&blank, vec![0; 1 << 20]).unwrap();
    let guest = boot(&config("blank", vec![Window { path: blank.clone(), size: 1 << 20 }]));
    let run = || {
        let out = guest.run("vfun --endpoint ivshmem call echo x", LONG).unwrap();
        (out.status, String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (status, said) = run();
    assert!(status == 5 && said.contains("no VirtFun window"), "{status}: {said}");
    // A header that is right but for its size, then one of another layout.
    let real = client(&stand, "vm1", "");
    let mut header = std::fs::read(&real.path).unwrap()[..4096].to_vec();
    let put = |header: &[u8]| {
        use std::os::unix::fs::FileExt;
        std::fs::File::options().write(true).open(&blank).unwrap().write_all_at(header, 0).unwrap();
    };
    put(&header);
    let (status, said) = run();
    assert!(
        status == 5 && said.contains("16777216 bytes but 1048576 are mapped"),
        "{status}: {said}"
    );
    header[8] = 99;
    put(&header);
    let (status, said) = run();
    assert!(status == 5 && said.contains("layout 99"), "{status}: {said}");
}

#[test]
fn the_same_calls_go_over_the_network() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stand = Stand::with(&["--tcp", &format!("127.0.0.1:{port}")]);
    let window = client(&stand, "vm1", "tcp = \"open\"\n");
    client(&stand, "vm2", "");
    let guest = boot(&vfun_testguest::GuestConfig { net: true, ..config("net", vec![window]) });
    let tcp = format!("vfun --endpoint tcp:10.0.2.2:{port} call");
    assert_eq!(
        guest.run_ok(&format!("{tcp} factorial 20 --client vm1"), LONG).unwrap(),
        "2432902008176640000"
    );
    assert_eq!(
        guest.run_ok(&format!("{tcp} echo hi --repeat 200 --client vm1"), LONG).unwrap(),
        "hi"
    );
    let out = guest.run(&format!("{tcp} echo hi --client vm2"), LONG).unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status == 3 && said.contains("over the network"), "{}: {said}", out.status);
}

#[test]
fn three_guests_and_three_services_on_few_cores_all_finish() {
    let stand = Stand::start();
    let names = ["vm1", "vm2", "vm3"];
    let windows: Vec<Window> = names.iter().map(|n| client(&stand, n, "")).collect();
    std::thread::scope(|scope| {
        for (name, window) in names.into_iter().zip(windows) {
            scope.spawn(move || {
                let guest = boot(&config(name, vec![window]));
                let script = "vfun call echo --hex 01020304 --repeat 20000 && vfun call factorial 20 --repeat 2000";
                let said = guest.run_ok(script, Duration::from_secs(300)).unwrap();
                assert!(said.ends_with("2432902008176640000"), "{said}");
            });
        }
    });
}
