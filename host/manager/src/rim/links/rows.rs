//! Links for people, and what the operator turns off.

use super::handover::{DriverView, LinkState};
use super::live::Link;
use super::want::Pair;
use super::{Links, PortVerdict};
use crate::admin::Reply;
use crate::admin::links::{LinkPort, LinkRow};
use crate::limits::LINKS_MAX;
use crate::rim::Daemon;
use std::collections::BTreeMap;

/// What became of earlier links of a pair.
#[derive(Clone, Copy, Default)]
pub(super) struct PastLinks {
    frames: u64,
    bytes: u64,
    forced: u64,
}

impl Links {
    /// A link has ended: what it was counts on.
    pub(super) fn remember(&mut self, link: &Link) {
        let claims = link.counts.believed();
        let past = self.past.entry(link.pair.clone()).or_default();
        past.frames = past.frames.saturating_add(claims.taken);
        past.bytes = past.bytes.saturating_add(claims.taken_bytes);
        past.forced += u64::from(link.handover.was_silent());
    }

    /// The link of a port that sends, if there is one.
    fn from(&self, tap: &str) -> Option<(u64, &Link)> {
        self.links.iter().find(|(_, l)| l.pair.from == tap).map(|(number, l)| (*number, l))
    }
}

impl Daemon {
    /// All ports that a switch with DPDK may have, with the link of each.
    pub(in crate::rim) fn link_rows(&self) -> Vec<LinkRow> {
        let ports = self.named_ports();
        ports.values().map(|from| self.link_row(&ports, from)).collect()
    }

    /// Those, by their names on the host.
    fn named_ports(&self) -> BTreeMap<String, LinkPort> {
        let mut named = BTreeMap::new();
        for (client, vm, port) in self.rim.core.catalog().dpdk_ports() {
            let (client, vm, tap) = (client.name.clone(), vm.to_owned(), port.tap.clone());
            let row = LinkPort { client, vm, port: port.name.clone(), tap: tap.clone() };
            named.entry(tap).or_insert(row);
        }
        named
    }

    fn link_row(&self, ports: &BTreeMap<String, LinkPort>, from: &LinkPort) -> LinkRow {
        let found = self.links.from(&from.tap);
        let joined = match self.links.verdicts.get(&from.tap) {
            Some(PortVerdict::Joined { to, .. }) => Some(to.clone()),
            _ => None,
        };
        let to = found.map(|(_, link)| link.pair.to.clone()).or(joined);
        let pair = Pair { from: from.tap.clone(), to: to.clone().unwrap_or_default() };
        let past = self.links.past.get(&pair).copied().unwrap_or_default();
        let claims = found.map(|(_, link)| link.counts.believed()).unwrap_or_default();
        let (state, since) = found.map_or((LinkState::Switch, None), |(_, link)| {
            let (state, since) = link.handover.state();
            (state, Some(self.now().saturating_sub(since)))
        });
        let window = found.and_then(|(_, link)| self.rim.further.get(&link.window));
        LinkRow {
            from: from.clone(),
            to: to.as_ref().and_then(|to| ports.get(to).cloned()),
            state: state.text().into(),
            why: self.why_link(&from.tap, found.map(|(_, link)| link)),
            since_ms: since,
            link: found.map(|(number, _)| number),
            window: window.map(|d| d.note().name.clone()),
            epoch: found.map_or(0, |(_, link)| link.handover.epoch()),
            off: self.links.off.iter().any(|p| p.from == pair.from && (to.is_none() || *p == pair)),
            forced: past.forced,
            frames: past.frames.saturating_add(claims.taken),
            bytes: past.bytes.saturating_add(claims.taken_bytes),
            not_attributable: found
                .and_then(|(_, link)| link.not_attributable().map(str::to_owned)),
        }
    }

    /// Why frames of a port go the way they go.
    fn why_link(&self, tap: &str, link: Option<&Link>) -> String {
        let not = self.links.why.get(tap).cloned();
        let Some(link) = link else {
            return not.unwrap_or_else(|| match self.links.is_watched() {
                true => "its link begins".into(),
                false => "nobody watches the switch: start vfund with --links".into(),
            });
        };
        let (state, _) = link.handover.state();
        let is_there = matches!(self.link_driver(link), DriverView::There { both: true, .. });
        let of_state = match state {
            LinkState::Direct => "all frames of this port go to the other one, past the switch",
            LinkState::Going => "both VMs are told; frames still go through the switch",
            LinkState::Back => "frames come back to the switch",
            LinkState::Over => "the link is over; the switch's driver lets go of it",
            LinkState::Switch if link.handover.rests(self.now()) => {
                "a VM or the switch's driver gave the last try up: it is tried again soon"
            }
            LinkState::Switch if !is_there => {
                "the switch's driver is waited for: one process must have both ports"
            }
            LinkState::Switch if !link.handover.is_ready() => {
                "the two VMs are taking the link's memory: if this lasts, `dmesg` in both says why"
            }
            LinkState::Switch => "the switch's driver is being told",
        };
        match not {
            // That it rests here is what was wanted.
            Some(why) if state == LinkState::Switch => why,
            Some(why) if state != LinkState::Direct => format!("{of_state}; {why}"),
            _ => of_state.into(),
        }
    }

    /// Turns the link of two ports off, or lets it be again. It holds for later managers, too.
    pub(in crate::rim) fn links_off(&mut self, from: &str, to: &str, off: bool) -> Reply {
        let named = self.named_ports();
        for name in [from, to] {
            // What was turned off may be let be again when its port is gone.
            if off && !named.contains_key(name) {
                let sentence = format!(
                    "there is no port '{name}' with `way = \"dpdk\"` on this host: `vfun links` shows them"
                );
                return Reply::Error { sentence };
            }
        }
        let pair = Pair { from: from.into(), to: to.into() };
        if let Err(e) = self.records.link_off(from, to, off) {
            let sentence = format!("nothing was changed: the database: {e}");
            return Reply::Error { sentence };
        }
        match off {
            true => drop(self.links.off.insert(pair)),
            false => drop(self.links.off.remove(&pair)),
        }
        self.links.changed = true;
        let what = if off { "is off: frames go through the switch" } else { "is not off any more" };
        Reply::Done { sentence: format!("the direct link from {from} to {to} {what}") }
    }

    /// Forgets what links of ports came to that are no more, before there are too many.
    pub(super) fn forget_old_pairs(&mut self) {
        if self.links.past.len() > LINKS_MAX {
            let ports = self.named_ports();
            let is_there = |p: &Pair| ports.contains_key(&p.from) && ports.contains_key(&p.to);
            self.links.past.retain(|pair, _| is_there(pair));
        }
    }

    /// What the operator turned off under an earlier manager.
    pub(in crate::rim) fn read_links_off(&mut self) {
        match self.records.links_off() {
            Ok(all) => {
                let pairs = all.into_iter().map(|(from, to)| Pair { from, to });
                self.links.off = pairs.collect();
            }
            Err(e) => {
                self.links.is_off_unknown = true;
                self.records_fail(format!("the database: {e}"));
            }
        }
    }
}
