//! Maps an activated channel, after checking what the host says of its place.

use super::window::WindowCalls;
use crate::error::{Error, Result};
use crate::grant::GrantInfo;
use crate::transport::{BellPlace, Bells, Window, map};
use std::sync::Arc;
use vfun_ring::WindowMemory;
use vfun_window::{Access, MapError, Spaces};
use vfun_wire::channel::{in_header, spaces_off};
use vfun_wire::kind;
use vfun_wire::place::ChannelPlace;
use vfun_wire::queues::Queues;
use vfun_wire::range::PlaceError;

/// A channel as the host's answer says, with its handle: checked, and as granted.
pub(crate) struct GrantedChannel {
    pub channel: u64,
    place: ChannelPlace,
}

impl GrantedChannel {
    /// Reads the answer to activate (R-RNG-1, R-RNG-4).
    pub fn read(window: &Window, ack: &[u8], info: &GrantInfo) -> Result<Self> {
        let wrong = |e: PlaceError| Error::HostNonsense(e.to_string());
        let (channel, place) = ChannelPlace::read(ack).map_err(wrong)?;
        place.check(&[window.checked.heap()]).map_err(wrong)?;
        if (place.kind(), place.shape()) != (info.kind, info.shape) {
            return Err(Error::HostNonsense(format!(
                "the channel has another kind or shape than the {} that were granted",
                info.measures()
            )));
        }
        Ok(GrantedChannel { channel, place })
    }

    /// Whether calls name it by a token in its head page.
    pub fn has_token(&self) -> bool {
        self.place.kind() == kind::ChannelKind::Queues
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
        let calls = kind::Calls::of(&self.place).ok_or_else(Self::other_kind)?;
        let (out, inn) = (calls.dataout, calls.datain);
        mapped(window, (out, calls.side_bytes), (inn, calls.side_bytes))
    }

    /// The two sides of a channel of queues or of packets, likewise.
    pub fn queue_sides(&self, window: &Window) -> Result<WindowMemory> {
        let at = Queues::of(&self.place).ok_or_else(Self::other_kind)?;
        mapped(window, (at.program, at.program_bytes), (at.host, at.host_bytes))
    }

    fn other_kind() -> Error {
        Error::HostNonsense("a channel of a kind that was not asked for".into())
    }
}

/// Maps the side that the app writes, and the one that it reads: where each begins, and
/// its bytes.
fn mapped(window: &Window, mine: (u64, u64), theirs: (u64, u64)) -> Result<WindowMemory> {
    let shape = || Error::Map(MapError::Shape);
    let number = |n: u64| usize::try_from(n).map_err(|_| shape());
    let side = |(from, bytes): (u64, u64), access| {
        map(&*window.transport, number(from)?, number(bytes)?, access)
    };
    let mine = side(mine, Access::ReadWrite)?.write().ok_or_else(shape)?;
    Ok(WindowMemory::of_sides(mine, side(theirs, Access::Read)?.read()))
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
