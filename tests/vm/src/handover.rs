//! Hand-overs of a VF, and what they cost the packets of all VMs.

use crate::nics::{BRIDGE_MAC, Vm, bridge_address, until_holds};
use crate::pinger::Count;
use crate::tally::Tally;
use std::time::{Duration, Instant};
use vfun_tests_local::Stand;

/// How long a control counts, in which nothing is moved.
const CONTROL: Duration = Duration::from_secs(3);
/// Rounds that are tried before packets that are lost count against us. A busy machine
/// loses some by itself; a hand-over that is wrong loses some in every round.
const ROUNDS: usize = 4;

/// What all VMs lost since a moment.
fn counts(vms: &[Vm], begin: Instant) -> Vec<Count> {
    let end = Instant::now();
    vms.iter().map(|vm| vm.flow.count(&vm.guest, begin, end)).collect()
}

/// Takes the VF from one VM and gives it to the other; what all lost meanwhile.
pub fn hand_over(stand: &Stand, vms: &[Vm], from: usize, to: usize) -> Vec<Count> {
    let begin = Instant::now();
    vms[from].pins(stand, "free");
    vms[to].pins(stand, "pin");
    until_holds(stand, &vms[to]);
    // What is sent just after the move counts, too.
    std::thread::sleep(Duration::from_millis(500));
    let counts = counts(vms, begin);
    // VMs that asked for the host's address in the meantime would send to a wrong one.
    assert_eq!(bridge_address(), BRIDGE_MAC, "the bridge took the address of the VF's tap");
    show(&format!("{} to {}", vms[from].name, vms[to].name), &counts);
    counts
}

fn control(vms: &[Vm]) -> Vec<Count> {
    let begin = Instant::now();
    std::thread::sleep(CONTROL);
    let counts = counts(vms, begin);
    show("control", &counts);
    counts
}

fn lost(counts: &[Count]) -> usize {
    counts.iter().map(|c| c.lost).sum()
}

/// Says what was lost.
pub fn show(what: &str, counts: &[Count]) {
    let texts: Vec<String> = counts.iter().map(Count::to_string).collect();
    eprintln!("{what}: {}", texts.join("; "));
}

/// Moves the VF once around until that loses nothing. In the last move, packets to the VF
/// are late if `slow`: they are still on their way when the VM has left it.
pub fn no_packet_is_lost(stand: &Stand, vms: &[Vm], slow: bool, tally: &mut Tally) {
    let mut all = vec![];
    for _ in 0..ROUNDS {
        let before = control(vms);
        let mut moves = vec![];
        for from in 0..vms.len() {
            let to = (from + 1) % vms.len();
            if slow && to == 0 {
                vms[from].slows_its_vf();
            }
            moves.push(hand_over(stand, vms, from, to));
        }
        if !slow {
            tally.add(&before, &moves);
        }
        match (lost(&before), moves.iter().map(|m| lost(m)).sum()) {
            (_, 0) => return,
            (0, n) => all.push(n),
            // Void: the machine lost packets by itself.
            _ => {}
        }
    }
    assert!(all.is_empty(), "each announced hand-over lost packets, the controls none: {all:?}");
    eprintln!("\n*** LOSS IS NOT JUDGED: the machine lost packets in each control ***\n");
}
