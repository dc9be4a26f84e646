//! The buffers of the apps whose channels are served here: each is mapped as long as
//! the manager says, or a call uses it, and found by calls of its own app alone.

use super::pulse::Pulse;
use crate::abi::PagesPlace;
use crate::buffer::{BufferRefused, LendBuffers, Pins};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vfun_supervise::BufferCame;
use vfun_window::{Access, Mapping, ReadSpan, WriteSpan};
use vfun_wire::limits::WINDOW_BYTES_MAX;

/// Most buffers at once that lie in files which others can make shorter. The other places
/// of [`vfun_window::GUARDED_MAX`] are for channels.
const GUARDED: usize = 1024;

/// A buffer as it is mapped.
pub struct MappedBuffer {
    memory: Memory,
    /// One of the [`GUARDED`].
    _guarded: Option<Arc<()>>,
}

/// What is mapped.
enum Memory {
    /// A buffer.
    Both(WriteSpan),
    /// A table of pages, and the VM's memory.
    Pages(ReadSpan, Arc<WriteSpan>),
}

impl Memory {
    fn is_lost(&self) -> bool {
        match self {
            Memory::Both(span) => span.is_lost(),
            Memory::Pages(table, vm) => table.is_lost() || vm.is_lost(),
        }
    }
}

/// It is gone from this process with the last that has it.
type Mapped = Arc<MappedBuffer>;

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the main thread puts in and channels' threads look up: by handle, of which
/// session, and where, if it could be mapped.
#[derive(Default)]
pub struct Buffers {
    all: Mutex<BTreeMap<u64, (u64, Option<Mapped>)>>,
    /// Each guarded one that is mapped has it, too.
    guarded: Arc<()>,
    /// Memory of VMs that is mapped, by its file: the tables of one VM share it.
    vms: Mutex<BTreeMap<(u64, u64), Weak<WriteSpan>>>,
}

impl Buffers {
    /// Maps one. Told again, of one that is mapped, it changes nothing. Calls that name
    /// one that cannot be mapped are told so.
    pub fn came(&self, came: &BufferCame, files: Vec<OwnedFd>) -> Result<(), String> {
        if let Some((_, Some(_))) = locked(&self.all).get(&came.buffer) {
            return Ok(());
        }
        let mut files = files.into_iter();
        let memory = files.next().ok_or("its memory is missing".to_owned());
        let mapped = memory.and_then(|memory| self.map(came, &memory, files.next()));
        let (mapped, done) = match mapped {
            Ok(place) => (Some(Arc::new(place)), Ok(())),
            Err(e) => (None, Err(e)),
        };
        locked(&self.all).insert(came.buffer, (came.session, mapped));
        done
    }

    fn map(
        &self,
        came: &BufferCame,
        memory: &OwnedFd,
        vm: Option<OwnedFd>,
    ) -> Result<MappedBuffer, String> {
        let (end, bytes) = (came.offset.checked_add(came.bytes), came.bytes);
        let len = usize::try_from(bytes).ok();
        let inside = end.is_some_and(|end| end <= WINDOW_BYTES_MAX);
        let at = came.origin.checked_add(came.offset).filter(|_| inside);
        let (Some(at), Some(len)) = (at, len) else {
            return Err("no window is as long".into());
        };
        let guarded = (!came.sealed).then(|| self.guarded.clone());
        // This one and the table's own are among them.
        if guarded.is_some() && Arc::strong_count(&self.guarded) - 2 >= GUARDED {
            return Err(format!(
                "{GUARDED} buffers of windows in files are mapped already: give some back"
            ));
        }
        let span = map(memory, at, len, came.sealed)?;
        let memory = match came.pages {
            false => Memory::Both(span),
            true => {
                let vm = vm.ok_or("the manager cannot open the VM's memory: its log says why")?;
                Memory::Pages(span.reader(), self.vm_memory(&vm)?)
            }
        };
        Ok(MappedBuffer { memory, _guarded: guarded })
    }

