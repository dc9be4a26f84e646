//! The memory of direct links: the module lends it, and looks at each place first.

use super::{Module, abi, ioctl};
use crate::error::{Error, Result};
use crate::port::LinkWay;
use crate::transport::{Links, TakenLink};
use rustix::io::Errno;
use std::os::fd::AsFd;
use vfun_window::{Access, Mapping};
use vfun_wire::PAGE;
use vfun_wire::limits::{PACKETS_RING_MAX, PACKETS_RING_MIN};

impl Module {
    fn link_failed(&self, e: Errno) -> Error {
        match e {
            Errno::NODEV => Error::DeviceGone,
            Errno::PIPE | Errno::NOENT => Error::Released,
            Errno::NOTTY => Error::Unsupported(
                "this kernel module knows no direct links of programs' ports: install the one of this release",
            ),
            Errno::NXIO => Error::NoWindow(
                "the host names a direct link, whose window is not in this machine".into(),
            ),
            Errno::BUSY => Error::Unsupported(
                "somebody else has memory where the host's direct link has its place",
            ),
            Errno::PROTO => Error::HostNonsense(
                "the kernel module does not believe where the host's direct link is".into(),
            ),
            Errno::INVAL => Error::Unsupported("this channel is no port's"),
            e => Error::Device { path: self.path.clone(), source: e.into() },
        }
    }
}

impl Links for Module {
    fn wanted(&self, channel: u64, way: LinkWay) -> Result<u64> {
        let asked = ioctl::link(self.file.as_fd(), channel, way as u32, abi::LINK_ASK);
        asked.map(|l| l.number).map_err(|e| self.link_failed(e))
    }

    fn take(&self, channel: u64, way: LinkWay) -> Result<Option<TakenLink>> {
        let taken = match ioctl::link(self.file.as_fd(), channel, way as u32, abi::LINK_TAKE) {
            Err(Errno::NODATA) => return Ok(None),
            other => other.map_err(|e| self.link_failed(e))?,
        };
        let ring = taken.ring_bytes;
        let possible = u64::from(PACKETS_RING_MIN)..=u64::from(PACKETS_RING_MAX);
        if !ring.is_power_of_two() || !possible.contains(&ring) {
            return Err(Error::HostNonsense("the kernel module gave no ring of a link".into()));
        }
        let bytes = PAGE + ring as usize;
        let map = |at, access| Mapping::new(&self.file, at, bytes, access).map_err(Error::Map);
        Ok(Some(TakenLink {
            number: taken.number,
            ring_bytes: taken.ring_bytes,
            mine: map(taken.mine, Access::ReadWrite)?,
            theirs: map(taken.theirs, Access::Read)?,
        }))
    }

    fn leave(&self, channel: u64, way: LinkWay) {
        // A channel that is over has left all.
        let _ = ioctl::link(self.file.as_fd(), channel, way as u32, abi::LINK_LEAVE);
    }

    fn ring(&self, channel: u64) {
        // A link that is over has nobody to ring.
        let _ = ioctl::link(self.file.as_fd(), channel, LinkWay::Out as u32, abi::LINK_RING);
    }
}
