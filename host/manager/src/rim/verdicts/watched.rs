//! Which ports are watched, and what of that the process was not told yet. State alone, no
//! socket: of each port the newest state is passed on.

use super::plugs::PlugOf;
use std::collections::{BTreeMap, BTreeSet};
use vfun_links::limits::PASSED_RULES_MAX;
use vfun_links::passed::Passed;
use vfun_links::relay::{PlugOutcome, SaidVerdict, ToLinks, VerdictNews, WatchNews, WatchedPort};

/// A port as it is to be watched, without the number of its declaration.
pub(super) type Port = WatchedPort;

/// All of them, by their names on the host.
#[derive(Default)]
pub(super) struct WatchedPorts {
    ports: BTreeMap<String, Port>,
    untold: BTreeSet<String>,
    last_number: u64,
}

/// What came of a word of the process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Verdict(VerdictNews),
    /// What came of an order.
    Plugged(PlugOf, PlugOutcome),
    /// It is about what was declared before.
    Old,
}

impl WatchedPorts {
    /// These are the ports now. The answer: those that are others than before, or gone. What was
    /// said of them does not hold any more.
    pub fn declare(&mut self, mut declared: BTreeMap<String, Port>) -> Vec<String> {
        for (name, port) in &mut declared {
            let old = self.ports.get(name).map_or(0, |old| old.number);
            port.number = old;
            if self.ports.get(name) != Some(port) {
                self.last_number += 1;
                port.number = self.last_number;
            }
        }
        let before = std::mem::replace(&mut self.ports, declared);
        let new = self.ports.keys().filter(|name| before.get(*name) != self.ports.get(*name));
        let gone = before.keys().filter(|name| !self.ports.contains_key(*name));
        self.untold.extend(new.chain(gone).cloned());
        before
            .into_iter()
            .filter(|(n, old)| self.ports.get(n) != Some(old))
            .map(|(n, _)| n)
            .collect()
    }

    /// Whether a port is watched.
    pub fn has(&self, port: &str) -> bool {
        self.ports.contains_key(port)
    }

    /// There is another process, which knows nothing.
    pub fn tell_all(&mut self) {
        self.untold = self.ports.keys().cloned().collect();
    }

    /// What is to be passed on next.
    pub fn next(&self) -> Option<ToLinks> {
        let port = self.untold.first()?.clone();
        let declared = self.ports.get(&port).cloned();
        Some(ToLinks::Port(WatchNews { port, declared }))
    }

    /// That was passed on.
    pub fn told(&mut self) {
        self.untold.pop_first();
    }

    /// Whether there is something to be passed on.
    pub fn waits(&self) -> bool {
        !self.untold.is_empty()
    }

