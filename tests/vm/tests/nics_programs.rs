//! Programs of Debian, as their packages have them, go on while a VF is plugged into their VM
//! and taken away again: the packaged agent, manager and allocator do that, with a NIC that
//! QEMU emulates as VF.
//!
//! It takes minutes, so only `make test-all` runs it (tests/programs.sh).

use std::time::{Duration, Instant};
use vfun_tests_local::Stand;
use vfun_tests_vm::cli::json;
use vfun_tests_vm::flow::Way;
use vfun_tests_vm::netns::inside;
use vfun_tests_vm::netprograms::{
    NET_PROGRAMS, NetProgram, files, folder, install, not_taken, packed,
};
use vfun_tests_vm::nics::{More, Net, Vm, model, network, until_free, until_holds};
use vfun_tests_vm::pinger::Count;

/// How often the VF goes and comes while a program runs.
const HAND_OVERS: u32 = 5;
/// How long a control runs, in which nothing is moved.
const CONTROL: Duration = Duration::from_secs(10);
/// Rounds that are tried before what is lost counts against us. A busy machine loses some
/// by itself; a hand-over that is wrong loses some in every round.
const ROUNDS: usize = 4;
/// No run of a program takes longer: so long a hand-over is a fault.
const LONGEST: Duration = Duration::from_secs(600);
/// Time between two packets of the test's own, which are only to be there.
const EVERY: Duration = Duration::from_millis(100);

/// Takes the VF away and gives it back.
fn hand_over(stand: &Stand, vm: &Vm) {
    for (what, until) in [("ban", until_free as fn(&Stand, &Vm)), ("pin", until_holds)] {
        vm.pins(stand, what);
        until(stand, vm);
        // The program is to use the path, too.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// How long a program must run for all hand-overs, with some room.
fn long_enough(stand: &Stand, vm: &Vm) -> Duration {
    let begin = Instant::now();
    hand_over(stand, vm);
    Duration::from_secs((begin.elapsed() * (HAND_OVERS + 2)).as_secs().max(10))
}

/// Runs a program while the VF goes and comes, as often as needed until all hand-overs were
/// in such a run.
fn while_it_moves(
    stand: &Stand,
    vm: &Vm,
    program: &NetProgram,
    mut long: Duration,
) -> Result<Count, String> {
    let (mut moved, mut all) = (0, Count::default());
    while moved < HAND_OVERS {
        (program.serve)(&vm.guest, long);
        let (some, count) = std::thread::scope(|s| {
            let runs = s.spawn(|| (program.run)(&vm.guest, long));
            let mut some = 0;
            while !runs.is_finished() && moved + some < HAND_OVERS {
                hand_over(stand, vm);
                // One that was not over when the program ended does not count.
                some += u32::from(!runs.is_finished());
            }
            (some, runs.join().expect("it says why it fails"))
        });
        let count = count?;
        all.sent += count.sent;
        all.lost += count.lost;
        all.gap = all.gap.max(count.gap);
        moved += some;
        if some == 0 {
            long *= 2;
            assert!(long < LONGEST, "the VF does not go and come in {long:?}");
        }
    }
    Ok(all)
}

fn control(vm: &Vm, program: &NetProgram) -> Result<Count, String> {
    (program.serve)(&vm.guest, CONTROL);
    (program.run)(&vm.guest, CONTROL)
}

/// What became of a program, as a line of the table.
fn row(program: &NetProgram, control: &Count, moves: &Count) -> String {
    let NetProgram { name, unit, bounds, .. } = program;
    let Count { sent, lost, .. } = moves;
    let [gap, control] = [moves, control].map(|count| {
        let ms = count.gap.as_millis();
        if *bounds { format!("under {ms} ms") } else { format!("{ms} ms") }
    });
    format!("| {name} | {HAND_OVERS} | {sent} {unit} | {lost} | {gap} | {control} |")
}

/// Moves the VF while a program runs, until nothing is lost; the line of the table. It is an
/// error if each round that counts lost some.
fn goes_on(stand: &Stand, vm: &Vm, program: &NetProgram, long: Duration) -> Result<String, String> {
    let name = program.name;
    let (mut counted, mut void, mut broken) = (vec![], None, vec![]);
    for _ in 0..ROUNDS {
        let before = match control(vm, program) {
            Ok(count) => count,
            // Void, too: iperf3 ends where its first packet is lost.
            Err(why) => {
                broken.push(why);
                continue;
            }
        };
        let not_taken_before = not_taken(&vm.guest);
        let moves = while_it_moves(stand, vm, program, long);
        let not_taken = (not_taken(&vm.guest) - not_taken_before) as usize;
        let told = moves.as_ref().map_or_else(String::clone, Count::to_string);
        let told = format!("{told}, {not_taken} by full buffers");
        eprintln!("{name}: control: {before}; hand-overs: {told}");
        match (before.lost, moves) {
            (_, Ok(count)) if count.lost == 0 => return Ok(row(program, &before, &count)),
            (0, Err(_)) => counted.push(told),
            (0, Ok(count)) if count.lost > not_taken => counted.push(told),
            // Void: the machine lost some by itself, or let a program sleep for too long.
            (_, Ok(count)) => void = Some(row(program, &before, &count)),
            (_, Err(why)) => broken.push(why),
        }
    }
    match void {
        _ if !counted.is_empty() => {
            Err(format!("{name}: each round lost some, its controls nothing: {counted:?}"))
        }
        None => Err(format!("{name}: no round came to its end: {broken:?}")),
        Some(row) => {
            eprintln!("\n*** {name} IS NOT JUDGED: the machine lost some in each round ***\n");
            Ok(row)
        }
    }
}

#[test]
fn programs_of_debian_go_on() {
    if folder().is_none() || !inside("nics_programs::programs_of_debian_go_on") {
        return;
    }
    network(1);
    let stand = Stand::with(&["--nics"]);
    let more = More { files: files(packed()), ..More::default() };
    let vm = Vm::start_with(&stand, 0, Net::Bridge, Way::Answered, EVERY, more);
    install(&vm.guest);
    json(&stand, &["nics", "pool", "add", "cards", "--emulated", "1", "--model", &model()]);
    json(&stand, &["nics", "set", "cards", "none", "--interval", "1s", "--tenure", "1s"]);
    vm.declare(&stand, 0);
    vm.pins(&stand, "pin");
    until_holds(&stand, &vm);
    let long = long_enough(&stand, &vm);
    let all: Vec<_> = NET_PROGRAMS.iter().map(|p| goes_on(&stand, &vm, p, long)).collect();
    eprintln!("| program | hand-overs | sent | lost | longest gap | control's longest gap |");
    eprintln!("|---|---|---|---|---|---|");
    all.iter().flatten().for_each(|row| eprintln!("{row}"));
    let wrong: Vec<_> = all.iter().filter_map(|one| one.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
