//! Rules of switches whose counts miss what goes over direct links: how many frames went past
//! each, and who corrects that for controllers.
//!
//! A link has a share in each rule that its frames would pass, from the moment at which the rule was
//! heard of. What the sender counts from then on is the rule's, until the link has a share in others,
//! or ends.

use super::PortVerdict;
use super::handover::LinkState;
use super::live::Link;
use crate::admin::Reply;
use crate::admin::links::{FlowRow, FlowsAsk, FlowsView, ProxyRow};
use crate::core::ports::{Port, PortWay};
use crate::limits::{LINK_BRIDGES_MAX, LINK_FLOWS_MAX, LINK_PROXY_MS, LINKS_HOLD_MS_MAX};
use crate::rim::Daemon;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vfun_keeper::Change;
use vfun_links::passed::{Passed, PassedRule};
use vfun_packet::{Claims, Ledger, LinkPlace, Reading, Ring};
use vfun_rim::methods::*;
use vfun_rim::take_up::LINK;
use vfun_wire::PAGE;

/// What the names of notes of rules begin with, behind [`LINK`].
pub(super) const FLOW: &str = "flow-";

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    frames: u64,
    bytes: u64,
}

impl Sent {
    fn of(claims: Claims) -> Self {
        Sent { frames: claims.sent, bytes: claims.sent_bytes }
    }

    fn since(self, began: Sent) -> Self {
        let frames = self.frames.saturating_sub(began.frames);
        Sent { frames, bytes: self.bytes.saturating_sub(began.bytes) }
    }

    fn and(self, more: Sent) -> Self {
        let frames = self.frames.saturating_add(more.frames);
        Sent { frames, bytes: self.bytes.saturating_add(more.bytes) }
    }
}

/// The rules that a link's frames count for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Share {
    passed: Passed,
    /// Numbers of these rules; none if they are not attributable.
    numbers: Vec<u64>,
    /// What the link had carried when the share began.
    began: Sent,
}

/// A rule, and what went past it over shares that are closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FlowSum {
    bridge: String,
    rule: PassedRule,
    sent: Sent,
}

impl FlowSum {
    /// Whether this is its place in the switch.
    fn is_at(&self, bridge: &str, rule: &PassedRule) -> bool {
        let place = |r: &PassedRule| (r.table, r.priority, r.in_port);
        self.bridge == bridge && place(&self.rule) == place(rule)
    }
}

/// All rules past which frames went, and what the proxy of OpenFlow said.
#[derive(Default)]
pub(super) struct FlowSums {
    /// By number: those of which was heard later have larger ones.
    sums: BTreeMap<u64, FlowSum>,
    last: u64,
    /// By bridge: what it said last, and when, ms.
    proxies: BTreeMap<String, (u64, ProxyRow)>,
    /// By bridge: until when no frame goes past the switch, ms.
    held: BTreeMap<String, u64>,
}

impl FlowSums {
    fn is_held(&self, bridge: &str, now: u64) -> bool {
        self.held.get(bridge).is_some_and(|until| now < *until)
    }

    fn has_proxy(&self, bridge: &str, now: u64) -> bool {
        let seen = self.proxies.get(bridge).filter(|(_, proxy)| proxy.connections > 0);
        seen.is_some_and(|(heard, _)| now.saturating_sub(*heard) < LINK_PROXY_MS)
    }

    /// The number of a rule; a new one if it is not known.
    fn number_of(&mut self, bridge: &str, rule: &PassedRule) -> u64 {
        let is_it = |sum: &FlowSum| sum.is_at(bridge, rule) && sum.rule.born.may_be(&rule.born);
        if let Some((number, sum)) = self.sums.iter_mut().find(|(_, sum)| is_it(sum)) {
            // Its cookie may have been changed.
            sum.rule = PassedRule { fresh: sum.rule.fresh, ..rule.clone() };
            return *number;
        }
        self.last += 1;
        let sum = FlowSum { bridge: bridge.into(), rule: rule.clone(), sent: Sent::default() };
        self.sums.insert(self.last, sum);
        self.last
    }
}

