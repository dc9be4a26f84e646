//! The manager, with an agent in each VM that does what it is ordered.

use super::{Killer, Qemu, mac, vm};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfun_bond::{Mode, Order, Path, Report};
use vfun_nics::AgentId;
use vfun_nics::relay::{Agent, PACKET_BYTES, ToManager, ToNics};

struct Shared {
    socket: OwnedFd,
    orders: Mutex<Vec<Option<Order>>>,
    qemus: Vec<Arc<Qemu>>,
    killer: Arc<Killer>,
    first_id: u64,
    ended: AtomicBool,
    sent: AtomicU64,
}

/// It ends when this is dropped.
pub struct Manager(Arc<Shared>);

impl Manager {
    pub fn start(socket: OwnedFd, qemus: Vec<Arc<Qemu>>, killer: Arc<Killer>, id: u64) -> Self {
        let n = qemus.len();
        let shared = Arc::new(Shared {
            socket,
            orders: Mutex::new(vec![None; n]),
            qemus,
            killer,
            first_id: id,
            ended: AtomicBool::new(false),
            sent: AtomicU64::new(0),
        });
        let (hears, tells) = (shared.clone(), shared.clone());
        std::thread::spawn(move || hears.hear());
        std::thread::spawn(move || {
            while !tells.ended.load(Ordering::SeqCst) {
                (0..n).for_each(|vm| tells.report(vm));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Manager(shared)
    }

    /// Ends as a manager that dies.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.0.socket, rustix::net::Shutdown::Both);
    }

    /// Says anything to the program.
    pub fn say(&self, packet: &[u8]) {
        send(&self.0.socket, packet, SendFlags::NOSIGNAL).unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.hang_up();
    }
}

impl Shared {
    fn hear(&self) {
        let mut room = [0; PACKET_BYTES];
        while let Ok((n, _)) = recv(&self.socket, &mut room[..], RecvFlags::empty()) {
            if n == 0 {
                return;
            }
            let word: ToManager = serde_json::from_slice(&room[..n]).unwrap();
            self.killer.effect();
            let Some(at) = (0..self.qemus.len()).find(|n| vm(*n) == word.vm) else { continue };
            self.orders.lock().unwrap()[at] = Some(word.order);
            self.report(at);
        }
    }

    fn report(&self, n: usize) {
        let order = self.orders.lock().unwrap()[n].clone();
        let has_vf = !self.qemus[n].devices().is_empty();
        let wants_vf = order.as_ref().is_some_and(|o| o.path == Path::Vf);
        let report = Report {
            order: order.map_or(0, |o| o.number),
            agent: "0.1.0".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: mac(n),
            path: Some(if wants_vf && has_vf { Path::Vf } else { Path::Paravirtual }),
            vf: has_vf.then(|| "eth1".into()),
            packets: self.sent.fetch_add(1, Ordering::SeqCst),
            latency_us: None,
            trouble: None,
        };
        let agent = Agent { id: AgentId(self.first_id + n as u64), report: Some(report) };
        let word = ToNics { vm: vm(n), agent: Some(agent), declared: None };
        let _ = send(&self.socket, &serde_json::to_vec(&word).unwrap(), SendFlags::NOSIGNAL);
    }
}