    /// All of a VM's memory. Where it is a file that others can make shorter, its pages may go away.
    fn vm_memory(&self, file: &OwnedFd) -> Result<Arc<WriteSpan>, String> {
        let stat = rustix::fs::fstat(file).map_err(|e| e.to_string())?;
        let mut vms = locked(&self.vms);
        vms.retain(|_, span| span.strong_count() > 0);
        let name = (stat.st_dev, stat.st_ino);
        if let Some(known) = vms.get(&name).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let len = usize::try_from(stat.st_size).map_err(|_| "no memory has this length")?;
        let span = map(file, 0, len, false).map_err(|e| format!("the VM's memory: {e}"))?;
        let span = Arc::new(span);
        vms.insert(name, Arc::downgrade(&span));
        Ok(span)
    }

    /// No call finds it any more. Calls that were lent it may use it still.
    pub fn gone(&self, buffer: u64) -> Option<Weak<MappedBuffer>> {
        let (_, mapped) = locked(&self.all).remove(&buffer)?;
        mapped.map(|mapped| Arc::downgrade(&mapped))
    }

    fn of(&self, session: u64, buffer: u64) -> Result<Mapped, BufferRefused> {
        let all = locked(&self.all);
        match all.get(&buffer) {
            Some((owner, mapped)) if *owner == session && session != 0 => {
                let whole = mapped.as_ref().filter(|m| !m.memory.is_lost());
                whole.cloned().ok_or(BufferRefused::Unmapped)
            }
            _ => Err(BufferRefused::Unknown),
        }
    }
}

/// What `statfs` says of hugetlbfs.
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Bytes of a page of a file of huge pages, by its file system and the size of a block that
/// it reports. Of others that size is advice on reading, and may be as large (tmpfs with
/// huge=always, XFS, network file systems).
fn huge_page(file_system: i64, block: u64) -> Option<u64> {
    (file_system == HUGETLBFS_MAGIC && block.is_power_of_two()).then_some(block)
}

/// Maps a range of a window's file for writing, with a guard where others can make the
/// file shorter. Of a file of huge pages whole ones are mapped: the kernel refuses others.
fn map(memory: &OwnedFd, at: u64, len: usize, sealed: bool) -> Result<WriteSpan, String> {
    let failed = |e: rustix::io::Errno| e.to_string();
    let file_system = rustix::fs::fstatfs(memory).map_err(failed)?.f_type as i64;
    let block = u64::try_from(rustix::fs::fstat(memory).map_err(failed)?.st_blksize);
    let page = block.ok().and_then(|block| huge_page(file_system, block)).unwrap_or(1);
    let before = at % page;
    let whole = (before + len as u64).checked_next_multiple_of(page);
    let whole = whole.and_then(|n| usize::try_from(n).ok()).ok_or("no window is as long")?;
    let map = match sealed {
        true => Mapping::new(memory, at - before, whole, Access::ReadWrite),
        false => Mapping::guarded(memory, at - before, whole, Access::ReadWrite),
    };
    let span = map.map_err(|e| e.to_string())?.write().ok_or("it cannot be written")?;
    span.part(before as usize, len).map_err(|e| e.to_string())
}

/// What one call was lent.
#[derive(Default)]
struct LentBuffers(Mutex<Vec<Mapped>>);

/// Lends a session's buffers to the calls of one of its channels.
pub struct BufferLender {
    buffers: Arc<Buffers>,
    session: u64,
    pulse: Arc<Pulse>,
    /// Of which call, as the pulse counted, and what it was lent. A call that is answered
    /// later keeps it by itself.
    current: Mutex<(u64, Arc<LentBuffers>)>,
}

impl BufferLender {
    pub fn new(buffers: Arc<Buffers>, session: u64, pulse: Arc<Pulse>) -> Arc<Self> {
        Arc::new(BufferLender { buffers, session, pulse, current: Mutex::default() })
    }

    /// Takes back what was lent to a call that has ended.
    pub fn expire(&self) {
        drop(self.of_call());
    }

