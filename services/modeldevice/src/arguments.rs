//! A call's bytes: those of the manifest's signature.

use crate::limits::DATA_MAX;
use vfun_sdk::{Args, DriverError, Out};

/// Where the data begins.
pub(crate) const DATA_AT: usize = 16;
/// Longest arguments of a call, bytes.
pub const MAX_ARGS: u32 = (DATA_AT + DATA_MAX) as u32;
/// Longest results: the checksum and what may be told.
pub const MAX_RESULT: u32 = 8 * 4;
/// The argument `tell` of a call that wants to know where it ran: without it the
/// results do not depend on that.
pub const TELL: u32 = 1;

/// What a call is told besides its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The VF that it ran on; `None` in software.
    pub vf: Option<u16>,
    /// Calls of this state so far, with this one: a state that was made for the
    /// channel a moment ago begins at 1, so whoever calls one after the other sees
    /// each call that was run besides its own.
    pub calls: u64,
    /// Time in the driver, ns.
    pub ns: u64,
}

/// The arguments of a call.
pub fn arguments(number: u64, units: u32, tell: bool, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DATA_AT + data.len());
    bytes.extend(number.to_le_bytes());
    bytes.extend(units.to_le_bytes());
    bytes.extend((if tell { TELL } else { 0 }).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// A call's results: the checksum, and what it asked to be told. `None` if these are none.
pub fn read_result(bytes: &[u8]) -> Option<(u64, Option<Told>)> {
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|b| Some(u64::from_le_bytes(b.try_into().ok()?)))
        .collect::<Option<_>>()?;
    match words[..] {
        [sum] => Some((sum, None)),
        [sum, place, calls, ns] => {
            let vf = place.checked_sub(1).map(u16::try_from).transpose().ok()?;
            Some((sum, Some(Told { vf, calls, ns })))
        }
        _ => None,
    }
}

/// What a call asks for.
pub(crate) struct Call {
    pub number: u64,
    pub units: u32,
    pub tell: bool,
    /// Bytes of data that follow the numbers.
    pub data: usize,
}

impl Call {
    pub fn read(args: &Args<'_>) -> Result<Self, DriverError> {
        let (number, units, tell) = (args.u64_at(0)?, args.u32_at(8)?, args.u32_at(12)?);
        if tell & !TELL != 0 {
            return Err(DriverError::bad_args(format!("tell is 0 or {TELL}, not {tell}")));
        }
        Ok(Call { number, units, tell: tell == TELL, data: args.len() - DATA_AT })
    }

    pub fn answer(&self, sum: u64, told: Told, out: &mut Out<'_>) -> Result<(), DriverError> {
        if !self.tell {
            return out.put_u64(sum);
        }
        let place = told.vf.map_or(0, |vf| u64::from(vf) + 1);
        out.put(&[sum, place, told.calls, told.ns].map(u64::to_le_bytes).concat())
    }
}
