//! Refusals: every control request is answered by an ack, or by a nack with a
//! code for programs and a sentence for people.

use crate::limits::SENTENCE_BYTES;
use crate::open_enum::wire_enum;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

wire_enum! {
    /// Why a request was refused.
    pub enum NackCode: u32 {
        /// The request could not be read: length, reserved bytes or a name.
        Malformed = 1 => "malformed request",
        /// No protocol version is spoken by both sides.
        WrongProtocol = 2 => "no common protocol version",
        /// The message number is not one this manager knows, or its feature is not in force.
        Unsupported = 3 => "unsupported request",
        /// No function of this name is offered to this client.
        UnknownFunction = 4 => "unknown function",
        /// The function exists, but not in a version that serves this caller.
        WrongVersion = 5 => "wrong version",
        /// Policy does not let this client or app use the function.
        Denied = 6 => "denied",
        /// The app's credential is missing or wrong.
        BadCredential = 7 => "bad credential",
        /// The client has as many grants or bytes as it may have.
        OverQuota = 8 => "over quota",
        /// The window or the host has no room for this channel now.
        NoCapacity = 9 => "no capacity",
        /// Every hardware instance is taken: ask again for software?
        DeviceBusy = 10 => "device busy",
        /// The function has no hardware back end: ask again for software?
        NoHardware = 11 => "no hardware",
        /// The handle is unknown, or belongs to somebody else.
        BadHandle = 12 => "bad handle",
        /// The handle is of an earlier generation: its owner was cleaned up or the manager started anew.
        Stale = 13 => "stale handle",
        /// The service could not be started.
        ServiceFailed = 14 => "service failed",
        /// The manager is finishing what is in flight and takes nothing new.
        Draining = 15 => "draining",
        /// The arguments asked for (depth, bytes, deadline) are beyond a limit.
        BeyondLimit = 16 => "beyond a limit",
        /// The request is valid, but not in this state (active already, not active).
        WrongState = 17 => "wrong state",
        /// The caller was made for other argument or result types than the function has.
        WrongSignature = 18 => "wrong signature",
        /// The function is being started, or its service does not take a buffer, and that takes its
        /// time: ask again in a few seconds.
        Starting = 19 => "still starting",
    }
}

/// A refusal, as bytes: code, what would help, and the sentence.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct NackBody {
    /// Why it is refused: a [`NackCode`].
    pub code: U32,
    /// 1 where the same request for software would be granted.
    pub software_instead: u8,
    pub reserved: u8,
    /// Bytes of `sentence` in use.
    pub sentence_len: U16,
    /// UTF-8, one sentence: what is wrong and what to do.
    pub sentence: [u8; SENTENCE_BYTES],
}
const _: () = assert!(size_of::<NackBody>() == 520);

/// A refusal as programs handle it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// Why it is refused, for programs.
    pub code: NackCode,
    /// Why it is refused and what to do, for people.
    pub sentence: String,
    /// Whether the same request for software would be granted.
    pub software_instead: bool,
}

impl Nack {
    /// A refusal with its sentence.
    pub fn new(code: NackCode, sentence: impl Into<String>) -> Self {
        Nack { code, sentence: sentence.into(), software_instead: false }
    }

    /// The same, offering software instead of hardware.
    pub fn offering_software(mut self) -> Self {
        self.software_instead = true;
        self
    }

    /// As it stands in an answer. A sentence beyond its room is cut at a character.
    pub fn encode(&self) -> NackBody {
        let mut cut = self.sentence.len().min(SENTENCE_BYTES);
        while !self.sentence.is_char_boundary(cut) {
            cut -= 1;
        }
        let mut sentence = [0; SENTENCE_BYTES];
        sentence[..cut].copy_from_slice(&self.sentence.as_bytes()[..cut]);
        NackBody {
            code: U32::new(self.code.to_wire()),
            software_instead: self.software_instead as u8,
            reserved: 0,
            sentence_len: U16::new(cut as u16),
            sentence,
        }
    }

    /// From a host's bytes, which are checked as a guest's are.
    pub fn decode(body: &[u8]) -> Self {
        let unreadable = || Nack::new(NackCode::Malformed, "the host's refusal could not be read");
        let Ok((b, _)) = NackBody::ref_from_prefix(body) else { return unreadable() };
        let Some(code) = NackCode::from_wire(b.code.get()) else {
            return Nack::new(
                NackCode::Unsupported,
                format!("the host refused with code {}, which this version does not know", b.code),
            );
        };
        let len = usize::from(b.sentence_len.get());
        let Some(bytes) = b.sentence.get(..len) else { return unreadable() };
        Nack {
            code,
            sentence: String::from_utf8_lossy(bytes).into_owned(),
            software_instead: b.software_instead == 1,
        }
    }
}

impl core::fmt::Display for Nack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.code, self.sentence)?;
        if self.software_instead {
            f.write_str(" It can be had in software.")?;
        }
        Ok(())
    }
}
impl std::error::Error for Nack {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_nack_survives_the_wire() {
        let n = Nack::new(NackCode::DeviceBusy, "all 2 VFs are taken").offering_software();
        assert_eq!(Nack::decode(n.encode().as_bytes()), n);
        assert!(n.to_string().ends_with("taken It can be had in software."), "{n}");
    }

    #[test]
    fn a_long_sentence_is_cut_at_a_character() {
        let n = Nack::new(NackCode::Denied, "é".repeat(400));
        assert_eq!(Nack::decode(n.encode().as_bytes()).sentence.len(), 512);
        let n = Nack::new(NackCode::Denied, format!("x{}", "é".repeat(400)));
        assert_eq!(Nack::decode(n.encode().as_bytes()).sentence.len(), 511);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_some_nack(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Nack::decode(&bytes).to_string();
        }
    }
}
