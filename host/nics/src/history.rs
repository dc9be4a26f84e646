//! Who used which VF from when to when, and what VMs sent: the last of it, for people. It is
//! in memory only and begins anew with the process.

use crate::event::{PoolName, VfId};
use crate::limits::{HOLDS_KEPT, RATES_KEPT, RATES_SHOWN};
use crate::nics::Nics;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use vfun_admin::VmName;

/// A time in which a VM used a VF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub pool: PoolName,
    pub vf: VfId,
    pub vm: VmName,
    /// Ms, on the clock of the view that it is in.
    pub from_ms: u64,
    /// None: it uses it still.
    pub to_ms: Option<u64>,
}

/// What a VM sent in one interval between decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// The interval's end, ms, on the clock of the view that it is in.
    pub at_ms: u64,
    /// Packets a second, both ways, that counted in the contest.
    pub packets_per_s: f64,
    /// Time of a round trip, microseconds, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
}

/// What one VM sent, interval by interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmRates {
    pub vm: VmName,
    pub pool: PoolName,
    /// The oldest first.
    pub points: Vec<RatePoint>,
}

/// All that is known of the time before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryView {
    /// Now, ms: the clock of all times here.
    pub now_ms: u64,
    /// The oldest first.
    pub holds: Vec<Hold>,
    pub vms: Vec<VmRates>,
    /// Older rates of these VMs that are remembered and not here: an answer has a bound.
    #[serde(default)]
    pub rates_left_out: usize,
}

impl HistoryView {
    /// The same on a clock that is ahead by so many ms.
    pub fn ahead(mut self, ms: i64) -> Self {
        let shift = |at: &mut u64| *at = at.saturating_add_signed(ms);
        shift(&mut self.now_ms);
        for hold in &mut self.holds {
            shift(&mut hold.from_ms);
            hold.to_ms.iter_mut().for_each(shift);
        }
        self.vms.iter_mut().flat_map(|vm| &mut vm.points).for_each(|p| shift(&mut p.at_ms));
        self
    }
}

/// What is kept, with a bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    holds: VecDeque<Hold>,
    rates: BTreeMap<VmName, (PoolName, VecDeque<RatePoint>)>,
}

impl History {
    /// A VM began to use a VF.
    pub(crate) fn begin(&mut self, now: u64, pool: PoolName, vf: VfId, vm: VmName) {
        if self.holds.len() >= HOLDS_KEPT {
            // One that lasts is shown, however old it is.
            let oldest = self.holds.iter().position(|h| h.to_ms.is_some()).unwrap_or(0);
            self.holds.remove(oldest);
        }
        self.holds.push_back(Hold { pool, vf, vm, from_ms: now, to_ms: None });
    }

    /// A VF is used no more.
    pub(crate) fn end(&mut self, now: u64, vf: &VfId) {
        let last = self.holds.iter_mut().rev().find(|h| h.vf == *vf && h.to_ms.is_none());
        if let Some(hold) = last {
            hold.to_ms = Some(now);
        }
    }

    /// What a VM sent up to now.
    pub(crate) fn sent(
        &mut self,
        now: u64,
        pool: &PoolName,
        vm: VmName,
        packets_per_s: f64,
        latency_us: Option<f64>,
    ) {
        let (of, points) = self.rates.entry(vm).or_default();
        if of != pool {
            (*of, *points) = (pool.clone(), VecDeque::new());
        }
        if points.len() >= RATES_KEPT {
            points.pop_front();
        }
        points.push_back(RatePoint { at_ms: now, packets_per_s, latency_us });
    }

    /// A VM was taken away. When it used VFs stays known.
    pub(crate) fn forget_rates(&mut self, vm: &VmName) {
        self.rates.remove(vm);
    }
}