    /// A verdict of the process.
    ///
    /// # Errors
    /// A sentence: it cannot have said that.
    pub fn take(&self, news: VerdictNews) -> Result<Taken, String> {
        if news.number > self.last_number {
            return Err(format!("it speaks of a declaration {} that nobody made", news.number));
        }
        let port = self.ports.get(&news.from).filter(|port| port.number == news.number);
        // One whose declaration it has not got yet.
        let Some(port) = port.filter(|_| !self.untold.contains(&news.from)) else {
            return Ok(Taken::Old);
        };
        if let SaidVerdict::JoinedTo(to) = &news.verdict {
            let Some(other) = self.ports.get(to) else { return Ok(Taken::Old) };
            if *to == news.from || other.switch != port.switch {
                return Err(format!("it joins {} to {to}, which no bridge does", news.from));
            }
        }
        if let Some(Passed::Rules(rules)) = &news.passed
            && rules.len() > PASSED_RULES_MAX
        {
            let count = rules.len();
            return Err(format!(
                "its frames of {} pass {count} rules, which is too many",
                news.from
            ));
        }
        Ok(Taken::Verdict(news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_links::passed::{Born, PassedRule};
    use vfun_links::relay::SwitchBridge;

    fn port(bridge: &str, mtu: u32) -> Port {
        let switch =
            SwitchBridge { run: "/r".into(), database: "/r/db.sock".into(), bridge: bridge.into() };
        Port { number: 0, switch, kind: "dpdk".into(), devargs: Some("d".into()), mtu }
    }

    fn ports(all: &[(&str, Port)]) -> BTreeMap<String, Port> {
        all.iter().map(|(name, port)| ((*name).to_owned(), port.clone())).collect()
    }

    /// All that is passed on, as names and numbers; 0: it goes.
    fn passed(w: &mut WatchedPorts) -> Vec<(String, u64)> {
        let mut all = vec![];
        while let Some(ToLinks::Port(news)) = w.next() {
            all.push((news.port, news.declared.map_or(0, |p| p.number)));
            w.told();
        }
        assert!(!w.waits());
        all
    }

    fn said(from: &str, number: u64, verdict: SaidVerdict) -> VerdictNews {
        VerdictNews { from: from.into(), number, verdict, passed: None }
    }

    fn joined(from: &str, number: u64, to: &str) -> VerdictNews {
        said(from, number, SaidVerdict::JoinedTo(to.into()))
    }

    #[test]
    fn only_what_changed_is_passed_on_and_ends_verdicts() {
        let mut w = WatchedPorts::default();
        let [a, b] = ["a", "b"].map(str::to_owned);
        assert!(w.declare(ports(&[("a", port("br0", 1500)), ("b", port("br0", 1500))])).is_empty());
        assert_eq!(passed(&mut w), [(a.clone(), 1), (b.clone(), 2)]);
        assert!(w.declare(ports(&[("a", port("br0", 1500)), ("b", port("br0", 1500))])).is_empty());
        assert_eq!(passed(&mut w), []);
        assert_eq!(w.declare(ports(&[("a", port("br0", 9000))])), [a.clone(), b.clone()]);
        // Changed back before it was passed on: it is another one all the same.
        assert_eq!(w.declare(ports(&[("a", port("br0", 1500))])), std::slice::from_ref(&a));
        assert_eq!(passed(&mut w), [(a.clone(), 4), (b, 0)]);
        w.tell_all();
        assert_eq!(passed(&mut w), [(a, 4)]);
    }

    #[test]
    fn a_verdict_about_what_was_declared_before_is_old() {
        let mut w = WatchedPorts::default();
        w.declare(ports(&[("a", port("br0", 1500)), ("b", port("br0", 1500))]));
        assert_eq!(w.take(joined("a", 1, "b")), Ok(Taken::Old), "it was not told of a");
        passed(&mut w);
        let whole = Taken::Verdict(joined("a", 1, "b"));
        assert_eq!(w.take(joined("a", 1, "b")), Ok(whole));
        let rule = PassedRule {
            table: 0,
            priority: 1,
            cookie: 0,
            in_port: None,
            born: Born(0, 0),
            tells_end: false,
            fresh: false,
        };
        let many = Passed::Rules(vec![rule; PASSED_RULES_MAX + 1]);
        let long = VerdictNews { passed: Some(many), ..joined("a", 1, "b") };
        assert!(w.take(long).unwrap_err().contains("too many"));
        w.declare(ports(&[("a", port("br0", 9000)), ("b", port("br0", 1500))]));
        passed(&mut w);
        assert_eq!(w.take(joined("a", 1, "b")), Ok(Taken::Old));
        w.declare(ports(&[("a", port("br0", 9000))]));
        assert_eq!(w.take(said("b", 2, SaidVerdict::Why("no".into()))), Ok(Taken::Old));
        assert_eq!(w.take(joined("a", 3, "b")), Ok(Taken::Old), "b is gone");
    }

    #[test]
    fn what_the_process_cannot_know_is_an_error() {
        let mut w = WatchedPorts::default();
        w.declare(ports(&[("a", port("br0", 1500)), ("b", port("br1", 1500))]));
        passed(&mut w);
        let why = w.take(joined("a", 1, "b")).unwrap_err();
        assert!(why.contains("which no bridge does"), "{why}");
        assert!(w.take(joined("a", 1, "a")).is_err());
        assert!(w.take(joined("a", 3, "b")).unwrap_err().contains("nobody made"));
    }
}
