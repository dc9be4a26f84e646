//! Windows of two VMs go into VMs that run, and come out again, by the VMs' QEMUs. A QEMU may be
//! slow, or take no orders: each order has a thread.

use crate::limits::{LETS_GO, PLUGS_AT_ONCE, VECTORS};
use crate::manager::{About, Tell, cut};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use vfun_links::relay::{FromLinks, PlugAnswer, PlugAt, PlugOrder, PlugOutcome, PlugWay};
use vfun_qmp::libvirt::{Domain, FOLDER, Shmem};
use vfun_qmp::plug::{self, HotPlug, Plugged};
use vfun_qmp::{Fault, FaultKind};

/// The orders.
pub struct Plugs<T> {
    teller: T,
    /// The turn at each QEMU, whose control socket takes one connection at a time.
    turns: BTreeMap<PlugAt, Weak<Mutex<()>>>,
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
            return answer(&self.teller, number, PlugOutcome::Failed(why));
        }
        let (turn, teller) = (self.turn_at(order.vmm.clone()), self.teller.clone());
        let under_way = self.under_way.clone();
        let thread = std::thread::Builder::new().name("plug".into());
        let begun = thread.spawn(move || {
            let done = {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                carry_out(&order)
            };
            drop(under_way);
            answer(&teller, number, outcome(done));
        });
        if let Err(e) = begun {
            let why = format!("no thread can be started: {e}");
            answer(&self.teller, number, PlugOutcome::Failed(why));
        }
    }

    fn turn_at(&mut self, vmm: PlugAt) -> Arc<Mutex<()>> {
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = self.turns.get(&vmm).and_then(Weak::upgrade);
        turn.unwrap_or_else(|| {
            let turn = Arc::new(Mutex::new(()));
            self.turns.insert(vmm, Arc::downgrade(&turn));
            turn
        })
    }
}

fn carry_out(PlugOrder { vmm, id, way, .. }: &PlugOrder) -> Result<Plugged, Fault> {
    let free = || Ok(());
    match (vmm, way) {
        (PlugAt::Qmp(qmp), PlugWay::File { file, bytes }) => {
            plug::attach::<Fault>(qmp, HotPlug::ivshmem_plain(id, file, *bytes), free, None)
        }
        (PlugAt::Qmp(qmp), PlugWay::Served { socket }) => {
            plug::attach::<Fault>(qmp, HotPlug::ivshmem_doorbell(id, socket, VECTORS), free, None)
        }
        (PlugAt::Qmp(qmp), PlugWay::Out) => plug::detach(qmp, id, LETS_GO),
        (PlugAt::Libvirt(domain), way) => by_libvirt(domain, id, way),
    }
}

fn by_libvirt(domain: &str, id: &str, way: &PlugWay) -> Result<Plugged, Fault> {
    // Who is not root would look among domains of its own. A default of virsh's own holds.
    let connect = std::env::var_os("LIBVIRT_DEFAULT_URI").is_none().then_some("qemu:///system");
    let domain = Domain { name: domain, connect, persistent: false };
    let shmem = match way {
        PlugWay::Out => return domain.detach(id, LETS_GO),
        PlugWay::Served { socket } => Shmem::ivshmem_doorbell(id, socket, VECTORS),
        PlugWay::File { file, .. } if *file != Path::new(FOLDER).join(id) => {
            let why = format!("libvirt finds windows in {FOLDER} only, not {}", file.display());
            return Err(Fault::failed(why).advise("start vfund with --window-dir /dev/shm"));
        }
        PlugWay::File { bytes, .. } => Shmem::ivshmem_plain(id, *bytes),
    };
    domain.attach::<Fault>(&shmem, || Ok(()))
}

fn outcome(done: Result<Plugged, Fault>) -> PlugOutcome {
    let fault = match done {
        Ok(Plugged { already: false, .. }) => return PlugOutcome::Done,
        Ok(Plugged { already: true, .. }) => return PlugOutcome::Already,
        Err(fault) => fault,
    };
    let why = cut(&match &fault.advice {
        Some(advice) => format!("{} ({advice})", fault.what),
        None => fault.what.clone(),
    });
    match fault.kind {
        FaultKind::Unreachable | FaultKind::Gone => PlugOutcome::Unreachable(why),
        FaultKind::Refused => PlugOutcome::Failed(why),
        FaultKind::Kept => PlugOutcome::Kept(why),
    }
}

fn answer(teller: &impl Tell, order: u64, outcome: PlugOutcome) {
    let word = FromLinks::Plugged(PlugAnswer { order, outcome });
    teller.tell(About::Order(order), word);
}

#[cfg(test)]
mod tests;
