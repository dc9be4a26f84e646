//! The library's errors, as they stand in frames.

use vfun::{BreakReason, Error, Status};
use vfun_wire::frame::CallAnswer;
use vfun_wire::{Nack, NackCode};
use zerocopy::little_endian::U32;

/// The answer of a call that failed, and the bytes that follow it.
pub fn of_call(error: &Error) -> (CallAnswer, Vec<u8>) {
    let none = BreakReason::None;
    let (status, broken, words) = match error {
        Error::Driver { code, sentence } => {
            let mut words = code.to_le_bytes().to_vec();
            words.extend_from_slice(sentence.as_bytes());
            (Status::DriverError, none, words)
        }
        Error::DriverCrashed => (Status::DriverCrashed, none, vec![]),
        Error::Deadline => (Status::Deadline, none, vec![]),
        Error::ServiceLost => (Status::ServiceLost, none, vec![]),
        Error::ResultTooLarge => (Status::ResultTooLarge, none, vec![]),
        Error::BadCall(status) => (*status, none, vec![]),
        Error::ArgumentsTooLong { .. } => (Status::BadLength, none, vec![]),
        Error::Released => (Status::Released, BreakReason::Released, vec![]),
        Error::Broken(reason) => (Status::ChannelBroken, *reason, vec![]),
        Error::StaleGeneration { .. } => (Status::ChannelBroken, BreakReason::Shutdown, vec![]),
        // The host's side does not answer, or not with sense.
        _ => (Status::ChannelBroken, BreakReason::NoService, vec![]),
    };
    let answer =
        CallAnswer { status: U32::new(status.to_wire()), broken: U32::new(broken.to_wire()) };
    (answer, words)
}

/// The refusal of a control request that failed.
pub fn of_request(error: Error) -> Nack {
    match error {
        Error::Refused(nack) => nack,
        Error::BadName { .. } | Error::BadOption(_) => {
            Nack::new(NackCode::BeyondLimit, error.to_string())
        }
        Error::Unsupported(what) => Nack::new(NackCode::Unsupported, what),
        other => Nack::new(NackCode::ServiceFailed, format!("{other}. {}", other.advice())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_words_come_along() {
        let (answer, words) = of_call(&Error::Driver { code: 7, sentence: "too small".into() });
        assert_eq!((answer.status.get(), answer.broken.get()), (4, 0));
        assert_eq!(words, b"\x07\0\0\0too small");
    }

    #[test]
    fn a_broken_channel_says_why() {
        let (answer, _) = of_call(&Error::Broken(BreakReason::CrashLoop));
        assert_eq!((answer.status.get(), answer.broken.get()), (9, 2));
        let (answer, _) = of_call(&Error::Released);
        assert_eq!((answer.status.get(), answer.broken.get()), (10, 4));
    }
}
