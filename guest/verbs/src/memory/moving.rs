//! Registered memory moves into buffers of the window, and stays there when it is no longer registered: to
//! register it again costs no copy. It goes back to the program when the window has no room left.
//!
//! What moved is not remembered here: a program may unmap memory and map other memory in its place. Who
//! moves it is asked each time.

use super::{PAGE, Run};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use vfun::{MemoryPlace, Unmovable};

/// The first buffer, bytes; each further one is twice as large as the one before. A connection lends some sixty
/// buffers at most, so that a program that registers many regions cannot have one for each.
const FIRST: usize = 1 << 20;
/// The largest one that is made without need.
const LARGEST: usize = 64 << 20;

/// How often, and how long after each other, it is tried to pin memory while other pages are being unpinned: the
/// module asks the host four times a second whether it may.
const UNPINNED_TRIES: u32 = 100;
const UNPINNED_PAUSE: Duration = Duration::from_millis(10);

/// A range of the program's pages.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pub addr: usize,
    pub bytes: usize,
    /// The NIC is to write them.
    pub written: bool,
}

impl Pages {
    /// Some of them.
    fn part(self, from: usize, bytes: usize) -> Self {
        Pages { addr: self.addr + from, bytes, ..self }
    }
}

/// Who moves memory.
pub trait Mover {
    /// A buffer; dropping it gives it back, and its bytes to the program.
    type Buffer;
    /// A new buffer of so many bytes; none: there is no room.
    fn lend(&self, bytes: usize) -> Option<Self::Buffer>;
    fn handle(buffer: &Self::Buffer) -> u64;
    /// Where memory is now; `held` are all buffers that it may be in.
    ///
    /// # Errors
    /// [`Unmovable`]
    fn find(
        &self,
        held: &HashMap<u64, Arc<Self::Buffer>>,
        pages: Pages,
    ) -> Result<MemoryPlace, Unmovable>;
    /// Moves memory, or as much of it as it can at once.
    ///
    /// # Errors
    /// [`Unmovable`]
    fn take(
        &self,
        buffer: &Self::Buffer,
        offset: usize,
        pages: Pages,
    ) -> Result<MemoryPlace, Unmovable>;
    /// Whether buffers whose memory nobody uses may be given back.
    const GIVES_BACK: bool;
    /// How many bytes of such buffers are kept at most when a further one is lent. Window memory is kept as long
    /// as there is room; pages of the VM, which nobody else has while they are pinned, are bounded.
    const KEPT: usize = usize::MAX;
    /// Whether a program may pin more when buffers have been given back.
    const UNPINS: bool = false;
    /// Bytes of a buffer.
    fn bytes(buffer: &Self::Buffer) -> usize;
}

/// Why memory could not be registered in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    Unmovable(Unmovable),
    /// The window has no room for so many bytes more.
    Full(usize),
}

impl From<Unmovable> for MoveError {
    fn from(why: Unmovable) -> Self {
        MoveError::Unmovable(why)
    }
}

impl std::fmt::Display for MoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MoveError::Unmovable(why) => why.fmt(f),
            MoveError::Full(bytes) => write!(
                f,
                "the window has no room for {} KiB more: the client's `window` must be larger, or its quota",
                bytes >> 10
            ),
        }
    }
}

/// Where memory is, and what keeps it there.
#[derive(Debug)]
pub struct Moved<B> {
    pub runs: Vec<Run>,
    pub buffers: Vec<Arc<B>>,
}

/// The buffers of one connection that have memory of the program.
pub struct Pool<M: Mover> {
    held: HashMap<u64, Arc<M::Buffer>>,
    /// The latest one, its bytes, and where its room begins.
    latest: Option<(Arc<M::Buffer>, usize, usize)>,
}

impl<M: Mover> Default for Pool<M> {
    fn default() -> Self {
        Pool { held: HashMap::new(), latest: None }
    }
}

impl<M: Mover> Pool<M> {
    /// Moves all of these pages that are not in the window yet.
    ///
    /// # Errors
    /// [`MoveError`]. What has moved by then stays: the program does not see it.
    pub fn hold(&mut self, mover: &M, pages: Pages) -> Result<Moved<M::Buffer>, MoveError> {
        let mut moved = Moved { runs: vec![], buffers: vec![] };
        let mut done = 0;
        while done < pages.bytes {
            let place = mover.find(&self.held, pages.part(done, pages.bytes - done))?;
            match place.buffer {
                0 => self.move_in(mover, pages.part(done, place.bytes), &mut moved)?,
                _ => self.note(&mut moved, &place)?,
            }
            done += place.bytes;
        }
        Ok(moved)
    }

