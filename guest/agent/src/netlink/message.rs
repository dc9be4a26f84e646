//! Messages: a header of 16 bytes and what follows.

use linux_raw_sys::netlink::NLM_F_DUMP_INTR;
use netlink_packet_core::{Emitable, NetlinkBuffer, NetlinkHeader};
use rustix::io::Errno;

const HEADER: usize = 16;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub body: Vec<u8>,
}

impl Message {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.length = (HEADER + self.body.len()) as u32;
        header.message_type = self.kind;
        header.flags = self.flags;
        header.sequence_number = self.sequence;
        let mut bytes = vec![0; HEADER];
        header.emit(&mut bytes);
        bytes.extend(&self.body);
        bytes
    }

    /// Whether the list changed while it was read.
    pub fn interrupted(&self) -> bool {
        u32::from(self.flags) & NLM_F_DUMP_INTR != 0
    }

    /// The error of an error message or of a list's end; none if all went well.
    pub fn error(&self) -> Option<Errno> {
        let code = self.body.get(..4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes)?;
        (code < 0).then(|| Errno::from_raw_os_error(code.checked_neg().unwrap_or(i32::MAX)))
    }
}

/// Takes the next message off the bytes.
///
/// # Errors
/// A sentence, if there is none to read; the bytes that are left are of no use then.
pub fn take(bytes: &mut &[u8]) -> Result<Message, String> {
    let header = NetlinkBuffer::new_checked(*bytes).map_err(|e| e.to_string())?;
    let length = header.length() as usize;
    let message = Message {
        kind: header.message_type(),
        flags: header.flags(),
        sequence: header.sequence_number(),
        body: bytes[HEADER..length].to_vec(),
    };
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(body: &[u8]) -> Message {
        Message { kind: 16, flags: 2, sequence: 5, body: body.to_vec() }
    }

    #[test]
    fn messages_come_one_after_the_other() {
        let (first, second) = (message(&[1, 2, 3, 4]), message(&[]));
        let bytes = [first.to_bytes(), second.to_bytes()].concat();
        let mut rest = &bytes[..];
        assert_eq!((take(&mut rest), take(&mut rest)), (Ok(first), Ok(second)));
        assert!(rest.is_empty() && take(&mut rest).is_err());
    }

    #[test]
    fn an_error_is_found() {
        assert_eq!(message(&(-16i32).to_ne_bytes()).error(), Some(Errno::BUSY));
        assert_eq!(message(&0i32.to_ne_bytes()).error(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let mut rest = &bytes[..];
            while let Ok(message) = take(&mut rest) {
                message.error();
            }
        }
    }
}
