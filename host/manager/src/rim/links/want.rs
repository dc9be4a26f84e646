//! Which direct links there should be, and why there are no others. No system: facts in,
//! a plan out.

use super::PortVerdict;
use crate::core::WindowId;
use crate::core::catalog::{LinkRule, VmId};
use std::collections::{BTreeMap, BTreeSet};

/// One direction between two ports, by their names on the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub from: String,
    pub to: String,
}

/// A port that a switch with DPDK has.
pub(super) struct PortView {
    pub vm: VmId,
    /// The VM and its client, as people know them.
    pub vm_name: String,
    pub client: String,
    pub rule: LinkRule,
    /// Where the switch sends its frames; none: nobody has said.
    pub verdict: Option<PortVerdict>,
    /// Why it has no link whatever the switch does.
    pub hindrance: Option<String>,
    /// Its manifest says how the VM's QEMU is reached.
    pub is_reached: bool,
}

/// A window that two VMs share.
pub(super) struct WindowView {
    pub id: WindowId,
    pub vms: [VmId; 2],
    /// Why no link can use it now.
    pub hindrance: Option<String>,
}

/// What a plan is made of.
pub(super) struct LinkFacts<'a> {
    /// By their names on the host.
    pub ports: &'a BTreeMap<String, PortView>,
    pub windows: &'a [WindowView],
    /// Links that are there, with the window of each.
    pub links: &'a BTreeMap<Pair, WindowId>,
    /// What the operator turned off; or nobody knows what that was.
    pub off: &'a BTreeSet<Pair>,
    pub is_off_unknown: bool,
    /// Pairs that rest, and why.
    pub resting: &'a BTreeMap<Pair, String>,
    /// Why no link begins at all.
    pub none_begins: Option<&'a str>,
}

/// Which links there should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LinkPlan {
    /// Links that may be there, with the window of each. Others end.
    pub may: BTreeMap<Pair, WindowId>,
    /// Those of them whose frames may go past the switch.
    pub go: BTreeSet<Pair>,
    /// Why a port sends over no link, by its name on the host.
    pub why: BTreeMap<String, String>,
    /// VMs whose ports should be linked, and that share a window for it which does not do now.
    pub apart: BTreeSet<[VmId; 2]>,
    /// VMs whose ports should be linked, and that share no window which would ever do, with the
    /// ports that wait for one. The manager can plug one into both.
    pub lacking: BTreeMap<[VmId; 2], BTreeSet<String>>,
}

/// Why a pair of ports has no window.
enum NoWindow {
    /// There is one that does not do now.
    NotNow(String),
    /// Each is used by other ports, or there is none.
    Lacking(String),
}

impl LinkPlan {
    /// Makes it. What is there goes on before something new begins.
    pub fn of(facts: &LinkFacts<'_>) -> Self {
        let mut plan = LinkPlan::default();
        let mut wanted = vec![];
        for (name, port) in facts.ports {
            match facts.wish(name, port) {
                Ok(pair) => wanted.push(pair),
                Err(why) => drop(plan.why.insert(name.clone(), why)),
            }
        }
        wanted.sort_by_key(|pair| !facts.links.contains_key(pair));
        for pair in wanted {
            match plan.take(facts, &pair) {
                Ok(()) => drop(plan.go.insert(pair)),
                Err(why) => drop(plan.why.insert(pair.from, why)),
            }
        }
        // Others that are there wait for the switch to join their ports again, where nobody
        // else needs the ports.
        for pair in facts.links.keys() {
            let may = !plan.go.contains(pair) && facts.hindrance(pair).is_none();
            // One that waits asks for no window.
            if may && plan.window(facts, pair).is_ok() {
                let _ = plan.take(facts, pair);
            }
        }
        plan
    }

