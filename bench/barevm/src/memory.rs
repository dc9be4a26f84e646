//! The machine's memory: this program's, region by region, at the same addresses.

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const PAGE: u64 = 4096;
/// Entries in a page of tables.
const ENTRIES: usize = 512;

/// Bits of an entry: present, writable, for user mode; and that nothing is run there.
const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const NO_RUN: u64 = 1 << 63;
/// The physical address in an entry.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Regions above this stay outside: nothing of a job's is that large.
const LARGEST: u64 = 1 << 30;

/// Where the tables are for the machine, and where this program's memory begins: below
/// and above what a processor may have of its own.
pub(crate) const TABLES_AT: u64 = 0x1000_0000;
const REGIONS_AT: u64 = 1 << 32;
/// Where nothing is for the machine: a store there ends its run. And its address in the
/// machine, which no program has anything at: the kernel gives no memory so far below.
const NOWHERE: u64 = 0x2000_0000;
pub(crate) const LEAVE: u64 = PAGE;

/// A page that the machine may write, too.
#[repr(C, align(4096))]
pub(crate) struct Page([AtomicU64; ENTRIES]);

impl Page {
    pub fn new() -> Self {
        Page([const { AtomicU64::new(0) }; ENTRIES])
    }
}

/// A part of this program's memory, and where the machine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub from: u64,
    pub bytes: u64,
    pub write: bool,
    pub run: bool,
    pub physical: u64,
}

/// What `/proc/self/maps` says that can be read, but for the kernel's own pages, in which
/// no job has business.
pub(crate) fn regions(maps: &str) -> Vec<Region> {
    let mut physical = REGIONS_AT;
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let may = fields.next()?;
        let name = fields.nth(3).unwrap_or_default();
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        let bytes = to.checked_sub(from).filter(|&b| b > 0 && b <= LARGEST)?;
        if !may.starts_with('r') || name.starts_with("[v") {
            return None;
        }
        let at = physical;
        physical += bytes;
        let (write, run) = (may.contains('w'), may.contains('x'));
        Some(Region { from, bytes, write, run, physical: at })
    };
    maps.lines().filter_map(line).collect()
}

/// The tables by which the machine's addresses are this program's. The first page is the
/// root.
pub(crate) struct Tables(Vec<Page>);

impl Tables {
    pub fn of(regions: &[Region]) -> Self {
        let mut tables = Tables(vec![Page::new()]);
        for region in regions {
            let may = if region.write { WRITE } else { 0 } | if region.run { 0 } else { NO_RUN };
            for off in (0..region.bytes).step_by(PAGE as usize) {
                tables.map(region.from + off, region.physical + off, may);
            }
        }
        tables.map(LEAVE, NOWHERE, WRITE | NO_RUN);
        tables
    }

    fn map(&mut self, address: u64, physical: u64, may: u64) {
        let entry = |level: u32| (address >> (12 + 9 * level)) as usize % ENTRIES;
        let mut table = 0;
        for level in [3, 2, 1] {
            let next = self.0[table].0[entry(level)].load(Ordering::Relaxed);
            table = if next == 0 {
                self.0.push(Page::new());
                let made = TABLES_AT + (self.0.len() as u64 - 1) * PAGE;
                self.0[table].0[entry(level)]
                    .store(made | PRESENT | WRITE | USER, Ordering::Relaxed);
                self.0.len() - 1
            } else {
                (((next & ADDRESS) - TABLES_AT) / PAGE) as usize
            };
        }
        self.0[table].0[entry(0)].store(physical | PRESENT | USER | may, Ordering::Relaxed);
    }

    pub fn pages(&self) -> &[Page] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d000000000-55d000003000 r-xp 00000000 fe:00 12  /bin/program
55d000003000-55d000004000 rw-p 00003000 fe:00 12  /bin/program
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000003000 rw-s 00000000 00:01 77  /memfd:window (deleted)
7f0100000000-7f0200000000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00004000 r--p 00000000 00:00 0   [vvar]
";

    /// Walks the tables as a processor does.
    fn physical(tables: &Tables, address: u64) -> Option<u64> {
        let mut table = 0;
        for level in [3, 2, 1, 0] {
            let index = (address >> (12 + 9 * level)) as usize % ENTRIES;
            let entry = tables.0[table].0[index].load(Ordering::Relaxed);
            if entry & (PRESENT | USER) != PRESENT | USER {
                return None;
            }
            if level == 0 {
                return Some((entry & ADDRESS) + address % PAGE);
            }
            table = (((entry & ADDRESS) - TABLES_AT) / PAGE) as usize;
        }
        None
    }

    #[test]
    fn each_page_has_its_place_and_others_have_none() {
        let regions = regions(MAPS);
        let may: Vec<_> = regions.iter().map(|r| (r.bytes / PAGE, r.write, r.run)).collect();
        assert_eq!(may, [(3, false, true), (1, true, false), (2, true, false)]);
        let tables = Tables::of(&regions);
        let at = |address| physical(&tables, address);
        assert_eq!(at(0x55d0_0000_2008), Some(REGIONS_AT + 0x2008));
        assert_eq!(at(0x55d0_0000_3fff), Some(REGIONS_AT + 0x3fff));
        assert_eq!(at(0x7f00_0000_2000), Some(REGIONS_AT + 0x5000));
        assert_eq!(at(LEAVE), Some(NOWHERE));
        for address in [0, 0x55d0_0000_4000, 0x7f00_0000_0000, 0x7f01_0000_0000, 0x7ffd_0000_0000] {
            assert_eq!(at(address), None, "{address:x}");
        }
    }
}
