//! The shape that a request asks for, by its kind of channel: what is left out gets its
//! default, and what no channel can be is refused.

use super::catalog::Function;
use super::grant::Shape;
use super::nacks;
use vfun_wire::kind::{self, CallsShape, ChannelKind};
use vfun_wire::limits::*;
use vfun_wire::packets::PacketsShape;
use vfun_wire::queues::QueuesShape;
use vfun_wire::range::PlaceError;
use vfun_wire::{LINE, Nack};

/// A shape as a request has it.
pub(super) enum AskedShape {
    /// Of calls and of raw lines.
    Cells(CallsShape),
    /// Of queues.
    Sides(QueuesShape),
    /// Of a port.
    Rings(PacketsShape),
}

impl AskedShape {
    /// Reads it, with its reserved part checked.
    pub fn read(kind: ChannelKind, shape: &kind::Shape) -> Result<Self, PlaceError> {
        Ok(match kind {
            ChannelKind::Calls | ChannelKind::Floor => AskedShape::Cells(CallsShape::read(shape)?),
            ChannelKind::Queues => AskedShape::Sides(QueuesShape::read(shape)?),
            ChannelKind::Packets => AskedShape::Rings(PacketsShape::read(shape)?),
        })
    }

    /// What a channel of a function gets, if there can be such a channel.
    pub fn granted(&self, kind: ChannelKind, f: &Function) -> Result<Shape, Nack> {
        match self {
            AskedShape::Cells(asked) => cells(asked, kind, f),
            AskedShape::Sides(asked) => possible(Shape { kind, shape: asked.shape() }),
            AskedShape::Rings(asked) => possible(Shape { kind, shape: asked.shape() }),
        }
    }
}

fn possible(shape: Shape) -> Result<Shape, Nack> {
    match shape.wants() {
        Ok(_) => Ok(shape),
        Err(_) => Err(nacks::shape(&shape)),
    }
}

fn cells(asked: &CallsShape, kind: ChannelKind, f: &Function) -> Result<Shape, Nack> {
    let depth = match asked.depth.get() {
        0 => DEPTH_DEFAULT,
        d => d,
    };
    let least = least_room(f);
    let cell_bytes = match asked.cell_bytes.get() {
        u32::MAX => CELL_BYTES_DEFAULT.max(least).next_multiple_of(LINE as u32),
        b => b.checked_next_multiple_of(LINE as u32).unwrap_or(u32::MAX),
    };
    let shape = possible(Shape { kind, shape: CallsShape::new(depth, cell_bytes).shape() })?;
    match cell_bytes.max(INLINE_BYTES as u32) < least {
        true => Err(nacks::cells_too_small(f, cell_bytes, least)),
        false => Ok(shape),
    }
}

/// Bytes that a cell of this function must hold at least.
fn least_room(f: &Function) -> u32 {
    let of = |s: &vfun_signature::Signature| s.args.min_bytes().max(s.results.min_bytes());
    f.signature.as_ref().map_or(0, |s| of(s) as u32)
}
