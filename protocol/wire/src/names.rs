//! Names on the wire: fixed room, zero-padded, of a small alphabet.

use crate::limits::NAME_BYTES;

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// No byte before the padding.
    Empty,
    /// It has more than [`NAME_BYTES`] bytes.
    TooLong,
    /// A byte outside `A-Z a-z 0-9 . _ -`, or a first byte `.` or `-`: names become paths.
    Alphabet,
    /// A byte other than zero after the first zero (R-NAM-2).
    Padding,
}

impl core::fmt::Display for NameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            NameError::Empty => "the name is empty",
            NameError::TooLong => "the name is longer than 64 bytes",
            NameError::Alphabet => {
                "the name has a character outside A-Z a-z 0-9 . _ - or starts with . or -"
            }
            NameError::Padding => "the name has bytes after its end",
        })
    }
}
impl std::error::Error for NameError {}

/// Checks a name (R-NAM-1). Names become file names, so the alphabet is small
/// and neither `.` nor `..` passes.
pub fn check(name: &str) -> Result<(), NameError> {
    let b = name.as_bytes();
    if b.is_empty() {
        return Err(NameError::Empty);
    }
    if b.len() > NAME_BYTES {
        return Err(NameError::TooLong);
    }
    let ok = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    if !b.iter().all(ok) || matches!(b[0], b'.' | b'-') {
        return Err(NameError::Alphabet);
    }
    Ok(())
}

/// A name in its room on the wire.
pub fn encode(name: &str) -> Result<[u8; NAME_BYTES], NameError> {
    check(name)?;
    let mut room = [0; NAME_BYTES];
    room[..name.len()].copy_from_slice(name.as_bytes());
    Ok(room)
}

/// The name in a peer's bytes, checked.
pub fn decode(room: &[u8; NAME_BYTES]) -> Result<&str, NameError> {
    let end = room.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES);
    if room[end..].iter().any(|&b| b != 0) {
        return Err(NameError::Padding);
    }
    let name = core::str::from_utf8(&room[..end]).map_err(|_| NameError::Alphabet)?;
    check(name)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrong_names_are_named() {
        assert_eq!(check(""), Err(NameError::Empty));
        assert_eq!(check(".."), Err(NameError::Alphabet));
        assert_eq!(check("a/b"), Err(NameError::Alphabet));
        assert_eq!(check(&"x".repeat(65)), Err(NameError::TooLong));
        let mut room = encode("ok").unwrap();
        room[10] = b'x';
        assert_eq!(decode(&room), Err(NameError::Padding));
    }

    proptest! {
        #[test]
        fn names_survive_the_wire(name in "[A-Za-z0-9_][A-Za-z0-9._-]{0,63}") {
            let room = encode(&name).unwrap();
            prop_assert_eq!(decode(&room).unwrap(), name);
        }
        #[test]
        fn any_bytes_decode_or_are_refused(room in proptest::array::uniform32(any::<u8>())) {
            let mut full = [0; NAME_BYTES];
            full[..32].copy_from_slice(&room);
            if let Ok(name) = decode(&full) {
                prop_assert_eq!(encode(name).unwrap(), full);
            }
        }
    }
}
