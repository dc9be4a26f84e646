//! Bytes between regions. Each key is looked up each time, so that one that ended is dead.

use crate::engine::Regions;
use crate::payload::Payload;
use crate::region::Piece;
use vfun_verbs::{ReceiveEntry, SendEntry, Sge};

/// Which addresses.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    /// The elements of a send.
    Sends(&'a SendEntry),
    /// The elements of a receive.
    Receives(&'a ReceiveEntry),
    /// An address of the peer.
    Remote { addr: u64, len: u64, key: u32 },
}

/// Addresses, and who may do what with them.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub side: Side<'a>,
    /// Regions of this domain alone.
    pub pd: u32,
    /// Rights that a region must give.
    pub access: u32,
}

/// One element, and how far in it a place is.
struct Element {
    addr: u64,
    len: u64,
    key: u32,
    inner: u64,
}

/// Which end of a copy no key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    From,
    To,
}

impl View<'_> {
    fn count(&self) -> usize {
        match self.side {
            Side::Sends(entry) => entry.sges(),
            Side::Receives(entry) => entry.sges().len(),
            Side::Remote { .. } => 1,
        }
    }

    fn sge(&self, i: usize) -> Sge {
        match self.side {
            Side::Sends(entry) => entry.sge(i),
            Side::Receives(entry) => entry.sges()[i],
            Side::Remote { .. } => Sge::default(),
        }
    }

    /// The element in which a byte lies.
    #[inline(always)]
    fn element(&self, offset: u64) -> Option<Element> {
        match self.side {
            Side::Remote { addr, len, key } => Some(Element { addr, len, key, inner: offset }),
            Side::Sends(entry) => Element::of((0..entry.sges()).map(|i| entry.sge(i)), offset),
            Side::Receives(entry) => Element::of(entry.sges().iter().copied(), offset),
        }
    }
}

impl Element {
    #[inline(always)]
    fn of(list: impl Iterator<Item = Sge>, offset: u64) -> Option<Self> {
        let mut inner = offset;
        for sge in list {
            let len = u64::from(sge.len);
            if inner < len {
                return Some(Element { addr: sge.addr, len, key: sge.lkey, inner });
            }
            inner -= len;
        }
        None
    }
}

impl<P: Payload> Regions<P> {
    /// The piece that begins at a byte, if a key allows all of its element.
    #[inline(always)]
    pub fn piece(&self, view: &View<'_>, offset: u64) -> Option<Piece> {
        let element = view.element(offset)?;
        let region = self.keys.get(element.key)?;
        if region.pd != view.pd || region.access & view.access != view.access {
            return None;
        }
        let start = region.offset(element.addr, element.len)?;
        let left = element.len.checked_sub(element.inner)?;
        let mut piece = region.piece(start + element.inner);
        piece.len = piece.len.min(left);
        (piece.len > 0).then_some(piece)
    }

    /// Whether keys allow all elements. Empty ones need none.
    pub fn allows(&self, view: &View<'_>) -> bool {
        let mut offset = 0;
        (0..view.count()).all(|i| {
            let len = u64::from(view.sge(i).len);
            let ok = len == 0 || self.piece(view, offset).is_some();
            offset += len;
            ok
        })
    }

