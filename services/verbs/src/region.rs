//! Memory regions: addresses of a program that lie in runs of pages of windows.

use crate::limits::EXTENTS;
use crate::payload::Payload;
use crate::refused::Refused;
use crate::slab::{Slab, WindowId};
use vfun_verbs::flags::access;
use vfun_wire::PAGE;

/// Pages of a window, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    pub window: WindowId,
    /// The first page's number in the window.
    pub page: u64,
    /// How many.
    pub pages: u64,
}

/// A part of a region that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Where it begins in the region, bytes.
    start: u64,
    len: u64,
    window: u32,
    /// Where it begins in the window, bytes.
    at: u64,
}

/// Bytes that lie in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub window: u32,
    pub at: u64,
    pub len: u64,
}

/// A memory region.
pub(crate) struct Region {
    pub program: u32,
    pub pd: u32,
    pub access: u32,
    iova: u64,
    len: u64,
    /// Most regions have one part.
    first: Extent,
    rest: Box<[Extent]>,
}

impl Region {
    /// Checks what a program wants to register.
    ///
    /// # Errors
    /// [`Refused`]: it is not possible.
    pub fn new<P: Payload>(
        windows: &Slab<P>,
        (program, pd, rights): (u32, u32, u32),
        (iova, len): (u64, u64),
        runs: &[PageRun],
    ) -> Result<Self, Refused> {
        let writes = access::REMOTE_WRITE | access::REMOTE_ATOMIC;
        if rights & !access::ALL != 0 {
            return Err(Refused::Invalid("the access flags are not offered"));
        }
        if rights & writes != 0 && rights & access::LOCAL_WRITE == 0 {
            return Err(Refused::Invalid("remote writes need local write access"));
        }
        if len == 0 || iova.checked_add(len).is_none() {
            return Err(Refused::Invalid("the region's length is not possible"));
        }
        if runs.len() > EXTENTS {
            return Err(Refused::Limit("runs of pages in a region"));
        }
        let mut all = extents(windows, (iova, len), runs)?.into_iter();
        let first = all.next().ok_or(Refused::Invalid("the region has no pages"))?;
        Ok(Region { program, pd, access: rights, iova, len, first, rest: all.collect() })
    }

    /// Where an address lies in the region, if all `len` bytes from there do.
    #[inline]
    pub fn offset(&self, addr: u64, len: u64) -> Option<u64> {
        let offset = addr.checked_sub(self.iova)?;
        (offset <= self.len && len <= self.len - offset).then_some(offset)
    }

    /// The piece that begins at an offset that is inside.
    #[inline]
    pub fn piece(&self, offset: u64) -> Piece {
        let part = match offset < self.first.len {
            true => &self.first,
            false => self.part(offset),
        };
        let inner = offset - part.start;
        Piece { window: part.window, at: part.at + inner, len: part.len - inner }
    }

    fn part(&self, offset: u64) -> &Extent {
        let after = self.rest.partition_point(|e| e.start <= offset);
        after.checked_sub(1).map_or(&self.first, |i| &self.rest[i])
    }

    /// The window of each part.
    pub fn windows(&self) -> impl Iterator<Item = u32> {
        core::iter::once(&self.first).chain(&self.rest).map(|e| e.window)
    }
}

/// The parts of a region, in order; those that touch are made one.
fn extents<P: Payload>(
    windows: &Slab<P>,
    (iova, len): (u64, u64),
    runs: &[PageRun],
) -> Result<Vec<Extent>, Refused> {
    let page = PAGE as u64;
    let mut all: Vec<Extent> = vec![];
    let (mut skip, mut left) = (iova % page, len);
    for run in runs {
        let window = windows.get(run.window.0).ok_or(Refused::NoSuch("window"))?;
        let end = run.page.checked_add(run.pages).and_then(|end| end.checked_mul(page));
        if run.pages == 0 || end.is_none_or(|end| end > window.bytes()) {
            return Err(Refused::Invalid("pages of the region lie outside of their window"));
        }
        let room = run.pages * page - skip;
        let bytes = room.min(left);
        if room - bytes >= page || left == 0 {
            return Err(Refused::Invalid("the region has more pages than it needs"));
        }
        let part = Extent {
            start: len - left,
            len: bytes,
            window: run.window.0,
            at: run.page * page + skip,
        };
        match all.last_mut() {
            Some(last) if last.window == part.window && last.at + last.len == part.at => {
                last.len += part.len;
            }
            _ => all.push(part),
        }
        (skip, left) = (0, left - bytes);
    }
    match left {
        0 => Ok(all),
        _ => Err(Refused::Invalid("the region has fewer pages than it needs")),
    }
}
