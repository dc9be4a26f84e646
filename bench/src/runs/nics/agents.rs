//! The manager's end of the socket of `vfun-nics`, with an agent in each VM that reports
//! once a second.

use crate::Result;
use crate::error::Doing;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use vfun_admin::VmName;
use vfun_bond::{Mode, Path, Report};
use vfun_nics::AgentId;
use vfun_nics::limits::{COUNTS_TOGETHER_MS, REPORT_MS};
use vfun_nics::relay::{Agent, PACKET_BYTES, ToManager, ToNics};

/// Packets of each VM between two reports.
const PACKETS: u64 = 20_000;

/// Its thread ends when it is dropped.
pub struct Agents {
    stop: Arc<AtomicBool>,
    heard: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Our end, and that for the program's standard input.
pub fn sockets() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .doing(|| "no pair of sockets can be made".into())
}

fn report(order: u64, mac: &str, packets: u64) -> Report {
    Report {
        order,
        agent: "0.1.0".into(),
        bond: "bond0".into(),
        mode: Mode::Bond,
        mac: mac.to_owned(),
        path: Some(Path::Paravirtual),
        vf: None,
        packets,
        latency_us: None,
        trouble: None,
    }
}

impl Agents {
    /// Of these VMs, by name and MAC address.
    pub fn start(socket: OwnedFd, vms: Vec<(VmName, String)>) -> Self {
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (stop.clone(), heard.clone());
        let thread = std::thread::spawn(move || {
            let mut orders = vec![0; vms.len()];
            let pause = Duration::from_millis(COUNTS_TOGETHER_MS);
            // Agents are spread over the second; the manager passes their counts on together.
            let together = vms.len().div_ceil((u64::from(REPORT_MS) / COUNTS_TOGETHER_MS) as usize);
            let mut packets = 0;
            while !ends.load(Ordering::Relaxed) {
                packets += PACKETS;
                for (n, (vm, mac)) in vms.iter().enumerate() {
                    hear(&socket, &vms, &mut orders);
                    let report = Some(report(orders[n], mac, packets));
                    let agent = Some(Agent { id: AgentId(n as u64 + 1), report });
                    let word = ToNics { vm: vm.clone(), agent, declared: None };
                    let packet = serde_json::to_vec(&word).expect("plain data");
                    if send(&socket, &packet, SendFlags::NOSIGNAL).is_ok() {
                        counts.fetch_add(1, Ordering::Relaxed);
                    }
                    if (n + 1).is_multiple_of(together) {
                        std::thread::sleep(pause);
                    }
                }
                if !vms.len().is_multiple_of(together) || vms.is_empty() {
                    std::thread::sleep(pause);
                }
            }
        });
        Agents { stop, heard, thread: Some(thread) }
    }

    /// Reports that the program took so far.
    pub fn sent(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }
}

/// Notes the orders that are there.
fn hear(socket: &OwnedFd, vms: &[(VmName, String)], orders: &mut [u64]) {
    let mut room = [0; PACKET_BYTES];
    while let Ok((bytes @ 1.., _)) = recv(socket, &mut room[..], RecvFlags::DONTWAIT) {
        let Ok(said) = serde_json::from_slice::<ToManager>(&room[..bytes]) else { continue };
        if let Some(n) = vms.iter().position(|(vm, _)| *vm == said.vm) {
            orders[n] = said.order.number;
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