    /// Copies `len` bytes. `last`: the last eight (one, of fewer than eight) are stored after
    /// all others, by one store where they can be: programs wait for them to change.
    #[inline(always)]
    pub fn copy(
        &self,
        (from, from_at): (&View<'_>, u64),
        (to, to_at): (&View<'_>, u64),
        (len, last): (u64, bool),
    ) -> Result<(), Wrong> {
        if len == 0 {
            return Ok(());
        }
        let done = self.copy_piece((from, from_at), (to, to_at), (len, last))?;
        match done == len {
            true => Ok(()),
            false => self.copy_rest((from, from_at), (to, to_at), (len, last), done),
        }
    }

    /// What is left after the first piece. Apart: most copies have one, and the loop costs registers.
    #[inline(never)]
    fn copy_rest(
        &self,
        (from, from_at): (&View<'_>, u64),
        (to, to_at): (&View<'_>, u64),
        (len, last): (u64, bool),
        mut done: u64,
    ) -> Result<(), Wrong> {
        while done < len {
            let (from, to) = ((from, from_at + done), (to, to_at + done));
            done += self.copy_piece(from, to, (len - done, last))?;
        }
        Ok(())
    }

    /// Copies what lies in one piece at both ends, at most `len` bytes: how many.
    #[inline(always)]
    fn copy_piece(
        &self,
        (from, from_at): (&View<'_>, u64),
        (to, to_at): (&View<'_>, u64),
        (len, last): (u64, bool),
    ) -> Result<u64, Wrong> {
        let source = self.piece(from, from_at).ok_or(Wrong::From)?;
        let target = self.piece(to, to_at).ok_or(Wrong::To)?;
        let run = source.len.min(target.len).min(len);
        self.copy_run(&source, &target, run, last && run == len).map_err(|_| Wrong::To)?;
        Ok(run)
    }

    #[inline(always)]
    fn copy_run(
        &self,
        from: &Piece,
        to: &Piece,
        run: u64,
        last: bool,
    ) -> Result<(), vfun_window::OutOfBounds> {
        let (source, target) = (&self.windows[from.window], &self.windows[to.window]);
        let body = run - if last { tail(run) } else { 0 };
        if body > 0 {
            target.copy(to.at, source, from.at, body)?;
        }
        // Not as one slice: of eight bytes each is an instruction.
        match run - body {
            0 => Ok(()),
            8 => copy_last::<8, P>((source, from.at + body), (target, to.at + body)),
            _ => copy_last::<1, P>((source, from.at + body), (target, to.at + body)),
        }
    }

    /// Copies private bytes to addresses, the last ones last as [`Regions::copy`] does.
    pub fn put(&self, bytes: &[u8], to: &View<'_>, to_at: u64) -> Result<(), Wrong> {
        let mut done = 0;
        while done < bytes.len() {
            let target = self.piece(to, to_at + done as u64).ok_or(Wrong::To)?;
            let run = (bytes.len() - done).min(usize::try_from(target.len).unwrap_or(usize::MAX));
            let all = &bytes[done..done + run];
            done += run;
            let tail = if done == bytes.len() { tail(run as u64) as usize } else { 0 };
            let (body, tail) = all.split_at(run - tail);
            let window = &self.windows[target.window];
            window.write(target.at, body).map_err(|_| Wrong::To)?;
            window.write_last(target.at + body.len() as u64, tail).map_err(|_| Wrong::To)?;
        }
        Ok(())
    }
}

#[inline]
fn copy_last<const N: usize, P: Payload>(
    (from, from_at): (&P, u64),
    (to, to_at): (&P, u64),
) -> Result<(), vfun_window::OutOfBounds> {
    let mut bytes = [0; N];
    from.read(from_at, &mut bytes)?;
    to.write_last(to_at, &bytes)
}

/// Bytes at the end of a run that are stored last.
const fn tail(run: u64) -> u64 {
    match run {
        0 => 0,
        1..8 => 1,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Drawn, Random};
    use crate::region::{PageRun, Region};
    use crate::slab::{Slab, WindowId};
    use std::cell::RefCell;
    use vfun_verbs::flags::access;
    use vfun_window::OutOfBounds;

    /// A window that writes down where bytes are stored, and how many.
    #[derive(Default)]
    struct Diary(RefCell<Vec<(&'static str, u64, u64)>>);

    impl Diary {
        fn note(&self, what: &'static str, at: u64, len: usize) -> Result<(), OutOfBounds> {
            self.0.borrow_mut().push((what, at, len as u64));
            Ok(())
        }
    }

    impl Payload for Diary {
        fn bytes(&self) -> u64 {
            1 << 20
        }
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), OutOfBounds> {
            Ok(())
        }
        fn write(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds> {
            self.note("write", at, from.len())
        }
        fn copy(&self, at: u64, _: &Self, _: u64, len: u64) -> Result<(), OutOfBounds> {
            self.note("copy", at, len as usize)
        }
        fn write_last(&self, at: u64, from: &[u8]) -> Result<(), OutOfBounds> {
            self.note("last", at, from.len())
        }
        fn compare_swap(&self, _: u64, _: u64, _: u64) -> Result<u64, OutOfBounds> {
            Err(OutOfBounds)
        }
        fn fetch_add(&self, _: u64, _: u64) -> Result<u64, OutOfBounds> {
            Err(OutOfBounds)
        }
    }

    /// Programs wait for the last bytes of a write: they are stored last, and at once.
    #[test]
    fn the_last_bytes_are_stored_last() {
        let mut windows = Slab::new("windows", 1);
        windows.insert(Diary::default()).unwrap();
        let mut keys = Drawn::new("regions", 9, u32::MAX);
        let mut random: Random = Box::new(|| 5);
        let runs =
            [(0, 1), (8, 1)].map(|(page, pages)| PageRun { window: WindowId(0), page, pages });
        let region = Region::new(&windows, (0, 0, access::ALL), (0, 8192), &runs).unwrap();
        let key = keys.insert(&mut random, region).unwrap();
        let regions = Regions { windows, keys, parts: vec![] };
        let view = |addr, len| View { side: Side::Remote { addr, len, key }, pd: 0, access: 0 };
        let stored = |addr, len, last| {
            let (from, to) = (view(0, len), view(addr, len));
            regions.copy((&from, 0), (&to, 0), (len, last)).unwrap();
            regions.windows[0].0.take()
        };
        assert_eq!(stored(64, 8, true), [("last", 64, 8)]);
        assert_eq!(stored(64, 100, true), [("copy", 64, 92), ("last", 156, 8)]);
        assert_eq!(stored(64, 3, true), [("copy", 64, 2), ("last", 66, 1)]);
        assert_eq!(stored(64, 100, false), [("copy", 64, 100)]);
        let across = [("copy", 4000, 96), ("copy", 32768, 96), ("last", 32864, 8)];
        assert_eq!(stored(4000, 200, true), across);
        regions.put(&[0; 20], &view(64, 20), 0).unwrap();
        assert_eq!(regions.windows[0].0.take(), [("write", 64, 12), ("last", 76, 8)]);
    }
}
