//! What to do next: what is, against what is wanted.

use crate::limits::{MIIMON_MS, PEER_NOTICES_MS};
use crate::links::{ACTIVE_BACKUP, BondOptions, Holder, Link, View};
use vfun_bond::Path;

/// Something that the agent does to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Sets the bond's options.
    Options,
    /// Sets an interface down; one that is up is not taken into a bond.
    Down(u32),
    /// Takes an interface into the bond.
    Enslave(u32),
    Up(u32),
    /// Makes packets take this interface.
    Activate(u32),
}

/// What is, in the host's words, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Steps to do now; one that fails does not keep the next one from being done.
    pub steps: Vec<Step>,
    /// The path that packets take.
    pub path: Option<Path>,
    /// The VF's interface.
    pub vf: Option<u32>,
    /// Whether all is as it should be, or nothing can be done until something comes.
    pub done: bool,
    /// What is waited for, in a sentence.
    pub waiting: Option<String>,
    /// Why it is not as it should be, if we know.
    pub trouble: Option<String>,
}

/// How many notices after a move fill [`PEER_NOTICES_MS`]; the kernel takes at most 255.
fn peer_notices(miimon_ms: u32) -> u8 {
    u8::try_from(PEER_NOTICES_MS.div_ceil(miimon_ms.max(1))).unwrap_or(u8::MAX)
}

/// Options that `options` lack, as those that the bond should have; none if it has them.
pub fn options_wanted(options: &BondOptions) -> Option<BondOptions> {
    let mut wanted = options.clone();
    if !(1..=MIIMON_MS).contains(&options.miimon_ms) {
        wanted.miimon_ms = MIIMON_MS;
        // The kernel has one or the other.
        wanted.arp_interval_ms = 0;
    }
    wanted.all_slaves_active = true;
    wanted.peer_notices = options.peer_notices.max(peer_notices(wanted.miimon_ms));
    // It would take the bond back from the VF.
    wanted.primary = None;
    (wanted != *options).then_some(wanted)
}

/// The VF: a PCI device that came with the bond's address and is in no other interface's
/// hands. The first that is in the bond, else the first. A kernel or driver may not say
/// with what address a device came: such a one is it only if there is no better one.
fn find_vf(view: &View, paravirtual: Option<u32>) -> Option<&Link> {
    let fits = |l: &&Link| {
        let of_bond = l.master == Some(view.bond.index);
        let free = l.master.is_none() && view.holder != Holder::Failover;
        l.ethernet
            && l.kind.is_none()
            && l.below.is_none()
            && Some(l.index) != paravirtual
            && l.device.as_ref().is_some_and(|d| d.pci.is_some())
            && (of_bond || free)
            && !is_foreign(view, l)
            && (of_bond || l.mac == view.bond.mac || l.permanent_mac == view.bond.mac)
    };
    let rank = |l: &&Link| (!view.has_own(l), l.master.is_none(), l.index);
    view.others.iter().filter(fits).min_by_key(rank)
}

/// Whether it is another NIC than the bond's: in the bond it has the bond's address, as
/// all NICs do there, and it came with another one.
fn is_foreign(view: &View, link: &Link) -> bool {
    let inside = link.master == Some(view.bond.index);
    inside && link.permanent_mac.is_some() && !view.has_own(link)
}

/// What is said of a NIC of the bond that is neither its paravirtual NIC nor a VF: the
/// bond would send packets by it to another network.
fn foreign(view: &View, paravirtual: u32) -> Option<String> {
    let all = || view.slaves().filter(|l| l.index != paravirtual && l.kind.is_none());
    let link = all().find(|l| is_foreign(view, l))?;
    let (name, bond) = (&link.name, &view.bond.name);
    let own = link.permanent_mac.map(|mac| mac.to_string()).unwrap_or_default();
    Some(format!(
        "{bond} has a second NIC, {name}, that is no VF: it came with the MAC address {own}, not \
         the bond's. Take it out of {bond}"
    ))
}

