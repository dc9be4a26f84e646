//! The guest's half of the API `verbs`.
//!
//! Made by `vfun-apigen generate verbs`; change tools/apigen/apis/verbs and make it again.
#![allow(
    unsafe_code,
    unused_imports,
    unused_mut,
    unused_variables,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::unnecessary_cast,
    clippy::useless_conversion
)]
use crate::hand;
use std::ffi::c_void;
use vfun_remoting_guest::{
    Description, Failure, Link, NOWHERE, Name, Reader, Refusal, Remote, Writer, found, limits, out,
    packed, parts, parts_filled, parts_turned,
};

/// This API in this process.
pub static REMOTE: Remote = Remote::new(Description {
    name: "verbs",
    fingerprint: 0x31ed4263a582e512,
    cell_bytes: 4096,
    depth: 64,
});

/// What a function answers if it did what was asked.
pub const OK: i32 = 0;

/// Kinds of objects.
pub mod kinds {
    pub const AH: u16 = 7;
    pub const CM: u16 = 8;
    pub const CONTEXT: u16 = 1;
    pub const CQ: u16 = 4;
    pub const MR: u16 = 3;
    pub const PD: u16 = 2;
    pub const QP: u16 = 6;
    pub const SRQ: u16 = 5;
}
/// Numbers of calls.
pub mod calls {
    pub const VFUN_NIC_OPEN: u16 = 16;
    pub const VFUN_NIC_CLOSE: u16 = 17;
    pub const VFUN_NIC_INFO: u16 = 18;
    pub const VFUN_NIC_PORT: u16 = 19;
    pub const VFUN_NIC_GID: u16 = 20;
    pub const VFUN_NIC_PD_MAKE: u16 = 21;
    pub const VFUN_NIC_PD_END: u16 = 22;
    pub const VFUN_NIC_MR_MAKE: u16 = 23;
    pub const VFUN_NIC_MR_ADD: u16 = 24;
    pub const VFUN_NIC_MR_END: u16 = 25;
    pub const VFUN_NIC_CQ_MAKE: u16 = 26;
    pub const VFUN_NIC_CQ_END: u16 = 27;
    pub const VFUN_NIC_SRQ_MAKE: u16 = 28;
    pub const VFUN_NIC_SRQ_LIMIT: u16 = 29;
    pub const VFUN_NIC_SRQ_QUERY: u16 = 30;
    pub const VFUN_NIC_SRQ_END: u16 = 31;
    pub const VFUN_NIC_QP_MAKE: u16 = 32;
    pub const VFUN_NIC_QP_MODIFY: u16 = 33;
    pub const VFUN_NIC_QP_QUERY: u16 = 34;
    pub const VFUN_NIC_QP_END: u16 = 35;
    pub const VFUN_NIC_AH_MAKE: u16 = 36;
    pub const VFUN_NIC_AH_END: u16 = 37;
    pub const VFUN_NIC_CM_MAKE: u16 = 66;
    pub const VFUN_NIC_CM_TAKE: u16 = 67;
    pub const VFUN_NIC_CM_BIND: u16 = 68;
    pub const VFUN_NIC_CM_LISTEN: u16 = 69;
    pub const VFUN_NIC_CM_CONNECT: u16 = 70;
    pub const VFUN_NIC_CM_ACCEPT: u16 = 71;
    pub const VFUN_NIC_CM_ESTABLISH: u16 = 72;
    pub const VFUN_NIC_CM_REJECT: u16 = 73;
    pub const VFUN_NIC_CM_DISCONNECT: u16 = 74;
    pub const VFUN_NIC_CM_END: u16 = 75;
}
/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_ah {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_cm {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_context {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_cq {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_mr {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_pd {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_qp {
    _nothing: [u8; 0],
}

/// Known by its address only.
#[repr(C)]
pub struct vfun_nic_srq {
    _nothing: [u8; 0],
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_cm_data {
    pub length: u32,
    pub bytes: [u8; 196],
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_cm_offer {
    pub qpn: u32,
    pub qkey: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub srq: u8,
    pub reserved: u16,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_cm_place {
    pub gid: [u8; 16],
    pub port: u16,
    pub is_here: u16,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_cq_made {
    pub place: vfun_nic_place,
    pub number: u32,
    pub reserved: u32,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_gid {
    pub raw: [u8; 16],
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_info {
    pub guid: u64,
    pub region_bytes: u64,
    pub message_bytes: u64,
    pub version: u32,
    pub qps: u32,
    pub work_depth: u32,
    pub sges: u32,
    pub inline_bytes: u32,
    pub cqs: u32,
    pub cq_depth: u32,
    pub mrs: u32,
    pub pds: u32,
    pub srqs: u32,
    pub ahs: u32,
    pub reads: u32,
    pub access: u32,
    pub reserved: u32,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_opened {
    pub program_bells: u64,
    pub nic_bells: u64,
    pub program_bytes: u64,
    pub nic_bytes: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_path {
    pub gid: [u8; 16],
    pub flow_label: u32,
    pub lid: u16,
    pub is_global: u8,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub port: u8,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_place {
    pub program_at: u64,
    pub program_bytes: u64,
    pub nic_at: u64,
    pub nic_bytes: u64,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_port {
    pub state: u32,
    pub physical_state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gids: u32,
    pub pkeys: u32,
    pub capabilities: u32,
    pub max_message_bytes: u32,
    pub link_layer: u32,
    pub active_width: u32,
    pub active_speed: u32,
    pub lid: u16,
    pub sm_lid: u16,
    pub pkey: u16,
    pub reserved: u16,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_qp_attr {
    pub path: vfun_nic_path,
    pub state: u32,
    pub current_state: u32,
    pub path_mtu: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qpn: u32,
    pub access: u32,
    pub pkey_index: u16,
    pub port: u8,
    pub sqd_notify: u8,
    pub sq_draining: u8,
    pub reads: u8,
    pub reads_of_peer: u8,
    pub min_rnr_timer: u8,
    pub timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub reserved: u8,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_qp_init {
    pub kind: u32,
    pub all_signaled: u32,
    pub send_depth: u32,
    pub send_extension: u32,
    pub receive_depth: u32,
    pub receive_extension: u32,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_qp_made {
    pub sends: vfun_nic_place,
    pub receives: vfun_nic_place,
    pub qpn: u32,
    pub bell: u32,
}

/// As in the API's header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vfun_nic_srq_made {
    pub place: vfun_nic_place,
    pub number: u32,
    pub reserved: u32,
}

/// The API's own status for what went wrong on the way.
pub fn status_of(failure: Failure) -> i32 {
    match failure {
        Failure::Argument => 22,
        Failure::Object => 22,
        Failure::Limit => 12,
        Failure::Unsupported => 95,
        Failure::NoHost => 19,
        Failure::Lost => 5,
        Failure::Internal => 71,
        Failure::Closed => 71,
        Failure::Own(status) => status as i32,
    }
}

/// Makes a status of what a function's body says. A panic is a fault of ours and not the program's end.
fn answer(body: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let body = std::panic::AssertUnwindSafe(body);
    match std::panic::catch_unwind(body) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => status_of(failure),
        Err(_) => status_of(Failure::Internal),
    }
}

/// Writes each member.
pub fn write_vfun_nic_cm_data(w: &mut Writer<'_>, of: &vfun_nic_cm_data) {
    w.u32(of.length);
    w.bytes(&of.bytes);
}

/// Writes each member.
pub fn write_vfun_nic_cm_offer(w: &mut Writer<'_>, of: &vfun_nic_cm_offer) {
    w.u32(of.qpn);
    w.u32(of.qkey);
    w.u8(of.responder_resources);
    w.u8(of.initiator_depth);
    w.u8(of.flow_control);
    w.u8(of.retry_count);
    w.u8(of.rnr_retry);
    w.u8(of.srq);
    w.u16(of.reserved);
}

/// Writes each member.
pub fn write_vfun_nic_cm_place(w: &mut Writer<'_>, of: &vfun_nic_cm_place) {
    w.bytes(&of.gid);
    w.u16(of.port);
    w.u16(of.is_here);
}

/// Writes each member.
pub fn write_vfun_nic_path(w: &mut Writer<'_>, of: &vfun_nic_path) {
    w.bytes(&of.gid);
    w.u32(of.flow_label);
    w.u16(of.lid);
    w.u8(of.is_global);
    w.u8(of.sgid_index);
    w.u8(of.hop_limit);
    w.u8(of.traffic_class);
    w.u8(of.sl);
    w.u8(of.src_path_bits);
    w.u8(of.static_rate);
    w.u8(of.port);
}

/// Writes each member.
pub fn write_vfun_nic_qp_attr(w: &mut Writer<'_>, of: &vfun_nic_qp_attr) {
    write_vfun_nic_path(w, &of.path);
    w.u32(of.state);
    w.u32(of.current_state);
    w.u32(of.path_mtu);
    w.u32(of.qkey);
    w.u32(of.rq_psn);
    w.u32(of.sq_psn);
    w.u32(of.dest_qpn);
    w.u32(of.access);
    w.u16(of.pkey_index);
    w.u8(of.port);
    w.u8(of.sqd_notify);
    w.u8(of.sq_draining);
    w.u8(of.reads);
    w.u8(of.reads_of_peer);
    w.u8(of.min_rnr_timer);
    w.u8(of.timeout);
    w.u8(of.retry_count);
    w.u8(of.rnr_retry);
    w.u8(of.reserved);
}

/// Writes each member.
pub fn write_vfun_nic_qp_init(w: &mut Writer<'_>, of: &vfun_nic_qp_init) {
    w.u32(of.kind);
    w.u32(of.all_signaled);
    w.u32(of.send_depth);
    w.u32(of.send_extension);
    w.u32(of.receive_depth);
    w.u32(of.receive_extension);
}

/// Reads each member.
pub fn read_vfun_nic_cq_made(r: &mut Reader<'_>) -> Result<vfun_nic_cq_made, Refusal> {
    let place = read_vfun_nic_place(r)?;
    let number = r.u32()?;
    let reserved = r.u32()?;
    Ok(vfun_nic_cq_made { place, number, reserved })
}

/// Reads each member.
pub fn read_vfun_nic_gid(r: &mut Reader<'_>) -> Result<vfun_nic_gid, Refusal> {
    let mut raw = [0; 16];
    raw.copy_from_slice(r.bytes(16)?);
    Ok(vfun_nic_gid { raw })
}

/// Reads each member.
pub fn read_vfun_nic_info(r: &mut Reader<'_>) -> Result<vfun_nic_info, Refusal> {
    let guid = r.u64()?;
    let region_bytes = r.u64()?;
    let message_bytes = r.u64()?;
    let version = r.u32()?;
    let qps = r.u32()?;
    let work_depth = r.u32()?;
    let sges = r.u32()?;
    let inline_bytes = r.u32()?;
    let cqs = r.u32()?;
    let cq_depth = r.u32()?;
    let mrs = r.u32()?;
    let pds = r.u32()?;
    let srqs = r.u32()?;
    let ahs = r.u32()?;
    let reads = r.u32()?;
    let access = r.u32()?;
    let reserved = r.u32()?;
    Ok(vfun_nic_info {
        guid,
        region_bytes,
        message_bytes,
        version,
        qps,
        work_depth,
        sges,
        inline_bytes,
        cqs,
        cq_depth,
        mrs,
        pds,
        srqs,
        ahs,
        reads,
        access,
        reserved,
    })
}

/// Reads each member.
pub fn read_vfun_nic_opened(r: &mut Reader<'_>) -> Result<vfun_nic_opened, Refusal> {
    let program_bells = r.u64()?;
    let nic_bells = r.u64()?;
    let program_bytes = r.u64()?;
    let nic_bytes = r.u64()?;
    Ok(vfun_nic_opened { program_bells, nic_bells, program_bytes, nic_bytes })
}

/// Reads each member.
pub fn read_vfun_nic_path(r: &mut Reader<'_>) -> Result<vfun_nic_path, Refusal> {
    let mut gid = [0; 16];
    gid.copy_from_slice(r.bytes(16)?);
    let flow_label = r.u32()?;
    let lid = r.u16()?;
    let is_global = r.u8()?;
    let sgid_index = r.u8()?;
    let hop_limit = r.u8()?;
    let traffic_class = r.u8()?;
    let sl = r.u8()?;
    let src_path_bits = r.u8()?;
    let static_rate = r.u8()?;
    let port = r.u8()?;
    Ok(vfun_nic_path {
        gid,
        flow_label,
        lid,
        is_global,
        sgid_index,
        hop_limit,
        traffic_class,
        sl,
        src_path_bits,
        static_rate,
        port,
    })
}

/// Reads each member.
pub fn read_vfun_nic_place(r: &mut Reader<'_>) -> Result<vfun_nic_place, Refusal> {
    let program_at = r.u64()?;
    let program_bytes = r.u64()?;
    let nic_at = r.u64()?;
    let nic_bytes = r.u64()?;
    Ok(vfun_nic_place { program_at, program_bytes, nic_at, nic_bytes })
}

/// Reads each member.
pub fn read_vfun_nic_port(r: &mut Reader<'_>) -> Result<vfun_nic_port, Refusal> {
    let state = r.u32()?;
    let physical_state = r.u32()?;
    let max_mtu = r.u32()?;
    let active_mtu = r.u32()?;
    let gids = r.u32()?;
    let pkeys = r.u32()?;
    let capabilities = r.u32()?;
    let max_message_bytes = r.u32()?;
    let link_layer = r.u32()?;
    let active_width = r.u32()?;
    let active_speed = r.u32()?;
    let lid = r.u16()?;
    let sm_lid = r.u16()?;
    let pkey = r.u16()?;
    let reserved = r.u16()?;
    Ok(vfun_nic_port {
        state,
        physical_state,
        max_mtu,
        active_mtu,
        gids,
        pkeys,
        capabilities,
        max_message_bytes,
        link_layer,
        active_width,
        active_speed,
        lid,
        sm_lid,
        pkey,
        reserved,
    })
}

/// Reads each member.
pub fn read_vfun_nic_qp_attr(r: &mut Reader<'_>) -> Result<vfun_nic_qp_attr, Refusal> {
    let path = read_vfun_nic_path(r)?;
    let state = r.u32()?;
    let current_state = r.u32()?;
    let path_mtu = r.u32()?;
    let qkey = r.u32()?;
    let rq_psn = r.u32()?;
    let sq_psn = r.u32()?;
    let dest_qpn = r.u32()?;
    let access = r.u32()?;
    let pkey_index = r.u16()?;
    let port = r.u8()?;
    let sqd_notify = r.u8()?;
    let sq_draining = r.u8()?;
    let reads = r.u8()?;
    let reads_of_peer = r.u8()?;
    let min_rnr_timer = r.u8()?;
    let timeout = r.u8()?;
    let retry_count = r.u8()?;
    let rnr_retry = r.u8()?;
    let reserved = r.u8()?;
    Ok(vfun_nic_qp_attr {
        path,
        state,
        current_state,
        path_mtu,
        qkey,
        rq_psn,
        sq_psn,
        dest_qpn,
        access,
        pkey_index,
        port,
        sqd_notify,
        sq_draining,
        reads,
        reads_of_peer,
        min_rnr_timer,
        timeout,
        retry_count,
        rnr_retry,
        reserved,
    })
}

/// Reads each member.
pub fn read_vfun_nic_qp_made(r: &mut Reader<'_>) -> Result<vfun_nic_qp_made, Refusal> {
    let sends = read_vfun_nic_place(r)?;
    let receives = read_vfun_nic_place(r)?;
    let qpn = r.u32()?;
    let bell = r.u32()?;
    Ok(vfun_nic_qp_made { sends, receives, qpn, bell })
}

/// Reads each member.
pub fn read_vfun_nic_srq_made(r: &mut Reader<'_>) -> Result<vfun_nic_srq_made, Refusal> {
    let place = read_vfun_nic_place(r)?;
    let number = r.u32()?;
    let reserved = r.u32()?;
    Ok(vfun_nic_srq_made { place, number, reserved })
}

/// Call 16.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_open(
    version: u32,
    channel: u64,
    token_low: u64,
    token_high: u64,
    opened: *mut vfun_nic_opened,
    context: *mut *mut vfun_nic_context,
) -> i32 {
    answer(|| {
        let link = REMOTE.link()?;
        // SAFETY: C's rules for this function.
        let opened_place = unsafe { out::place(opened) }?;
        // SAFETY: C's rules for this function.
        let context_place = unsafe { out::place(context) }?;
        let context_new = REMOTE.objects.make(kinds::CONTEXT, link.number(), None)?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_OPEN,
            |w| {
                w.u32(version);
                w.u64(channel);
                w.u64(token_low);
                w.u64(token_high);
                w.name(context_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_opened(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((opened_answer,)) = outs {
            opened_place.write(opened_answer);
            context_place
                .write(std::ptr::with_exposed_provenance_mut(context_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 17.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_close(context: *mut vfun_nic_context) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CLOSE,
            |w| {
                w.name(context_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(context_object);
        }
        Ok(returned)
    })
}

/// Call 18.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_info(
    context: *mut vfun_nic_context,
    info: *mut vfun_nic_info,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let info_place = unsafe { out::place(info) }?;
        let (returned, outs) = link.cached(
            calls::VFUN_NIC_INFO,
            |w| {
                w.name(context_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_info(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
            |made| made.1.is_some(),
        )?;
        if let Some((info_answer,)) = outs {
            info_place.write(info_answer);
        }
        Ok(returned)
    })
}

/// Call 19.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_port(
    context: *mut vfun_nic_context,
    port: *mut vfun_nic_port,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let port_place = unsafe { out::place(port) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_PORT,
            |w| {
                w.name(context_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_port(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((port_answer,)) = outs {
            port_place.write(port_answer);
        }
        Ok(returned)
    })
}

/// Call 20.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_gid(
    context: *mut vfun_nic_context,
    index: u32,
    gid: *mut vfun_nic_gid,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let gid_place = unsafe { out::place(gid) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_GID,
            |w| {
                w.name(context_name);
                w.u32(index);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_gid(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((gid_answer,)) = outs {
            gid_place.write(gid_answer);
        }
        Ok(returned)
    })
}

/// Call 21.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_pd_make(
    context: *mut vfun_nic_context,
    pd: *mut *mut vfun_nic_pd,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let pd_place = unsafe { out::place(pd) }?;
        let pd_new = REMOTE.objects.make(kinds::PD, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_PD_MAKE,
            |w| {
                w.name(context_name);
                w.name(pd_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            pd_place.write(std::ptr::with_exposed_provenance_mut(pd_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 22.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_pd_end(pd: *mut vfun_nic_pd) -> i32 {
    answer(|| {
        let (pd_object, link) = REMOTE.object(pd.addr(), kinds::PD)?;
        let pd_name = pd_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_PD_END,
            |w| {
                w.name(pd_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(pd_object);
        }
        Ok(returned)
    })
}

/// Call 23.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_mr_make(
    pd: *mut vfun_nic_pd,
    iova: u64,
    length: u64,
    access: u32,
    runs: *const u8,
    run_bytes: u64,
    mr: *mut *mut vfun_nic_mr,
    key: *mut u32,
) -> i32 {
    answer(|| {
        let (pd_object, link) = REMOTE.object(pd.addr(), kinds::PD)?;
        let pd_name = pd_object.name();
        // SAFETY: C's rules for this function.
        let runs_bytes = unsafe { out::blob(runs.cast(), run_bytes as u64) }?;
        // SAFETY: C's rules for this function.
        let mr_place = unsafe { out::place(mr) }?;
        let mr_new = REMOTE.objects.make(kinds::MR, link.number(), Some(pd_object))?;
        // SAFETY: C's rules for this function.
        let key_place = unsafe { out::place(key) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_MR_MAKE,
            |w| {
                w.name(pd_name);
                w.u64(iova);
                w.u64(length);
                w.u32(access);
                w.blob(runs_bytes);
                w.name(mr_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((key_answer,)) = outs {
            mr_place.write(std::ptr::with_exposed_provenance_mut(mr_new.keep().pointer()));
            key_place.write(key_answer);
        }
        Ok(returned)
    })
}

/// Call 24.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_mr_add(
    mr: *mut vfun_nic_mr,
    runs: *const u8,
    run_bytes: u64,
    key: *mut u32,
) -> i32 {
    answer(|| {
        let (mr_object, link) = REMOTE.object(mr.addr(), kinds::MR)?;
        let mr_name = mr_object.name();
        // SAFETY: C's rules for this function.
        let runs_bytes = unsafe { out::blob(runs.cast(), run_bytes as u64) }?;
        // SAFETY: C's rules for this function.
        let key_place = unsafe { out::place(key) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_MR_ADD,
            |w| {
                w.name(mr_name);
                w.blob(runs_bytes);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((key_answer,)) = outs {
            key_place.write(key_answer);
        }
        Ok(returned)
    })
}

/// Call 25.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_mr_end(mr: *mut vfun_nic_mr) -> i32 {
    answer(|| {
        let (mr_object, link) = REMOTE.object(mr.addr(), kinds::MR)?;
        let mr_name = mr_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_MR_END,
            |w| {
                w.name(mr_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(mr_object);
        }
        Ok(returned)
    })
}

/// Call 26.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cq_make(
    context: *mut vfun_nic_context,
    depth: u32,
    has_channel: u32,
    made: *mut vfun_nic_cq_made,
    cq: *mut *mut vfun_nic_cq,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let made_place = unsafe { out::place(made) }?;
        // SAFETY: C's rules for this function.
        let cq_place = unsafe { out::place(cq) }?;
        let cq_new = REMOTE.objects.make(kinds::CQ, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CQ_MAKE,
            |w| {
                w.name(context_name);
                w.u32(depth);
                w.u32(has_channel);
                w.name(cq_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_cq_made(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((made_answer,)) = outs {
            made_place.write(made_answer);
            cq_place.write(std::ptr::with_exposed_provenance_mut(cq_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 27.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cq_end(cq: *mut vfun_nic_cq) -> i32 {
    answer(|| {
        let (cq_object, link) = REMOTE.object(cq.addr(), kinds::CQ)?;
        let cq_name = cq_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CQ_END,
            |w| {
                w.name(cq_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(cq_object);
        }
        Ok(returned)
    })
}

/// Call 28.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_srq_make(
    pd: *mut vfun_nic_pd,
    depth: u32,
    extension: u32,
    made: *mut vfun_nic_srq_made,
    srq: *mut *mut vfun_nic_srq,
) -> i32 {
    answer(|| {
        let (pd_object, link) = REMOTE.object(pd.addr(), kinds::PD)?;
        let pd_name = pd_object.name();
        // SAFETY: C's rules for this function.
        let made_place = unsafe { out::place(made) }?;
        // SAFETY: C's rules for this function.
        let srq_place = unsafe { out::place(srq) }?;
        let srq_new = REMOTE.objects.make(kinds::SRQ, link.number(), Some(pd_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_SRQ_MAKE,
            |w| {
                w.name(pd_name);
                w.u32(depth);
                w.u32(extension);
                w.name(srq_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_srq_made(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((made_answer,)) = outs {
            made_place.write(made_answer);
            srq_place.write(std::ptr::with_exposed_provenance_mut(srq_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 29.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_srq_limit(srq: *mut vfun_nic_srq, limit: u32) -> i32 {
    answer(|| {
        let (srq_object, link) = REMOTE.object(srq.addr(), kinds::SRQ)?;
        let srq_name = srq_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_SRQ_LIMIT,
            |w| {
                w.name(srq_name);
                w.u32(limit);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 30.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_srq_query(srq: *mut vfun_nic_srq, limit: *mut u32) -> i32 {
    answer(|| {
        let (srq_object, link) = REMOTE.object(srq.addr(), kinds::SRQ)?;
        let srq_name = srq_object.name();
        // SAFETY: C's rules for this function.
        let limit_place = unsafe { out::place(limit) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_SRQ_QUERY,
            |w| {
                w.name(srq_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((limit_answer,)) = outs {
            limit_place.write(limit_answer);
        }
        Ok(returned)
    })
}

/// Call 31.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_srq_end(srq: *mut vfun_nic_srq) -> i32 {
    answer(|| {
        let (srq_object, link) = REMOTE.object(srq.addr(), kinds::SRQ)?;
        let srq_name = srq_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_SRQ_END,
            |w| {
                w.name(srq_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(srq_object);
        }
        Ok(returned)
    })
}

/// Call 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_qp_make(
    pd: *mut vfun_nic_pd,
    init: *const vfun_nic_qp_init,
    send_cq: *mut vfun_nic_cq,
    receive_cq: *mut vfun_nic_cq,
    srq: *mut vfun_nic_srq,
    made: *mut vfun_nic_qp_made,
    qp: *mut *mut vfun_nic_qp,
) -> i32 {
    answer(|| {
        let (pd_object, link) = REMOTE.object(pd.addr(), kinds::PD)?;
        let pd_name = pd_object.name();
        let (send_cq_object, _) = REMOTE.object(send_cq.addr(), kinds::CQ)?;
        let send_cq_name = send_cq_object.name();
        let (receive_cq_object, _) = REMOTE.object(receive_cq.addr(), kinds::CQ)?;
        let receive_cq_name = receive_cq_object.name();
        let srq_name = match srq.is_null() {
            true => vfun_remoting_guest::Name::NONE,
            false => REMOTE.object(srq.addr(), kinds::SRQ)?.0.name(),
        };
        // SAFETY: C's rules for this function.
        let init_value = unsafe { out::value(init) }?;
        // SAFETY: C's rules for this function.
        let made_place = unsafe { out::place(made) }?;
        // SAFETY: C's rules for this function.
        let qp_place = unsafe { out::place(qp) }?;
        let qp_new = REMOTE.objects.make(kinds::QP, link.number(), Some(pd_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_QP_MAKE,
            |w| {
                w.name(pd_name);
                write_vfun_nic_qp_init(w, &init_value);
                w.name(send_cq_name);
                w.name(receive_cq_name);
                w.name(srq_name);
                w.name(qp_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_qp_made(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((made_answer,)) = outs {
            made_place.write(made_answer);
            qp_place.write(std::ptr::with_exposed_provenance_mut(qp_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 33.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_qp_modify(
    qp: *mut vfun_nic_qp,
    mask: u32,
    attr: *const vfun_nic_qp_attr,
) -> i32 {
    answer(|| {
        let (qp_object, link) = REMOTE.object(qp.addr(), kinds::QP)?;
        let qp_name = qp_object.name();
        // SAFETY: C's rules for this function.
        let attr_value = unsafe { out::value(attr) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_QP_MODIFY,
            |w| {
                w.name(qp_name);
                w.u32(mask);
                write_vfun_nic_qp_attr(w, &attr_value);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 34.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_qp_query(
    qp: *mut vfun_nic_qp,
    attr: *mut vfun_nic_qp_attr,
) -> i32 {
    answer(|| {
        let (qp_object, link) = REMOTE.object(qp.addr(), kinds::QP)?;
        let qp_name = qp_object.name();
        // SAFETY: C's rules for this function.
        let attr_place = unsafe { out::place(attr) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_QP_QUERY,
            |w| {
                w.name(qp_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((read_vfun_nic_qp_attr(r)?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((attr_answer,)) = outs {
            attr_place.write(attr_answer);
        }
        Ok(returned)
    })
}

/// Call 35.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_qp_end(qp: *mut vfun_nic_qp) -> i32 {
    answer(|| {
        let (qp_object, link) = REMOTE.object(qp.addr(), kinds::QP)?;
        let qp_name = qp_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_QP_END,
            |w| {
                w.name(qp_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(qp_object);
        }
        Ok(returned)
    })
}

/// Call 36.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_ah_make(
    pd: *mut vfun_nic_pd,
    path: *const vfun_nic_path,
    number: *mut u32,
    ah: *mut *mut vfun_nic_ah,
) -> i32 {
    answer(|| {
        let (pd_object, link) = REMOTE.object(pd.addr(), kinds::PD)?;
        let pd_name = pd_object.name();
        // SAFETY: C's rules for this function.
        let path_value = unsafe { out::value(path) }?;
        // SAFETY: C's rules for this function.
        let number_place = unsafe { out::place(number) }?;
        // SAFETY: C's rules for this function.
        let ah_place = unsafe { out::place(ah) }?;
        let ah_new = REMOTE.objects.make(kinds::AH, link.number(), Some(pd_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_AH_MAKE,
            |w| {
                w.name(pd_name);
                write_vfun_nic_path(w, &path_value);
                w.name(ah_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((number_answer,)) = outs {
            number_place.write(number_answer);
            ah_place.write(std::ptr::with_exposed_provenance_mut(ah_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 37.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_ah_end(ah: *mut vfun_nic_ah) -> i32 {
    answer(|| {
        let (ah_object, link) = REMOTE.object(ah.addr(), kinds::AH)?;
        let ah_name = ah_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_AH_END,
            |w| {
                w.name(ah_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(ah_object);
        }
        Ok(returned)
    })
}

/// Call 66.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_make(
    context: *mut vfun_nic_context,
    space: u32,
    number: *mut u32,
    cm: *mut *mut vfun_nic_cm,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let number_place = unsafe { out::place(number) }?;
        // SAFETY: C's rules for this function.
        let cm_place = unsafe { out::place(cm) }?;
        let cm_new = REMOTE.objects.make(kinds::CM, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_MAKE,
            |w| {
                w.name(context_name);
                w.u32(space);
                w.name(cm_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((number_answer,)) = outs {
            number_place.write(number_answer);
            cm_place.write(std::ptr::with_exposed_provenance_mut(cm_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 67.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_take(
    context: *mut vfun_nic_context,
    number: u32,
    cm: *mut *mut vfun_nic_cm,
) -> i32 {
    answer(|| {
        let (context_object, link) = REMOTE.object(context.addr(), kinds::CONTEXT)?;
        let context_name = context_object.name();
        // SAFETY: C's rules for this function.
        let cm_place = unsafe { out::place(cm) }?;
        let cm_new = REMOTE.objects.make(kinds::CM, link.number(), Some(context_object))?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_TAKE,
            |w| {
                w.name(context_name);
                w.u32(number);
                w.name(cm_new.name());
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            cm_place.write(std::ptr::with_exposed_provenance_mut(cm_new.keep().pointer()));
        }
        Ok(returned)
    })
}

/// Call 68.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_bind(cm: *mut vfun_nic_cm, port: u32, bound: *mut u32) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        // SAFETY: C's rules for this function.
        let bound_place = unsafe { out::place(bound) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_BIND,
            |w| {
                w.name(cm_name);
                w.u32(port);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some((r.u32()?,)) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some((bound_answer,)) = outs {
            bound_place.write(bound_answer);
        }
        Ok(returned)
    })
}

/// Call 69.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_listen(cm: *mut vfun_nic_cm, backlog: u32) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_LISTEN,
            |w| {
                w.name(cm_name);
                w.u32(backlog);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 70.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_connect(
    cm: *mut vfun_nic_cm,
    to: *const vfun_nic_cm_place,
    offer: *const vfun_nic_cm_offer,
    data: *const vfun_nic_cm_data,
) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        // SAFETY: C's rules for this function.
        let to_value = unsafe { out::value(to) }?;
        // SAFETY: C's rules for this function.
        let offer_value = unsafe { out::value(offer) }?;
        // SAFETY: C's rules for this function.
        let data_value = unsafe { out::value(data) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_CONNECT,
            |w| {
                w.name(cm_name);
                write_vfun_nic_cm_place(w, &to_value);
                write_vfun_nic_cm_offer(w, &offer_value);
                write_vfun_nic_cm_data(w, &data_value);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_accept(
    cm: *mut vfun_nic_cm,
    offer: *const vfun_nic_cm_offer,
    data: *const vfun_nic_cm_data,
) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        // SAFETY: C's rules for this function.
        let offer_value = unsafe { out::value(offer) }?;
        // SAFETY: C's rules for this function.
        let data_value = unsafe { out::value(data) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_ACCEPT,
            |w| {
                w.name(cm_name);
                write_vfun_nic_cm_offer(w, &offer_value);
                write_vfun_nic_cm_data(w, &data_value);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 72.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_establish(cm: *mut vfun_nic_cm) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_ESTABLISH,
            |w| {
                w.name(cm_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 73.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_reject(
    cm: *mut vfun_nic_cm,
    data: *const vfun_nic_cm_data,
) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        // SAFETY: C's rules for this function.
        let data_value = unsafe { out::value(data) }?;
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_REJECT,
            |w| {
                w.name(cm_name);
                write_vfun_nic_cm_data(w, &data_value);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 74.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_disconnect(cm: *mut vfun_nic_cm) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_DISCONNECT,
            |w| {
                w.name(cm_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        Ok(returned)
    })
}

/// Call 75.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_nic_cm_end(cm: *mut vfun_nic_cm) -> i32 {
    answer(|| {
        let (cm_object, link) = REMOTE.object(cm.addr(), kinds::CM)?;
        let cm_name = cm_object.name();
        let (returned, outs) = link.call(
            calls::VFUN_NIC_CM_END,
            |w| {
                w.name(cm_name);
            },
            |r| {
                let returned = r.i32()?;
                let outs = if returned == OK { Some(()) } else { None };
                r.end()?;
                Ok((returned, outs))
            },
        )?;
        if let Some(()) = outs {
            REMOTE.objects.forget(cm_object);
        }
        Ok(returned)
    })
}