impl Nics {
    /// What is known of the time before, of one pool or of all.
    pub fn history(&self, now_ms: u64, pool: Option<&str>) -> HistoryView {
        let fits = |of: &PoolName| pool.is_none_or(|pool| pool == of);
        let rates = || self.history.rates.iter().filter(|(_, (of, _))| fits(of));
        let each = RATES_SHOWN / rates().count().max(1);
        let too_many = |points: &VecDeque<RatePoint>| points.len().saturating_sub(each);
        let vms = rates().map(|(vm, (pool, points))| VmRates {
            vm: vm.clone(),
            pool: pool.clone(),
            points: points.iter().skip(too_many(points)).cloned().collect(),
        });
        HistoryView {
            now_ms,
            holds: self.history.holds.iter().filter(|h| fits(&h.pool)).cloned().collect(),
            vms: vms.collect(),
            rates_left_out: rates().map(|(_, (_, points))| too_many(points)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::Notes;

    fn vf(n: usize) -> VfId {
        VfId(n.to_string())
    }

    #[test]
    fn it_is_bounded_and_what_lasts_is_not_forgotten() {
        let (mut history, vm) = (History::default(), VmName::new("a", "a"));
        history.begin(0, "p".into(), vf(0), vm.clone());
        for n in 1..HOLDS_KEPT + 10 {
            history.begin(n as u64, "p".into(), vf(n), vm.clone());
            history.end(n as u64 + 1, &vf(n));
            history.sent(n as u64, &"p".into(), vm.clone(), 1.0, None);
        }
        assert_eq!(history.holds.len(), HOLDS_KEPT);
        assert_eq!((history.holds[0].vf.clone(), history.holds[0].to_ms), (vf(0), None));
        assert_eq!(history.holds[1].vf, vf(11), "the oldest that ended is forgotten");
        let points = &history.rates[&vm].1;
        assert_eq!(
            (points.len(), points.back().unwrap().at_ms),
            (RATES_KEPT, HOLDS_KEPT as u64 + 9)
        );
        history.sent(7, &"other".into(), vm.clone(), 1.0, None);
        assert_eq!(history.rates[&vm].1.len(), 1, "what it sent in another pool is of no use");
    }

    #[test]
    fn an_answer_about_many_vms_has_the_last_rates_of_each() {
        let (mut nics, vms) = (Nics::new(0, Notes::default()), 1000);
        for n in 0..vms {
            let vm = VmName::new(&format!("vm{n}"), "a");
            for at in 0..RATES_KEPT as u64 {
                nics.history.sent(at, &"p".into(), vm.clone(), 1.0, None);
            }
        }
        let view = nics.history(1000, None);
        let points: usize = view.vms.iter().map(|vm| vm.points.len()).sum();
        assert_eq!((view.vms.len(), points), (vms, RATES_SHOWN));
        assert_eq!(view.rates_left_out, vms * RATES_KEPT - RATES_SHOWN);
        let last = |vm: &VmRates| vm.points.last().map(|p| p.at_ms) == Some(RATES_KEPT as u64 - 1);
        assert!(view.vms.iter().all(last));
        nics.history.rates.retain(|vm, _| vm.client == "vm7");
        assert_eq!(nics.history(1000, None).rates_left_out, 0);
    }

    #[test]
    fn all_times_go_to_the_other_clock() {
        let hold = Hold {
            pool: "p".into(),
            vf: vf(1),
            vm: VmName::new("a", "a"),
            from_ms: 10,
            to_ms: Some(20),
        };
        let points = vec![RatePoint { at_ms: 15, packets_per_s: 1.0, latency_us: None }];
        let vms = vec![VmRates { vm: VmName::new("a", "a"), pool: "p".into(), points }];
        let view = HistoryView { now_ms: 30, holds: vec![hold], vms, rates_left_out: 0 }.ahead(100);
        let hold = &view.holds[0];
        assert_eq!((view.now_ms, hold.from_ms, hold.to_ms), (130, 110, Some(120)));
        assert_eq!(view.vms[0].points[0].at_ms, 115);
        assert_eq!(view.ahead(-1000).now_ms, 0);
    }
}
