//! Faults that a review found, a test or two for each.

#[allow(dead_code, reason = "the simulation uses the rest")]
mod world;

use vfun_leases::Policy;
use vfun_nics::declared::{Pool, Rule};
use vfun_nics::{Action, Event, Nics, Op, OpId, VfFound};
use world::{POOL, World, vf, vm_name};

/// A world that had time to settle.
fn world(vms: usize, vfs: usize) -> World {
    let mut w = World::new(1, vms, vfs, World::pool());
    w.run(30_000, 100);
    w
}

#[test]
fn a_vm_that_no_vf_can_be_made_ready_for_leaves_them_to_others() {
    let mut w = World::new(1, 2, 1, World::pool());
    let busiest = w.guest(0);
    (busiest.rate, busiest.unpreparable) = (50_000, true);
    let held = w.measure(1_800_000);
    assert!(held[1] > 1_200_000, "{held:?}: {}", w.why(1));
    assert!(w.why(0).contains("cannot be made ready"), "{}", w.why(0));
}

/// A pool that nobody wants a VF of: which resets a list of its one VF leads to.
struct Lists(Nics);

impl Lists {
    fn new() -> Lists {
        let mut nics = Nics::new(0, Default::default());
        nics.hear(0, Event::PoolDeclared(POOL.into(), World::pool()));
        Lists(nics)
    }

    fn list(&mut self, unusable: bool, clean: bool) -> Option<OpId> {
        let unusable = unusable.then(|| "a container has it".to_string());
        let found = VfFound { vf: vf(0), unusable, clean };
        reset(self.0.hear(0, Event::Vfs(POOL.into(), vec![found])))
    }

    fn done(&mut self, op: Option<OpId>) -> Option<OpId> {
        reset(self.0.hear(0, Event::Done(op.expect("a reset"), Ok(()))))
    }
}

fn reset(actions: Vec<Action>) -> Option<OpId> {
    actions.into_iter().find_map(|action| match action {
        Action::Do(op, Op::Reset { .. }) => Some(op),
        _ => None,
    })
}

#[test]
fn a_vf_that_somebody_else_used_meanwhile_is_reset_first() {
    let mut l = Lists::new();
    assert_eq!(l.list(false, true), None);
    assert_eq!(l.list(true, true), None, "it is reset under its user");
    let op = l.list(false, true);
    // Taken again while it is reset, and given back after that.
    assert_eq!(l.list(true, true), None);
    assert_eq!(l.done(op), None);
    let op = l.list(false, true);
    assert_eq!(l.done(op), None);
    assert_eq!(l.list(false, true), None, "nobody used it since");
}

#[test]
fn a_vf_that_is_not_clean_any_more_is_reset_and_not_at_each_list() {
    let mut l = Lists::new();
    assert_eq!(l.list(false, true), None);
    let op = l.list(false, false);
    assert_eq!(l.done(op), None);
    // A card says it of each VF at each list.
    assert_eq!((l.list(false, false), l.list(false, false)), (None, None));
}

#[test]
fn without_notes_no_vf_is_free_before_each_hypervisor_answered() {
    let mut w = world(2, 1);
    let holder = usize::from(w.holds(1));
    w.disk.vfs.clear();
    w.guest(holder).answers = false;
    w.start_process();
    w.guest(1 - holder).rate = 100_000;
    w.run(300_000, 100);
    assert_eq!((w.state(0).as_str(), w.holds(1 - holder)), ("unknown", false));
    let trouble = w.nics.view(w.now).pools[0].vfs[0].trouble.clone().unwrap();
    assert!(trouble.contains(&vm_name(holder).to_string()), "{trouble}");
    w.guest(holder).answers = true;
    w.run(300_000, 100);
    assert!(w.holds(1 - holder), "{} {}", w.state(0), w.why(1 - holder));
}

#[test]
fn a_pool_whose_vfs_cannot_be_reset_can_be_removed() {
    for quarantined_before in [false, true] {
        let mut w = world(1, 1);
        w.cards.get_mut(&vf(0)).unwrap().resets_fail = true;
        if quarantined_before {
            w.declare(0, |vm| vm.rule = Rule::Banned);
            w.run(30_000, 100);
            assert_eq!(w.state(0), "quarantined");
        }
        w.pools.clear();
        w.hear(Event::PoolRemoved(POOL.into()));
        w.run(30_000, 100);
        assert_eq!((w.state(0).as_str(), w.disk.vfs.len()), ("forgotten", 0));
        w.cards.get_mut(&vf(0)).unwrap().resets_fail = false;
        w.declare(0, |vm| vm.rule = Rule::None);
        w.declare_pool();
        w.run(60_000, 100);
        assert!(w.holds(0), "{} {}", w.state(0), w.why(0));
    }
}

#[test]
fn where_the_policy_gives_none_a_reserve_lasts_a_tenure_each_time() {
    let pool = Pool { policy: Policy::None, ..World::pool() };
    let mut w = World::new(1, 2, 1, pool);
    w.declare(1, |vm| vm.reserve_percent = 20);
    let (mut turns, mut this, mut all) = (0, 0, 0);
    for _ in 0..36_000 {
        w.run(100, 100);
        match w.holds(1) {
            true => this += 100,
            false if this > 0 => {
                assert!(this >= 30_000, "taken after {this} ms");
                (turns, all, this) = (turns + 1, all + this, 0);
            }
            false => {}
        }
    }
    assert!(turns > 10 && !w.holds(0), "{turns} turns");
    assert!((660_000..=900_000).contains(&all), "{all} ms of an hour");
}
