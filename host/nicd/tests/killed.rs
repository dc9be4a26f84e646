//! The program is killed with -9 before and after each effect of a move: on QEMU, and on the
//! agents. Its notes are written before; the next one goes on from them.

use crate::stand::{Stand, vm};
use std::sync::atomic::Ordering;
use vfun_nicd::ask::{Answer, Ask};
use vfun_nics::declared::Rule;

/// More than a move has.
const EFFECTS_MAX: u64 = 200;

/// Tells the program something. Where it was killed meanwhile it is told again later.
fn tell(stand: &Stand, ask: &Ask) {
    if let Ok(Answer::Refused { sentence }) = stand.ask(ask) {
        panic!("{ask:?}: {sentence}");
    }
}

/// Moves a VF from one VM to the other and kills the program at this effect. False: the move
/// had no such effect.
fn moved(at: u64) -> bool {
    let mut stand = Stand::new(2);
    stand.killer.at.store(at, Ordering::SeqCst);
    stand.start();
    let mut killed = false;
    let mut step = |stand: &mut Stand, n: usize, what: &dyn Fn(&Stand)| {
        what(stand);
        stand.until("the VM holds the VF", |s| {
            if !killed && s.killer.killed.load(Ordering::SeqCst) {
                killed = true;
                s.kill();
                s.start();
                // What it was just told may be lost with it.
                what(s);
            }
            s.holds(n)
        });
    };
    step(&mut stand, 0, &|s| {
        tell(s, &Stand::a_pool(1));
        for n in [0, 1] {
            tell(s, &Ask::AddVm { name: vm(n), vm: s.declared(n) });
        }
        tell(s, &Ask::SetRule { name: vm(0), rule: Rule::Pinned });
    });
    step(&mut stand, 1, &|s| {
        tell(s, &Ask::SetRule { name: vm(0), rule: Rule::Banned });
        tell(s, &Ask::SetRule { name: vm(1), rule: Rule::Pinned });
    });
    stand.check_owners();
    assert!(stand.qemus[0].devices().is_empty());
    killed
}

#[test]
fn a_move_survives_a_kill_at_each_of_its_effects() {
    let next = std::sync::atomic::AtomicU64::new(1);
    let all_seen = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !all_seen.load(Ordering::SeqCst) {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    assert!(at < EFFECTS_MAX, "a move has no end");
                    if !moved(at) {
                        all_seen.store(true, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let tried = next.load(Ordering::SeqCst);
    assert!(tried > 10, "a move has more effects than {tried}");
}
