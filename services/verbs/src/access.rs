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

    #[inline]
    fn sge(&self, i: usize) -> Sge {
        match self.side {
            Side::Sends(entry) => entry.sge(i),
            Side::Receives(entry) => entry.sges()[i],
            Side::Remote { .. } => Sge::default(),
        }
    }

    /// The element in which a byte lies.
    #[inline]
    fn element(&self, offset: u64) -> Option<Element> {
        if let Side::Remote { addr, len, key } = self.side {
            return Some(Element { addr, len, key, inner: offset });
        }
        let mut inner = offset;
        for i in 0..self.count() {
            let sge = self.sge(i);
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
    #[inline]
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
    #[inline]
    pub fn copy(
        &self,
        (from, from_at): (&View<'_>, u64),
        (to, to_at): (&View<'_>, u64),
        (len, last): (u64, bool),
    ) -> Result<(), Wrong> {
        let mut done = 0;
        while done < len {
            let source = self.piece(from, from_at + done).ok_or(Wrong::From)?;
            let target = self.piece(to, to_at + done).ok_or(Wrong::To)?;
            let run = source.len.min(target.len).min(len - done);
            done += run;
            self.copy_run(&source, &target, run, last && done == len).map_err(|_| Wrong::To)?;
        }
        Ok(())
    }

    #[inline]
    fn copy_run(
        &self,
        from: &Piece,
        to: &Piece,
        run: u64,
        last: bool,
    ) -> Result<(), vfun_window::OutOfBounds> {
        let (source, target) = (&self.windows[from.window], &self.windows[to.window]);
        let tail = if last { tail(run) } else { 0 };
        let body = run - tail;
        if body > 0 {
            target.copy(to.at, source, from.at, body)?;
        }
        if tail > 0 {
            let mut bytes = [0; 8];
            let bytes = &mut bytes[..tail as usize];
            source.read(from.at + body, bytes)?;
            target.write_last(to.at + body, bytes)?;
        }
        Ok(())
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

/// Bytes at the end of a run that are stored last.
const fn tail(run: u64) -> u64 {
    match run {
        0 => 0,
        1..8 => 1,
        _ => 8,
    }
}
