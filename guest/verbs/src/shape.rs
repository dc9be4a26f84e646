//! How large a queue of work is made for what a program asks.

use crate::errno::{EINVAL, Errno};
use vfun_queue::limits::DEPTH_MIN;
use vfun_verbs::limits::{EXTENSION_MAX, INLINE_MAX, SGES_MAX};
use vfun_verbs::{Sge, WorkShape};

/// Elements and inline bytes that lie in the line of a send; elements of a receive.
const SEND_NEAR: u32 = 2;
const INLINE_NEAR: u32 = 32;
const RECEIVE_NEAR: u32 = 3;
const LINE: u32 = 64;

fn depth(asked: u32) -> u32 {
    asked.max(DEPTH_MIN).next_power_of_two()
}

fn lines(bytes: u32) -> u32 {
    bytes.next_multiple_of(LINE).min(EXTENSION_MAX as u32)
}

fn work(depth: u32, extension: u32) -> Result<WorkShape, Errno> {
    WorkShape::new(depth, extension).map_err(|_| EINVAL)
}

#[derive(Clone, Copy, Debug)]
pub struct SendShape {
    pub depth: u32,
    pub extension: u32,
}

impl SendShape {
    /// For so many entries at once, elements in each, and inline bytes in each.
    pub fn new(entries: u32, sges: u32, inline: u32) -> Self {
        let elements = sges.saturating_sub(SEND_NEAR) * Sge::BYTES as u32;
        let extension = lines(elements.max(inline.saturating_sub(INLINE_NEAR)));
        SendShape { depth: depth(entries), extension }
    }

    /// Elements that fit.
    pub fn sges(self) -> u32 {
        (SEND_NEAR + self.extension / Sge::BYTES as u32).min(SGES_MAX as u32)
    }

    /// Inline bytes that fit.
    pub fn inline_bytes(self) -> u32 {
        (INLINE_NEAR + self.extension).min(INLINE_MAX as u32)
    }

    pub fn work(self) -> Result<WorkShape, Errno> {
        work(self.depth, self.extension)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ReceiveShape {
    pub depth: u32,
    pub extension: u32,
}

impl ReceiveShape {
    /// For so many entries at once, and elements in each.
    pub fn new(entries: u32, sges: u32) -> Self {
        let extension = lines(sges.saturating_sub(RECEIVE_NEAR) * Sge::BYTES as u32);
        ReceiveShape { depth: depth(entries), extension }
    }

    /// Elements that fit.
    pub fn sges(self) -> u32 {
        (RECEIVE_NEAR + self.extension / Sge::BYTES as u32).min(SGES_MAX as u32)
    }

    pub fn work(self) -> Result<WorkShape, Errno> {
        work(self.depth, self.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_fits() {
        for sges in 0..=16 {
            for inline in [0, 1, 32, 33, 64, 96, 220] {
                let shape = SendShape::new(5, sges, inline);
                assert!(shape.sges() >= sges && shape.inline_bytes() >= inline, "{shape:?}");
                assert!(shape.work().is_ok());
            }
            let shape = ReceiveShape::new(1, sges);
            assert!(shape.sges() >= sges && shape.work().is_ok(), "{shape:?}");
        }
        assert_eq!(SendShape::new(0, 1, 0).extension, 0, "most programs need none");
        assert_eq!(SendShape::new(128, 1, 220).extension, 192);
    }
}
