//! What a device and its port are.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::context::Context;
use crate::errno::{EINVAL, EOPNOTSUPP, Errno, checked, minus_one, number};
use crate::generated::{vfun_nic_gid, vfun_nic_info, vfun_nic_port};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// The only port.
const PORT: u8 = 1;
/// Partition keys of the port.
const PKEY: u16 = 0xFFFF;
/// A device's number of a vendor: none was given out for this one.
const VENDOR: u32 = 0;

fn int(of: impl TryInto<c_int>) -> c_int {
    of.try_into().unwrap_or(c_int::MAX)
}

fn attributes(info: &vfun_nic_info) -> ibv_device_attr {
    use numbers::device::*;
    // SAFETY: zeros are numbers.
    let mut attr: ibv_device_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in attr.fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from as c_char;
    }
    attr.node_guid = info.guid.to_be();
    attr.sys_image_guid = info.guid.to_be();
    attr.max_mr_size = info.region_bytes;
    attr.page_size_cap = crate::memory::PAGE as u64;
    attr.vendor_id = VENDOR;
    attr.hw_ver = info.version;
    attr.max_qp = int(info.qps);
    attr.max_qp_wr = int(info.work_depth);
    attr.device_cap_flags = CURR_QP_STATE_MOD | SYS_IMAGE_GUID | RC_RNR_NAK_GEN | N_NOTIFY_CQ;
    attr.max_sge = int(info.sges);
    attr.max_sge_rd = int(info.sges);
    attr.max_cq = int(info.cqs);
    attr.max_cqe = int(info.cq_depth);
    attr.max_mr = int(info.mrs);
    attr.max_pd = int(info.pds);
    attr.max_qp_rd_atom = int(info.reads);
    attr.max_res_rd_atom = int(u64::from(info.reads) * u64::from(info.qps));
    attr.max_qp_init_rd_atom = int(info.reads);
    attr.atomic_cap = numbers::ATOMIC_HCA;
    attr.max_ah = int(info.ahs);
    attr.max_srq = int(info.srqs);
    attr.max_srq_wr = int(info.work_depth);
    attr.max_srq_sge = int(info.sges);
    attr.max_pkeys = 1;
    attr.phys_port_cnt = PORT;
    attr
}

/// `int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    unsafe { attr.write(attributes(&Context::of(context).info)) };
    0
}

/// `query_device_ex` of the ops table. A caller of an older header has a shorter struct.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    bytes: usize,
) -> c_int {
    if bytes < size_of::<ibv_device_attr>() {
        return EINVAL.0;
    }
    // SAFETY: zeros are numbers.
    let mut all: ibv_device_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: C's rules for this function.
    all.orig_attr = attributes(unsafe { &Context::of(context).info });
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags.into();
    all.phys_port_cnt_ex = PORT.into();
    let most = bytes.min(size_of_val(&all));
    // SAFETY: the program's place has so many bytes; what is beyond ours is zero.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), attr.cast(), most);
        attr.cast::<u8>().add(most).write_bytes(0, bytes - most);
    }
    0
}

/// What the NIC says of its port now.
fn port(context: *mut ibv_context, number: u8) -> Result<vfun_nic_port, Errno> {
    if number != PORT {
        return Err(EINVAL);
    }
    let mut told = MaybeUninit::uninit();
    // SAFETY: the callers' rules are C's; the place is ours.
    checked(unsafe {
        crate::generated::vfun_nic_port(Context::of(context).nic, told.as_mut_ptr())
    })?;
    // SAFETY: it was written: the call succeeded.
    Ok(unsafe { told.assume_init() })
}

fn port_attributes(port: &vfun_nic_port) -> ibv_port_attr {
    ibv_port_attr {
        state: port.state,
        max_mtu: port.max_mtu,
        active_mtu: port.active_mtu,
        gid_tbl_len: int(port.gids),
        port_cap_flags: port.capabilities,
        max_msg_sz: port.max_message_bytes,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: port.pkeys as u16,
        lid: port.lid,
        sm_lid: port.sm_lid,
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: port.active_width as u8,
        active_speed: port.active_speed as u8,
        phys_state: port.physical_state as u8,
        link_layer: port.link_layer as u8,
        flags: 0,
        port_cap_flags2: 0,
    }
}

