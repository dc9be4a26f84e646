//! Attributes: numbered values in a message.

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NlasIterator};

/// Calls `see` with each attribute's number and value. Stops at one that cannot be read.
///
/// # Errors
/// A sentence, if one cannot be read.
pub fn each<'a>(bytes: &'a [u8], mut see: impl FnMut(u16, &'a [u8])) -> Result<(), String> {
    let mut rest = bytes;
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute.map_err(|e| e.to_string())?;
        // `value` of the iterator's own item does not live long enough.
        let (length, kind) = (usize::from(attribute.length()), attribute.kind());
        see(kind, &rest[4..length]);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// An attribute's bytes, padded.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let nla = DefaultNla::new(kind, value.to_vec());
    let mut bytes = vec![0; nla.buffer_len()];
    nla.emit(&mut bytes);
    bytes
}

/// One that holds others.
pub fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, &attributes.concat())
}

/// A text that ends with a zero.
pub fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// A number of 32 bits.
pub fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

/// Reads a number of 32 bits.
pub fn as_u32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Reads a number of 8 bits.
pub fn as_u8(value: &[u8]) -> Option<u8> {
    value.first().copied()
}

/// Reads a text.
pub fn as_text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_come_back_as_they_went() {
        let bytes = [text(3, "eth0"), number(4, 7), nested(18, &[number(1, 2)])].concat();
        let mut seen = vec![];
        each(&bytes, |kind, value| seen.push((kind, value.to_vec()))).unwrap();
        assert_eq!(seen[0], (3, b"eth0\0".to_vec()));
        assert_eq!(seen[1], (4, 7u32.to_ne_bytes().to_vec()));
        assert_eq!(seen[2], (18, number(1, 2)));
    }

    #[test]
    fn those_before_an_unreadable_one_are_seen() {
        let mut bytes = number(4, 7);
        bytes.extend([200, 0, 1, 0, 0]);
        let mut seen = 0;
        assert!(each(&bytes, |_, _| seen += 1).is_err());
        assert_eq!(seen, 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = each(&bytes, |_, value| { as_text(value); });
        }
    }
}
