//! Orders for programs of others that plug and unplug by themselves (compute agents).
//!
//! An order says what should be; it stays until it is answered. Orders are not kept over a
//! restart: what is plugged in is asked for anew, by [`Wanted::Tell`].

use crate::hands::Device;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_nics::{Event, OpId, VfId, VmFound};

/// What such a program is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Wanted {
    /// Plug this VF in, and answer when that is done.
    Plug { device: Device },
    /// Take this VF out, and answer when the VM has let go of it.
    Unplug { vf: VfId },
    /// Say which of the VFs named `vfun-vf-...` the VM has, or that it has ended.
    Tell,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlugOrder {
    pub order: u64,
    pub vm: VmName,
    #[serde(flatten)]
    pub wanted: Wanted,
}

/// How an order ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It is carried out.
    Done,
    /// It could not be carried out; nothing has changed.
    Failed { why: String },
    /// The VM has these VFs, and no others.
    Has { vfs: Vec<VfId> },
    /// The VM does not run any more.
    Ended,
}

/// All open orders, and what is known by their answers.
#[derive(Default)]
pub struct Orders {
    next: u64,
    open: BTreeMap<u64, (PlugOrder, Option<OpId>)>,
    /// What each VM has or may have. A VM whose program has not said so is not in it.
    may_have: BTreeMap<VmName, BTreeSet<VfId>>,
}

impl Orders {
    /// With numbers from `first` on: a program that answers an order of the process before
    /// must not end one of this process.
    pub fn new(first: u64) -> Self {
        Orders { next: first, ..Self::default() }
    }

    pub fn list(&self) -> Vec<PlugOrder> {
        self.open.values().map(|(order, _)| order.clone()).collect()
    }

    /// Orders a VF plugged in. The op is answered when the order is.
    pub fn plug(&mut self, vm: &VmName, device: Device, op: OpId) -> Vec<Event> {
        let Some(may_have) = self.may_have.get_mut(vm) else {
            return vec![Event::Done(op, Err(NOT_SAID.into()))];
        };
        let there = !may_have.insert(device.vf.clone());
        let mut events = self.close(about(vm, &device.vf), "a newer order replaced it");
        if there && events.is_empty() {
            return vec![Event::Done(op, Ok(()))];
        }
        self.add(vm, Wanted::Plug { device }, Some(op));
        events.retain(|e| !matches!(e, Event::Done(of, _) if *of == op));
        events
    }

    /// Orders a VF taken out. That the order is there is all that the op asks for.
    pub fn unplug(&mut self, vm: &VmName, vf: &VfId, op: OpId) -> Vec<Event> {
        let wanted = Wanted::Unplug { vf: vf.clone() };
        let mut events = vec![];
        if !self.open.values().any(|(o, _)| o.vm == *vm && o.wanted == wanted) {
            events = self.close(about(vm, vf), "a newer order replaced it");
            self.add(vm, wanted, None);
        }
        events.push(Event::Done(op, Ok(())));
        events
    }

    /// What a VM has or may have. If that is not known, its program is asked.
    pub fn inspect(&mut self, vm: &VmName) -> VmFound {
        if let Some(may_have) = self.may_have.get(vm) {
            return VmFound::Runs { plugged: may_have.iter().cloned().collect() };
        }
        if !self.open.values().any(|(o, _)| o.vm == *vm && o.wanted == Wanted::Tell) {
            self.add(vm, Wanted::Tell, None);
        }
        VmFound::Unknown { why: NOT_SAID.into() }
    }

    /// An answer to an order: what follows for the allocator.
    pub fn answer(&mut self, number: u64, outcome: Outcome) -> Result<Vec<Event>, String> {
        let Some((PlugOrder { vm, wanted, .. }, op)) = self.open.get(&number).cloned() else {
            return Err(format!(
                "there is no order {number}: it was answered, or replaced by a newer one. `vfun nics orders` shows those that are open"
            ));
        };
        let done = |result| op.map(|op| Event::Done(op, result));
        let mut events: Vec<Event> = vec![];
        match (wanted, outcome) {
            (Wanted::Tell, Outcome::Done | Outcome::Failed { .. }) => {
                return Err(format!(
                    "order {number} asks which VFs the VM has: answer with --has VF for each, --has-none or --ended"
                ));
            }
            (Wanted::Plug { .. }, Outcome::Done) => events.extend(done(Ok(()))),
            (Wanted::Plug { device }, Outcome::Failed { why }) => {
                self.gone(&vm, &device.vf);
                events.extend(done(Err(why)));
            }
            (Wanted::Unplug { vf }, Outcome::Done) => {
                self.gone(&vm, &vf);
                events.push(Event::Deleted(vm, vf));
            }
            // It stays in the VM; the allocator asks again.
            (Wanted::Unplug { .. }, Outcome::Failed { .. }) => {}
            (_, Outcome::Has { vfs }) => {
                self.may_have.insert(vm.clone(), vfs.iter().cloned().collect());
                let not = "its program says that the VM does not have it".to_owned();
                events.extend(done(if vfs.is_empty() { Err(not) } else { Ok(()) }));
                events.push(Event::VmFound(vm, VmFound::Runs { plugged: vfs }));
            }
            (_, Outcome::Ended) => {
                events.extend(self.forget(&vm));
                // It may start again, with no VF.
                self.may_have.insert(vm.clone(), BTreeSet::new());
                events.push(Event::VmFound(vm, VmFound::Ended));
            }
        }
        self.open.remove(&number);
        Ok(events)
    }

