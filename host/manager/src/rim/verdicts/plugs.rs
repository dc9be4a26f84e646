//! Windows of two VMs that are on their way into VMs, or out of them. State alone, no socket.

use crate::limits::PLUG_ORDERS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_links::relay::{PlugAnswer, PlugOrder, ToLinks};

/// A window that goes into a VM, or out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rim) struct PlugOf {
    pub vm: VmName,
    pub window: String,
    /// Into it; else out of it.
    pub goes_in: bool,
}

/// Orders that are not answered.
#[derive(Default)]
pub(super) struct PlugOrders {
    last: u64,
    waiting: BTreeMap<u64, (PlugOf, PlugOrder)>,
    unsent: BTreeSet<u64>,
}

impl PlugOrders {
    /// Takes an order on; its number is given here.
    ///
    /// # Errors
    /// A sentence: it has to wait.
    pub fn begin(&mut self, of: PlugOf, order: PlugOrder) -> Result<(), String> {
        let PlugOf { vm, window, .. } = &of;
        if self.waiting.values().any(|(w, _)| w.vm == *vm && w.window == *window) {
            return Err(format!("window {window} is on its way into or out of VM {vm}"));
        }
        if self.waiting.len() >= PLUG_ORDERS_MAX {
            return Err(format!("{PLUG_ORDERS_MAX} windows are on their way, which is the most"));
        }
        self.last += 1;
        self.waiting.insert(self.last, (of, PlugOrder { order: self.last, ..order }));
        self.unsent.insert(self.last);
        Ok(())
    }

    /// What is to be passed on next.
    pub fn next(&self) -> Option<ToLinks> {
        let (_, order) = &self.waiting[self.unsent.first()?];
        Some(ToLinks::Plug(order.clone()))
    }

    /// That was passed on.
    pub fn told(&mut self) {
        self.unsent.pop_first();
    }

    /// Whether there is something to be passed on.
    pub fn waits(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// An order is answered.
    ///
    /// # Errors
    /// A sentence: nobody gave that order.
    pub fn answer(&mut self, answer: &PlugAnswer) -> Result<PlugOf, String> {
        let number = answer.order;
        match self.waiting.remove(&number).filter(|_| !self.unsent.contains(&number)) {
            Some((of, _)) => Ok(of),
            None => Err(format!("it answers an order {number} that it has not")),
        }
    }

    /// Nobody carries them out any more.
    pub fn end(&mut self) -> Vec<PlugOf> {
        self.unsent.clear();
        std::mem::take(&mut self.waiting).into_values().map(|(of, _)| of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_links::relay::{PlugAt, PlugOutcome, PlugWay};

    fn of(vm: &str, goes_in: bool) -> PlugOf {
        PlugOf { vm: VmName::new("web", vm), window: "pair".into(), goes_in }
    }

    fn order() -> PlugOrder {
        let (vmm, id) = (PlugAt::Qmp("/run/a.qmp".into()), "virtfun_pair".into());
        PlugOrder { order: 0, vmm, id, way: PlugWay::Out }
    }

    fn answered(order: u64) -> PlugAnswer {
        PlugAnswer { order, outcome: PlugOutcome::Done }
    }

    #[test]
    fn an_order_is_answered_once_it_was_passed_on() {
        let mut orders = PlugOrders::default();
        orders.begin(of("a", true), order()).unwrap();
        assert!(orders.begin(of("a", false), order()).unwrap_err().contains("on its way"));
        orders.begin(of("b", false), order()).unwrap();
        assert_eq!(orders.next(), Some(ToLinks::Plug(PlugOrder { order: 1, ..order() })));
        orders.told();
        assert_eq!(orders.next(), Some(ToLinks::Plug(PlugOrder { order: 2, ..order() })));
        orders.told();
        assert!(!orders.waits() && orders.next().is_none());
        assert_eq!(orders.answer(&answered(2)), Ok(of("b", false)));
        assert!(orders.answer(&answered(2)).is_err(), "only once");
        orders.begin(of("b", true), order()).unwrap();
        assert!(orders.answer(&answered(7)).is_err());
        assert_eq!(orders.end().len(), 2);
        assert!(!orders.waits() && orders.answer(&answered(1)).is_err());
        orders.begin(of("a", false), order()).unwrap();
        assert!(orders.answer(&answered(4)).is_err(), "it was not passed on yet");
    }

    #[test]
    fn orders_do_not_pile_up() {
        let mut orders = PlugOrders::default();
        for n in 0..PLUG_ORDERS_MAX {
            orders.begin(of(&n.to_string(), true), order()).unwrap();
        }
        assert!(orders.begin(of("x", true), order()).unwrap_err().contains("the most"));
    }
}