impl Link {
    /// Why its frames count for no rule, if that is so.
    pub(super) fn not_attributable(&self) -> Option<&str> {
        match &self.note.share.as_ref()?.passed {
            Passed::NotAttributable(why) => Some(why),
            Passed::Rules(_) => None,
        }
    }
}

impl Daemon {
    /// What a link has carried, at this moment, as far as its VMs can be believed.
    fn carried(&self, link: &Link) -> Sent {
        let believed = link.counts.believed();
        let ring = LinkPlace::of(link.note.out_place).map_or(PAGE as u64, |place| place.ring);
        let looked = self.sides_of(link).and_then(|sides| {
            let mut ledger = Ledger::new(Ring::new(ring).ok()?, believed);
            ledger.look(Reading::of(&sides[0], &sides[1])).ok()
        });
        Sent::of(looked.unwrap_or(believed))
    }

    /// The bridge of a port.
    fn bridge_of(&self, tap: &str) -> Option<&str> {
        let clients = self.rim.core.catalog().clients.values();
        let mut ports = clients.flat_map(|client| client.ports.values().flatten());
        let found = ports.find(|port| port.way == PortWay::Dpdk && port.tap == tap)?;
        found.switch.as_deref()
    }

    /// The rules of a port may be others: its link counts for these from now on. While nobody knows
    /// of any it counts for the last ones: frames went past the switch on their account.
    pub(super) fn share_links_of(&mut self, port: &str) {
        let Some(PortVerdict::Joined { to, passed }) = self.links.verdicts.get(port) else {
            return;
        };
        let is_it = |link: &&Link| link.pair.from == port && link.pair.to == *to;
        let found = self.links.links.iter().find(|(_, link)| is_it(link));
        let Some((number, link)) = found else { return };
        if link.note.share.as_ref().is_some_and(|share| share.passed == *passed) {
            return;
        }
        let (number, passed, began) = (*number, passed.clone(), self.carried(link));
        let bridge = self.bridge_of(port).unwrap_or_default().to_owned();
        self.close_share(number);
        let numbers: Vec<u64> = match &passed {
            Passed::Rules(rules) => {
                rules.iter().map(|rule| self.links.flows.number_of(&bridge, rule)).collect()
            }
            Passed::NotAttributable(_) => vec![],
        };
        numbers.iter().for_each(|of| self.hold_flow(*of));
        let share = Share { passed, numbers, began };
        self.note_link(number, |note, _| note.share = Some(share));
        self.forget_flows();
    }

    /// What a link carried is added to its rules, for which it counts no more.
    pub(super) fn close_share(&mut self, number: u64) {
        let Some(link) = self.links.links.get(&number) else { return };
        let carried = self.carried(link);
        let Some(link) = self.links.links.get_mut(&number) else { return };
        let Some(share) = link.note.share.take() else { return };
        let more = carried.since(share.began);
        for of in &share.numbers {
            if let Some(sum) = self.links.flows.sums.get_mut(of) {
                sum.sent = sum.sent.and(more);
            }
            self.hold_flow(*of);
        }
    }

    /// Notes a rule for the next manager.
    fn hold_flow(&mut self, number: u64) {
        let Some(sum) = self.links.flows.sums.get(&number) else { return };
        let text = serde_json::to_string(sum).expect("plain data");
        self.tell_keeper(vec![Change { name: format!("{LINK}{FLOW}{number}"), note: Some(text) }]);
    }

    /// Gives all notes to a keeper that is new.
    pub(super) fn hold_flows(&mut self) {
        let all: Vec<u64> = self.links.flows.sums.keys().copied().collect();
        all.into_iter().for_each(|number| self.hold_flow(number));
    }