    /// Moves pages that are in no buffer.
    fn move_in(
        &mut self,
        mover: &M,
        pages: Pages,
        moved: &mut Moved<M::Buffer>,
    ) -> Result<(), MoveError> {
        let (mut buffer, mut offset) = self.room(mover, pages.bytes)?;
        let mut done = 0;
        while done < pages.bytes {
            let left = pages.part(done, pages.bytes - done);
            let place = match mover.take(&buffer, offset + done, left) {
                Err(Unmovable::Limit) if M::UNPINS && done == 0 => {
                    // The pages that nobody uses may be in this one, too.
                    self.latest = None;
                    drop(buffer);
                    self.give_back(0);
                    (buffer, offset) = self.room(mover, pages.bytes)?;
                    take_again(mover, (&buffer, offset), left)?
                }
                taken => taken?,
            };
            self.note(moved, &place)?;
            done += place.bytes;
        }
        Ok(())
    }

    fn note(&self, moved: &mut Moved<M::Buffer>, place: &MemoryPlace) -> Result<(), MoveError> {
        let buffer = self.held.get(&place.buffer).ok_or(Unmovable::BufferOver)?;
        moved.note(buffer, place);
        Ok(())
    }

    /// Room for so many bytes, whole pages.
    fn room(&mut self, mover: &M, bytes: usize) -> Result<(Arc<M::Buffer>, usize), MoveError> {
        if let Some((buffer, size, used)) = &mut self.latest
            && *size - *used >= bytes
        {
            let at = *used;
            *used += bytes;
            return Ok((buffer.clone(), at));
        }
        self.give_back(M::KEPT);
        let last = self.latest.as_ref().map_or(FIRST / 2, |(_, size, _)| *size);
        let size = (last * 2).min(LARGEST).max(bytes);
        // Where there is no room for more than is needed, as much as is needed.
        let (buffer, size) = match mover.lend(size) {
            Some(lent) => (self.keep(lent), size),
            None => (self.lend(mover, bytes)?, bytes),
        };
        self.latest = Some((buffer.clone(), size, bytes));
        Ok((buffer, 0))
    }

    fn keep(&mut self, lent: M::Buffer) -> Arc<M::Buffer> {
        let buffer = Arc::new(lent);
        self.held.insert(M::handle(&buffer), buffer.clone());
        buffer
    }

    /// Gives back the buffers whose memory nobody uses, if they have more than so many bytes; whether it did.
    fn give_back(&mut self, kept: usize) -> bool {
        let unused = |buffer: &Arc<M::Buffer>| Arc::strong_count(buffer) == 1;
        let all = self.held.values().filter(|buffer| unused(buffer));
        let bytes: usize = all.map(|buffer| M::bytes(buffer)).sum();
        let gives = M::GIVES_BACK && bytes > kept;
        if gives {
            self.held.retain(|_, buffer| !unused(buffer));
        }
        gives
    }

    fn lend(&mut self, mover: &M, bytes: usize) -> Result<Arc<M::Buffer>, MoveError> {
        let mut lent = mover.lend(bytes);
        if lent.is_none() {
            self.latest = None;
            if self.give_back(0) {
                lent = mover.lend(bytes);
            }
        }
        Ok(self.keep(lent.ok_or(MoveError::Full(bytes))?))
    }
}

/// Moves pages while others are being unpinned, which takes a moment: the host has to let go of them first.
fn take_again<M: Mover>(
    mover: &M,
    (buffer, offset): (&M::Buffer, usize),
    pages: Pages,
) -> Result<MemoryPlace, Unmovable> {
    for _ in 0..UNPINNED_TRIES {
        match mover.take(buffer, offset, pages) {
            Err(Unmovable::Limit) => std::thread::sleep(UNPINNED_PAUSE),
            taken => return taken,
        }
    }
    mover.take(buffer, offset, pages)
}

