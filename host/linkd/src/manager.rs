//! The socket to the manager: standard input.

use crate::limits::{PACKETS_TOGETHER, WHY_CHARS};
use crate::{Heard, Hearing};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use vfun_links::relay::{FromLinks, PACKET_BYTES, ToLinks};

/// What the manager is told of: of each the newest word is kept until the manager takes it, so
/// that a manager which does not read is waited for, and nothing grows meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A port, by its name on the host.
    Port(String),
    /// An order, by its number.
    Order(u64),
    /// This program itself.
    Alive,
}

/// A reason has words of a switch or of a QEMU, which may be anything.
pub fn cut(why: &str) -> String {
    why.chars().take(WHY_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Tells the manager, by a thread that waits for it.
#[derive(Clone, Default)]
pub struct Teller(Arc<Words>);

#[derive(Default)]
struct Words {
    unsent: Mutex<BTreeMap<About, FromLinks>>,
    more: Condvar,
}

/// Takes words that are for the manager.
pub trait Tell {
    /// Says this, in the place of what was said before about the same and was not heard yet.
    fn tell(&self, about: About, word: FromLinks);
}

impl Tell for Teller {
    fn tell(&self, about: About, word: FromLinks) {
        self.0.unsent.lock().unwrap_or_else(PoisonError::into_inner).insert(about, word);
        self.0.more.notify_one();
    }
}

impl Words {
    /// The next word after the last one, so that each has its turn. Waits for one.
    fn next(&self, last: Option<&About>) -> (About, FromLinks) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let after = last.and_then(|last| unsent.range((Excluded(last), Unbounded)).next());
            let next = after.or_else(|| unsent.first_key_value()).map(|(about, _)| about.clone());
            if let Some(entry) = next.and_then(|about| unsent.remove_entry(&about)) {
                return entry;
            }
            unsent = self.more.wait(unsent).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes the manager's socket, hears it in a thread, and speaks in another one.
///
/// # Errors
/// A sentence: it is no such socket.
pub fn take(socket: OwnedFd, hearing: Hearing) -> Result<Teller, String> {
    if rustix::net::sockopt::socket_type(&socket) != Ok(SocketType::SEQPACKET) {
        return Err("standard input is not the manager's socket (SOCK_SEQPACKET): `vfund --links` starts this program; it is not started by hand".into());
    }
    let (socket, teller) = (Arc::new(socket), Teller::default());
    let begin = |name: &str, run: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(run).map_err(|e| format!("no thread can be started: {e}"))
    };
    let (from, to, words) = (socket.clone(), socket, teller.0.clone());
    begin("manager", Box::new(move || listen(&from, &hearing)))?;
    begin("to manager", Box::new(move || speak(&to, &words)))?;
    Ok(teller)
}

/// Sends what there is to say, until nobody is there. The thread that listens says so.
fn speak(socket: &OwnedFd, words: &Words) {
    let mut last = None;
    loop {
        let (about, word) = words.next(last.as_ref());
        let packet = serde_json::to_vec(&word).expect("plain data");
        assert!(packet.len() <= PACKET_BYTES, "reasons are cut");
        loop {
            match send(socket, &packet, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => std::thread::sleep(crate::limits::NO_BUFFERS),
                Err(_) => return,
                Ok(_) => break,
            }
        }
        last = Some(about);
    }
}

fn listen(socket: &OwnedFd, hearing: &Hearing) {
    // One byte more than there may be, to see that there are more.
    let mut room = [0; PACKET_BYTES + 1];
    let mut together = 0;
    loop {
        let waits = if together == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let bytes = match recv(socket, &mut room[..], waits) {
            Ok((0, _)) => break,
            Ok((bytes, _)) => bytes,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                together = 0;
                if !hearing.tell(Heard::SaidAll) {
                    return;
                }
                continue;
            }
            Err(_) => break,
        };
        match read(&room[..bytes]) {
            Ok(word) => {
                if !hearing.tell(Heard::Said(word)) {
                    return;
                }
            }
            Err(why) => tracing::warn!("a word of the manager is left out: {why}"),
        }
        together += 1;
        if together == PACKETS_TOGETHER {
            together = 0;
            if !hearing.tell(Heard::SaidAll) {
                return;
            }
        }
    }
    hearing.tell(Heard::ManagerGone);
}

fn read(packet: &[u8]) -> Result<ToLinks, String> {
    if packet.len() > PACKET_BYTES {
        return Err(format!("it has more than {PACKET_BYTES} bytes"));
    }
    serde_json::from_slice(packet).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