    /// Nothing is to be done for this VM any more.
    pub fn forget(&mut self, vm: &VmName) -> Vec<Event> {
        self.may_have.remove(vm);
        self.close(|order| order.vm == *vm, "the VM is gone")
    }

    fn gone(&mut self, vm: &VmName, vf: &VfId) {
        if let Some(may_have) = self.may_have.get_mut(vm) {
            may_have.remove(vf);
        }
    }

    fn close(&mut self, which: impl Fn(&PlugOrder) -> bool, why: &str) -> Vec<Event> {
        let mut events = vec![];
        self.open.retain(|_, (order, op)| {
            let closed = which(order);
            if closed && let Some(op) = op {
                events.push(Event::Done(*op, Err(why.to_owned())));
            }
            !closed
        });
        events
    }

    fn add(&mut self, vm: &VmName, wanted: Wanted, op: Option<OpId>) {
        let order = self.next;
        self.next += 1;
        self.open.insert(order, (PlugOrder { order, vm: vm.clone(), wanted }, op));
    }
}

const NOT_SAID: &str = "the program that plugs for this VM has not said which VFs the VM has; `vfun nics orders` shows the order that asks for it";

fn about(vm: &VmName, vf: &VfId) -> impl Fn(&PlugOrder) -> bool {
    move |order| {
        order.vm == *vm
            && match &order.wanted {
                Wanted::Plug { device } => device.vf == *vf,
                Wanted::Unplug { vf: other } => other == vf,
                Wanted::Tell => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hands::Kind;

    fn vm() -> VmName {
        VmName::new("a", "a")
    }

    fn vf() -> VfId {
        VfId("0000:01:10.0".into())
    }

    fn device() -> Device {
        Device { vf: vf(), kind: Kind::Pci, mac: "02:00:00:00:00:01".into(), vlan: None, bus: None }
    }

    fn only(orders: &Orders) -> u64 {
        let [order] = &orders.list()[..] else { panic!("{:?}", orders.list()) };
        order.order
    }

    fn told(vfs: &[VfId]) -> Orders {
        let mut orders = Orders::new(7);
        assert!(matches!(orders.inspect(&vm()), VmFound::Unknown { .. }));
        assert!(matches!(orders.inspect(&vm()), VmFound::Unknown { .. }), "asked once");
        let n = only(&orders);
        assert!(orders.answer(n, Outcome::Done).is_err(), "that is no answer");
        orders.answer(n, Outcome::Has { vfs: vfs.to_vec() }).unwrap();
        orders
    }

    fn has(orders: &mut Orders) -> Vec<VfId> {
        let VmFound::Runs { plugged } = orders.inspect(&vm()) else { panic!() };
        plugged
    }

    #[test]
    fn nothing_is_plugged_before_its_program_said_what_the_vm_has() {
        let mut orders = Orders::new(7);
        let events = orders.plug(&vm(), device(), OpId(1));
        assert!(matches!(&events[..], [Event::Done(OpId(1), Err(_))]), "{events:?}");
        assert!(orders.list().is_empty());
    }

    #[test]
    fn a_vf_whose_plug_is_under_way_counts_as_plugged() {
        let mut orders = told(&[]);
        assert!(has(&mut orders).is_empty());
        assert!(orders.plug(&vm(), device(), OpId(1)).is_empty());
        assert_eq!(has(&mut orders), [vf()]);
        // Taken back before it was answered: it may have been plugged in.
        let events = orders.unplug(&vm(), &vf(), OpId(2));
        assert!(matches!(
            &events[..],
            [Event::Done(OpId(1), Err(_)), Event::Done(OpId(2), Ok(()))]
        ));
        assert_eq!(has(&mut orders), [vf()]);
        let n = only(&orders);
        let events = orders.answer(n, Outcome::Done).unwrap();
        assert!(matches!(&events[..], [Event::Deleted(..)]));
        assert!(has(&mut orders).is_empty() && orders.answer(n, Outcome::Done).is_err());
    }

    #[test]
    fn a_vf_that_could_not_be_unplugged_stays_where_it_is() {
        let mut orders = told(&[vf()]);
        orders.unplug(&vm(), &vf(), OpId(1));
        let n = only(&orders);
        assert!(orders.answer(n, Outcome::Failed { why: "busy".into() }).unwrap().is_empty());
        assert_eq!(has(&mut orders), [vf()]);
        orders.unplug(&vm(), &vf(), OpId(2));
        assert_ne!(only(&orders), n, "asked again");
    }

    #[test]
    fn a_vm_that_ended_has_nothing_and_its_orders_are_closed() {
        let mut orders = told(&[]);
        orders.plug(&vm(), device(), OpId(1));
        let n = only(&orders);
        let events = orders.answer(n, Outcome::Ended).unwrap();
        assert!(matches!(
            &events[..],
            [Event::Done(OpId(1), Err(_)), Event::VmFound(_, VmFound::Ended)]
        ));
        assert!(orders.list().is_empty() && has(&mut orders).is_empty());
    }
}