    /// A note of an earlier manager.
    pub(super) fn take_flow_up(&mut self, number: u64, text: &str) {
        match serde_json::from_str(text) {
            Ok(sum) => {
                self.links.flows.last = self.links.flows.last.max(number);
                self.links.flows.sums.insert(number, sum);
            }
            Err(e) => tracing::error!("what went past rule {number} could not be taken up: {e}"),
        }
    }

    /// Forgets rules in whose place there are others that began at 0, and the oldest ones if there are
    /// too many. One that took the place of another one may go on with its counts: that one is kept, so
    /// that nobody takes the new one's sum for all.
    fn forget_flows(&mut self) {
        let shares = self.links.links.values().filter_map(|link| link.note.share.as_ref());
        let open: Vec<u64> = shares.flat_map(|share| share.numbers.iter().copied()).collect();
        let sums = &self.links.flows.sums;
        let is_replaced = |number: &u64, sum: &FlowSum| {
            let later = sums.range(number + 1..).map(|(_, later)| later);
            later.into_iter().any(|later| later.rule.fresh && later.is_at(&sum.bridge, &sum.rule))
        };
        let closed = sums.iter().filter(|(number, _)| !open.contains(number));
        let (replaced, others): (Vec<_>, Vec<_>) =
            closed.partition(|(number, sum)| is_replaced(number, sum));
        let too_many = (sums.len() - replaced.len()).saturating_sub(LINK_FLOWS_MAX);
        let gone: Vec<u64> =
            replaced.iter().chain(others.iter().take(too_many)).map(|(n, _)| **n).collect();
        for number in gone {
            self.links.flows.sums.remove(&number);
            let name = format!("{LINK}{FLOW}{number}");
            self.tell_keeper(vec![Change { name, note: None }]);
        }
    }

    /// What the switch does with frames of a port, as far as a link may follow from it.
    pub(super) fn verdict_for_links(&self, port: &Port) -> Option<PortVerdict> {
        let verdict = self.links.verdicts.get(&port.tap)?.clone();
        let (now, flows) = (self.now(), &self.links.flows);
        let bridge = port.switch.as_deref().unwrap_or_default();
        let PortVerdict::Joined { passed, .. } = &verdict else { return Some(verdict) };
        let why = if flows.is_held(bridge, now) {
            format!("rules of {bridge} are about to change: the proxy of OpenFlow holds its links")
        } else if let Passed::Rules(rules) = passed
            && let Some(rule) = rules.iter().find(|rule| rule.tells_end)
            && !flows.has_proxy(bridge, now)
        {
            format!(
                "the rule in table {} with priority {} and cookie {:#x} tells its counts at its end (send_flow_rem): links past it need vfun-links-proxy between {bridge} and its controller",
                rule.table, rule.priority, rule.cookie
            )
        } else {
            return Some(verdict);
        };
        Some(PortVerdict::Not { why })
    }

    /// Answers what is asked of rules.
    pub(in crate::rim) fn answer_of_flows(&mut self, ask: FlowsAsk) -> Reply {
        match ask {
            FlowsAsk::Sums { bridge } => Reply::LinkFlows(self.flows_view(bridge.as_deref())),
            FlowsAsk::Hold { bridge, ms } => self.hold_bridge(bridge, ms),
            FlowsAsk::Proxy(proxy) => self.proxy_is_there(proxy),
        }
    }

    fn flows_view(&self, bridge: Option<&str>) -> FlowsView {
        let mut open: BTreeMap<u64, (Sent, Vec<String>)> = BTreeMap::new();
        for link in self.links.links.values() {
            let Some(share) = link.note.share.as_ref() else { continue };
            let sent = self.carried(link).since(share.began);
            for number in &share.numbers {
                let of = open.entry(*number).or_default();
                of.0 = of.0.and(sent);
                of.1.push(link.pair.from.clone());
            }
        }
        let asked = |name: &str| bridge.is_none_or(|bridge| bridge == name);
        let sums = self.links.flows.sums.iter().filter(|(_, sum)| asked(&sum.bridge));
        let mut flows: Vec<FlowRow> = sums
            .map(|(number, sum)| {
                let (sent, ports) = open.remove(number).unwrap_or_default();
                flow_row(sum, sum.sent.and(sent), ports)
            })
            .collect();
        flows.sort_by(|a, b| {
            let key = |row: &FlowRow| (row.table, std::cmp::Reverse(row.priority), row.in_port);
            a.bridge.cmp(&b.bridge).then_with(|| key(a).cmp(&key(b)))
        });
        let now = self.now();
        let there = |name: &str| asked(name) && self.links.flows.has_proxy(name, now);
        let proxies = self.links.flows.proxies.iter().filter(|(name, _)| there(name));
        FlowsView { flows, proxies: proxies.map(|(_, (_, proxy))| proxy.clone()).collect() }
    }

