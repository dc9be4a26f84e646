//! A VF comes into a real guest whose kernel changes between the NICs by itself (net_failover),
//! and goes again: the agent only reports.

use std::time::{Duration, Instant};
use vfun_tests_local::Stand;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::module::ok;
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::nics::{Vm, model, network, until_free, until_holds};

/// Time between two packets.
const EVERY: Duration = Duration::from_millis(5);

/// The interface's packets so far, both ways, in the guest.
fn packets(vm: &Vm, interface: &str) -> u64 {
    let files = format!("/sys/class/net/{interface}/statistics/[rt]x_packets");
    ok(&vm.guest, &format!("cat {files}")).lines().map(|n| n.parse::<u64>().unwrap()).sum()
}

#[test]
fn net_failover_takes_a_vf_and_goes_on_without_it() {
    let test = "nics_failover::net_failover_takes_a_vf_and_goes_on_without_it";
    if model() == "virtio-net-pci" {
        eprintln!(
            "\n*** {test} IS NOT TESTED here: net_failover takes no virtio NIC as VF; tests/igb.sh runs it ***\n"
        );
        return;
    }
    if !inside(test) {
        return;
    }
    network(1);
    let stand = Stand::with(&["--nics"]);
    let vm = Vm::start_with_failover(&stand, 0, EVERY);
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(&stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    vm.declare(&stand, 0);
    stand.until("its agent says what moves it", |s| {
        vm.row(s)["agent"].as_str().is_some_and(|said| said.contains("net_failover"))
    });
    for round in 0..2 {
        let begin = Instant::now();
        vm.pins(&stand, "pin");
        until_holds(&stand, &vm);
        let before = packets(&vm, "eth2");
        assert!(vm.arrives());
        assert!(packets(&vm, "eth2") > before + 50, "packets do not take the VF");
        vm.pins(&stand, "ban");
        until_free(&stand, &vm);
        assert!(vm.arrives());
        // Lost packets are no fault here: the kernel leaves a VF only when it is gone.
        eprintln!("round {round}: {}", vm.flow.count(&vm.guest, begin, Instant::now()));
    }
}
