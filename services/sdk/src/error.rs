//! How a driver says no.

use crate::abi;

/// Why a call or an `init` failed: a number for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// Positive: the driver's own. Negative: one of [`abi`]'s. Never 0.
    pub code: i32,
    /// What is wrong and what to do, without a final stop. The caller gets
    /// the first 44 bytes of it, or 252 where its cells have data space.
    pub sentence: String,
}

impl DriverError {
    /// An error of the driver's own; `code` is positive and documented by the driver.
    #[cold]
    pub fn new(code: i32, sentence: impl Into<String>) -> Self {
        DriverError { code: if code == 0 { abi::PANIC } else { code }, sentence: sentence.into() }
    }

    /// The arguments make no sense.
    #[cold]
    pub fn bad_args(sentence: impl Into<String>) -> Self {
        DriverError::new(abi::BAD_ARGS, sentence)
    }

    /// The device is gone, and the call has changed nothing that a second try
    /// would notice: a grant that holds a leased VF goes on in software, this
    /// call first; any other caller gets this error.
    #[cold]
    pub fn device_lost(sentence: impl Into<String>) -> Self {
        DriverError::new(abi::DEVICE_LOST, sentence)
    }

    /// The results do not fit the cell: the caller is told just that.
    #[cold]
    pub fn too_large(needed: usize, capacity: usize) -> Self {
        DriverError::new(
            abi::RESULT_TOO_LARGE,
            format!("{needed} bytes of results do not fit the {capacity} bytes of the cell"),
        )
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (driver's code {})", self.sentence, self.code)
    }
}
impl std::error::Error for DriverError {}

/// Writes `sentence` into C's buffer, cut between characters and zero-terminated.
pub(crate) fn to_buffer(sentence: &str, room: &mut [u8]) {
    let Some(last) = room.len().checked_sub(1) else { return };
    let cut = cut(sentence, last);
    room[..cut].copy_from_slice(&sentence.as_bytes()[..cut]);
    room[cut] = 0;
}

/// How much of `text` fits `most` bytes without cutting a character.
pub(crate) fn cut(text: &str, most: usize) -> usize {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_between_characters() {
        let mut room = [7; 6];
        to_buffer("aß→b", &mut room);
        assert_eq!(&room, b"a\xc3\x9f\0\x07\x07");
        to_buffer("", &mut room[..1]);
        assert_eq!(room[0], 0);
        to_buffer("x", &mut []);
    }

    #[test]
    fn zero_is_no_error_code() {
        assert_eq!(DriverError::new(0, "x").code, abi::PANIC);
    }
}