    /// Gives a pair its ports and a window.
    fn take(&mut self, facts: &LinkFacts<'_>, pair: &Pair) -> Result<(), String> {
        if let Some(other) = self.may.keys().find(|p| p.from == pair.from || p.to == pair.to) {
            return Err(format!(
                "port {} has a link from {} already, and a port receives from one link",
                pair.to, other.from
            ));
        }
        let window = self.window(facts, pair).map_err(|none| self.without(facts, pair, none))?;
        self.may.insert(pair.clone(), window);
        Ok(())
    }

    /// A pair has no window.
    fn without(&mut self, facts: &LinkFacts<'_>, pair: &Pair, none: NoWindow) -> String {
        let ports = [&pair.from, &pair.to].map(|name| &facts.ports[name]);
        let mut vms = ports.map(|port| port.vm.clone());
        vms.sort();
        let unreached = ports.into_iter().find(|port| !port.is_reached);
        match (none, unreached) {
            (NoWindow::NotNow(why), _) => {
                self.apart.insert(vms);
                why
            }
            (NoWindow::Lacking(why), None) => {
                self.lacking.entry(vms).or_default().insert(pair.from.clone());
                format!("{why}: the manager makes one")
            }
            (NoWindow::Lacking(why), Some(port)) => {
                let [a, b] = ports.map(|port| &port.vm_name);
                format!(
                    "{why}: the manager makes one once the manifest of {} says qmp = \"SOCKET\" or libvirt = \"DOMAIN\" for VM {}; or declare one, `vfun window add NAME --vm {a} --vm {b}`, and plug it into both",
                    port.client, port.vm_name
                )
            }
        }
    }

    /// The window of a pair: that of the link that is there, or of the way back, or a free one.
    fn window(&self, facts: &LinkFacts<'_>, pair: &Pair) -> Result<WindowId, NoWindow> {
        let back = Pair { from: pair.to.clone(), to: pair.from.clone() };
        let vms = [pair.from.as_str(), &pair.to].map(|name| &facts.ports[name].vm);
        let its = |w: &&WindowView| vms.iter().all(|vm| w.vms.contains(vm));
        let shared: Vec<&WindowView> = facts.windows.iter().filter(its).collect();
        if shared.is_empty() {
            let [a, b] = [&pair.from, &pair.to].map(|name| &facts.ports[name].vm_name);
            return Err(NoWindow::Lacking(format!("the VMs {a} and {b} share no window")));
        }
        let of = |pair: &Pair| facts.links.get(pair).or_else(|| self.may.get(pair)).copied();
        let had = of(pair).or_else(|| of(&back));
        let in_use = |w: &WindowView| {
            let mut all = self.may.iter().chain(facts.links);
            all.any(|(p, at)| *at == w.id && p != pair && *p != back)
        };
        let usable = |w: &&&WindowView| w.hindrance.is_none() && !in_use(w);
        // The way back uses the same two sides: no other window will do.
        let found = match had {
            Some(had) => shared.iter().filter(usable).find(|w| w.id == had),
            None => shared.iter().find(usable),
        };
        if let Some(found) = found {
            return Ok(found.id);
        }
        let free = shared.iter().find(|w| !in_use(w));
        // One that is its own and does not do is in somebody's way all the same.
        let why = free.and_then(|w| w.hindrance.clone());
        let why = why.or_else(|| had.and(shared.iter().find_map(|w| w.hindrance.clone())));
        Err(match (why, free.is_some() || had.is_some()) {
            (Some(why), _) => NoWindow::NotNow(why),
            (None, true) => NoWindow::NotNow("another link of its ports ends first".into()),
            (None, false) => NoWindow::Lacking(
                "each window that the two VMs share is used by the link of two other ports".into(),
            ),
        })
    }
}

