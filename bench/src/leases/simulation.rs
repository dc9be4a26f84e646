//! A crowd in simulated time.
//!
//! What is real: the engine, the callers' paces, and the order of a switch (the
//! client's call under way ends, the old place lets go, the new one opens, and only
//! then may somebody else have the VF). What is modelled: a call in software
//! waits for a processor, first come, first served, and keeps it for its work; a
//! call on a VF takes its time; calling and switching add theirs.

use super::{Crowd, Experience, Pace};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use vfun_leases::{Engine, PRIORITY_DEFAULT, Policy, Sample, Settings, Vf};

/// What happens to a client, or to all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Its call is due.
    Due(usize),
    /// Its call is answered.
    Answered(usize),
    /// Its channel is open in the other place.
    Opened(usize),
    /// The lease engine decides who gets VFs.
    Decide,
}

/// A move under way.
#[derive(Clone, Copy, PartialEq)]
enum Move {
    /// To there, when the call under way ends.
    AfterCall(Option<Vf>),
    /// To there, at once: to this VF, or to software.
    Now(Option<Vf>),
}

struct Client {
    pace: Pace,
    place: Option<Vf>,
    moving: Option<Move>,
    /// Its call was posted then.
    posted: Option<u64>,
    /// It is being computed, since then.
    computing: Option<u64>,
    /// Calls since the last decision, their time in the driver, and whether it moved.
    calls: u64,
    busy_ns: u64,
    moved: bool,
    /// It is in its place since then.
    since: u64,
    seen: Experience,
}

struct Simulation<'a> {
    crowd: &'a Crowd,
    engine: Engine,
    clients: Vec<Client>,
    used: BTreeSet<Vf>,
    /// When each processor is free.
    processors: BinaryHeap<Reverse<u64>>,
    events: BinaryHeap<Reverse<(u64, u64, Kind)>>,
    numbered: u64,
    warm: u64,
    end: u64,
}

/// What each client of a crowd sees under a policy.
///
/// # Errors
/// The engine's sentence about settings that make no sense.
pub fn simulate(crowd: &Crowd, policy: Policy) -> Result<Vec<Experience>, String> {
    let settings = Settings {
        policy,
        interval_ms: crowd.interval_ms,
        min_hold_ms: crowd.hold_ms,
        seed: crowd.seed,
        ..Settings::default()
    };
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let mut s = Simulation {
        crowd,
        engine: Engine::new(0, crowd.vfs, settings)?,
        clients: vec![],
        used: BTreeSet::new(),
        processors: (0..crowd.cores.max(1)).map(|_| Reverse(0)).collect(),
        events: BinaryHeap::new(),
        numbered: 0,
        warm: ns(crowd.warm_s),
        end: ns(crowd.warm_s + crowd.seconds),
    };
    s.begin()?;
    s.run();
    s.clients.iter_mut().for_each(|c| c.leave(s.warm, s.end));
    Ok(s.clients.into_iter().map(|c| c.seen).collect())
}

impl Client {
    /// Its time in this place ends: it is counted.
    fn leave(&mut self, warm: u64, now: u64) {
        let seconds = now.saturating_sub(self.since.max(warm)) as f64 * 1e-9;
        match self.place {
            Some(_) => self.seen.vf_s += seconds,
            None => self.seen.without_s = self.seen.without_s.max(seconds),
        }
        self.since = now;
    }
}

