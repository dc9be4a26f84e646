//! What this process has mapped, as `/proc/self/maps` says.

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
    pub file: (String, u64),
}

/// The one that has this address.
pub fn mapping_at(addr: usize) -> Option<Mapping> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    text.lines().filter_map(parse).find(|m| (m.from..m.to).contains(&addr))
}

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let has = |at: usize, letter: u8| rights.get(at) == Some(&letter);
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let file = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some(Mapping {
        from: usize::from_str_radix(from, 16).ok()?,
        to: usize::from_str_radix(to, 16).ok()?,
        is_readable: has(0, b'r'),
        is_writable: has(1, b'w'),
        is_executable: has(2, b'x'),
        is_shared: has(3, b's'),
        offset,
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let line = "7f1c2a000000-7f1c2a021000 rw-s 00010000 00:01 2053   /memfd:window (deleted)";
        let mapping = parse(line).expect("a mapping");
        assert_eq!((mapping.from, mapping.to), (0x7f1c_2a00_0000, 0x7f1c_2a02_1000));
        assert!(mapping.is_readable && mapping.is_writable && !mapping.is_executable);
        assert!(mapping.is_shared);
        assert_eq!((mapping.offset, mapping.file), (0x10000, ("00:01".into(), 2053)));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn a_place_on_the_stack_is_found() {
        let here = 0;
        let mapping = mapping_at((&raw const here).addr()).expect("it is mapped");
        assert!(mapping.is_writable && !mapping.is_shared);
    }
}
