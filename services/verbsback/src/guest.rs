//! Pages of a VM's own memory, as the guest's kernel module names them in a table ([`vfun_wire::pages`]).
//!
//! A number of a page is of the guest's address space. QEMU and its kin put memory from address 0 on, up to some
//! bound below 4 GiB where devices begin, and the rest from 4 GiB on; the file has no such hole. Which bound it is
//! depends on the machine. It is found by the page that the module keeps beyond 4 GiB, and no page is believed in
//! whose half of the memory the module's own page was not found.

use crate::errno::Errno;
use vfun_verbs_nic::{PageRun, WindowId};
use vfun_window::{ReadSpan, WriteSpan};
use vfun_wire::PAGE;
use vfun_wire::pages::{ENTRIES, ENTRY_BYTES, ENTRY_THERE, ENTRY_WRITE, MAGIC, NO_PAGE, PagesHead};
use zerocopy::{FromZeros, IntoBytes};

/// Pages below 4 GiB.
const BELOW: u64 = (4 << 30) / PAGE as u64;
/// Where memory may end below 4 GiB, MiB: QEMU's machines (`pc`, `q35`, `microvm`), Cloud Hypervisor and
/// Firecracker. One with another bound is not known, and its memory moves into the window.
const BOUNDS_MIB: [u64; 6] = [2048, 2816, 3072, 3328, 3584, 3840];
const PAGES_OF_MIB: u64 = (1 << 20) / PAGE as u64;

/// A table of pages and the memory that they are of.
pub struct GuestPages {
    table: ReadSpan,
    /// Pages from address 0 on that may be named, if any.
    low: Option<u64>,
    /// Where memory from 4 GiB on begins in the file, in pages, if it may be named.
    high: Option<u64>,
    /// Pages of the file.
    all: u64,
}

impl GuestPages {
    /// Reads the head of a table.
    ///
    /// # Errors
    /// [`Errno::UNSUPPORTED`]: the module's own pages are not where they should be.
    pub fn new(table: ReadSpan, vm: &WriteSpan) -> Result<Self, Errno> {
        let mut head = PagesHead::new_zeroed();
        table.read(0, head.as_mut_bytes()).map_err(|_| Errno::UNSUPPORTED)?;
        let all = (vm.len() / PAGE) as u64;
        let is_there = |page: u64| {
            let mut secret = [0; 16];
            let at = usize::try_from(page).ok().and_then(|page| page.checked_mul(PAGE));
            at.is_some_and(|at| vm.reader().read(at, &mut secret).is_ok()) && secret == head.secret
        };
        if head.magic.get() != MAGIC || head.secret == [0; 16] {
            return Err(Errno::UNSUPPORTED);
        }
        let own = |page: u64| Some(page).filter(|page| *page != NO_PAGE);
        let beyond = own(head.high.get()).and_then(|page| page.checked_sub(BELOW));
        let high = beyond.and_then(|page| {
            let bounds = BOUNDS_MIB.into_iter().map(|mib| mib * PAGES_OF_MIB);
            // The page below 4 GiB begins with the same bytes.
            let at = |bound| page.checked_add(bound).filter(|at| *at != head.low.get());
            bounds.into_iter().find(|bound| at(*bound).is_some_and(is_there))
        });
        let below = own(head.low.get()).filter(|page| *page < BELOW && is_there(*page));
        let low = below.map(|_| high.unwrap_or(all).min(BELOW));
        match (low, high) {
            (None, None) => Err(Errno::UNSUPPORTED),
            _ => Ok(GuestPages { table, low, high, all }),
        }
    }

    /// Where a page of the guest is in the file.
    fn place(&self, page: u64) -> Option<u64> {
        let place = match page.checked_sub(BELOW) {
            None => self.low.filter(|low| page < *low).map(|_| page),
            Some(beyond) => self.high.and_then(|at| at.checked_add(beyond)),
        };
        place.filter(|place| *place < self.all)
    }

    /// The places that the table has.
    fn places(&self) -> u64 {
        (self.table.len().saturating_sub(ENTRIES) / ENTRY_BYTES) as u64
    }

    /// Gives `push` the pages at `count` places from `first` on, as runs of the window that is the VM's memory.
    ///
    /// # Errors
    /// [`Errno::INVALID`]: there are no such places, or no page at one that may be used so.
    /// [`Errno::UNSUPPORTED`]: it is not known where a page is. What `push` says.
    pub fn each_run(
        &self,
        window: WindowId,
        (first, count): (u64, u64),
        is_written: bool,
        mut push: impl FnMut(PageRun) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let end = first.checked_add(count).filter(|end| *end <= self.places());
        let end = end.filter(|_| count > 0).ok_or(Errno::INVALID)?;
        let mut run: Option<PageRun> = None;
        for place in first..end {
            let page = self.page_at(place, is_written)?;
            match &mut run {
                Some(run) if run.page + run.pages == page => run.pages += 1,
                _ => run.replace(PageRun { window, page, pages: 1 }).map_or(Ok(()), &mut push)?,
            }
        }
        run.map_or(Ok(()), push)
    }

