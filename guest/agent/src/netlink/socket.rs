//! Sockets: one that asks the kernel, one that hears that something changed.

use super::message::{self, Message};
use super::request::{self, Request};
use super::{NetlinkError, link};
use crate::limits::{DUMPS, ENTRIES, NETLINK_BYTES, NETLINK_PATIENCE};
use crate::links::Link;
use crate::log::Causes;
use linux_raw_sys::netlink::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use linux_raw_sys::netlink::{RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTMGRP_LINK};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

fn open(groups: u32, flags: SocketFlags) -> Result<OwnedFd, NetlinkError> {
    let made = || -> rustix::io::Result<OwnedFd> {
        let flags = flags | SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(fd)
    };
    made().map_err(NetlinkError::Socket)
}

/// Readable when interfaces have changed. What it hears is not read: it may be lost, and
/// the kernel's list says it all.
pub struct Events {
    fd: OwnedFd,
}

impl Events {
    /// Begins to listen.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Events { fd: open(RTMGRP_LINK, SocketFlags::NONBLOCK)? })
    }

    /// Takes all that has come.
    pub fn drain(&self) {
        let mut byte = [0; 1];
        // An overflow is an error, and something to take, too.
        while !matches!(recv(&self.fd, &mut byte, RecvFlags::TRUNC), Err(e) if e != Errno::NOBUFS) {
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Asks the kernel, one question at a time.
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
    causes: Causes,
}

impl Socket {
    /// Opens it.
    pub fn open() -> Result<Self, NetlinkError> {
        let fd = open(0, SocketFlags::empty())?;
        set_socket_timeout(&fd, Timeout::Recv, Some(NETLINK_PATIENCE))
            .map_err(NetlinkError::Socket)?;
        Ok(Socket { fd, sequence: 0, buffer: vec![0; NETLINK_BYTES], causes: Causes::default() })
    }

    /// Has something done, and waits until it is.
    pub fn ask(&mut self, request: &Request) -> Result<(), NetlinkError> {
        self.send(request, NLM_F_ACK as u16)?;
        let mut result = None;
        while result.is_none() {
            self.receive(|message| {
                if u32::from(message.kind) == NLMSG_ERROR {
                    result = Some(message.error());
                }
            })?;
        }
        match result.flatten() {
            Some(errno) => Err(NetlinkError::Refused(errno)),
            None => Ok(()),
        }
    }

    /// All interfaces. One that cannot be read is left out, and the log says so once.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let bodies = self.list(&request::list_links(), RTM_NEWLINK as u16)?;
        let mut links = vec![];
        for body in &bodies {
            match link::read(body) {
                Ok(link) => links.push(link),
                Err(e) => self.causes.once("links", &format!("an interface cannot be read: {e}")),
            }
        }
        Ok(links)
    }

    /// All addresses, as the kernel wrote them.
    pub fn addresses(&mut self) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.list(&request::list_addresses(), RTM_NEWADDR as u16)
    }

    /// All routes, as the kernel wrote them.
    pub fn routes(&mut self) -> Result<Vec<Vec<u8>>, NetlinkError> {
        self.list(&request::list_routes(), RTM_NEWROUTE as u16)
    }

    /// Reads a list, again if it changed meanwhile.
    fn list(&mut self, request: &Request, kind: u16) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let mut last = Err(NetlinkError::Restless);
        for _ in 0..DUMPS {
            last = match self.list_once(request, kind) {
                Ok((list, false)) => return Ok(list),
                Ok((_, true)) => Err(NetlinkError::Restless),
                Err(e @ (NetlinkError::Unreadable(_) | NetlinkError::Socket(Errno::NOBUFS))) => {
                    Err(e)
                }
                Err(e) => return Err(e),
            };
        }
        last
    }

    /// The list, and whether it changed while it was read.
    fn list_once(
        &mut self,
        request: &Request,
        kind: u16,
    ) -> Result<(Vec<Vec<u8>>, bool), NetlinkError> {
        self.send(request, NLM_F_DUMP as u16)?;
        let (mut list, mut changed, mut end) = (vec![], false, None);
        while end.is_none() {
            self.receive(|message| {
                changed |= message.interrupted();
                match u32::from(message.kind) {
                    NLMSG_DONE | NLMSG_ERROR => end = Some(message.error()),
                    _ if message.kind == kind && list.len() < ENTRIES => list.push(message.body),
                    _ => {}
                }
            })?;
        }
        match end.flatten() {
            Some(errno) => Err(NetlinkError::Refused(errno)),
            None => Ok((list, changed)),
        }
    }

    fn send(&mut self, request: &Request, flags: u16) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = Message {
            kind: request.kind,
            flags: NLM_F_REQUEST as u16 | request.flags | flags,
            sequence: self.sequence,
            body: request.body.clone(),
        };
        send(&self.fd, &message.to_bytes(), SendFlags::empty()).map_err(NetlinkError::Socket)?;
        Ok(())
    }

    /// Waits for more messages of the last request; earlier requests' are left out.
    fn receive(&mut self, mut see: impl FnMut(Message)) -> Result<(), NetlinkError> {
        let (_, bytes) = loop {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC) {
                Err(Errno::INTR) => {}
                other => break other.map_err(NetlinkError::Socket)?,
            }
        };
        if bytes > self.buffer.len() {
            let said = format!("it has {bytes} bytes in one piece");
            return Err(NetlinkError::Unreadable(said));
        }
        let mut rest = &self.buffer[..bytes];
        while !rest.is_empty() {
            let message = message::take(&mut rest).map_err(NetlinkError::Unreadable)?;
            if message.sequence == self.sequence {
                see(message);
            }
        }
        Ok(())
    }
}