/// `query_port` of the ops table. A caller of an older header has a shorter struct.
///
/// # Safety
/// C's rules.
pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    number_of: u8,
    attr: *mut ibv_port_attr,
    bytes: usize,
) -> c_int {
    number(port(context, number_of).map(|told| {
        let all = port_attributes(&told);
        let most = bytes.min(size_of_val(&all));
        // SAFETY: the program's place has so many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), attr.cast(), most);
            attr.cast::<u8>().add(most).write_bytes(0, bytes - most);
        }
    }))
}

/// Bytes of `ibv_port_attr` in headers whose programs call the function: up to `flags`.
const OLD_PORT_BYTES: usize = 48;

/// `int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    number: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: C's rules for this function.
    unsafe { query_port(context, number, attr, OLD_PORT_BYTES) }
}

fn gid(context: *mut ibv_context, port: u8, index: u32) -> Result<ibv_gid, Errno> {
    if port != PORT {
        return Err(EINVAL);
    }
    let mut told = vfun_nic_gid { raw: [0; 16] };
    // SAFETY: the callers' rules are C's; the place is ours.
    checked(unsafe { crate::generated::vfun_nic_gid(Context::of(context).nic, index, &mut told) })?;
    Ok(ibv_gid { raw: told.raw })
}

/// `int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    to: *mut ibv_gid,
) -> c_int {
    let found = u32::try_from(index).map_err(|_| EINVAL).and_then(|i| gid(context, port, i));
    // SAFETY: the program's place.
    minus_one(found.map(|found| unsafe { to.write(found) }))
}

/// `int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
/// struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    if flags != 0 || entry_size < size_of::<ibv_gid_entry>() {
        return EINVAL.0;
    }
    let port_number = u8::try_from(port).unwrap_or_default();
    let found = gid(context, port_number, index).map(|gid| ibv_gid_entry {
        gid,
        gid_index: index,
        port_num: port,
        gid_type: numbers::GID_TYPE_IB,
        ndev_ifindex: 0,
    });
    // SAFETY: the program's place.
    number(found.map(|found| unsafe { entry.write(found) }))
}

/// `ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
/// size_t max_entries, uint32_t flags, size_t entry_size)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    if max_entries == 0 || entry_size != size_of::<ibv_gid_entry>() {
        return -(EINVAL.0 as isize);
    }
    // SAFETY: C's rules for this function.
    let done = unsafe { _ibv_query_gid_ex(context, PORT.into(), 0, entries, flags, entry_size) };
    if done == 0 { 1 } else { -(done as isize) }
}

/// `int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
/// enum ibv_gid_type_sysfs *type)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: u32,
    to: *mut u32,
) -> c_int {
    let found = gid(context, port, index);
    // SAFETY: the program's place.
    minus_one(found.map(|_| unsafe { to.write(numbers::GID_TYPE_IB) }))
}

/// `int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    to: *mut u16,
) -> c_int {
    let found = if port == PORT && index == 0 { Ok(PKEY.to_be()) } else { Err(EINVAL) };
    // SAFETY: the program's place.
    minus_one(found.map(|found| unsafe { to.write(found) }))
}

/// `int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)`
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_pkey_index(_context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    minus_one(if port == PORT && pkey == PKEY.to_be() { Ok(()) } else { Err(EINVAL) })
}

/// `int ibv_resolve_eth_l2_from_gid(...)`: the port is no Ethernet.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut ibv_context,
    _attr: *mut ibv_ah_attr,
    _mac: *mut u8,
    _vlan: *mut u16,
) -> c_int {
    crate::refused::say("ibv_resolve_eth_l2_from_gid", crate::coverage::NO_ETHERNET);
    minus_one(Err(EOPNOTSUPP))
}
