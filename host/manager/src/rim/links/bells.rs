//! How one VM of a link rings the other: its QEMU is told of a further peer of its device,
//! with one eventfd, which is the other VM's for the port that receives. A VM that writes the
//! peer's number to its doorbell register rings without the host.

use crate::core::WindowId;
use crate::limits::LINK_BELLS_MAX;
use crate::rim::Daemon;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use vfun_admin::VmName;
use vfun_window::fdpass;
use vfun_wire::ivshmem::FIRST_VM_PEER;

/// Between whom a bell is, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BellPlace {
    /// The control window whose VM rings.
    pub at: WindowId,
    /// The one whose VM is rung, and the vector there.
    pub of: WindowId,
    pub vector: u16,
    /// The window that both share: without it nobody rings.
    pub shared: WindowId,
}

/// A peer that a QEMU was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkBell {
    place: BellPlace,
    peer: u16,
    /// The link whose sender has it.
    link: Option<u64>,
}

/// All of them. A number of a peer is never used again, so a bell that no link has any more
/// is kept for the next one of its place.
#[derive(Default)]
pub(super) struct LinkBells {
    bells: Vec<LinkBell>,
    /// Peers that have left, of which a QEMU had no room to be told.
    leaving: Vec<(WindowId, u16)>,
    /// How many each connection was told of.
    told: BTreeMap<WindowId, usize>,
}

impl LinkBells {
    /// Whether each has its link, and no QEMU is to be told anything.
    pub fn are_settled(&self) -> bool {
        self.bells.iter().all(|b| b.link.is_some()) && self.leaving.is_empty()
    }

    /// One that an earlier manager told a QEMU of, and noted among those.
    pub fn had(&mut self, place: BellPlace, peer: u16, link: u64) {
        self.bells.push(LinkBell { place, peer, link: Some(link) });
        let of_it = self.bells.iter().filter(|b| b.place.at == place.at).count();
        let told = self.told.entry(place.at).or_default();
        *told = (*told).max(of_it);
    }

    /// One that a QEMU is told of now; how many that makes.
    fn tells(&mut self, at: WindowId) -> usize {
        let told = self.told.entry(at).or_default();
        *told += 1;
        *told
    }

    /// Earlier managers told a QEMU of so many.
    pub fn were_told(&mut self, at: WindowId, told: usize) {
        self.told.insert(at, told);
    }

    /// Of how many each QEMU was told.
    pub fn all_told(&self) -> Vec<(WindowId, usize)> {
        self.told.iter().map(|(at, told)| (*at, *told)).collect()
    }

    /// One that is there already.
    fn found(&mut self, place: BellPlace, link: u64) -> Option<u16> {
        let bell = self.bells.iter_mut().find(|b| b.place == place && b.link.is_none())?;
        bell.link = Some(link);
        Some(bell.peer)
    }

    /// Whether a connection may be told of one more.
    fn may_be_told(&self, at: WindowId) -> bool {
        self.told.get(&at).is_none_or(|told| *told < LINK_BELLS_MAX)
    }

    /// A link has its bell no more.
    pub fn free(&mut self, link: u64) {
        let of_link = |b: &&mut LinkBell| b.link == Some(link);
        self.bells.iter_mut().filter(of_link).for_each(|b| b.link = None);
    }

    /// Takes out those that nobody rings any more: `stays` says whether all of a place is there.
    fn take_left(
        &mut self,
        stays: impl Fn(&BellPlace) -> bool,
        is_there: impl Fn(WindowId) -> bool,
    ) {
        let (left, stay): (Vec<_>, Vec<_>) =
            self.bells.iter().partition(|b| b.link.is_none() && !stays(&b.place));
        self.bells = stay;
        self.leaving.extend(left.iter().map(|b| (b.place.at, b.peer)));
        // A QEMU that is gone is told nothing.
        self.leaving.retain(|(at, _)| is_there(*at));
    }

    /// Forgets QEMUs that are gone, and says which.
    fn forget_told(&mut self, is_there: impl Fn(WindowId) -> bool) -> Vec<WindowId> {
        let gone: Vec<WindowId> = self.told.keys().copied().filter(|at| !is_there(*at)).collect();
        self.told.retain(|at, _| !gone.contains(at));
        gone
    }
}

/// Tells a QEMU of a peer with one bell, or, without it, that the peer has left.
fn say(qemu: &UnixStream, peer: u16, bell: Option<BorrowedFd<'_>>) -> io::Result<()> {
    fdpass::send(qemu, &i64::from(peer).to_le_bytes(), bell.as_slice())
}

