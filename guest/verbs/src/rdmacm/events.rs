//! What the program is told of connections, and what this library does when it is told.
#![allow(unsafe_code)]

use super::abi::*;
use super::address::storage;
use super::channel::{EventChannel, Heard, Peer, result};
use super::id::{self, CmId};
use super::pair;
use crate::asynchronous::Unacknowledged;
use crate::errno::{EINVAL, Errno, checked};
use crate::generated::{vfun_nic_cm_establish, vfun_nic_cm_take};
use std::ffi::c_int;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError};

/// An event that the program has. The program sees the first member.
#[repr(C)]
struct Given {
    head: rdma_cm_event,
    /// Of the id that it is about: the listener, of a request.
    unacknowledged: Arc<Unacknowledged>,
    /// Where `private_data` points to.
    data: Vec<u8>,
}

/// Tells the program, of what this library did itself; where functions wait, nothing is to be told.
pub fn told(of: &mut CmId, kind: u32) -> Result<(), Errno> {
    if !of.is_sync {
        of.tell(kind);
    }
    Ok(())
}

/// Waits for an event of an id whose functions wait, and keeps it.
pub fn complete(of: &mut CmId) -> Result<(), Errno> {
    if !of.is_sync {
        return Ok(());
    }
    acknowledge_kept(of);
    let event = next(of.channel())?;
    of.head.event = event;
    // SAFETY: it was just made.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match (kind, status) {
        (_, 0) => Ok(()),
        (kind::REJECTED, _) => Err(Errno(libc::ECONNREFUSED)),
        (_, status) => Err(Errno(status.saturating_abs())),
    }
}

/// Lets go of the event that an id keeps.
pub fn acknowledge_kept(of: &mut CmId) {
    let kept = std::mem::replace(&mut of.head.event, std::ptr::null_mut());
    if !kept.is_null() {
        // SAFETY: it is one of this library, which nobody acknowledged.
        unsafe { rdma_ack_cm_event(kept) };
    }
}

/// The next event that the program is to be told of.
fn next(channel: &EventChannel) -> Result<*mut rdma_cm_event, Errno> {
    loop {
        let heard = channel.take()?;
        // SAFETY: an id takes its events with it when it is destroyed.
        let of = unsafe { &mut *heard.id };
        if let Some(event) = become_event(of, heard) {
            return Ok(event);
        }
        of.unacknowledged.acknowledged(1);
    }
}

/// What the program is told; `None`: nothing.
fn become_event(of: &mut CmId, heard: Heard) -> Option<*mut rdma_cm_event> {
    match heard.kind {
        kind::CONNECT_REQUEST => request(of, heard),
        kind::CONNECT_RESPONSE => {
            let (kind, status) = respond(of, &heard.peer);
            Some(event(of, std::ptr::null_mut(), Heard { kind, status, ..heard }))
        }
        _ => {
            if of.is_datagram() && heard.kind == kind::ESTABLISHED {
                keep_peer(of, &heard.peer);
            }
            Some(event(of, std::ptr::null_mut(), heard))
        }
    }
}

fn keep_peer(of: &CmId, peer: &Peer) {
    *of.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer.clone();
}

/// The peer has accepted: the queue pair is connected, and the peer is told.
fn respond(of: &mut CmId, peer: &Peer) -> (u32, i32) {
    keep_peer(of, peer);
    if of.head.qp.is_null() {
        // The program connects its own queue pair, and says so by rdma_establish.
        return (kind::CONNECT_RESPONSE, 0);
    }
    let connected = pair::connect(of);
    // SAFETY: the NIC's object is of this id.
    let done = connected.and_then(|()| checked(unsafe { vfun_nic_cm_establish(of.nic) }));
    match done {
        Ok(()) => (kind::ESTABLISHED, 0),
        Err(errno) => (kind::CONNECT_ERROR, -errno.0),
    }
}

/// Somebody asks: a new id stands for it. `None`: it went away meanwhile, or there is no memory for it.
fn request(listener: &mut CmId, heard: Heard) -> Option<*mut rdma_cm_event> {
    let mut nic = std::ptr::null_mut();
    // SAFETY: the place is ours.
    checked(unsafe { vfun_nic_cm_take(listener.of.nic, heard.other, &mut nic) }).ok()?;
    let channel = if listener.is_sync { std::ptr::null_mut() } else { listener.head.channel };
    let (ps, kind) = (listener.head.ps, listener.head.qp_type);
    let what = (channel, listener.head.context);
    let made = id::make(what, (ps, kind), Some((heard.other, nic))).ok()?;
    // SAFETY: it was just made.
    let new = unsafe { &mut *made };
    if new.use_device().is_err() {
        // The peer is rejected.
        let _ = id::destroy(made);
        return None;
    }
    keep_peer(new, &heard.peer);
    let local = listener.source();
    let from = SocketAddr::new(ip_of(heard.peer.gid), heard.peer.port);
    let here = local.map(|at| at.ip()).filter(|ip| !ip.is_unspecified());
    let port = local.map_or(0, |at| at.port());
    let source = here.or_else(|| super::address::source_for(from).ok()).unwrap_or(from.ip());
    new.head.route.addr.src = storage(SocketAddr::new(source, port));
    new.head.route.addr.dst = storage(from);
    Some(event(new, listener.pointer(), heard))
}

