//! What this process has mapped: by the kernel's question for one address (Linux 6.11), or as `/proc/self/maps`
//! says, which takes longer the more mappings there are.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub from: usize,
    pub to: usize,
    pub is_readable: bool,
    pub is_writable: bool,
    pub is_executable: bool,
    pub is_shared: bool,
    /// Of its first byte in its file.
    pub offset: u64,
    /// The file: device and inode.
    pub file: ((u32, u32), u64),
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY`.
const QUERY: libc::Ioctl = libc::_IOWR::<Query>(b'f' as u32, 17);
/// `PROCMAP_QUERY_VMA_READABLE`, and so on.
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// The mappings of this process, as they are while this is there.
pub struct Maps {
    file: File,
    /// All lines, where the kernel has no question for one address.
    text: Option<String>,
}

impl Maps {
    /// `None`: there is no `/proc`.
    pub fn open() -> Option<Self> {
        Some(Maps { file: File::open("/proc/self/maps").ok()?, text: None })
    }

    /// The one that has this address.
    pub fn at(&mut self, addr: usize) -> Option<Mapping> {
        if self.text.is_none() {
            match self.ask(addr) {
                Ok(mapping) => return Some(mapping),
                Err(libc::ENOENT) => return None,
                // An older kernel, or one that does not let this process ask.
                Err(_) => {
                    let mut text = String::new();
                    self.file.read_to_string(&mut text).ok()?;
                    self.text = Some(text);
                }
            }
        }
        let text = self.text.as_deref()?;
        text.lines().filter_map(parse).find(|m| (m.from..m.to).contains(&addr))
    }

    /// Asks the kernel; a number of `errno.h`: it has no such question, or nothing is there.
    fn ask(&self, addr: usize) -> Result<Mapping, i32> {
        let mut query = Query { size: size_of::<Query>() as u64, ..Query::default() };
        query.query_addr = addr as u64;
        // SAFETY: the struct is ours, and as long as it says. It names no other memory.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), QUERY, &raw mut query) } != 0 {
            return Err(crate::errno::last().0);
        }
        let has = |flag| query.vma_flags & flag != 0;
        Ok(Mapping {
            from: query.vma_start as usize,
            to: query.vma_end as usize,
            is_readable: has(READABLE),
            is_writable: has(WRITABLE),
            is_executable: has(EXECUTABLE),
            is_shared: has(SHARED),
            offset: query.vma_offset,
            file: ((query.dev_major, query.dev_minor), query.inode),
        })
    }
}

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let has = |at: usize, letter: u8| rights.get(at) == Some(&letter);
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (hex(major)? as u32, hex(minor)? as u32);
    Some(Mapping {
        from: hex(from)?,
        to: hex(to)?,
        is_readable: has(0, b'r'),
        is_writable: has(1, b'w'),
        is_executable: has(2, b'x'),
        is_shared: has(3, b's'),
        offset,
        file: (device, words.next()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let line = "7f1c2a000000-7f1c2a021000 rw-s 00010000 00:1f 2053   /memfd:window (deleted)";
        let mapping = parse(line).expect("a mapping");
        assert_eq!((mapping.from, mapping.to), (0x7f1c_2a00_0000, 0x7f1c_2a02_1000));
        assert!(mapping.is_readable && mapping.is_writable && !mapping.is_executable);
        assert!(mapping.is_shared);
        assert_eq!((mapping.offset, mapping.file), (0x10000, ((0, 0x1f), 2053)));
        assert_eq!(parse("nonsense"), None);
    }

    /// By both ways, of the stack, of code, and of a file.
    #[test]
    fn both_ways_say_the_same() {
        let here = 0;
        let file = File::open("/proc/self/exe").expect("this program");
        // SAFETY: a new mapping.
        let mapped = unsafe {
            let (rights, kind) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), 8192, rights, kind, file.as_raw_fd(), 4096)
        };
        let code = both_ways_say_the_same as fn();
        for addr in [(&raw const here).addr(), code as usize, mapped.addr() + 5000] {
            let mut maps = Maps::open().expect("there is /proc");
            let asked = maps.ask(addr);
            let mut text = String::new();
            maps.file.read_to_string(&mut text).expect("text");
            maps.text = Some(text);
            let said = maps.at(addr).expect("it is mapped");
            assert!((said.from..said.to).contains(&addr));
            match asked {
                Err(number) => assert_eq!(number, libc::ENOTTY),
                Ok(mapping) => assert_eq!(mapping, said),
            }
        }
        let mapping = Maps::open().and_then(|mut maps| maps.at(mapped.addr())).expect("mapped");
        assert_eq!((mapping.offset, mapping.is_shared, mapping.is_writable), (4096, true, false));
        assert_eq!(Maps::open().and_then(|mut maps| maps.at(1)), None);
    }
}