impl LinkFacts<'_> {
    /// The link that a port should have.
    fn wish(&self, name: &str, port: &PortView) -> Result<Pair, String> {
        let to = match &port.verdict {
            None => {
                return Err("nobody watches the switch: start vfund with --links".into());
            }
            Some(PortVerdict::Not { why }) => return Err(why.clone()),
            Some(PortVerdict::Joined { to, .. }) => to.clone(),
        };
        let pair = Pair { from: name.into(), to };
        match self.hindrance(&pair) {
            Some(why) => Err(why),
            None => Ok(pair),
        }
    }

    /// Why a pair has no link even if the switch joins its ports.
    fn hindrance(&self, pair: &Pair) -> Option<String> {
        let Pair { from, to } = pair;
        let Some(a) = self.ports.get(from) else {
            return Some(format!("{from} is no port of a VM with `way = \"dpdk\"` any more"));
        };
        let Some(b) = self.ports.get(to) else {
            return Some(format!(
                "its frames go to {to}, which is no port of a VM with `way = \"dpdk\"`"
            ));
        };
        if a.vm == b.vm {
            return Some(format!("its frames go to {to}, which is in the same VM"));
        }
        if let Some(why) = apart(a, b) {
            return Some(why);
        }
        if self.is_off_unknown {
            return Some("what was turned off is not known: the manager's log says why".into());
        }
        if self.off.contains(pair) {
            return Some(format!("it is turned off: `vfun links on {from} {to}` lets it be"));
        }
        if let Some(why) = a.hindrance.as_ref().or(b.hindrance.as_ref()) {
            return Some(why.clone());
        }
        if let Some(why) = self.resting.get(pair) {
            return Some(why.clone());
        }
        let is_new = !self.links.contains_key(pair);
        self.none_begins.filter(|_| is_new).map(str::to_owned)
    }
}

