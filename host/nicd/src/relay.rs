//! The socket to the manager: standard input.

use crate::heard::{Heard, Hearing};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vfun_admin::VmName;
use vfun_bond::Call;
use vfun_nics::relay::{PACKET_BYTES, Packet, ToManager};

/// What is said to the manager. Of each VM the newest word is kept until the manager takes it.
pub struct Relay {
    socket: Arc<OwnedFd>,
    unsent: BTreeMap<VmName, ToManager>,
}

impl Relay {
    /// Takes standard input, and hears it in a thread.
    pub fn of_stdin(hearing: Hearing) -> Result<Self, String> {
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        Self::new(stdin.map_err(|e| format!("standard input cannot be used: {e}"))?, hearing)
    }

    pub fn new(socket: OwnedFd, hearing: Hearing) -> Result<Self, String> {
        if rustix::net::sockopt::socket_type(&socket) != Ok(SocketType::SEQPACKET) {
            return Err("standard input is not the manager's socket (SOCK_SEQPACKET): `vfund --nics` starts this program; it is not started by hand".into());
        }
        let socket = Arc::new(socket);
        let from = socket.clone();
        std::thread::Builder::new()
            .name("manager".into())
            .spawn(move || listen(&from, &hearing))
            .map_err(|e| format!("no thread can be started: {e}"))?;
        Ok(Relay { socket, unsent: BTreeMap::new() })
    }

    /// Says something, or keeps it until [`Relay::flush`].
    pub fn tell(&mut self, word: ToManager) {
        self.unsent.insert(word.vm.clone(), word);
        self.flush();
    }

    /// Sends what the manager takes now.
    pub fn flush(&mut self) {
        while let Some(entry) = self.unsent.first_entry() {
            let packet = serde_json::to_vec(entry.get()).expect("plain data");
            match send(&self.socket, &packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => return,
                // Or nobody is there; the thread that listens says so.
                _ => drop(entry.remove()),
            }
        }
    }

    /// Whether something is kept.
    pub fn waits(&self) -> bool {
        !self.unsent.is_empty()
    }
}

fn listen(socket: &OwnedFd, hearing: &Hearing) {
    let mut room = [0; PACKET_BYTES + 1];
    loop {
        let bytes = match recv(socket, &mut room[..], RecvFlags::empty()) {
            Ok((0, _)) => break,
            Ok((bytes, _)) => bytes,
            Err(Errno::INTR) => continue,
            Err(_) => break,
        };
        match read(&room[..bytes]) {
            Ok(word) => {
                if !hearing.tell(Heard::FromManager(word)) {
                    return;
                }
            }
            Err(why) => tracing::warn!("a word of the manager is left out: {why}"),
        }
    }
    hearing.tell(Heard::ManagerGone);
}

/// A packet. The manager's word counts; the agent's part of it is the VM's, and is checked.
fn read(packet: &[u8]) -> Result<Packet, String> {
    if packet.len() > PACKET_BYTES {
        return Err(format!("it has more than {PACKET_BYTES} bytes"));
    }
    let mut word: Packet = serde_json::from_slice(packet).map_err(|e| e.to_string())?;
    if let Packet::Vm(state) = &mut word
        && let Some(agent) = &mut state.agent
        && let Some(report) = agent.report.take()
    {
        agent.report = match Call::from_bytes(&Call::Tell(report).to_bytes()) {
            Ok(Call::Tell(report)) => Some(report),
            _ => None,
        };
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, socketpair};
    use std::sync::mpsc::sync_channel;
    use vfun_bond::{Mode, Order, Path, Report};
    use vfun_nics::AgentId;
    use vfun_nics::relay::{Agent, AllTold, ToNics};

    fn order(vm: &str, number: u64) -> ToManager {
        let order = Order { number, path: Path::Vf, report_ms: 1000 };
        ToManager { vm: VmName::new(vm, vm), agent: AgentId(1), order }
    }

    #[test]
    fn what_the_manager_does_not_take_is_kept_and_the_newest_of_each_vm_is_sent() {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut relay = Relay::new(a, Hearing(sync_channel(1).0)).unwrap();
        let mut number = 0;
        while !relay.waits() {
            number += 1;
            relay.tell(order("a", number));
        }
        relay.tell(order("a", number + 1));
        relay.tell(order("b", 7));
        assert_eq!(relay.unsent.len(), 2);
        let mut numbers = vec![];
        let mut room = [0; PACKET_BYTES];
        while let Ok((n, _)) = recv(&b, &mut room[..], RecvFlags::DONTWAIT) {
            let word: ToManager = serde_json::from_slice(&room[..n]).unwrap();
            numbers.push(word.order.number);
            relay.flush();
        }
        assert!(numbers.ends_with(&[number - 1, number + 1, 7]), "{numbers:?} {number}");
    }

    #[test]
    fn an_ordinary_standard_input_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let why = Relay::new(file.into(), Hearing(sync_channel(1).0)).err().unwrap();
        assert!(why.contains("vfund --nics"), "{why}");
    }

    #[test]
    fn a_report_that_no_agent_may_send_is_left_out() {
        let report = |bond: &str| Report {
            order: 0,
            agent: "1".into(),
            bond: bond.into(),
            mode: Mode::Bond,
            mac: "02:00:00:00:00:01".into(),
            path: None,
            vf: None,
            packets: 0,
            latency_us: None,
            trouble: None,
        };
        let word = |bond: &str| {
            let agent = Some(Agent { id: AgentId(1), report: Some(report(bond)) });
            let word = ToNics { vm: VmName::new("a", "a"), agent, declared: None };
            match read(&serde_json::to_vec(&word).unwrap()).unwrap() {
                Packet::Vm(state) => state.agent.unwrap().report,
                other => panic!("{other:?}"),
            }
        };
        assert!(word("bond0").is_some());
        assert!(word("two\nlines").is_none() && word(&"x".repeat(900)).is_none());
        assert!(read(b"{}").is_err());
        assert_eq!(read(b"{\"vms\":3}").unwrap(), Packet::AllTold(AllTold { vms: 3 }));
    }
}
