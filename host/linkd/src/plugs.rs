//! Windows of two VMs go into VMs that run, and come out again, by the VMs' QEMUs. A QEMU may be
//! slow, or take no orders: each order has a thread.

use crate::limits::{LETS_GO, PLUGS_AT_ONCE};
use crate::manager::{About, Tell, cut};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use vfun_links::relay::{FromLinks, PlugAnswer, PlugOrder, PlugWay};
use vfun_qmp::Fault;
use vfun_qmp::plug::{self, HotPlug};

/// The orders.
pub struct Plugs<T> {
    teller: T,
    /// The turn at each QEMU, whose control socket takes one connection at a time.
    turns: BTreeMap<PathBuf, Weak<Mutex<()>>>,
    /// Orders under way have one of these each.
    under_way: Arc<()>,
}

impl<T: Tell + Clone + Send + 'static> Plugs<T> {
    pub fn new(teller: T) -> Self {
        Plugs { teller, turns: BTreeMap::new(), under_way: Arc::new(()) }
    }

    /// Carries an order out, which is answered later.
    pub fn begin(&mut self, order: PlugOrder) {
        let number = order.order;
        if Arc::strong_count(&self.under_way) > PLUGS_AT_ONCE {
            let why = format!("{PLUGS_AT_ONCE} orders to plug are under way, which is the most");
            return answer(&self.teller, number, Err(why));
        }
        let (turn, teller) = (self.turn_at(order.qmp.clone()), self.teller.clone());
        let under_way = self.under_way.clone();
        let thread = std::thread::Builder::new().name("plug".into());
        let begun = thread.spawn(move || {
            let done = {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                carry_out(&order)
            };
            drop(under_way);
            answer(&teller, number, done.map_err(|fault| sentence(&fault)));
        });
        if let Err(e) = begun {
            answer(&self.teller, number, Err(format!("no thread can be started: {e}")));
        }
    }

    fn turn_at(&mut self, qmp: PathBuf) -> Arc<Mutex<()>> {
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = self.turns.get(&qmp).and_then(Weak::upgrade);
        turn.unwrap_or_else(|| {
            let turn = Arc::new(Mutex::new(()));
            self.turns.insert(qmp, Arc::downgrade(&turn));
            turn
        })
    }
}

fn carry_out(PlugOrder { qmp, id, way, .. }: &PlugOrder) -> Result<(), Fault> {
    match way {
        PlugWay::In { file, bytes } => {
            let window = HotPlug::ivshmem_plain(id, file, *bytes);
            plug::attach::<Fault>(qmp, window, || Ok(()), None).map(drop)
        }
        PlugWay::Out => plug::detach(qmp, id, LETS_GO).map(drop),
    }
}

fn sentence(fault: &Fault) -> String {
    match &fault.advice {
        Some(advice) => format!("{} ({advice})", fault.what),
        None => fault.what.clone(),
    }
}

fn answer(teller: &impl Tell, order: u64, done: Result<(), String>) {
    let failed = done.err().map(|why| cut(&why));
    let word = FromLinks::Plugged(PlugAnswer { order, failed });
    teller.tell(About::Order(order), word);
}

#[cfg(test)]
mod tests;
