//! The ports that the manager declares, and what watches their bridges.

use crate::limits::{BRIDGES_MAX, NAMES_MAX};
use crate::manager::{About, Tell, cut};
use crate::{Heard, Hearing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use vfun_links::passed::Passed;
use vfun_links::relay::{
    FromLinks, SaidVerdict, SwitchBridge, VerdictNews, WatchNews, WatchedPort,
};
use vfun_links::{Change, OurPort, Places, Verdict, Watch, watch};

/// What watches a bridge, of all that ever did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeId(u64);

struct WatchedBridge {
    id: BridgeId,
    watch: Watch,
    /// The declarations of all ports that it was ever told of.
    told: BTreeMap<String, u64>,
}

impl WatchedBridge {
    /// Whether it can take these ports. What it says of a port that it knew by another
    /// declaration may be about that one.
    fn takes(&self, ports: &BTreeMap<String, u64>) -> bool {
        let new = |(name, number)| self.told.get(name).is_none_or(|told| told == number);
        self.told.len() < NAMES_MAX && ports.iter().all(new)
    }
}

/// All bridges.
pub struct Bridges<T> {
    /// By name on the host.
    ports: BTreeMap<String, WatchedPort>,
    watched: BTreeMap<SwitchBridge, WatchedBridge>,
    /// Those whose ports are not those that are watched.
    dirty: BTreeSet<SwitchBridge>,
    last_id: u64,
    teller: T,
    hearing: Hearing,
}

impl<T: Tell> Bridges<T> {
    pub fn new(teller: T, hearing: Hearing) -> Self {
        Bridges {
            ports: BTreeMap::new(),
            watched: BTreeMap::new(),
            dirty: BTreeSet::new(),
            last_id: 0,
            teller,
            hearing,
        }
    }

    /// The manager declares a port.
    pub fn declare(&mut self, WatchNews { port, declared }: WatchNews) {
        let old = match declared {
            None => self.ports.remove(&port),
            Some(new) => {
                self.dirty.insert(new.switch.clone());
                self.ports.insert(port, new)
            }
        };
        self.dirty.extend(old.map(|old| old.switch));
    }

    /// Has what is declared watched, and nothing else.
    pub fn follow(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        // First those of which nothing is left, so that others have their place.
        let (gone, there): (Vec<_>, Vec<_>) =
            dirty.into_iter().partition(|bridge| self.ports_of(bridge).next().is_none());
        for bridge in gone {
            self.end(&bridge);
        }
        there.into_iter().for_each(|bridge| self.follow_bridge(bridge));
    }

    fn ports_of(&self, bridge: &SwitchBridge) -> impl Iterator<Item = (&String, &WatchedPort)> {
        self.ports.iter().filter(move |(_, port)| port.switch == *bridge)
    }

    fn follow_bridge(&mut self, bridge: SwitchBridge) {
        let ours: Vec<OurPort> = self.ports_of(&bridge).map(our_port).collect();
        let numbers = self.ports_of(&bridge).map(|(name, port)| (name.clone(), port.number));
        let numbers: BTreeMap<String, u64> = numbers.collect();
        if let Some(watched) = self.watched.get_mut(&bridge)
            && watched.takes(&numbers)
        {
            watched.told.extend(numbers);
            return watched.watch.ours(ours);
        }
        let known = self.end(&bridge);
        if let Err(why) = self.may_watch(&bridge) {
            return numbers.keys().for_each(|port| self.say(port, SaidVerdict::Why(why.clone())));
        }
        // What another one said before does not hold any more, and it says so of none.
        for port in numbers.keys().filter(|_| known) {
            self.say(port, SaidVerdict::Why("its bridge is being read anew".into()));
        }
        self.last_id += 1;
        let id = BridgeId(self.last_id);
        let SwitchBridge { run, database, bridge: name } = bridge.clone();
        let (watch, changes) = watch(Places { run, database, bridge: name }, ours);
        let hearing = self.hearing.clone();
        std::thread::spawn(move || pass_on(id, &changes, &hearing));
        self.watched.insert(bridge, WatchedBridge { id, watch, told: numbers });
    }

    /// Ends what watches a bridge, if it is watched.
    fn end(&mut self, bridge: &SwitchBridge) -> bool {
        self.watched.remove(bridge).map(forget).is_some()
    }

    fn may_watch(&self, bridge: &SwitchBridge) -> Result<(), String> {
        let name = &bridge.bridge;
        if name.is_empty() || name.contains(['/', '\0']) {
            return Err(format!("'{name}' is no name of a bridge"));
        }
        if self.watched.len() >= BRIDGES_MAX {
            return Err(format!("{BRIDGES_MAX} bridges are watched, which is the most"));
        }
        Ok(())
    }

    /// Whether a bridge is still watched by this one.
    pub fn has(&self, id: BridgeId) -> bool {
        self.watched.values().any(|w| w.id == id)
    }

    /// A verdict is another one. One of who watches no more, or about a port that went to another
    /// bridge, is old.
    pub fn changed(&self, id: BridgeId, Change { from, verdict, passed }: Change) {
        let Some(port) = self.ports.get(&from) else { return };
        if self.watched.get(&port.switch).is_none_or(|w| w.id != id) {
            return;
        }
        let verdict = match verdict {
            Verdict::Joined { to } => SaidVerdict::JoinedTo(to),
            other @ (Verdict::Anew { .. } | Verdict::Not(_)) => SaidVerdict::Why(other.to_string()),
        };
        self.tell(&from, verdict, passed);
    }

    fn say(&self, from: &str, verdict: SaidVerdict) {
        self.tell(from, verdict, None);
    }

    fn tell(&self, from: &str, verdict: SaidVerdict, passed: Option<Passed>) {
        let number = self.ports[from].number;
        let verdict = match verdict {
            SaidVerdict::Why(why) => SaidVerdict::Why(cut(&why)),
            joined @ SaidVerdict::JoinedTo(_) => joined,
        };
        let news = VerdictNews { from: from.to_owned(), number, verdict, passed };
        self.teller.tell(About::Port(from.to_owned()), FromLinks::Verdict(news));
    }
}

/// It ends within moments, for which nobody is to wait.
fn forget(old: WatchedBridge) {
    std::thread::spawn(move || drop(old));
}

impl<T> Drop for Bridges<T> {
    fn drop(&mut self) {
        std::mem::take(&mut self.watched).into_values().for_each(forget);
    }
}

fn our_port((name, port): (&String, &WatchedPort)) -> OurPort {
    OurPort {
        interface: name.clone(),
        kind: port.kind.clone(),
        devargs: port.devargs.clone(),
        mtu: port.mtu,
    }
}

fn pass_on(id: BridgeId, changes: &Receiver<Change>, hearing: &Hearing) {
    for change in changes {
        if !hearing.tell(Heard::Changed(id, change)) {
            return;
        }
    }
    hearing.tell(Heard::WatchEnded(id));
}

#[cfg(test)]
mod tests;