fn ip_of(gid: [u8; 16]) -> IpAddr {
    IpAddr::from(Ipv6Addr::from(gid)).to_canonical()
}

/// Makes the program's event.
fn event(of: &mut CmId, listener: *mut CmId, heard: Heard) -> *mut rdma_cm_event {
    let data = heard.peer.data.clone();
    let param = match of.is_datagram() {
        true => rdma_param { ud: ud_param(&heard.peer, &data) },
        false => rdma_param { conn: conn_param(&heard.peer, &data) },
    };
    let about = if listener.is_null() { of.pointer() } else { listener };
    // SAFETY: both are ids that live: the event was counted when it was taken.
    let unacknowledged = unsafe { (*about).unacknowledged.clone() };
    let head = rdma_cm_event {
        id: of.pointer().cast(),
        listen_id: listener.cast(),
        event: heard.kind,
        status: heard.status,
        param,
    };
    Box::into_raw(Box::new(Given { head, unacknowledged, data })).cast()
}

fn conn_param(peer: &Peer, data: &[u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() },
        private_data_len: data.len() as u8,
        // What the peer begins is what this side answers, and the other way round.
        responder_resources: peer.initiator_depth,
        initiator_depth: peer.responder_resources,
        flow_control: peer.flow_control,
        retry_count: peer.retry_count,
        rnr_retry_count: peer.rnr_retry,
        srq: peer.srq,
        qp_num: peer.qpn,
    }
}

fn ud_param(peer: &Peer, data: &[u8]) -> rdma_ud_param {
    rdma_ud_param {
        private_data: if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() },
        private_data_len: data.len() as u8,
        ah_attr: pair::path_to(peer),
        qp_num: peer.qpn,
        qkey: peer.qkey,
    }
}

/// `int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    if channel.is_null() || event.is_null() {
        return result(Err(EINVAL));
    }
    // SAFETY: C's rules for this function.
    let got = next(unsafe { EventChannel::of(channel) });
    // SAFETY: the program's place.
    result(got.map(|got| unsafe { event.write(got) }))
}

/// `int rdma_ack_cm_event(struct rdma_cm_event *event)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    if event.is_null() {
        return result(Err(EINVAL));
    }
    // SAFETY: it is one of this library, once.
    let given = unsafe { Box::from_raw(event.cast::<Given>()) };
    given.unacknowledged.acknowledged(1);
    0
}

/// `int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)`: waits for a request at a listener
/// that has no channel.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_request(
    listener: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(listener) };
    let got = wait_for_request(of);
    // SAFETY: the program's place.
    result(got.map(|got| unsafe { id.write(got) }))
}

fn wait_for_request(of: &mut CmId) -> Result<*mut rdma_cm_id, Errno> {
    if !of.is_sync {
        return Err(EINVAL);
    }
    acknowledge_kept(of);
    let event = next(of.channel())?;
    // SAFETY: it was just made.
    let told = unsafe { &*event };
    if told.event != kind::CONNECT_REQUEST || told.status != 0 {
        // SAFETY: nobody else has it.
        unsafe { rdma_ack_cm_event(event) };
        return Err(EINVAL);
    }
    // SAFETY: the id was just made.
    let new = unsafe { CmId::of(told.id) };
    let gets = *of.requests_get.lock().unwrap_or_else(PoisonError::into_inner);
    new.head.event = event;
    let ready = match gets {
        Some((pd, mut init)) => pair::create(new, pd, &mut init),
        None => Ok(()),
    };
    let id = new.pointer();
    ready.inspect_err(|_| {
        // The peer is rejected.
        let _ = id::destroy(id);
    })?;
    Ok(id.cast())
}

const NAMES: [&std::ffi::CStr; 16] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

/// `const char *rdma_event_str(enum rdma_cm_event_type event)`
#[unsafe(no_mangle)]
pub extern "C" fn rdma_event_str(event: u32) -> *const std::ffi::c_char {
    NAMES.get(event as usize).map_or(c"UNKNOWN EVENT".as_ptr(), |name| name.as_ptr())
}
