//! Maps an activated channel, after checking what the host says of its place.

use super::window::WindowCalls;
use crate::error::{Error, Result};
use crate::grant::GrantInfo;
use crate::transport::{BellPlace, Bells, Window, map};
use std::sync::Arc;
use vfun_ring::WindowMemory;
use vfun_window::{Access, MapError, Spaces};
use vfun_wire::channel::{Geometry, spaces_off};
use vfun_wire::message::ActivateAck;

/// Where to ring and to sleep for a channel.
pub(super) fn place(ack: &ActivateAck) -> BellPlace {
    BellPlace {
        channel: ack.channel.get(),
        out: ack.geometry.vector_out.get(),
        inn: ack.geometry.vector_in.get(),
    }
}

/// A channel's two sides, mapped as the law says: `dataout` for writing,
/// `datain` for reading only.
pub(super) fn open_sides(window: &Window, g: &Geometry, info: &GrantInfo) -> Result<WindowMemory> {
    let heap = u64::from(window.checked.heap_off.get());
    g.check(heap, window.transport.window_bytes())
        .map_err(|e| Error::HostNonsense(e.to_string()))?;
    let granted = (info.depth, info.cell_bytes, info.kind.to_wire());
    if (g.depth.get(), g.cell_bytes.get(), g.kind.get()) != granted {
        return Err(Error::HostNonsense(format!(
            "the channel has {} cells of {} bytes where {} of {} were granted",
            g.depth, g.cell_bytes, info.depth, info.cell_bytes
        )));
    }
    let side = usize::try_from(g.side_bytes.get()).map_err(|_| Error::Map(MapError::Shape))?;
    let at = |off: u64| usize::try_from(off).map_err(|_| Error::Map(MapError::Shape));
    let transport = &*window.transport;
    let out = map(transport, at(g.dataout_off.get())?, side, Access::ReadWrite)?;
    let inn = map(transport, at(g.datain_off.get())?, side, Access::Read)?;
    let out = out.write().ok_or(Error::Map(MapError::Shape))?;
    WindowMemory::new(out, inn.read()).map_err(|_| Error::Map(MapError::Shape))
}

impl WindowCalls {
    /// Takes an activated channel up.
    pub fn open(
        window: Arc<Window>,
        ack: &ActivateAck,
        info: &GrantInfo,
        policy: &crate::WaitPolicy,
        doorbell: bool,
    ) -> Result<Self> {
        let memory = open_sides(&window, &ack.geometry, info)?;
        let (off, len) =
            (spaces_off(info.depth), usize::from(info.depth) * info.cell_bytes as usize);
        let shape = |_| Error::Map(MapError::Shape);
        let results = memory.theirs().part(off, len).map_err(shape)?;
        let spaces = match info.cell_bytes as usize {
            0 => None,
            bytes => {
                let span = memory.mine().part(off, len).map_err(shape)?;
                Some(Spaces::new(span, bytes, info.depth.into()).map_err(shape)?)
            }
        };
        // Whoever serves this channel rings only if both sides said that they can.
        let bells = Bells { ring: window.bells.ring, rung: window.bells.rung && doorbell };
        Ok(Self::new(window, memory, results, spaces, info, policy.clone(), (place(ack), bells)))
    }
}
