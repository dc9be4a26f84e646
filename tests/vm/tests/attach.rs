//! Windows plugged into a plain QEMU by QMP, as `vfun attach --qmp` does it.

use serde_json::{Value, json};
use std::process::Command;
use std::time::Instant;
use vfun_testguest::GuestConfig;
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::{LONG, boot, config};

fn vfun(stand: &Stand, words: &[&str]) -> (i32, Value) {
    let out = Command::new(programs().join("vfun"))
        .arg("--root")
        .arg(stand.root())
        .arg("--json")
        .args(words)
        .env_remove("VFUN_ENDPOINT")
        .output()
        .unwrap();
    let said = if out.status.success() { out.stdout } else { out.stderr };
    (out.status.code().unwrap(), serde_json::from_slice(&said).unwrap_or_default())
}

fn done(stand: &Stand, words: &[&str]) -> Value {
    let (code, value) = vfun(stand, words);
    assert_eq!(code, 0, "vfun {words:?}: {value}\n{}", stand.log());
    value
}

/// How many windows the guest sees and has placed.
const COUNT: &str = "n=0; for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor; read -r c <$d/device; \
     [ $v$c = 0x1af40x1110 ] && [ -e $d/resource2 ] && n=$((n+1)); done; echo $n";

#[test]
fn a_window_goes_into_a_running_qemu_and_out_again() {
    let stand = Stand::start();
    for (name, transport) in [("bell", "ivshmem-doorbell"), ("plain", "ivshmem-plain")] {
        done(&stand, &["client", "add", name, "--window", "16MiB", "--transport", transport]);
    }
    // A control socket of its own: the test's has its one connection.
    let qmp = stand.root().join("second.qmp");
    let qmp = qmp.to_str().unwrap();
    let guest = boot(&GuestConfig {
        hotplug_ports: 2,
        extra_args: vec!["-qmp".into(), format!("unix:{qmp},server=on,wait=off")],
        ..config("attach", vec![])
    });
    for round in 0..2 {
        for client in ["bell", "plain"] {
            let words = |what| [what, "--qmp", qmp, "--client", client];
            let began = Instant::now();
            let plugged = done(&stand, &words("attach"));
            assert_eq!((&plugged["attached"], &plugged["already"]), (&true.into(), &false.into()));
            assert_eq!(plugged["port"], "hp0", "the first that is free");
            assert!(plugged["pci"].as_str().unwrap().starts_with("0000:"), "{plugged}");
            if client == "bell" {
                assert_eq!(plugged["connected"], true);
            }
            stand.until("the guest to see it", |_| guest.run_ok(COUNT, LONG).unwrap() == "1");
            let visible = began.elapsed();
            let mut called = None;
            if client == "plain" {
                let twenty = guest.run_ok("vfun call factorial 20", LONG).unwrap();
                assert_eq!(twenty, "2432902008176640000");
                called = Some(began.elapsed());
            }
            println!(
                "round {round}, {client}: plugged in {} ms, in the guest after {visible:?}, called after {called:?}",
                plugged["took_ms"]
            );
            let again = done(&stand, &words("attach"));
            assert_eq!((&again["already"], &again["pci"]), (&true.into(), &plugged["pci"]));
            assert_eq!(done(&stand, &words("detach"))["already"], false);
            assert_eq!(done(&stand, &words("detach"))["already"], true);
            assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "0");
        }
    }

    // Both at once; then there is no port left.
    for client in ["bell", "plain"] {
        done(&stand, &["attach", "--qmp", qmp, "--client", client]);
    }
    done(&stand, &["client", "add", "third", "--window", "1MiB"]);
    let (code, said) = vfun(&stand, &["attach", "--qmp", qmp, "--client", "third"]);
    assert!(
        code == 1 && said["error"]["what"].as_str().unwrap().contains("no free PCIe port"),
        "{said}"
    );
    let (code, said) =
        vfun(&stand, &["attach", "--qmp", qmp, "--client", "third", "--bus", "nowhere"]);
    assert!(code == 1 && said["error"]["what"].as_str().unwrap().contains("nowhere"), "{said}");
    // What failed left nothing behind: it works once there is a port.
    done(&stand, &["detach", "--qmp", qmp, "--client", "plain"]);
    done(&stand, &["attach", "--qmp", qmp, "--client", "third"]);
    let (code, said) = vfun(&stand, &["attach", "--qmp", "/nowhere", "--client", "third"]);
    assert_eq!(code, 5, "{said}");

    // A QEMU that connects all the same is sent away with an error: a hang-up
    // alone would let it read for ever.
    done(&stand, &["detach", "--qmp", qmp, "--client", "third"]);
    let path = stand.root().join("ivshmem/bell.sock");
    let backend = json!({ "type": "socket", "data": { "server": false,
        "addr": { "type": "unix", "data": { "path": path } } } });
    guest.qmp("chardev-add", json!({ "id": "again", "backend": backend })).unwrap();
    let device =
        json!({ "driver": "ivshmem-doorbell", "chardev": "again", "vectors": 8, "bus": "hp1" });
    let refused = guest.qmp("device_add", device).unwrap_err().to_string();
    assert!(refused.contains("protocol version"), "{refused}");
    assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "1");
}