    fn hold_bridge(&mut self, bridge: String, ms: u64) -> Reply {
        let now = self.now();
        if ms > LINKS_HOLD_MS_MAX {
            let sentence = format!("links are held for {LINKS_HOLD_MS_MAX} ms at most: ask again");
            return Reply::Error { sentence };
        }
        let held = &mut self.links.flows.held;
        held.retain(|_, until| now < *until);
        if held.len() >= LINK_BRIDGES_MAX && !held.contains_key(&bridge) {
            return too_many_bridges();
        }
        let until = held.entry(bridge.clone()).or_default();
        if *until <= now {
            self.links.changed = true;
        }
        *until = now + ms;
        let is_direct = |link: &&Link| {
            matches!(
                link.handover.state().0,
                LinkState::Going | LinkState::Direct | LinkState::Back
            ) && self.bridge_of(&link.pair.from) == Some(bridge.as_str())
        };
        Reply::LinksHeld { direct: self.links.links.values().filter(is_direct).count() }
    }

    fn proxy_is_there(&mut self, proxy: ProxyRow) -> Reply {
        let now = self.now();
        let was = self.links.flows.has_proxy(&proxy.bridge, now);
        let proxies = &mut self.links.flows.proxies;
        proxies.retain(|_, (heard, _)| now.saturating_sub(*heard) < LINK_PROXY_MS);
        if proxies.len() >= LINK_BRIDGES_MAX && !proxies.contains_key(&proxy.bridge) {
            return too_many_bridges();
        }
        let bridge = proxy.bridge.clone();
        proxies.insert(bridge.clone(), (now, proxy));
        if was != self.links.flows.has_proxy(&bridge, now) {
            self.links.changed = true;
        }
        Reply::Done { sentence: format!("the proxy of OpenFlow is in the path of {bridge}") }
    }
}

fn too_many_bridges() -> Reply {
    let sentence =
        format!("{LINK_BRIDGES_MAX} bridges have a proxy of OpenFlow, which is the most");
    Reply::Error { sentence }
}

fn flow_row(sum: &FlowSum, sent: Sent, ports: Vec<String>) -> FlowRow {
    let PassedRule { table, priority, cookie, in_port, born, .. } = sum.rule;
    let (bridge, made) = (sum.bridge.clone(), (born.0, born.1));
    let Sent { frames, bytes } = sent;
    FlowRow { bridge, table, priority, cookie, in_port, made, frames, bytes, ports }
}

#[cfg(test)]
impl FlowSums {
    /// What the next manager finds.
    pub(super) fn notes(&self) -> Vec<(String, String)> {
        let note = |(number, sum): (&u64, &FlowSum)| {
            (format!("{FLOW}{number}"), serde_json::to_string(sum).expect("plain data"))
        };
        self.sums.iter().map(note).collect()
    }

    /// The proxies said their last words so much earlier, ms.
    pub(super) fn proxies_said(&mut self, earlier: u64) {
        self.proxies.values_mut().for_each(|(heard, _)| *heard -= earlier);
    }

    /// So many rules of other bridges are known.
    pub(super) fn has_others(&mut self, count: usize, rule: &PassedRule) {
        for n in 0..count {
            self.number_of(&format!("other{n}"), rule);
        }
    }
}