    /// The page of the file at a place, read once.
    fn page_at(&self, place: u64, is_written: bool) -> Result<u64, Errno> {
        let mut entry = [0; ENTRY_BYTES];
        let at = ENTRIES + place as usize * ENTRY_BYTES;
        self.table.read(at, &mut entry).map_err(|_| Errno::INVALID)?;
        let entry = u64::from_le_bytes(entry);
        if entry & ENTRY_THERE == 0 || is_written && entry & ENTRY_WRITE == 0 {
            return Err(Errno::INVALID);
        }
        self.place(entry & (ENTRY_WRITE - 1)).ok_or(Errno::UNSUPPORTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_window::{Access, Mapping};

    const LOW: u64 = 7;

    /// Memory of so many pages, sparse, and a table with these entries.
    fn spans(pages: usize, head: (u64, u64), entries: &[u64]) -> (ReadSpan, WriteSpan) {
        let file = |bytes: usize| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(bytes as u64).unwrap();
            Mapping::new(&file, 0, bytes, Access::ReadWrite).unwrap().write().unwrap()
        };
        let (table, vm) = (file(2 * PAGE), file(pages * PAGE));
        let mut page = PagesHead::new_zeroed();
        (page.magic, page.secret) = (MAGIC.into(), *b"0123456789abcdef");
        (page.low, page.high) = (head.0.into(), head.1.into());
        table.write(0, page.as_bytes()).unwrap();
        for (place, entry) in entries.iter().enumerate() {
            table.write(ENTRIES + place * ENTRY_BYTES, &entry.to_le_bytes()).unwrap();
        }
        (table.reader(), vm)
    }

    fn prove(vm: &WriteSpan, page: u64) {
        vm.write(page as usize * PAGE, b"0123456789abcdef").unwrap();
    }

    fn runs(
        of: &GuestPages,
        first: u64,
        count: u64,
        written: bool,
    ) -> Result<Vec<(u64, u64)>, Errno> {
        let mut engine = crate::station::NicEngine::new(|| 7);
        let window = engine.add_window(spans(1, (0, 0), &[]).1).unwrap();
        let mut all = vec![];
        of.each_run(window, (first, count), written, |run| {
            all.push((run.page, run.pages));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn pages_are_found_on_both_sides_of_the_hole() {
        // 3 GiB, of which 2 lie below the hole, as QEMU's q35 has it.
        let low_end = 2048 * PAGES_OF_MIB;
        let of = |page: u64| ENTRY_THERE | page;
        let entries =
            [of(10), of(11), of(BELOW), of(BELOW + 1), of(low_end), of(BELOW + low_end), 12];
        let (table, vm) = spans(3 * 256 * 1024, (LOW, BELOW + 5), &entries);
        prove(&vm, LOW);
        prove(&vm, low_end + 5);
        let pages = GuestPages::new(table, &vm).unwrap();
        assert_eq!(runs(&pages, 0, 4, false), Ok(vec![(10, 2), (low_end, 2)]));
        assert_eq!(runs(&pages, 4, 1, false), Err(Errno::UNSUPPORTED), "in the hole");
        assert_eq!(runs(&pages, 5, 1, false), Err(Errno::UNSUPPORTED), "beyond the end");
        assert_eq!(runs(&pages, 6, 1, false), Err(Errno::INVALID), "no page is there");
        assert_eq!(runs(&pages, 0, 1, true), Err(Errno::INVALID), "it may only be read");
        for (first, count) in [(0, 0), (511, 2), (u64::MAX, 2), (0, u64::MAX)] {
            assert_eq!(runs(&pages, first, count, false), Err(Errno::INVALID));
        }
    }

    #[test]
    fn no_half_is_believed_in_whose_own_page_is_not_there() {
        let entries = [ENTRY_THERE | ENTRY_WRITE | 1, ENTRY_THERE | BELOW];
        let fails = |pages, head, prove_at: &[u64]| {
            let (table, vm) = spans(pages, head, &entries);
            prove_at.iter().for_each(|page| prove(&vm, *page));
            GuestPages::new(table, &vm).err()
        };
        assert_eq!(fails(100, (LOW, NO_PAGE), &[]), Some(Errno::UNSUPPORTED));
        assert_eq!(fails(100, (NO_PAGE, NO_PAGE), &[LOW]), Some(Errno::UNSUPPORTED));
        assert_eq!(fails(100, (1 << 60, u64::MAX - 1), &[LOW]), Some(Errno::UNSUPPORTED));
        assert_eq!(fails(100, (LOW, NO_PAGE), &[LOW]), None);
        // One half alone.
        let (table, vm) = spans(100, (LOW, BELOW), &entries);
        prove(&vm, LOW);
        let pages = GuestPages::new(table, &vm).unwrap();
        assert_eq!(runs(&pages, 0, 1, true), Ok(vec![(1, 1)]));
        assert_eq!(runs(&pages, 1, 1, false), Err(Errno::UNSUPPORTED));
        // The page below 4 GiB proves nothing of those above, though it lies where one of them may be.
        let low = 2048 * PAGES_OF_MIB + 9;
        let (table, vm) = spans(3 * 256 * 1024, (low, BELOW + 9), &[ENTRY_THERE | BELOW]);
        prove(&vm, low);
        prove(&vm, 2816 * PAGES_OF_MIB + 9);
        let pages = GuestPages::new(table, &vm).unwrap();
        assert_eq!(runs(&pages, 0, 1, false), Ok(vec![(2816 * PAGES_OF_MIB, 1)]));
    }
}