/// Decides. `paravirtual` is the index of the paravirtual NIC; `want` none leaves packets
/// on the path that they take.
pub fn decide(view: &View, paravirtual: Result<u32, String>, want: Option<Path>) -> Decision {
    let (known, lost) = match paravirtual {
        Ok(index) => (Some(index), None),
        Err(why) => (None, Some(why)),
    };
    let vf = find_vf(view, known).filter(|_| known.is_some());
    let active = view.active();
    let path = match active.map(|l| l.index) {
        Some(index) if Some(index) == known => Some(Path::Paravirtual),
        Some(index) if Some(index) == vf.map(|l| l.index) => Some(Path::Vf),
        _ => None,
    };
    let (steps, done, waiting) = (vec![], true, None);
    let vf_index = vf.map(|l| l.index);
    let mut decision = Decision { steps, path, vf: vf_index, done, waiting, trouble: lost };
    let Holder::Bond(options) = &view.holder else { return decision };
    if options.mode != ACTIVE_BACKUP {
        let (name, mode) = (&view.bond.name, options.mode_name());
        decision.trouble = Some(format!("{name} has the mode {mode}, not active-backup"));
        return decision;
    }
    if let Some(index) = known {
        decision.trouble = foreign(view, index);
    }
    if options_wanted(options).is_some() {
        decision.steps.push(Step::Options);
        decision.done = false;
    }
    let next = match (want, known.and_then(|index| view.slave(index)), vf) {
        (Some(Path::Vf), _, Some(vf)) => towards_vf(view, vf, active),
        (Some(Path::Paravirtual), Some(nic), _) => activate(nic, active),
        // The VF is still to come, or there is no order.
        _ => return decision,
    };
    match next {
        Next::Arrived => {}
        Next::Do(step) => {
            decision.steps.push(step);
            decision.done = false;
        }
        Next::Wait(why) => {
            decision.done = false;
            decision.waiting = Some(why);
        }
    }
    decision
}

enum Next {
    Arrived,
    Do(Step),
    Wait(String),
}

fn towards_vf(view: &View, vf: &Link, active: Option<&Link>) -> Next {
    match vf.master {
        None if !view.bond.up => Next::Wait(format!("{} is down: set it up", view.bond.name)),
        None if vf.up => Next::Do(Step::Down(vf.index)),
        None => Next::Do(Step::Enslave(vf.index)),
        Some(_) => activate(vf, active),
    }
}

