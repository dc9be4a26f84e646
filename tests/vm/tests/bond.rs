//! Who may order a VM's network about: the kernel module says it, in a real guest.

use vfun_bond::{Call, Mode, Report};
use vfun_tests_local::Stand;
use vfun_tests_vm::module::{doorbell_client, healthy};
use vfun_tests_vm::users::{as_user, load, user_config};
use vfun_tests_vm::{LONG, boot};

/// A call that the function `bond` cannot read: who gets that far has opened it.
const CALL: &str = "vfun call bond --hex 78 2>&1";
const DENIED: &str = "only a program with CAP_NET_ADMIN in the VM's own network namespace";

fn report() -> Report {
    Report {
        order: 0,
        agent: "test".into(),
        bond: "bond0".into(),
        mode: Mode::Bond,
        mac: "52:54:00:00:00:01".into(),
        path: None,
        vf: None,
        packets: 0,
        latency_us: None,
        trouble: None,
    }
}

#[test]
fn the_module_says_who_administers_the_vms_network() {
    let stand = Stand::with(&["--nics"]);
    let window = doorbell_client(&stand, "vm1", "");
    let guest = boot(&user_config("bond"));
    let fail = |e: &dyn std::fmt::Display| -> ! {
        panic!("{e}\n--- console\n{}\n--- vfund\n{}", guest.console(), stand.log())
    };
    guest.plug_doorbell(0, "window", &window).unwrap_or_else(|e| fail(&e));
    let seen = "until grep -q 0x1110 /sys/bus/pci/devices/*/device; do usleep 5000; done";
    guest.run_ok(&format!("{seen}; {}", load()), LONG).unwrap_or_else(|e| fail(&e));
    let said = |script: &str| guest.run(script, LONG).unwrap_or_else(|e| fail(&e)).text();

    let opened = said(CALL);
    assert!(opened.contains("not a message of `bond`"), "root: {opened}");
    // An ordinary user; root in another network; an ordinary user who is root of a container.
    let user = as_user("app", CALL);
    let container = as_user("app", &format!("unshare -r -n sh -c \"{CALL}\""));
    for script in [&user, &format!("unshare -n sh -c \"{CALL}\""), &container] {
        let refused = said(script);
        assert!(refused.contains(DENIED), "{script}: {refused}");
    }
    // The same users have other functions.
    assert_eq!(said(&as_user("app", "vfun call echo hello 2>/dev/null")).trim(), "hello");

    // An agent has it; a second one is refused, and shown.
    let report = Call::Tell(report()).to_bytes();
    let hex: String = report.iter().map(|byte| format!("{byte:02x}")).collect();
    let agent = format!("(vfun-vm-app loop bond {hex} 600 >/dev/null 2>&1 &)");
    guest.run_ok(&agent, LONG).unwrap_or_else(|e| fail(&e));
    stand.until("an agent", |s| s.grants().iter().any(|g| g.function == "bond"));
    let second = said(CALL);
    assert!(second.contains("of this VM has it"), "{second}");
    stand.until("it is shown", |s| s.log().contains("was refused the function 'bond'"));
    guest.run_ok("killall vfun-vm-app", LONG).unwrap_or_else(|e| fail(&e));
    stand.until("it is over", |s| s.grants().is_empty());
    healthy(&guest);
}
