//! Ids: making, binding, resolving and destroying them.
#![allow(unsafe_code)]

use super::abi::*;
use super::address::{self, of_storage, storage};
use super::channel::{self, EventChannel, Heard, Peer, result};
use super::device;
use crate::abi::{ibv_pd, ibv_qp_init_attr};
use crate::asynchronous::Unacknowledged;
use crate::context::Context;
use crate::domains::gone;
use crate::errno::{EBUSY, EINVAL, Errno, checked};
use crate::generated::{
    vfun_nic_cm, vfun_nic_cm_bind, vfun_nic_cm_end, vfun_nic_cm_listen, vfun_nic_cm_make,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use vfun_verbs::QpType;

/// `RDMA_PS_IB`.
const PS_IB: u32 = 0x013F;

#[repr(C)]
pub struct CmId {
    pub head: rdma_cm_id,
    pub nic: *mut vfun_nic_cm,
    /// The NIC's number of it.
    pub number: u32,
    pub of: &'static Context,
    /// Functions wait for their events: the program named no channel.
    pub is_sync: bool,
    /// What the peer said, once it did.
    pub peer: Mutex<Peer>,
    /// What requests get, of an id that `rdma_create_ep` made.
    pub requests_get: Mutex<Option<(*mut ibv_pd, ibv_qp_init_attr)>>,
    pub unacknowledged: Arc<Unacknowledged>,
    /// Where `route.path_rec` points to.
    pub path: ibv_sa_path_rec,
}

impl CmId {
    /// # Safety
    /// The pointer is one that this library gave, and was not destroyed.
    pub unsafe fn of<'a>(id: *mut rdma_cm_id) -> &'a mut CmId {
        // SAFETY: the program's pointer is that of the first member. The program uses an id in one thread
        // at a time, as librdmacm asks of it.
        unsafe { &mut *id.cast() }
    }

    pub fn pointer(&mut self) -> *mut CmId {
        std::ptr::from_mut(self)
    }

    /// Where its events go.
    pub fn channel(&self) -> &EventChannel {
        // SAFETY: a channel outlives its ids, by the rules of librdmacm.
        unsafe { EventChannel::of(self.head.channel) }
    }

    pub fn is_datagram(&self) -> bool {
        self.head.ps == PS_UDP
    }

    /// The device is known from now on.
    pub fn use_device(&mut self) -> Result<(), Errno> {
        self.head.verbs = self.of.pointer();
        self.head.port_num = 1;
        if self.head.pd.is_null() {
            self.head.pd = device::pd()?;
        }
        Ok(())
    }

    pub fn source(&self) -> Option<SocketAddr> {
        of_storage(&self.head.route.addr.src)
    }

    pub fn destination(&self) -> Option<SocketAddr> {
        of_storage(&self.head.route.addr.dst)
    }

    /// Gives it a port, unless it has one.
    pub fn bind(&mut self, at: SocketAddr) -> Result<(), Errno> {
        let mut bound = 0;
        // SAFETY: the NIC's object is of this id; the place is ours.
        let done = unsafe { vfun_nic_cm_bind(self.nic, at.port().into(), &mut bound) };
        checked(done).map_err(|e| if e == EBUSY { Errno(libc::EADDRINUSE) } else { e })?;
        self.head.route.addr.src = storage(SocketAddr::new(at.ip(), bound as u16));
        Ok(())
    }

    /// Tells the program of an event that this library makes itself.
    pub fn tell(&mut self, kind: u32) {
        let event = Heard::of(self.pointer(), kind);
        self.channel().push(event);
    }
}

/// A new id, with a channel of its own if there is none. It has the NIC's object, or a new one; if it cannot
/// be made, the object ends.
pub fn make(
    (channel, context): (*mut rdma_event_channel, *mut c_void),
    (ps, qp_type): (u32, u32),
    nic: Option<(u32, *mut vfun_nic_cm)>,
) -> Result<*mut CmId, Errno> {
    let of = device::context()?;
    let is_sync = channel.is_null();
    let (number, nic) = match nic {
        Some(known) => known,
        None => new_nic(of, ps)?,
    };
    let channel = match is_sync {
        false => Ok(channel),
        true => EventChannel::new().map(<*mut EventChannel>::cast),
    };
    let channel = channel.inspect_err(|_| {
        // SAFETY: nobody else has it.
        unsafe { vfun_nic_cm_end(nic) };
    })?;
    // SAFETY: zeros are null pointers and numbers.
    let mut head: rdma_cm_id = unsafe { MaybeUninit::zeroed().assume_init() };
    head.channel = channel;
    head.context = context;
    (head.ps, head.qp_type) = (ps, qp_type);
    // SAFETY: as above.
    let path = unsafe { MaybeUninit::zeroed().assume_init() };
    let id = Box::into_raw(Box::new(CmId {
        head,
        nic,
        number,
        of,
        is_sync,
        peer: Mutex::default(),
        requests_get: Mutex::default(),
        unacknowledged: Arc::default(),
        path,
    }));
    channel::add(of.link.number(), number, id);
    Ok(id)
}

fn new_nic(of: &Context, ps: u32) -> Result<(u32, *mut vfun_nic_cm), Errno> {
    let (mut number, mut nic) = (0, std::ptr::null_mut());
    // SAFETY: the places are ours.
    checked(unsafe { vfun_nic_cm_make(of.nic, ps, &mut number, &mut nic) })?;
    Ok((number, nic))
}

/// The kind of queue pairs of a space.
pub fn kind_of(ps: u32) -> Option<u32> {
    match ps {
        PS_TCP | PS_IB => Some(QpType::Rc.to_wire().into()),
        PS_UDP => Some(QpType::Ud.to_wire().into()),
        _ => None,
    }
}

/// `int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
/// enum rdma_port_space ps)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    let kind = kind_of(ps).ok_or(Errno(libc::EPROTONOSUPPORT));
    let made = kind.and_then(|kind| make((channel, context), (ps, kind), None));
    // SAFETY: the program's place.
    result(made.map(|made| unsafe { id.write(made.cast()) }))
}

