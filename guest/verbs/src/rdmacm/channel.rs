//! Channels of events, and who an event is for.
#![allow(unsafe_code)]

use super::abi::{kind, rdma_event_channel};
use super::id::CmId;
use crate::errno::{self, Errno};
use crate::told::Told;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};
use vfun_remoting_guest::{Answer, Failure, Link};

/// Bytes that a peer may say: what fits the byte of their length.
const DATA_MAX: usize = 255;

/// What a peer said of its queue pair.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    pub qpn: u32,
    pub qkey: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub srq: u8,
    pub gid: [u8; 16],
    pub lid: u16,
    pub port: u16,
    pub data: Vec<u8>,
}

/// An event, before the program is told.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Which id it is about.
    pub id: *mut CmId,
    pub kind: u32,
    pub status: i32,
    /// Of a request: the NIC's number of the new id.
    pub other: u32,
    pub peer: Peer,
}

// SAFETY: the pointer is used by who takes the event, in the program's thread; an id that is destroyed takes
// its events with it.
unsafe impl Send for Heard {}

impl Heard {
    pub fn of(id: *mut CmId, kind: u32) -> Self {
        Heard { id, kind, status: 0, other: 0, peer: Peer::default() }
    }
}

#[repr(C)]
pub struct EventChannel {
    head: rdma_event_channel,
    events: Told<Heard>,
}

impl EventChannel {
    /// # Safety
    /// The pointer is one that `rdma_create_event_channel` gave, and was not destroyed.
    pub unsafe fn of<'a>(channel: *mut rdma_event_channel) -> &'a EventChannel {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*channel.cast() }
    }

    pub fn new() -> Result<*mut EventChannel, Errno> {
        let events = Told::new()?;
        let head = rdma_event_channel { fd: events.descriptor() };
        Ok(Box::into_raw(Box::new(EventChannel { head, events })))
    }

    /// Adds an event. The NIC bounds what it tells.
    pub fn push(&self, event: Heard) {
        self.events.push(event, usize::MAX);
    }

    /// Waits for an event, unless the program has said that the descriptor does not block. It counts as one that
    /// the program has, so that its id stays.
    pub fn take(&self) -> Result<Heard, Errno> {
        self.events.take(|event| {
            // SAFETY: an id takes its events away before it goes, which waits for this.
            unsafe { (*event.id).unacknowledged.given() };
            event
        })
    }

    /// Takes the events of an id away.
    pub fn remove(&self, id: *mut CmId) -> VecDeque<Heard> {
        self.events.remove(|event| event.id != id)
    }
}

/// Ids by the NIC's numbers, and the connection that knows them.
static IDS: Mutex<Option<HashMap<(u32, u32), usize>>> = Mutex::new(None);

fn ids<T>(run: impl FnOnce(&mut HashMap<(u32, u32), usize>) -> T) -> T {
    let mut all = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    run(all.get_or_insert_default())
}

pub fn add(link: u32, number: u32, id: *mut CmId) {
    ids(|all| all.insert((link, number), id.expose_provenance()));
}

pub fn remove(link: u32, number: u32) {
    ids(|all| all.remove(&(link, number)));
}

/// Runs something while no thread gives an event to an id.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    ids(|_| run())
}

fn read(body: &mut Answer<'_>) -> Result<(u32, Heard), Failure> {
    let (kind, status, number, other) = (body.u32()?, body.i32()?, body.u32()?, body.u32()?);
    let mut peer = Peer { qpn: body.u32()?, qkey: body.u32()?, ..Peer::default() };
    peer.responder_resources = body.u8()?;
    peer.initiator_depth = body.u8()?;
    peer.flow_control = body.u8()?;
    peer.retry_count = body.u8()?;
    peer.rnr_retry = body.u8()?;
    peer.srq = body.u8()?;
    peer.gid.copy_from_slice(body.bytes(16)?);
    peer.lid = body.u16()?;
    peer.port = body.u16()?;
    let data = body.blob()?.unwrap_or_default();
    peer.data = data[..data.len().min(DATA_MAX)].to_vec();
    Ok((number, Heard { id: std::ptr::null_mut(), kind, status, other, peer }))
}

/// The host told of a connection.
pub fn heard(link: &Link, body: &mut Answer<'_>) {
    let Ok((number, mut event)) = read(body) else { return };
    ids(|all| {
        // Under the lock: an id that is destroyed removes itself first.
        if let Some(id) = all.get(&(link.number(), number)) {
            event.id = std::ptr::with_exposed_provenance_mut(*id);
            // SAFETY: it is in the table, so that it was not freed.
            unsafe { (*event.id).channel() }.push(event);
        }
    });
}

/// The NIC of a connection is gone, and all of its ids with it.
pub fn lost(link: u32) {
    ids(|all| {
        for (_, id) in all.iter().filter(|((of, _), _)| *of == link) {
            let id: *mut CmId = std::ptr::with_exposed_provenance_mut(*id);
            // SAFETY: as above.
            unsafe { (*id).channel() }.push(Heard::of(id, kind::DEVICE_REMOVAL));
        }
    });
}

/// `struct rdma_event_channel *rdma_create_event_channel(void)`
#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    let made = super::device::context().and_then(|_| EventChannel::new());
    errno::pointer(made.map(<*mut EventChannel>::cast))
}

/// `void rdma_destroy_event_channel(struct rdma_event_channel *channel)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if !channel.is_null() {
        // SAFETY: it was made by Box; the program uses it no more.
        drop(unsafe { Box::from_raw(channel.cast::<EventChannel>()) });
    }
}

/// The result of functions that return 0 or -1.
pub fn result(done: Result<(), Errno>) -> c_int {
    errno::minus_one(done)
}
