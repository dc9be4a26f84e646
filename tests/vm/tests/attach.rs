//! Windows plugged into a plain QEMU by QMP, as `vfun attach --qmp` does it.

use serde_json::Value;
use std::time::Instant;
use vfun_testguest::GuestConfig;
use vfun_tests_local::Stand;
use vfun_tests_vm::cli::{asked, json};
use vfun_tests_vm::{LONG, boot, config};

/// How many windows the guest sees and has placed.
const COUNT: &str = "n=0; for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor; read -r c <$d/device; \
     [ $v$c = 0x1af40x1110 ] && [ -e $d/resource2 ] && n=$((n+1)); done; echo $n";

#[test]
fn a_window_goes_into_a_running_qemu_and_out_again() {
    let stand = Stand::start();
    for (name, transport) in [("bell", "ivshmem-doorbell"), ("plain", "ivshmem-plain")] {
        json(&stand, &["client", "add", name, "--window", "16MiB", "--transport", transport]);
    }
    // A control socket of its own: the test's has its one connection.
    let qmp = stand.root().join("second.qmp");
    let qmp = qmp.to_str().unwrap();
    let guest = boot(&GuestConfig {
        hotplug_ports: 2,
        extra_args: vec!["-qmp".into(), format!("unix:{qmp},server=on,wait=off")],
        ..config("attach", vec![])
    });
    // The window with doorbells goes out once only, at the end: QEMU 7.2 without
    // KVM goes on watching the descriptors of a doorbell device that is gone, and
    // may crash when one is plugged in again (docs/operating.md).
    for client in ["plain", "plain", "bell"] {
        let words = |what| [what, "--qmp", qmp, "--client", client];
        let began = Instant::now();
        let plugged = json(&stand, &words("attach"));
        assert_eq!((&plugged["attached"], &plugged["already"]), (&true.into(), &false.into()));
        assert_eq!(plugged["port"], "hp0", "the first that is free");
        assert!(plugged["pci"].as_str().unwrap().starts_with("0000:"), "{plugged}");
        stand.until("the guest to see it", |_| guest.run_ok(COUNT, LONG).unwrap() == "1");
        let visible = began.elapsed();
        let twenty = guest.run_ok("vfun call factorial 20", LONG).unwrap();
        assert_eq!(twenty, "2432902008176640000");
        println!(
            "{client}: plugged in {} ms, in the guest after {visible:?}, called after {:?}",
            plugged["took_ms"],
            began.elapsed()
        );
        let again = json(&stand, &words("attach"));
        assert_eq!((&again["already"], &again["pci"]), (&true.into(), &plugged["pci"]));
        if client == "bell" {
            assert_eq!(plugged["connected"], true);
            continue;
        }
        assert_eq!(json(&stand, &words("detach"))["already"], false);
        assert_eq!(json(&stand, &words("detach"))["already"], true);
        assert_eq!(guest.run_ok(COUNT, LONG).unwrap(), "0");
    }

    // Both at once; then there is no port left.
    json(&stand, &["attach", "--qmp", qmp, "--client", "plain"]);
    {
        let add = ["client", "add", "third", "--window", "1MiB", "--transport", "ivshmem-plain"];
        json(&stand, &add);
    }
    let what = |said: &Value| said["error"]["what"].as_str().unwrap_or_default().to_owned();
    let (code, said) = asked(&stand, &["attach", "--qmp", qmp, "--client", "third"]);
    assert!(code == 1 && what(&said).contains("no free PCIe port"), "{said}");
    let (code, said) =
        asked(&stand, &["attach", "--qmp", qmp, "--client", "third", "--bus", "nowhere"]);
    assert!(code == 1 && what(&said).contains("nowhere"), "{said}");
    // What failed left nothing behind: it works once there is a port.
    json(&stand, &["detach", "--qmp", qmp, "--client", "plain"]);
    json(&stand, &["attach", "--qmp", qmp, "--client", "third"]);
    let (code, said) = asked(&stand, &["attach", "--qmp", "/nowhere", "--client", "third"]);
    assert_eq!(code, 5, "{said}");
    let gone = json(&stand, &["detach", "--qmp", qmp, "--client", "bell"]);
    assert_eq!((&gone["attached"], &gone["already"]), (&false.into(), &false.into()));
    stand.until("the manager to see its end", |s| {
        json(s, &["client", "show", "bell"])["connected"] == false
    });
}
