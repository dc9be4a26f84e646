//! The TCP transport: frames to a gateway.

mod connection;
mod reader;

pub(crate) use connection::{Connection, Load};
pub(crate) use reader::Frame;

#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    reader::fuzz(bytes);
}