/// Why the clients of two ports let them have no link.
fn apart(a: &PortView, b: &PortView) -> Option<String> {
    for port in [a, b] {
        if !port.rule.on {
            return Some(format!("the manifest of client {} says `links = false`", port.client));
        }
    }
    if a.vm.client == b.vm.client {
        return None;
    }
    let names = |x: &PortView, y: &PortView| x.rule.with.contains(&y.client);
    let (a_names, b_names) = (names(a, b), names(b, a));
    let silent = if a_names { b } else { a };
    (!(a_names && b_names)).then(|| {
        format!(
            "its frames go to a port of another client: `links_with` in both manifests must name the other one, and that of {} does not",
            silent.client
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_links::passed::Passed;

    fn port(client: u32, vm: &str, to: Option<&str>) -> PortView {
        let verdict = match to {
            Some(to) => PortVerdict::Joined { to: to.into(), passed: Passed::default() },
            None => PortVerdict::Not { why: "no rule joins it".into() },
        };
        PortView {
            vm: VmId { client, vm: vm.into() },
            vm_name: format!("c{client}/{vm}"),
            client: format!("c{client}"),
            rule: LinkRule::default(),
            verdict: Some(verdict),
            hindrance: None,
            is_reached: false,
        }
    }

    fn window(id: WindowId, a: (u32, &str), b: (u32, &str)) -> WindowView {
        let vms = [a, b].map(|(client, vm)| VmId { client, vm: vm.into() });
        WindowView { id, vms, hindrance: None }
    }

    fn pair(from: &str, to: &str) -> Pair {
        Pair { from: from.into(), to: to.into() }
    }

    /// A host with two VMs whose ports are joined both ways, to be changed.
    struct TriedHost {
        ports: BTreeMap<String, PortView>,
        windows: Vec<WindowView>,
        links: BTreeMap<Pair, WindowId>,
        off: BTreeSet<Pair>,
        is_off_unknown: bool,
        resting: BTreeMap<Pair, String>,
        none_begins: Option<&'static str>,
    }

    impl TriedHost {
        fn new() -> Self {
            let ports = [("a", port(1, "x", Some("b"))), ("b", port(1, "y", Some("a")))];
            TriedHost {
                ports: ports.into_iter().map(|(n, p)| (n.to_owned(), p)).collect(),
                windows: vec![window(7, (1, "x"), (1, "y"))],
                links: BTreeMap::new(),
                off: BTreeSet::new(),
                is_off_unknown: false,
                resting: BTreeMap::new(),
                none_begins: None,
            }
        }
        fn port(&mut self, name: &str) -> &mut PortView {
            self.ports.get_mut(name).unwrap()
        }
        fn plan(&self) -> LinkPlan {
            LinkPlan::of(&LinkFacts {
                ports: &self.ports,
                windows: &self.windows,
                links: &self.links,
                off: &self.off,
                is_off_unknown: self.is_off_unknown,
                resting: &self.resting,
                none_begins: self.none_begins,
            })
        }
        /// Why `a` has no link; panics if it has one.
        fn why(&self) -> String {
            let plan = self.plan();
            assert!(!plan.go.iter().any(|p| p.from == "a"), "{plan:?}");
            plan.why["a"].clone()
        }
    }

    #[test]
    fn two_ports_that_are_joined_both_ways_share_a_window() {
        let plan = TriedHost::new().plan();
        let both = [pair("a", "b"), pair("b", "a")];
        assert_eq!(plan.go, BTreeSet::from(both.clone()));
        assert_eq!(plan.may, both.map(|p| (p, 7)).into());
        assert!(plan.why.is_empty());
    }

    #[test]
    fn what_keeps_a_port_from_a_link_is_said() {
        let why = |change: fn(&mut TriedHost)| {
            let mut host = TriedHost::new();
            change(&mut host);
            host.why()
        };
        assert!(why(|h| h.port("a").verdict = None).contains("--links"));
        assert_eq!(why(|h| *h.port("a") = port(1, "x", None)), "no rule joins it");
        assert!(why(|h| *h.port("a") = port(1, "x", Some("eth0"))).contains("eth0"));
        assert!(why(|h| h.port("b").vm.vm = "x".into()).contains("same VM"));
        assert!(why(|h| h.port("b").rule.on = false).contains("links = false"));
        assert!(why(|h| h.off = [pair("a", "b")].into()).contains("vfun links on a b"));
        assert_eq!(why(|h| h.port("b").hindrance = Some("no switch".into())), "no switch");
        assert_eq!(why(|h| drop(h.resting.insert(pair("a", "b"), "rests".into()))), "rests");
        assert_eq!(why(|h| h.none_begins = Some("drained")), "drained");
        assert!(why(|h| h.windows.clear()).contains("vfun window add NAME --vm c1/x --vm c1/y"));
        assert!(why(|h| h.windows.clear()).contains("manifest of c1 says qmp"));
        assert!(why(|h| h.windows[0].vms[1].vm = "z".into()).contains("share no window"));
        let absent = why(|h| h.windows[0].hindrance = Some("not plugged in".into()));
        assert_eq!(absent, "not plugged in");
    }

    #[test]
    fn ports_of_two_clients_are_linked_only_if_both_name_the_other() {
        let mut host = TriedHost::new();
        *host.port("b") = port(2, "y", Some("a"));
        host.port("b").client = "c2".into();
        host.windows = vec![window(7, (1, "x"), (2, "y"))];
        assert!(host.why().contains("that of c1 does not"));
        host.port("a").rule.with = vec!["c2".into()];
        assert!(host.why().contains("that of c2 does not"));
        host.port("b").rule.with = vec!["c1".into()];
        assert_eq!(host.plan().go.len(), 2);
        host.port("b").rule.on = false;
        assert!(host.why().contains("links = false"));
    }

    #[test]
    fn a_port_receives_from_one_link_and_the_first_one_stays() {
        let mut host = TriedHost::new();
        host.ports.insert("0".into(), port(1, "w", Some("b")));
        host.windows.push(window(8, (1, "w"), (1, "y")));
        let plan = host.plan();
        assert!(plan.go.contains(&pair("0", "b")) && plan.why["a"].contains("from 0"), "{plan:?}");
        host.links.insert(pair("a", "b"), 7);
        let plan = host.plan();
        assert!(plan.go.contains(&pair("a", "b")) && plan.why["0"].contains("from a"), "{plan:?}");
    }

    #[test]
    fn a_window_serves_two_ports_and_no_others() {
        let mut host = TriedHost::new();
        host.ports.insert("a2".into(), port(1, "x", Some("b2")));
        host.ports.insert("b2".into(), port(1, "y", None));
        let plan = host.plan();
        assert!(plan.why["a2"].contains("two other ports"), "{plan:?}");
        host.windows.push(window(9, (1, "y"), (1, "x")));
        assert_eq!(host.plan().may[&pair("a2", "b2")], 9);
        // What is there keeps its window, and the way back takes the same one.
        host.links.insert(pair("b", "a"), 9);
        let plan = host.plan();
        let at = |from: &str, to: &str| plan.may[&pair(from, to)];
        assert_eq!((at("a", "b"), at("b", "a"), at("a2", "b2")), (9, 9, 7));
    }

    #[test]
    fn vms_that_share_no_window_get_one_if_both_can_be_reached() {
        let mut host = TriedHost::new();
        host.windows.clear();
        host.port("a").is_reached = true;
        assert!(host.plan().lacking.is_empty() && host.why().contains("for VM c1/y"));
        host.port("b").is_reached = true;
        let plan = host.plan();
        let vms = ["x", "y"].map(|vm| VmId { client: 1, vm: vm.into() });
        let ports = ["a", "b"].map(str::to_owned);
        assert_eq!(plan.lacking, BTreeMap::from([(vms, BTreeSet::from(ports))]));
        assert!(plan.apart.is_empty() && plan.why["a"].ends_with("the manager makes one"));
        // One that is not plugged in yet will do; one that others use will not.
        host.windows.push(window(7, (1, "x"), (1, "y")));
        host.windows[0].hindrance = Some("not plugged in".into());
        let plan = host.plan();
        assert!(plan.lacking.is_empty() && plan.apart.len() == 1, "{plan:?}");
        host.windows[0].hindrance = None;
        for (name, vm, to) in [("a2", "x", "b2"), ("b2", "y", "a2")] {
            let view = PortView { is_reached: true, ..port(1, vm, Some(to)) };
            host.ports.insert(name.into(), view);
        }
        let plan = host.plan();
        assert!(plan.go.len() == 2 && plan.lacking.len() == 1, "{plan:?}");
        assert!(plan.why["a2"].contains("two other ports"), "{plan:?}");
    }

    #[test]
    fn a_port_that_is_gone_ends_its_link_and_nothing_else() {
        let mut host = TriedHost::new();
        host.links.insert(pair("a", "b"), 7);
        host.links.insert(pair("b", "a"), 7);
        host.ports.remove("a");
        let plan = host.plan();
        assert!(plan.may.is_empty() && plan.go.is_empty(), "{plan:?}");
        assert!(plan.why["b"].contains("which is no port"), "{plan:?}");
    }

    #[test]
    fn nothing_begins_while_nobody_knows_what_was_turned_off() {
        let mut host = TriedHost::new();
        host.is_off_unknown = true;
        assert!(host.plan().go.is_empty());
    }

    #[test]
    fn a_link_that_the_switch_does_not_join_any_more_waits_unless_its_ports_are_needed() {
        let mut host = TriedHost::new();
        host.links.insert(pair("a", "b"), 7);
        *host.port("a") = port(1, "x", None);
        let plan = host.plan();
        assert!(!plan.go.contains(&pair("a", "b")) && plan.may[&pair("a", "b")] == 7);
        // The operator, or anything else in the way, ends it.
        host.off.insert(pair("a", "b"));
        assert!(!host.plan().may.contains_key(&pair("a", "b")));
        host.off.clear();
        host.ports.insert("w".into(), port(1, "w", Some("b")));
        host.windows.push(window(8, (1, "w"), (1, "y")));
        let plan = host.plan();
        assert!(!plan.may.contains_key(&pair("a", "b")) && plan.go.contains(&pair("w", "b")));
        // None begins does not end what is there.
        let mut host = TriedHost::new();
        host.links.insert(pair("a", "b"), 7);
        host.none_begins = Some("drained");
        let plan = host.plan();
        assert!(plan.go.contains(&pair("a", "b")) && !plan.go.contains(&pair("b", "a")));
    }
}