    /// What the call under way was lent; of an earlier one nothing is left.
    fn of_call(&self) -> Arc<LentBuffers> {
        let mut current = locked(&self.current);
        let calls = self.pulse.calls();
        if current.0 != calls {
            *current = (calls, Arc::default());
        }
        current.1.clone()
    }

    /// Keeps a buffer during the call under way.
    fn keep(&self, mapped: Mapped) {
        let lent = self.of_call();
        let mut lent = locked(&lent.0);
        if !lent.iter().any(|other| Arc::ptr_eq(other, &mapped)) {
            lent.push(mapped);
        }
    }
}

impl LendBuffers for Arc<BufferLender> {
    fn lend(&self, handle: u64) -> Result<(*mut u8, usize), BufferRefused> {
        let mapped = self.buffers.of(self.session, handle)?;
        // A table is never lent as a buffer: a function would write page numbers that a program chose.
        let Memory::Both(span) = &mapped.memory else { return Err(BufferRefused::Unknown) };
        let at = (span.as_mut_ptr(), span.len());
        self.keep(mapped);
        Ok(at)
    }

    fn lend_pages(&self, handle: u64) -> Result<PagesPlace, BufferRefused> {
        let mapped = self.buffers.of(self.session, handle)?;
        let Memory::Pages(table, vm) = &mapped.memory else { return Err(BufferRefused::Unknown) };
        let place = PagesPlace {
            table: table.as_ptr().cast(),
            table_len: table.len() as u64,
            vm: vm.as_mut_ptr().cast(),
            vm_len: vm.len() as u64,
        };
        self.keep(mapped);
        Ok(place)
    }

    fn pins(&self) -> Option<Pins> {
        Some(self.of_call())
    }
}

/// Buffers that the manager took away and that a call uses still.
#[derive(Default)]
pub struct LeavingBuffers(BTreeMap<u64, Weak<MappedBuffer>>);