impl Simulation<'_> {
    fn begin(&mut self) -> Result<(), String> {
        let gain = self.crowd.latencies.software_ns - self.crowd.latencies.hardware_ns;
        for (i, group) in self.crowd.members().into_iter().enumerate() {
            let per_s = self.crowd.groups[group].per_s;
            let mut pace = Pace::new(self.crowd.seed, i as u64, per_s);
            self.at(pace.due_ns(), Kind::Due(i));
            self.clients.push(Client {
                pace,
                place: None,
                moving: None,
                posted: None,
                computing: None,
                calls: 0,
                busy_ns: 0,
                moved: false,
                since: 0,
                seen: Experience { group, ..Experience::default() },
            });
            self.engine.add(0, i as u64, i as u32, PRIORITY_DEFAULT, gain)?;
        }
        self.follow(0);
        self.at(self.engine.due_ms() * 1_000_000, Kind::Decide);
        Ok(())
    }

    fn at(&mut self, when: u64, kind: Kind) {
        self.numbered += 1;
        self.events.push(Reverse((when, self.numbered, kind)));
    }

    fn run(&mut self) {
        while let Some(Reverse((now, _, kind))) = self.events.pop() {
            if now >= self.end {
                break;
            }
            match kind {
                Kind::Due(i) => {
                    self.clients[i].posted = Some(now);
                    if !matches!(self.clients[i].moving, Some(Move::Now(_))) {
                        self.compute(now, i);
                    }
                }
                Kind::Answered(i) => self.answered(now, i),
                Kind::Opened(i) => self.opened(now, i),
                Kind::Decide => self.decide(now),
            }
        }
    }

    /// A call that was posted is computed where its client is.
    fn compute(&mut self, now: u64, i: usize) {
        let l = self.crowd.latencies;
        let on_vf = self.clients[i].place.is_some();
        let units = self.crowd.groups[self.clients[i].seen.group].units;
        let (software_ns, hardware_ns) = l.of(units);
        let calling = if on_vf { l.calling_ns.1 } else { l.calling_ns.0 } as u64;
        // Half of what calling adds comes before the driver, half behind it.
        let from = now + calling / 2;
        let done = if on_vf {
            from + hardware_ns as u64
        } else {
            let Reverse(free) = self.processors.pop().expect("there is one at least");
            let done = free.max(from) + software_ns as u64;
            self.processors.push(Reverse(done));
            done
        };
        self.clients[i].computing = Some(from);
        self.clients[i].busy_ns += done - from;
        self.at(done + calling - calling / 2, Kind::Answered(i));
    }

    fn answered(&mut self, now: u64, i: usize) {
        let (warm, c) = (self.warm, &mut self.clients[i]);
        c.computing = None;
        c.calls += 1;
        if let Some(posted) = c.posted.take().filter(|p| *p >= warm) {
            c.seen.times_ns.push(now - posted);
            c.seen.on_vf += u64::from(c.place.is_some());
        }
        let due = c.pace.due_ns().max(now);
        self.at(due, Kind::Due(i));
        if let Some(Move::AfterCall(to)) = self.clients[i].moving {
            self.switch(now, i, to);
        }
    }

    /// Nobody computes a call of it: its channel goes to the other place.
    fn switch(&mut self, now: u64, i: usize, to: Option<Vf>) {
        self.clients[i].moving = Some(Move::Now(to));
        self.at(now + self.crowd.latencies.switch_ns as u64, Kind::Opened(i));
    }

    fn opened(&mut self, now: u64, i: usize) {
        let (warm, c) = (self.warm, &mut self.clients[i]);
        let Some(Move::Now(to)) = c.moving.take() else { return };
        c.leave(warm, now);
        let left = std::mem::replace(&mut c.place, to);
        c.seen.switches += u64::from(now >= warm);
        c.moved = true;
        let waits = c.posted.is_some();
        if let Some(vf) = left {
            self.used.remove(&vf);
        }
        if waits {
            self.compute(now, i);
        }
        self.follow(now);
    }

    /// As the manager does: tells the engine what was seen, lets it decide, follows.
    fn decide(&mut self, now: u64) {
        for (i, c) in self.clients.iter_mut().enumerate() {
            let mut sample = Sample { calls: c.calls, ..Sample::default() };
            if c.calls > 0 && !c.moved && c.moving.is_none() {
                let mean = Some(c.busy_ns as f64 / c.calls as f64);
                match c.place {
                    Some(_) => sample.hard_ns = mean,
                    None => sample.soft_ns = mean,
                }
            }
            (c.calls, c.busy_ns, c.moved) = (0, 0, false);
            self.engine.sample(i as u64, sample);
        }
        self.engine.decide(now / 1_000_000);
        self.follow(now);
        self.at(self.engine.due_ms() * 1_000_000, Kind::Decide);
    }

    /// Makes what is there follow what was decided.
    fn follow(&mut self, now: u64) {
        let mut meant: Vec<Option<Vf>> = vec![None; self.clients.len()];
        for vf in 0..self.crowd.vfs {
            if let Some(holder) = self.engine.holder(vf) {
                meant[holder as usize] = Some(vf);
            }
        }
        for (i, meant) in meant.into_iter().enumerate() {
            let c = &self.clients[i];
            let to = match (c.moving, c.place, meant) {
                (Some(_), ..) => continue,
                (None, Some(vf), meant) if meant != Some(vf) => None,
                (None, None, Some(vf)) if self.used.insert(vf) => Some(vf),
                _ => continue,
            };
            // A call that is posted and not begun is not one under way, but in this
            // model it begins as soon as it is posted.
            match c.computing {
                Some(_) => self.clients[i].moving = Some(Move::AfterCall(to)),
                None => self.switch(now, i, to),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::{Group, Latencies};

    fn crowd(vfs: u16) -> Crowd {
        Crowd {
            groups: Crowd::published(5, 1.0),
            vfs,
            cores: 8,
            latencies: Latencies {
                software_ns: 800e3,
                hardware_ns: 200e3,
                unit_ns: (1e3, 100.0),
                calling_ns: (50e3, 60e3),
                switch_ns: 100e3,
            },
            interval_ms: 250,
            hold_ms: 250,
            warm_s: 2.0,
            seconds: 20.0,
            seed: 7,
        }
    }

    fn shares(c: &Crowd, seen: &[Experience]) -> Vec<f64> {
        (0..c.groups.len())
            .map(|g| {
                let of: Vec<_> = seen.iter().filter(|e| e.group == g).collect();
                of.iter().map(|e| e.vf_s).sum::<f64>() / (of.len() as f64 * c.seconds)
            })
            .collect()
    }

    #[test]
    fn a_seed_says_everything() {
        for policy in Policy::ALL {
            let c = crowd(4);
            assert_eq!(simulate(&c, policy).unwrap(), simulate(&c, policy).unwrap());
            let other = Crowd { seed: 8, ..c };
            assert_ne!(simulate(&other, policy).unwrap(), simulate(&crowd(4), policy).unwrap());
        }
    }

    #[test]
    fn no_vf_is_used_more_than_all_the_time_and_no_call_is_lost() {
        for vfs in [0, 1, 4, 30] {
            for policy in Policy::ALL {
                let c = crowd(vfs);
                let seen = simulate(&c, policy).unwrap();
                let vf_s: f64 = seen.iter().map(|e| e.vf_s).sum();
                assert!(vf_s <= f64::from(vfs) * c.seconds + 1e-6, "{policy}: {vf_s}");
                if policy == Policy::None || vfs == 0 {
                    assert_eq!((vf_s, seen.iter().map(|e| e.on_vf).sum::<u64>()), (0.0, 0));
                }
                for (e, group) in seen.iter().zip(c.members()) {
                    let wanted = c.groups[group].per_s * c.seconds;
                    let calls = e.times_ns.len() as f64;
                    assert!((calls - wanted).abs() <= wanted * 0.05 + 2.0, "{policy}: {calls}");
                    assert!(e.vf_s <= c.seconds + 1e-9 && e.without_s <= c.seconds + 1e-9);
                    // No call is quicker than a VF, or slower than a switch and some queue.
                    assert!(e.times_ns.iter().all(|t| (260_000..20_000_000).contains(t)));
                }
            }
        }
    }

    #[test]
    fn fair_gives_equal_shares_and_activity_the_vfs_to_the_busiest() {
        let c = crowd(5);
        let fair = simulate(&c, Policy::Fair).unwrap();
        for e in &fair {
            assert!((e.vf_s / c.seconds - 0.25).abs() < 0.05, "{}", e.vf_s / c.seconds);
        }
        for policy in [Policy::Activity, Policy::Gain] {
            let got = shares(&c, &simulate(&c, policy).unwrap());
            assert!(got[3] > 0.95 && got[0] < 0.01 && got[1] < 0.01, "{policy}: {got:?}");
        }
    }

    #[test]
    fn a_steady_client_starves_beside_busier_ones_under_activity_and_not_under_fair() {
        let group =
            |name: &str, clients, per_s| Group { name: name.into(), clients, per_s, units: 0 };
        let c =
            Crowd { groups: vec![group("steady", 1, 20.0), group("heavy", 5, 100.0)], ..crowd(2) };
        let share = |policy| shares(&c, &simulate(&c, policy).unwrap())[0];
        assert_eq!(share(Policy::Activity), 0.0);
        assert!((share(Policy::Fair) - 1.0 / 3.0).abs() < 0.05);
    }

    #[test]
    fn gain_gives_vfs_to_whom_they_save_most_and_activity_to_who_calls_most() {
        let group =
            |name: &str, per_s, units| Group { name: name.into(), clients: 3, per_s, units };
        let groups = vec![group("busy", 60.0, 0), group("large", 30.0, 2400)];
        let c = Crowd { groups, ..crowd(2) };
        let got = |policy| shares(&c, &simulate(&c, policy).unwrap());
        let (activity, gain) = (got(Policy::Activity), got(Policy::Gain));
        assert!(activity[0] > 0.6 && activity[1] < 0.01, "{activity:?}");
        assert!(gain[1] > 0.6 && gain[0] < 0.01, "{gain:?}");
    }

    #[test]
    fn with_vfs_for_all_every_call_takes_what_a_vf_takes() {
        let c = crowd(30);
        let seen = simulate(&c, Policy::First).unwrap();
        assert!(seen.iter().flat_map(|e| &e.times_ns).all(|t| *t == 260_000));
        assert!((c.load() - 0.12).abs() < 1e-9, "{}", c.load());
    }
}