/// Ends an id whose events the program has acknowledged.
pub fn destroy(id: *mut CmId) -> Result<(), Errno> {
    // SAFETY: the callers' rules are C's.
    let of = unsafe { &mut *id };
    // SAFETY: the NIC's object is of this id.
    let ended = gone(of.of, unsafe { vfun_nic_cm_end(of.nic) });
    channel::remove(of.of.link.number(), of.number);
    of.channel().remove(id);
    if !of.is_sync {
        of.unacknowledged.wait_for_all();
    } else {
        super::events::acknowledge_kept(of);
        // SAFETY: the channel is this id's own.
        unsafe { channel::rdma_destroy_event_channel(of.head.channel) };
    }
    // SAFETY: it was made by Box; the program uses it no more.
    drop(unsafe { Box::from_raw(id) });
    ended
}

/// `int rdma_destroy_id(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    result(destroy(id.cast()))
}

/// `int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut libc::sockaddr) -> c_int {
    // SAFETY: C's rules for this function.
    let (of, at) = unsafe { (CmId::of(id), address::read(addr)) };
    let done = at.and_then(|at| {
        let any = at.ip().is_unspecified();
        if !any && !address::is_here(at.ip()) {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        of.bind(at)?;
        if any { Ok(()) } else { of.use_device() }
    });
    result(done)
}

/// `int rdma_listen(struct rdma_cm_id *id, int backlog)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let bound = match of.source() {
        Some(_) => Ok(()),
        None => of.bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
    };
    let backlog = u32::try_from(backlog).unwrap_or_default();
    // SAFETY: the NIC's object is of this id.
    result(bound.and_then(|()| checked(unsafe { vfun_nic_cm_listen(of.nic, backlog) })))
}