impl LeavingBuffers {
    /// One more. One that is leaving already goes on as it does: another manager says it
    /// again, and no call finds the buffer any more, but one may use it still.
    pub fn push(&mut self, buffer: u64, mapped: Option<Weak<MappedBuffer>>) {
        self.0.entry(buffer).or_insert(mapped.unwrap_or_default());
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that nobody uses any more; they are unmapped.
    pub fn left(&mut self) -> Vec<u64> {
        let mut left = vec![];
        self.0.retain(|&buffer, mapped| {
            let used = mapped.strong_count() > 0;
            if !used {
                left.push(buffer);
            }
            used
        });
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, DriverError, OpenCalls, Out};
    use vfun_window::memfd;

    fn came(buffer: u64, session: u64, offset: u64) -> BufferCame {
        BufferCame {
            buffer,
            session,
            origin: 4096,
            offset,
            bytes: 4096,
            sealed: true,
            pages: false,
        }
    }

    struct Bed {
        buffers: Arc<Buffers>,
        memory: OwnedFd,
        window: WriteSpan,
    }

    /// Two sessions with a buffer each.
    fn bed() -> Bed {
        let memory = memfd("t", 1 << 16).unwrap();
        let window = Mapping::new(&memory, 4096, 1 << 15, Access::ReadWrite).unwrap();
        let (buffers, window) = (Arc::<Buffers>::default(), window.write().unwrap());
        for (buffer, session, offset) in [(71, 1, 4096), (72, 2, 8192)] {
            buffers
                .came(&came(buffer, session, offset), vec![memory.try_clone().unwrap()])
                .unwrap();
        }
        Bed { buffers, memory, window }
    }

    fn channel(b: &Bed, session: u64) -> (Arc<Pulse>, Arc<BufferLender>, OpenCalls) {
        let pulse = Arc::new(Pulse::default());
        let lender = BufferLender::new(b.buffers.clone(), session, pulse.clone());
        (pulse, lender.clone(), OpenCalls::of_channel(|| (), || 0, lender))
    }

    #[test]
    fn calls_find_the_buffers_of_their_own_session_alone() {
        let b = bed();
        let (pulse, _, calls) = channel(&b, 1);
        let mut room = [0; 8];
        let out = Out::private_later(&mut room, &calls);
        pulse.begin();
        b.window.write(4096, b"one").unwrap();
        let own = out.buffer(71).unwrap();
        let mut got = [0; 3];
        own.read_at(0, &mut got).unwrap();
        assert_eq!((&got, own.len()), (b"one", 4096));
        own.write_at(4093, b"end").unwrap();
        b.window.read(8189, &mut got).unwrap();
        assert_eq!(&got, b"end");
        for other in [72, 73, 0] {
            let e: DriverError = out.buffer(other).unwrap_err();
            assert_eq!(e.code, crate::abi::BAD_ARGS, "{}", e.sentence);
        }
        let (_, _, nobody) = channel(&b, 0);
        b.buffers.came(&came(74, 0, 12288), vec![b.memory.try_clone().unwrap()]).unwrap();
        assert!(Out::private_later(&mut [0; 8], &nobody).buffer(74).is_err());
        assert!(Out::private(&mut [0; 8]).buffer(71).is_err());
        let _ = Args::private(&[]);
    }

    #[test]
    fn a_buffer_is_let_go_of_when_no_call_uses_it() {
        let b = bed();
        let (pulse, lender, calls) = channel(&b, 1);
        let mut room = [0; 8];
        let mut leaving = LeavingBuffers::default();
        // One that no call was lent, and one that nobody has: at once.
        leaving.push(72, b.buffers.gone(72));
        leaving.push(99, b.buffers.gone(99));
        assert_eq!(leaving.left(), [72, 99]);
        // One that a call uses: when that ends.
        pulse.begin();
        Out::private_later(&mut room, &calls).buffer(71).unwrap();
        leaving.push(71, b.buffers.gone(71));
        lender.expire();
        assert!(leaving.left().is_empty(), "its call is under way");
        // Another manager says it again.
        leaving.push(71, b.buffers.gone(71));
        assert!(leaving.left().is_empty(), "its call is under way still");
        assert!(Out::private_later(&mut room, &calls).buffer(71).is_err(), "found no more");
        pulse.end();
        lender.expire();
        assert_eq!(leaving.left(), [71]);
        assert!(leaving.is_empty());
    }

    #[test]
    fn a_call_that_is_answered_later_keeps_its_buffers() {
        let b = bed();
        let (pulse, lender, calls) = channel(&b, 1);
        let (mut room, mut leaving) = ([0; 8], LeavingBuffers::default());
        pulse.begin();
        let mut out = Out::private_later(&mut room, &calls);
        let answerer = out.later().unwrap();
        // Lent after the handle was taken.
        let at = out.buffer(71).unwrap();
        pulse.end();
        let held = calls.hold(0).unwrap();
        leaving.push(71, b.buffers.gone(71));
        lender.expire();
        assert!(leaving.left().is_empty(), "it is not answered");
        at.write_at(0, b"late").unwrap();
        // Cancelled, its driver may write there until it answers.
        drop(held);
        lender.expire();
        assert!(leaving.left().is_empty());
        let _ = answerer.answer(&[]);
        assert_eq!(leaving.left(), [71]);
    }

    #[test]
    fn a_table_is_no_buffer_and_a_buffer_no_table() {
        let b = bed();
        let vm = memfd("vm", 1 << 16).unwrap();
        let table = BufferCame { pages: true, ..came(90, 1, 12288) };
        let files = || [&b.memory, &vm].map(|file| file.try_clone().unwrap()).into();
        b.buffers.came(&table, files()).unwrap();
        let (_, lender, _) = channel(&b, 1);
        assert_eq!(lender.lend(90).err(), Some(BufferRefused::Unknown));
        assert_eq!(lender.lend_pages(71).err(), Some(BufferRefused::Unknown));
        let place = lender.lend_pages(90).unwrap();
        assert_eq!((place.table_len, place.vm_len), (4096, 1 << 16));
        // Tables of one VM share what is mapped of it.
        b.buffers.came(&BufferCame { buffer: 91, ..table.clone() }, files()).unwrap();
        assert_eq!(lender.lend_pages(91).unwrap().vm, place.vm);
        // Another app's is not found.
        let (_, other, _) = channel(&b, 2);
        assert_eq!(other.lend_pages(90).err(), Some(BufferRefused::Unknown));
        // Without the VM's memory there is none.
        let without = BufferCame { buffer: 92, ..table };
        let why = b.buffers.came(&without, vec![b.memory.try_clone().unwrap()]).unwrap_err();
        assert!(why.contains("the VM's memory"), "{why}");
        assert_eq!(lender.lend_pages(92).err(), Some(BufferRefused::Unmapped));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let b = bed();
        let fd = || vec![b.memory.try_clone().unwrap()];
        let wrong = |change: fn(&mut BufferCame)| {
            let mut c = came(80, 1, 4096);
            change(&mut c);
            b.buffers.came(&c, fd()).unwrap_err()
        };
        assert!(wrong(|c| c.bytes = 1 << 20).contains("ends at"));
        assert!(wrong(|c| c.bytes = 0).contains("whole pages"));
        assert!(wrong(|c| c.offset = 1).contains("whole pages"));
        assert!(wrong(|c| c.bytes = u64::MAX - 4095).contains("as long"));
        assert!(wrong(|c| c.origin = u64::MAX).contains("as long"));
        b.buffers.came(&came(71, 9, 0), fd()).expect("told again it stays as it is");
        assert!(b.buffers.of(1, 71).is_ok() && b.buffers.of(9, 71).is_err());
        // Its own app is told another thing of one that is not mapped than of none.
        assert_eq!(b.buffers.of(1, 80).err(), Some(BufferRefused::Unmapped));
        assert_eq!(b.buffers.of(2, 80).err(), Some(BufferRefused::Unknown));
        b.buffers.came(&came(80, 1, 4096), fd()).expect("told again it can be");
        assert!(b.buffers.of(1, 80).is_ok());
    }

    #[test]
    fn only_files_of_huge_pages_are_mapped_by_huge_pages() {
        const TMPFS_MAGIC: i64 = 0x0102_1994;
        assert_eq!(huge_page(HUGETLBFS_MAGIC, 2 << 20), Some(2 << 20));
        assert_eq!(huge_page(HUGETLBFS_MAGIC, 1 << 30), Some(1 << 30));
        assert_eq!(huge_page(TMPFS_MAGIC, 2 << 20), None, "as with huge=always");
        assert_eq!(huge_page(HUGETLBFS_MAGIC, 3 << 20), None);
    }

    #[test]
    fn buffers_in_files_leave_the_guarded_places_of_channels_free() {
        let b = bed();
        let give = |buffer| {
            let came = BufferCame { sealed: false, ..came(buffer, 1, 4096) };
            b.buffers.came(&came, vec![b.memory.try_clone().unwrap()])
        };
        let (first, beyond) = (1000, 1000 + GUARDED as u64);
        (first..beyond).for_each(|buffer| give(buffer).unwrap());
        assert!(give(beyond).unwrap_err().contains("1024 buffers"));
        let (pulse, lender, calls) = channel(&b, 1);
        let mut room = [0; 8];
        let out = Out::private_later(&mut room, &calls);
        pulse.begin();
        let e = out.buffer(beyond).unwrap_err();
        assert!(e.code == crate::abi::PANIC && e.sentence.contains("is not mapped"), "{e}");
        let of_channel = || Mapping::guarded(&b.memory, 0, 4096, Access::ReadWrite);
        let _others: Vec<_> = (GUARDED..vfun_window::GUARDED_MAX).map(|_| of_channel()).collect();
        assert!(_others.iter().all(Result::is_ok) && of_channel().is_err());
        // One that was given back counts while a call uses it.
        out.buffer(first).unwrap();
        b.buffers.gone(first);
        assert!(give(beyond).is_err());
        pulse.end();
        lender.expire();
        give(beyond).unwrap();
    }
}