impl Daemon {
    /// The number by which one VM rings another for a link.
    pub(super) fn link_bell(&mut self, place: BellPlace, link: u64) -> Result<u16, String> {
        if let Some(peer) = self.links.bells.found(place, link) {
            return Ok(peer);
        }
        let gone = || "its window is gone".to_owned();
        let a = self.rim.windows.get(&place.at).ok_or_else(gone)?;
        let client = self.rim.core.catalog().clients.get(&a.client).ok_or_else(gone)?;
        let name = VmName::new(&client.name, a.vm.as_deref().ok_or_else(gone)?);
        if !self.links.bells.may_be_told(place.at) {
            return Err(format!(
                "the QEMU of VM {name} was told of {LINK_BELLS_MAX} other VMs, as many as can be: turn the VM off and on"
            ));
        }
        // First whether it can be told: a number does not come again, and one that QEMU has seen
        // leave makes it crash. So it is told of fewer than there are, whoever the manager is.
        let b = self.rim.windows.get(&place.of).and_then(|b| b.window.bells());
        let has_bell = b.is_some_and(|bells| bells.to_app.len() > usize::from(place.vector));
        if !has_bell || a.peer.is_none() {
            return Err(gone());
        }
        let peer = self.records.next_peer(&name.file_name(), FIRST_VM_PEER);
        self.note_numbers();
        let told = self.links.bells.tells(place.at);
        self.hold_told(place.at, Some(told));
        let b = self.rim.windows.get(&place.of).ok_or_else(gone)?;
        let a = self.rim.windows.get(&place.at).ok_or_else(gone)?;
        let bells = b.window.bells().ok_or_else(gone)?;
        let bell = bells.to_app.get(usize::from(place.vector)).ok_or_else(gone)?;
        let qemu = a.peer.as_ref().ok_or_else(gone)?;
        say(qemu, peer, Some(bell.as_fd()))
            .map_err(|e| format!("the QEMU of VM {name} could not be told of a bell: {e}"))?;
        self.links.bells.had(place, peer, link);
        Ok(peer)
    }

    /// Tells QEMUs of bells that are gone. One that has no room is told later.
    pub(super) fn mind_link_bells(&mut self) {
        let gone = {
            let windows = &self.rim.windows;
            self.links.bells.forget_told(|at| windows.contains_key(&at))
        };
        gone.into_iter().for_each(|at| self.hold_told(at, None));
        if self.links.bells.are_settled() {
            return;
        }
        let (windows, further) = (&self.rim.windows, &self.rim.further);
        let stays = |p: &BellPlace| {
            windows.contains_key(&p.at)
                && windows.contains_key(&p.of)
                && further.contains_key(&p.shared)
        };
        self.links.bells.take_left(stays, |at| windows.contains_key(&at));
        let untold = |(at, peer): &(WindowId, u16)| {
            let qemu = windows.get(at).and_then(|a| a.peer.as_ref());
            let full = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock || fdpass::no_room(&e);
            qemu.is_some_and(|qemu| say(qemu, *peer, None).is_err_and(full))
        };
        self.links.bells.leaving.retain(untold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: WindowId, of: WindowId) -> BellPlace {
        BellPlace { at, of, vector: 3, shared: 9 }
    }

    #[test]
    fn a_bell_is_kept_for_the_next_link_of_its_place_and_leaves_with_its_vms() {
        let mut bells = LinkBells::default();
        bells.had(place(1, 2), 40, 7);
        assert_eq!(bells.found(place(1, 2), 8), None, "another link has it");
        bells.take_left(|_| false, |_| true);
        assert!(bells.leaving.is_empty(), "and rings by it");
        bells.free(7);
        assert_eq!(bells.found(place(1, 3), 8), None);
        assert_eq!(bells.found(place(1, 2), 8), Some(40));
        bells.free(8);
        bells.take_left(|_| true, |_| true);
        assert!(!bells.are_settled() && bells.leaving.is_empty());
        bells.take_left(|_| false, |_| true);
        assert_eq!(bells.leaving, [(1, 40)]);
        bells.take_left(|_| false, |at| at != 1);
        assert!(bells.are_settled(), "its QEMU is gone");
    }

    #[test]
    fn a_connection_is_told_of_so_many_and_no_more() {
        let mut bells = LinkBells::default();
        (0..LINK_BELLS_MAX).for_each(|n| assert_eq!(bells.tells(1), n + 1));
        assert!(!bells.may_be_told(1) && bells.may_be_told(2));
        assert!(bells.forget_told(|_| true).is_empty());
        assert!(!bells.may_be_told(1), "numbers do not come again");
        assert_eq!(bells.all_told(), [(1, LINK_BELLS_MAX)]);
        assert_eq!(bells.forget_told(|_| false), [1]);
        assert!(bells.may_be_told(1), "it is another QEMU");
    }

    #[test]
    fn another_manager_knows_of_how_many_each_was_told() {
        let mut bells = LinkBells::default();
        bells.were_told(1, LINK_BELLS_MAX);
        bells.had(place(1, 2), 40, 7);
        assert!(!bells.may_be_told(1), "most of them have no link any more");
        // One that noted no number has told of these at least.
        bells.had(place(3, 2), 40, 8);
        bells.had(place(3, 1), 41, 9);
        assert_eq!(bells.all_told(), [(1, LINK_BELLS_MAX), (3, 2)]);
    }

    #[test]
    fn a_peer_comes_with_its_bell_and_leaves_without() {
        let (manager, qemu) = UnixStream::pair().unwrap();
        let bell = vfun_window::Bell::new().unwrap();
        say(&manager, 0x1234, Some(bell.as_fd())).unwrap();
        say(&manager, 0x1234, None).unwrap();
        let mut bytes = [0; 8];
        for fds in [1, 0] {
            let (n, got) = fdpass::receive(&qemu, &mut bytes).unwrap();
            assert_eq!((n, i64::from_le_bytes(bytes), got.len()), (8, 0x1234, fds));
        }
    }
}
