//! How things of the wire are noted: by the numbers that they have there. A number
//! that no manager can have written is refused where it is read.

use super::event::ReplyTo;
use super::switch::{Moving, Phase};
use super::{ServiceId, WindowId};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vfun_wire::kind::ChannelKind;
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS};
use vfun_wire::message::{Location, WaitMode};
use vfun_wire::status::BreakReason;
use vfun_wire::version::Features;
use vfun_wire::{Handle, Status, names};

/// What has a number on the wire.
pub(super) trait Numbered: Sized + Copy {
    type Number: Serialize + DeserializeOwned + Copy + std::fmt::Display;
    const WHAT: &'static str;
    fn number(self) -> Self::Number;
    fn of(number: Self::Number) -> Option<Self>;
}

macro_rules! numbered {
    ($($type:ty: $number:ty, $what:literal;)*) => {$(
        impl Numbered for $type {
            type Number = $number;
            const WHAT: &'static str = $what;
            fn number(self) -> $number {
                self.to_wire()
            }
            fn of(number: $number) -> Option<Self> {
                Self::from_wire(number)
            }
        }
    )*};
}

numbered! {
    Location: u8, "location";
    ChannelKind: u16, "kind of channel";
    WaitMode: u8, "way to wait";
    Status: u32, "status";
    BreakReason: u32, "reason";
}

impl Numbered for Handle {
    type Number = u64;
    const WHAT: &'static str = "handle";
    fn number(self) -> u64 {
        self.0
    }
    fn of(number: u64) -> Option<Self> {
        Some(Handle(number))
    }
}

impl Numbered for Features {
    type Number = u64;
    const WHAT: &'static str = "set of features";
    fn number(self) -> u64 {
        self.0
    }
    fn of(number: u64) -> Option<Self> {
        Some(Features(number))
    }
}

fn known<T: Numbered, E: Error>(number: T::Number) -> Result<T, E> {
    T::of(number).ok_or_else(|| E::custom(format!("there is no {} {number}", T::WHAT)))
}

pub(super) fn serialize<T: Numbered, S: Serializer>(t: &T, s: S) -> Result<S::Ok, S::Error> {
    t.number().serialize(s)
}

pub(super) fn deserialize<'de, T: Numbered, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    known(T::Number::deserialize(d)?)
}

/// The same of what may be missing.
pub(super) mod option {
    use super::*;

    pub fn serialize<T: Numbered, S: Serializer>(t: &Option<T>, s: S) -> Result<S::Ok, S::Error> {
        t.map(T::number).serialize(s)
    }

    pub fn deserialize<'de, T: Numbered, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<T::Number>::deserialize(d)?.map(known).transpose()
    }
}

/// A name that may become a file's.
pub(super) fn name<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let name = String::deserialize(d)?;
    names::check(&name).map_err(|e| D::Error::custom(format!("the name '{name}': {e}")))?;
    Ok(name)
}

/// The same of one that may be missing.
pub(super) fn option_name<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Name(#[serde(deserialize_with = "name")] String);
    Ok(Option::<Name>::deserialize(d)?.map(|n| n.0))
}

/// A session's line in its window.
pub(super) fn line<'de, D: Deserializer<'de>>(d: D) -> Result<u16, D::Error> {
    let line = u16::deserialize(d)?;
    match usize::from(line) < SESSIONS {
        true => Ok(line),
        false => Err(D::Error::custom(format!("a window has no line {line}"))),
    }
}

impl From<ReplyTo> for (WindowId, usize, u32) {
    fn from(to: ReplyTo) -> Self {
        (to.window, to.cell, to.seq)
    }
}

impl TryFrom<(WindowId, usize, u32)> for ReplyTo {
    type Error = String;
    fn try_from((window, cell, seq): (WindowId, usize, u32)) -> Result<Self, String> {
        match cell < CONTROL_CELLS {
            true => Ok(ReplyTo { window, cell, seq }),
            false => Err(format!("there is no control cell {cell}")),
        }
    }
}

impl From<Moving> for (u8, ServiceId, Phase) {
    fn from(m: Moving) -> Self {
        (m.to.to_wire(), m.service, m.phase)
    }
}

impl TryFrom<(u8, ServiceId, Phase)> for Moving {
    type Error = String;
    fn try_from((to, service, phase): (u8, ServiceId, Phase)) -> Result<Self, String> {
        let to = Location::from_wire(to).ok_or_else(|| format!("there is no location {to}"))?;
        Ok(Moving { to, service, phase })
    }
}
