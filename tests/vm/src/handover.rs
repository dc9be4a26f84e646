//! Hand-overs of a VF, and what they cost the packets of all VMs.

use crate::cli::json;
use crate::flow::Flow;
use crate::nics::{BRIDGE_MAC, Vm, bridge_address, until_holds};
use crate::pinger::Count;
use crate::runs::Runs;
use crate::tally::Tally;
use serde_json::Value;
use std::time::{Duration, Instant};
use vfun_tests_local::Stand;

/// How long a control counts, in which nothing is moved.
const CONTROL: Duration = Duration::from_secs(3);
/// Rounds that are tried before packets that are lost count against us. A busy machine
/// loses some by itself; a hand-over that is wrong loses some in every round.
const ROUNDS: usize = 4;
/// A VF stays in its VM for so long after the bond has left it (docs/nics.md): packets that
/// are on their way to it still arrive.
const PAUSE: Duration = Duration::from_millis(500);

/// What all VMs lost since a moment.
fn counts(vms: &[Vm<impl Runs>], begin: Instant) -> Vec<Count> {
    let end = Instant::now();
    vms.iter().map(|vm| vm.flow.count(&vm.guest, begin, end)).collect()
}

/// How long the steps of the VF's last move took.
fn last_move(stand: &Stand) -> Value {
    json(stand, &["nics", "list"])["pools"][0]["vfs"][0]["last_move"].clone()
}

/// Takes the VF from one VM and gives it to the other; what all lost meanwhile.
pub fn hand_over(stand: &Stand, vms: &[Vm<impl Runs>], from: usize, to: usize) -> Vec<Count> {
    let begin = Instant::now();
    vms[from].pins(stand, "free");
    vms[to].pins(stand, "pin");
    arrives(stand, vms, from, to, begin)
}

/// The same, where packets are delayed that go to the VF: they are still on their way when the
/// VM has left it.
fn hand_over_delayed(stand: &Stand, vms: &[Vm], from: usize, to: usize) -> Vec<Count> {
    let begin = Instant::now();
    vms[from].delays_packets_to_its_vf();
    vms[from].pins(stand, "free");
    vms[to].pins(stand, "pin");
    vms[from].gets_delayed_packets();
    let counts = arrives(stand, vms, from, to, begin);
    // A slow guest lets go so late that too short a pause loses nothing.
    let leaving = last_move(stand)["leaving_ms"].as_u64().expect("it left the VF");
    let pause = Duration::from_millis(leaving);
    assert!(pause >= PAUSE, "the VF was unplugged {pause:?} after the order to leave it");
    counts
}

/// The end of a hand-over: one VM uses the VF, and the bridge knows of both.
fn arrives(
    stand: &Stand,
    vms: &[Vm<impl Runs>],
    from: usize,
    to: usize,
    begin: Instant,
) -> Vec<Count> {
    until_holds(stand, &vms[to]);
    for (n, vf) in [(to, true), (from, false)] {
        if matches!(vms[n].flow, Flow::ToVm(_)) {
            vms[n].until_the_bridge_sends_to(stand, n as u8, vf);
        }
    }
    // What is sent just after the move counts, too.
    std::thread::sleep(Duration::from_millis(500));
    let counts = counts(vms, begin);
    // VMs that asked for the host's address in the meantime would send to a wrong one.
    assert_eq!(bridge_address(), BRIDGE_MAC, "the bridge took the address of the VF's tap");
    show(&format!("{} to {}", vms[from].name, vms[to].name), &counts);
    vms.iter()
        .zip(&counts)
        .filter(|(_, c)| c.lost > 0)
        .for_each(|(vm, _)| vm.says_what_was_dropped());
    counts
}

fn control(vms: &[Vm<impl Runs>]) -> Vec<Count> {
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

/// A control, and what each hand-over after it lost.
type Round = (Vec<Count>, Vec<Vec<Count>>);

/// Moves the VF once around until that loses nothing.
pub fn no_packet_is_lost(stand: &Stand, vms: &[Vm<impl Runs>], tally: &mut Tally) {
    let rounds = until_nothing_is_lost(vms, |from, to| {
        let counts = hand_over(stand, vms, from, to);
        tally.took(&last_move(stand));
        counts
    });
    rounds.iter().for_each(|(before, moves)| tally.add(before, moves));
}

/// The same, where packets to the VF are delayed in the last move.
pub fn no_delayed_packet_is_lost(stand: &Stand, vms: &[Vm], tally: &mut Tally) {
    until_nothing_is_lost(vms, |from, to| {
        if to == 0 {
            return hand_over_delayed(stand, vms, from, to);
        }
        let counts = hand_over(stand, vms, from, to);
        tally.took(&last_move(stand));
        counts
    });
}

/// Hands over from each VM to the next one, until a round loses nothing; all rounds.
fn until_nothing_is_lost(
    vms: &[Vm<impl Runs>],
    mut hand_over: impl FnMut(usize, usize) -> Vec<Count>,
) -> Vec<Round> {
    let (mut rounds, mut all) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let before = control(vms);
        let moves: Vec<_> =
            (0..vms.len()).map(|from| hand_over(from, (from + 1) % vms.len())).collect();
        let sums = (lost(&before), moves.iter().map(|m| lost(m)).sum());
        rounds.push((before, moves));
        match sums {
            (_, 0) => return rounds,
            (0, n) => all.push(n),
            // Void: the machine lost packets by itself.
            _ => {}
        }
    }
    assert!(all.is_empty(), "each announced hand-over lost packets, the controls none: {all:?}");
    eprintln!("\n*** LOSS IS NOT JUDGED: the machine lost packets in each control ***\n");
    rounds
}
