//! What a driver's shared library says of itself, read from its file: nothing
//! of it is run here. `services/sdk/include/vfun_driver.h` has the struct.

use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;

/// The constant that each driver exports.
const SYMBOL: &[u8] = b"vfun_driver_info";
/// The interfaces that this version knows.
const ABIS: std::ops::RangeInclusive<u32> = 1..=4;
/// Where the name lies, and how long it may be with the zero at its end.
const NAME: std::ops::Range<usize> = 8..72;
/// Up to the end of the version.
const HEAD_BYTES: usize = 76;

/// Name and version of the driver in a library; what is wrong with one that is none.
fn described<'a>(library: impl ReadRef<'a>) -> Result<(String, (u16, u16)), String> {
    let elf = object::File::parse(library).map_err(|e| format!("is no shared library: {e}"))?;
    let symbol = elf
        .dynamic_symbols()
        .find(|s| s.is_definition() && s.name_bytes() == Ok(SYMBOL))
        .ok_or("is no driver: it has no symbol vfun_driver_info (see vfun_driver.h)")?;
    let head = elf
        .sections()
        .find_map(|s| s.data_range(symbol.address(), HEAD_BYTES as u64).ok().flatten())
        .ok_or("is no driver: its vfun_driver_info has no data")?;
    let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let abi = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if !ABIS.contains(&abi) {
        return Err(format!(
            "speaks driver interface {abi}, this manager {} to {}: build it with this version's vfun_driver.h",
            ABIS.start(),
            ABIS.end()
        ));
    }
    let name = head[NAME].split(|&b| b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Ok((name, (half(NAME.end), half(NAME.end + 2))))
}

/// Refuses a library that is not the driver of this function, in this version.
pub fn check(path: &Path, name: &str, version: (u16, u16)) -> Result<(), String> {
    let file = path.display();
    let opened = std::fs::File::open(path).map_err(|e| format!("{file} cannot be read: {e}"))?;
    // Of a large library only the tables and these bytes are read.
    let (its, (major, minor)) =
        described(&ReadCache::new(opened)).map_err(|why| format!("{file} {why}"))?;
    if its != name || (major, minor) != version {
        return Err(format!(
            "{file} is the driver of '{its}' {major}.{minor}, not of '{name}' {}.{}: name the right library in the manifest. One without a path is looked for beside the manifest, then among the manager's drivers",
            version.0, version.1
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_driver_is_refused_with_its_reason() {
        assert!(described(&b"\x7fELF and nothing of the kind"[..]).is_err());
        assert!(described(&b""[..]).unwrap_err().contains("no shared library"));
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(described(&me[..]).unwrap_err().contains("no symbol vfun_driver_info"));
    }
}