fn activate(link: &Link, active: Option<&Link>) -> Next {
    if active.map(|l| l.index) == Some(link.index) {
        return Next::Arrived;
    }
    match (link.up, link.ready()) {
        (false, _) => Next::Do(Step::Up(link.index)),
        (true, false) => Next::Wait(format!("{} has no carrier", link.name)),
        (true, true) => Next::Do(Step::Activate(link.index)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::links::{Carrier, Device, Mac};
    use proptest::prelude::*;

    pub const BOND: u32 = 10;
    pub const PV: u32 = 2;
    pub const VF: u32 = 7;
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    impl View {
        pub fn set_active(&mut self, index: Option<u32>) {
            match &mut self.holder {
                Holder::Bond(options) => options.active = index,
                Holder::Failover => panic!("it is no bond"),
            }
        }

        fn options(&mut self) -> &mut BondOptions {
            match &mut self.holder {
                Holder::Bond(options) => options,
                Holder::Failover => panic!("it is no bond"),
            }
        }
    }

    pub fn link(index: u32, name: &str) -> Link {
        let pci = Some(format!("0000:00:{index:02x}.0"));
        Link {
            index,
            name: name.into(),
            mac: Some(MAC),
            permanent_mac: Some(MAC),
            ethernet: true,
            up: true,
            carrier: Carrier::Settled,
            opened_with_carrier: false,
            mtu: 1500,
            master: None,
            below: None,
            kind: None,
            works: None,
            bond: None,
            device: Some(Device { driver: "virtio_net".into(), pci }),
        }
    }

    fn good() -> BondOptions {
        BondOptions {
            mode: ACTIVE_BACKUP,
            active: Some(PV),
            miimon_ms: MIIMON_MS,
            all_slaves_active: true,
            peer_notices: peer_notices(MIIMON_MS),
            ..BondOptions::default()
        }
    }

    /// A bond with its paravirtual NIC, and with a VF that works if it is to have one.
    pub fn view(with_vf: bool) -> View {
        let inside = |link: Link| Link { master: Some(BOND), works: Some(true), ..link };
        let mut others = vec![inside(link(PV, "eth0"))];
        others.extend(with_vf.then(|| inside(link(VF, "eth1"))));
        let bond = Link { kind: Some("bond".into()), device: None, ..link(BOND, "bond0") };
        View { bond, holder: Holder::Bond(good()), others }
    }

    fn steps(view: &View, want: Path) -> Vec<Step> {
        decide(view, Ok(PV), Some(want)).steps
    }

    #[test]
    fn notices_go_on_until_the_kernel_has_settled_the_new_port() {
        for (miimon_ms, notices) in [(100, 40), (50, 80), (1, 255)] {
            let options = BondOptions { miimon_ms, ..BondOptions::default() };
            assert_eq!(options_wanted(&options).unwrap().peer_notices, notices, "{miimon_ms} ms");
        }
        let more = BondOptions { miimon_ms: 100, peer_notices: 60, ..BondOptions::default() };
        assert_eq!(options_wanted(&more).unwrap().peer_notices, 60);
    }

    #[test]
    fn a_vf_is_taken_step_by_step() {
        let mut v = view(false);
        assert!(decide(&v, Ok(PV), Some(Path::Vf)).done);
        v.others.push(link(VF, "eth1"));
        assert_eq!(steps(&v, Path::Vf), [Step::Down(VF)]);
        v.others[1].up = false;
        assert_eq!(steps(&v, Path::Vf), [Step::Enslave(VF)]);
        v.others[1].master = Some(BOND);
        assert_eq!(steps(&v, Path::Vf), [Step::Up(VF)]);
        (v.others[1].up, v.others[1].works) = (true, Some(false));
        let waits = decide(&v, Ok(PV), Some(Path::Vf));
        assert_eq!((waits.steps.len(), waits.done), (0, false));
        assert_eq!(waits.waiting.as_deref(), Some("eth1 has no carrier"));
        // The bond's watch sees a carrier before the kernel sends by it.
        (v.others[1].works, v.others[1].carrier) = (Some(true), Carrier::Fresh);
        assert!(decide(&v, Ok(PV), Some(Path::Vf)).waiting.is_some());
        v.others[1].carrier = Carrier::Settled;
        assert_eq!(steps(&v, Path::Vf), [Step::Activate(VF)]);
        // It sends from the start if it was opened with a carrier.
        (v.others[1].carrier, v.others[1].opened_with_carrier) = (Carrier::Fresh, true);
        assert_eq!(steps(&v, Path::Vf), [Step::Activate(VF)]);
        v.others[1].carrier = Carrier::None;
        assert!(decide(&v, Ok(PV), Some(Path::Vf)).waiting.is_some());
        v.others[1].carrier = Carrier::Settled;
        v.set_active(Some(VF));
        let there = decide(&v, Ok(PV), Some(Path::Vf));
        assert_eq!((there.path, there.done, there.trouble), (Some(Path::Vf), true, None));
    }

    #[test]
    fn a_vf_is_left_and_stays_in_the_bond() {
        let mut v = view(true);
        v.set_active(Some(VF));
        assert_eq!(steps(&v, Path::Paravirtual), [Step::Activate(PV)]);
        v.set_active(Some(PV));
        let left = decide(&v, Ok(PV), Some(Path::Paravirtual));
        assert_eq!((left.path, left.done), (Some(Path::Paravirtual), true));
        assert!(left.steps.is_empty());
    }

    #[test]
    fn without_an_order_nothing_moves() {
        for active in [None, Some(PV), Some(VF)] {
            let mut v = view(true);
            v.set_active(active);
            assert_eq!(decide(&v, Ok(PV), None).steps, []);
        }
    }

    #[test]
    fn an_interface_that_only_looks_like_a_vf_is_let_be() {
        let changes: [fn(&mut Link); 6] = [
            |l| l.kind = Some("macvlan".into()),
            |l| l.below = Some(PV),
            |l| l.master = Some(55),
            |l| l.device = None,
            |l| l.device.as_mut().unwrap().pci = None,
            |l| (l.mac, l.permanent_mac) = (None, Some(Mac([2, 9, 9, 9, 9, 9]))),
        ];
        for change in changes {
            let mut v = view(false);
            v.others.push(link(VF, "eth1"));
            change(&mut v.others[1]);
            let decision = decide(&v, Ok(PV), Some(Path::Vf));
            assert_eq!((decision.vf, decision.steps.len()), (None, 0), "{:?}", v.others[1]);
        }
    }

    /// A paravirtual NIC of another network, which somebody put into the bond.
    fn second_nic(index: u32) -> Link {
        let permanent_mac = Some(Mac([2, 9, 9, 9, 9, 9]));
        Link { permanent_mac, master: Some(BOND), works: Some(true), ..link(index, "eth9") }
    }

    #[test]
    fn a_second_paravirtual_nic_is_no_vf_and_is_said() {
        let mut v = view(false);
        v.others.push(second_nic(3));
        let alone = decide(&v, Ok(PV), Some(Path::Vf));
        assert_eq!(
            (alone.vf, &alone.steps[..], alone.path),
            (None, &[][..], Some(Path::Paravirtual))
        );
        let why = alone.trouble.unwrap();
        assert!(why.contains("eth9") && why.contains("02:09:09:09:09:09"), "{why}");
        // The VF comes, and is taken all the same.
        v.others.push(link(VF, "eth1"));
        assert_eq!(steps(&v, Path::Vf), [Step::Down(VF)]);
        v.others[2].up = false;
        assert_eq!(steps(&v, Path::Vf), [Step::Enslave(VF)]);
        (v.others[2].master, v.others[2].up, v.others[2].works) = (Some(BOND), true, Some(true));
        assert_eq!(steps(&v, Path::Vf), [Step::Activate(VF)]);
        // The active one is neither: packets take neither path.
        v.set_active(Some(3));
        assert_eq!(decide(&v, Ok(PV), None).path, None);
        assert_eq!(steps(&v, Path::Paravirtual), [Step::Activate(PV)]);
    }

    #[test]
    fn a_vf_that_says_its_address_is_taken_before_one_that_does_not() {
        let mut v = view(true);
        v.others[1].permanent_mac = None;
        assert_eq!(decide(&v, Ok(PV), None).vf, Some(VF), "there is no better one");
        v.others.push(link(9, "eth2"));
        let decision = decide(&v, Ok(PV), None);
        assert_eq!((decision.vf, decision.trouble), (Some(9), None));
    }

    #[test]
    fn the_bonds_options_are_set_before_a_move() {
        let mut v = view(true);
        v.options().all_slaves_active = false;
        assert_eq!(steps(&v, Path::Vf), [Step::Options, Step::Activate(VF)]);
        v.options().all_slaves_active = true;
        for (miimon, wanted) in [(0, 100), (50, 50), (5000, 100)] {
            v.options().miimon_ms = miimon;
            let asked = options_wanted(v.options()).map_or(miimon, |o| o.miimon_ms);
            assert_eq!(asked, wanted);
        }
        v.options().primary = Some(PV);
        assert_eq!(options_wanted(v.options()).unwrap().primary, None);
    }

    #[test]
    fn another_mode_is_let_be_and_said() {
        let mut v = view(true);
        v.options().mode = 0;
        let decision = decide(&v, Ok(PV), Some(Path::Vf));
        assert!(decision.steps.is_empty());
        assert!(decision.trouble.unwrap().contains("balance-rr"));
    }

    #[test]
    fn net_failover_is_only_watched() {
        let mut v = view(true);
        v.holder = Holder::Failover;
        v.bond.device = v.others[0].device.clone();
        let decision = decide(&v, Ok(PV), Some(Path::Paravirtual));
        assert_eq!((decision.path, decision.done), (Some(Path::Vf), true));
        v.others[1].works = Some(false);
        assert_eq!(decide(&v, Ok(PV), Some(Path::Vf)).path, Some(Path::Paravirtual));
    }

    /// Does a step as the kernel would.
    fn perform(view: &mut View, step: Step) {
        let of = |view: &View, index| view.others.iter().position(|l| l.index == index).unwrap();
        match step {
            Step::Options => {
                let wanted = options_wanted(view.options()).unwrap();
                *view.options() = wanted;
            }
            Step::Down(index) => {
                let at = of(view, index);
                view.others[at].up = false;
            }
            Step::Enslave(index) => {
                let at = of(view, index);
                assert!(!view.others[at].up, "the kernel refuses one that is up");
                let link = &mut view.others[at];
                (link.master, link.up, link.works) = (Some(BOND), true, Some(true));
            }
            Step::Up(index) => {
                let at = of(view, index);
                (view.others[at].up, view.others[at].works) = (true, Some(true));
            }
            Step::Activate(index) => {
                assert!(view.slave(index).unwrap().ready(), "the kernel refuses it");
                view.set_active(Some(index));
            }
        }
    }

    fn any_view() -> impl Strategy<Value = View> {
        let options = (any::<bool>(), 0..200u32, 0..4u8, prop::option::of(Just(PV)));
        let active = prop::option::of(prop_oneof![Just(PV), Just(VF)]);
        let vf = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
        (options, active, vf, any::<bool>()).prop_map(|(o, active, vf, nic_up)| {
            let mut v = view(vf.0);
            let options = v.options();
            options.all_slaves_active = o.0;
            (options.miimon_ms, options.peer_notices, options.primary) = (o.1, o.2, o.3);
            v.others[0].up = nic_up;
            if let Some(link) = v.others.get_mut(1) {
                link.up = vf.1;
                link.master = vf.2.then_some(BOND);
                link.works = vf.2.then_some(vf.3);
            }
            v.set_active(active.filter(|index| v.slave(*index).is_some_and(Link::ready)));
            v
        })
    }

    proptest! {
        /// From any state a few steps lead to what is wanted, unless a carrier is missing;
        /// then nothing more is done.
        #[test]
        fn it_arrives(mut v in any_view(), to_vf in any::<bool>()) {
            let want = if to_vf { Path::Vf } else { Path::Paravirtual };
            for _ in 0..8 {
                let decision = decide(&v, Ok(PV), Some(want));
                prop_assert!(!decision.done || decision.steps.is_empty());
                for step in &decision.steps {
                    perform(&mut v, *step);
                }
                if decision.steps.is_empty() {
                    let there = decision.path == Some(want);
                    let no_vf = to_vf && v.others.len() == 1;
                    prop_assert!(there || no_vf || decision.waiting.is_some(), "{:?}", decision);
                    prop_assert!(options_wanted(v.options()).is_none());
                    return Ok(());
                }
            }
            prop_assert!(false, "it goes on for ever: {:?}", decide(&v, Ok(PV), Some(want)));
        }
    }
}