/// `int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
/// int timeout_ms)`: event `ADDR_RESOLVED`. Whether somebody has the address is found when the program connects.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src: *mut libc::sockaddr,
    dst: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    // SAFETY: C's rules for this function.
    let (of, to) = unsafe { (CmId::of(id), address::read(dst)) };
    // SAFETY: as above.
    let from = (!src.is_null()).then(|| unsafe { address::read(src) }).transpose();
    let done = to.and_then(|to| resolve(of, from?, to));
    result(done.and_then(|()| super::events::told(of, kind::ADDR_RESOLVED)))
}

fn resolve(of: &mut CmId, from: Option<SocketAddr>, to: SocketAddr) -> Result<(), Errno> {
    if to.ip().is_unspecified() {
        return Err(EINVAL);
    }
    let known = of.source();
    let asked: Option<IpAddr> = from.or(known).map(|at| at.ip()).filter(|ip| !ip.is_unspecified());
    let ip = match asked {
        Some(ip) => ip,
        None => address::source_for(to)?,
    };
    match known {
        Some(at) => of.head.route.addr.src = storage(SocketAddr::new(ip, at.port())),
        None => of.bind(SocketAddr::new(ip, from.map_or(0, |at| at.port())))?,
    }
    of.head.route.addr.dst = storage(to);
    of.use_device()
}

/// `int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)`: event `ROUTE_RESOLVED`.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { CmId::of(id) };
    let (Some(to), false) = (of.destination(), of.head.verbs.is_null()) else {
        return result(Err(EINVAL));
    };
    // SAFETY: zeros are numbers.
    of.path = unsafe { MaybeUninit::zeroed().assume_init() };
    of.path.dgid.raw = address::gid(to.ip());
    of.path.sgid.raw = of.source().map_or([0; 16], |at| address::gid(at.ip()));
    // IBV_MTU_4096, and the only partition key.
    (of.path.mtu, of.path.pkey) = (5, u16::MAX);
    of.head.route.path_rec = (&raw mut of.path).cast();
    of.head.route.num_paths = 1;
    result(super::events::told(of, kind::ROUTE_RESOLVED))
}

/// `int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    // SAFETY: C's rules for this function.
    result(migrate(unsafe { CmId::of(id) }, channel))
}

/// Gives it another channel, or one of its own for null; its events go with it.
pub fn migrate(of: &mut CmId, channel: *mut rdma_event_channel) -> Result<(), Errno> {
    let (was_sync, old) = (of.is_sync, of.head.channel);
    let is_sync = channel.is_null();
    let new = if is_sync { EventChannel::new()?.cast() } else { channel };
    let id = of.pointer();
    channel::quietly(|| {
        let waiting = of.channel().remove(id);
        of.head.channel = new;
        waiting.into_iter().for_each(|event| of.channel().push(event));
    });
    of.is_sync = is_sync;
    if was_sync {
        super::events::acknowledge_kept(of);
        // SAFETY: the channel was this id's own.
        unsafe { channel::rdma_destroy_event_channel(old) };
    }
    Ok(())
}

/// `int rdma_set_option(struct rdma_cm_id *id, int level, int option, void *value, size_t bytes)`. What a network
/// would do with packets means nothing where there are none; a port is free as soon as its id has gone.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_set_option(
    _id: *mut rdma_cm_id,
    level: c_int,
    option: c_int,
    _value: *mut c_void,
    _bytes: usize,
) -> c_int {
    // RDMA_OPTION_ID: type of service, reuse of addresses, IPv6 only, time-out of acknowledgements.
    match (level, option) {
        (0, 0..=3) => 0,
        _ => {
            crate::refused::say("rdma_set_option", "there is no such option here");
            result(Err(crate::errno::EOPNOTSUPP))
        }
    }
}

/// `__be16 rdma_get_src_port(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: C's rules for this function.
    address::wire_port(unsafe { &(*id).route.addr.src })
}

/// `__be16 rdma_get_dst_port(struct rdma_cm_id *id)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: C's rules for this function.
    address::wire_port(unsafe { &(*id).route.addr.dst })
}
