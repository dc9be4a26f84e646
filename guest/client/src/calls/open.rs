//! Maps an activated channel, after checking what the host says of its place.

use super::window::WindowCalls;
use crate::error::{Error, Result};
use crate::grant::GrantInfo;
use crate::transport::{BellPlace, Bells, Window, map};
use std::sync::Arc;
use vfun_ring::WindowMemory;
use vfun_window::{Access, MapError, Spaces};
use vfun_wire::channel::{in_header, spaces_off};
use vfun_wire::kind::{self, CallsShape};
use vfun_wire::place::ChannelPlace;
use vfun_wire::range::PlaceError;

/// A channel as the host's answer says, with its handle: checked, and as granted.
pub(crate) struct GrantedChannel {
    pub channel: u64,
    place: ChannelPlace,
    calls: kind::Calls,
}

impl GrantedChannel {
    /// Reads the answer to activate (R-RNG-1, R-RNG-4).
    pub fn read(window: &Window, ack: &[u8], info: &GrantInfo) -> Result<Self> {
        let wrong = |e: PlaceError| Error::HostNonsense(e.to_string());
        let (channel, place) = ChannelPlace::read(ack).map_err(wrong)?;
        place.check(&[window.checked.heap()]).map_err(wrong)?;
        let granted = CallsShape::new(info.depth, info.cell_bytes).shape();
        if (place.kind(), place.shape()) != (info.kind, granted) {
            return Err(Error::HostNonsense(format!(
                "the channel has another kind or shape than the {} of {} cells with {} bytes that were granted",
                info.kind, info.depth, info.cell_bytes
            )));
        }
        let calls = kind::Calls::of(&place).ok_or_else(|| {
            Error::HostNonsense("a channel of a kind that was not asked for".into())
        })?;
        Ok(GrantedChannel { channel, place, calls })
    }

    /// Where to ring and to sleep for it.
    pub fn bells(&self) -> BellPlace {
        BellPlace {
            channel: self.channel,
            out: self.place.vector_out(),
            inn: self.place.vector_in(),
        }
    }

    /// Its two sides, mapped as the law says: `dataout` for writing, `datain` for
    /// reading only.
    pub fn sides(&self, window: &Window) -> Result<WindowMemory> {
        let number = |n: u64| usize::try_from(n).map_err(|_| Error::Map(MapError::Shape));
        let (side, transport) = (number(self.calls.side_bytes)?, &*window.transport);
        let out = map(transport, number(self.calls.dataout)?, side, Access::ReadWrite)?;
        let inn = map(transport, number(self.calls.datain)?, side, Access::Read)?;
        let out = out.write().ok_or(Error::Map(MapError::Shape))?;
        WindowMemory::new(out, inn.read()).map_err(|_| Error::Map(MapError::Shape))
    }
}

impl WindowCalls {
    /// Takes an activated channel up.
    pub fn open(
        window: Arc<Window>,
        placed: &GrantedChannel,
        info: &GrantInfo,
        policy: &crate::WaitPolicy,
        doorbell: bool,
    ) -> Result<Self> {
        let memory = placed.sides(&window)?;
        let (off, len) =
            (spaces_off(info.depth), usize::from(info.depth) * info.cell_bytes as usize);
        let shape = |_| Error::Map(MapError::Shape);
        let results = memory.theirs().part(off, len).map_err(shape)?;
        let sleeps = memory.theirs().read_word(in_header::SLEEPS).map_err(shape)?;
        let spaces = match info.cell_bytes as usize {
            0 => None,
            bytes => {
                let span = memory.mine().part(off, len).map_err(shape)?;
                Some(Spaces::new(span, bytes, info.depth.into()).map_err(shape)?)
            }
        };
        // Whoever serves this channel rings only if both sides said that they can.
        let bells = Bells { ring: window.bells.ring, rung: window.bells.rung && doorbell };
        Ok(Self::new(
            window,
            memory,
            (results, sleeps),
            spaces,
            info,
            policy.clone(),
            (placed.bells(), bells),
        ))
    }
}