impl<B> Moved<B> {
    fn note(&mut self, buffer: &Arc<B>, place: &MemoryPlace) {
        let (page, pages) = (place.offset / PAGE as u64, (place.bytes / PAGE) as u64);
        match self.runs.last_mut() {
            Some(last) if last.buffer == place.buffer && last.page + last.pages == page => {
                last.pages += pages;
            }
            _ => self.runs.push(Run { buffer: place.buffer, page, pages }),
        }
        if !self.buffers.iter().any(|other| Arc::ptr_eq(other, buffer)) {
            self.buffers.push(buffer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// What a kernel would know: which page is where, and how much room is left.
    #[derive(Default)]
    struct Model {
        pages: Rc<RefCell<HashMap<usize, (u64, u64)>>>,
        room: Rc<Cell<usize>>,
        handles: Cell<u64>,
        moved: Cell<usize>,
    }

    #[derive(Debug)]
    struct Lent {
        handle: u64,
        bytes: usize,
        pages: Rc<RefCell<HashMap<usize, (u64, u64)>>>,
        room: Rc<Cell<usize>>,
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            self.pages.borrow_mut().retain(|_, (buffer, _)| *buffer != self.handle);
            self.room.set(self.room.get() + self.bytes);
        }
    }

    impl Mover for Model {
        type Buffer = Lent;
        const GIVES_BACK: bool = true;

        fn lend(&self, bytes: usize) -> Option<Lent> {
            self.room.set(self.room.get().checked_sub(bytes)?);
            self.handles.set(self.handles.get() + 1);
            let (pages, room) = (self.pages.clone(), self.room.clone());
            Some(Lent { handle: self.handles.get(), bytes, pages, room })
        }

        fn handle(buffer: &Lent) -> u64 {
            buffer.handle
        }

        fn bytes(buffer: &Lent) -> usize {
            buffer.bytes
        }

        fn find(
            &self,
            _: &HashMap<u64, Arc<Lent>>,
            Pages { addr, bytes, .. }: Pages,
        ) -> Result<MemoryPlace, Unmovable> {
            let pages = self.pages.borrow();
            let of = |at: usize| pages.get(&at).copied();
            let first = of(addr);
            let goes_on = |n: &usize| match first {
                None => of(addr + n * PAGE).is_none(),
                Some((buffer, page)) => of(addr + n * PAGE) == Some((buffer, page + *n as u64)),
            };
            let count = (0..bytes / PAGE).take_while(goes_on).count();
            let (buffer, page) = first.unwrap_or_default();
            Ok(MemoryPlace { buffer, offset: page * PAGE as u64, bytes: count * PAGE })
        }

        fn take(
            &self,
            buffer: &Lent,
            offset: usize,
            Pages { addr, bytes, .. }: Pages,
        ) -> Result<MemoryPlace, Unmovable> {
            // At most four pages at once, as one mapping may be short.
            let bytes = bytes.min(4 * PAGE);
            assert!(offset + bytes <= buffer.bytes, "inside");
            for n in 0..bytes / PAGE {
                let page = (offset / PAGE + n) as u64;
                let taken = self.pages.borrow().values().any(|p| *p == (buffer.handle, page));
                assert!(!taken, "no page of a buffer is given twice");
                self.pages.borrow_mut().insert(addr + n * PAGE, (buffer.handle, page));
            }
            self.moved.set(self.moved.get() + bytes / PAGE);
            Ok(MemoryPlace { buffer: buffer.handle, offset: offset as u64, bytes })
        }
    }

    fn range(addr: usize, bytes: usize) -> Pages {
        Pages { addr, bytes, written: true }
    }

    fn pages_of(model: &Model, moved: &Moved<Lent>, addr: usize) {
        let runs =
            moved.runs.iter().flat_map(|r| (r.page..r.page + r.pages).map(|p| (r.buffer, p)));
        for (n, run) in runs.enumerate() {
            assert_eq!(model.pages.borrow().get(&(addr + n * PAGE)), Some(&run));
        }
    }

    #[test]
    fn memory_moves_once_and_regions_share_pages() {
        let model = Model::default();
        model.room.set(8 << 20);
        let mut pool = Pool::default();
        let first = pool.hold(&model, range(0x10000, 10 * PAGE)).unwrap();
        assert_eq!(model.moved.get(), 10);
        // One page before, all of it, and one behind.
        let wider = pool.hold(&model, range(0x10000 - PAGE, 12 * PAGE)).unwrap();
        assert_eq!(model.moved.get(), 12);
        pages_of(&model, &first, 0x10000);
        pages_of(&model, &wider, 0x10000 - PAGE);
        drop((first, wider));
        pool.hold(&model, range(0x10000, 10 * PAGE)).unwrap();
        assert_eq!(model.moved.get(), 12, "registering again moves nothing");
    }

    #[test]
    fn memory_that_nobody_uses_makes_room() {
        let model = Model::default();
        model.room.set(3 << 20);
        let mut pool = Pool::default();
        let used = pool.hold(&model, range(0, 1 << 20)).unwrap();
        drop(pool.hold(&model, range(1 << 21, 2 << 20)).unwrap());
        let more = pool.hold(&model, range(1 << 24, 2 << 20)).unwrap();
        pages_of(&model, &used, 0);
        pages_of(&model, &more, 1 << 24);
        let full = pool.hold(&model, range(1 << 26, 1 << 20)).unwrap_err();
        assert_eq!(full, MoveError::Full(1 << 20));
        assert!(full.to_string().contains("no room for 1024 KiB"), "{full}");
    }

    #[test]
    fn what_was_unmapped_moves_anew() {
        let model = Model::default();
        model.room.set(8 << 20);
        let mut pool = Pool::default();
        let old = pool.hold(&model, range(0, 4 * PAGE)).unwrap();
        model.pages.borrow_mut().clear();
        // The pages of before are not given again while the old region has them.
        let mut model = model;
        model.moved.set(0);
        let new = pool.hold(&model, range(0, 4 * PAGE)).unwrap();
        assert_eq!(model.moved.get_mut(), &mut 4);
        assert_ne!(old.runs, new.runs);
    }
}
