//! Who is let in: callers that have said who they are have places of their own,
//! which those that say nothing cannot take.

use crate::limits::{CONNECTIONS_MAX, GREETINGS_MAX};
use crate::lines::Lines;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use vfun_wire::{Nack, NackCode};

/// Connections that are open, in all and by their caller's address.
#[derive(Default)]
pub struct Door {
    served: AtomicUsize,
    greeting: Mutex<Greetings>,
    /// What is said of those that end badly.
    pub lines: Lines,
}

#[derive(Default)]
struct Greetings {
    /// By number, the oldest first.
    all: BTreeMap<u64, (IpAddr, TcpStream)>,
    last: u64,
}

/// A connection that has not said who it is, for as long as that lasts.
pub struct Greeting {
    door: Arc<Door>,
    number: u64,
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.door.lock().all.remove(&self.number);
    }
}

/// A connection that is served, for as long as it lives.
pub struct Place(Arc<Door>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Ordering::Release);
    }
}

impl Greetings {
    /// Whom a newcomer takes the place of: the oldest of the address that has
    /// most of them. Whoever floods drives out his own.
    fn worst(&self) -> Option<u64> {
        let mut of: HashMap<IpAddr, usize> = HashMap::new();
        self.all.values().for_each(|(ip, _)| *of.entry(*ip).or_default() += 1);
        let most = of.values().max()?;
        self.all.iter().find(|(_, (ip, _))| of.get(ip) == Some(most)).map(|(number, _)| *number)
    }
}

impl Door {
    fn lock(&self) -> MutexGuard<'_, Greetings> {
        self.greeting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A connection begins to greet; if need be another one is ended for it.
    pub fn greeting(door: &Arc<Self>, ip: IpAddr, stream: TcpStream) -> Greeting {
        let mut all = door.lock();
        if all.all.len() >= GREETINGS_MAX
            && let Some(worst) = all.worst()
            && let Some((from, stream)) = all.all.remove(&worst)
        {
            let _ = stream.shutdown(Shutdown::Both);
            tracing::debug!(%from, "ended: {GREETINGS_MAX} others have not said who they are either");
        }
        all.last += 1;
        let number = all.last;
        all.all.insert(number, (ip, stream));
        Greeting { door: door.clone(), number }
    }

    /// A place for a caller that has said who it is.
    pub fn place(door: &Arc<Self>) -> Result<Place, Nack> {
        let place = Place(door.clone());
        if door.served.fetch_add(1, Ordering::AcqRel) < CONNECTIONS_MAX {
            return Ok(place);
        }
        Err(Nack::new(
            NackCode::NoCapacity,
            format!(
                "the gateway serves {CONNECTIONS_MAX} connections already: try again when one has ended"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn who_floods_drives_out_his_own() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = l.local_addr().unwrap();
        let (honest, flood): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let door = Arc::new(Door::default());
        let pair = || (TcpStream::connect(at).unwrap(), l.accept().unwrap().0);
        let (mut near, far) = pair();
        let _first = Door::greeting(&door, honest, far);
        let mut held = vec![];
        for _ in 0..2 * GREETINGS_MAX {
            let (near, far) = pair();
            held.push((near, Door::greeting(&door, flood, far)));
        }
        assert_eq!(door.lock().all.len(), GREETINGS_MAX);
        near.set_nonblocking(true).unwrap();
        let still = near.read(&mut [0]).unwrap_err();
        assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock, "the oldest of all, of another");
        assert_eq!(held[0].0.read(&mut [0]).unwrap(), 0, "the flood's oldest is gone");
        drop(held);
        assert_eq!(door.lock().all.len(), 1);
        let served: Vec<_> = (0..CONNECTIONS_MAX).map(|_| Door::place(&door).ok()).collect();
        assert!(served.iter().all(Option::is_some));
        assert_eq!(Door::place(&door).err().unwrap().code, NackCode::NoCapacity);
        drop(served);
        assert!(Door::place(&door).is_ok());
    }
}
