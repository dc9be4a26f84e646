//! The host's half of the API `verbs`.
//!
//! Made by `vfun-apigen generate verbs`; change tools/apigen/apis/verbs and make it again.
#![allow(
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
use std::any::Any;
use std::ffi::c_void;
use vfun_remoting_host::{
    Context, NOWHERE, Name, Places, Reader, Refusal, Returned, Room, Writer, limits, room,
};

/// Stands for the whole description: the guest's half must have the same.
pub const FINGERPRINT: u64 = 0x31ed4263a582e512;

/// Longest call and answer, bytes. The manifest says the same.
pub const CELL_BYTES: u32 = 4096;

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

/// What does the work.
pub type Native = crate::Nic;

/// Writes each member.
pub fn write_vfun_nic_cq_made(w: &mut Writer<'_>, of: &vfun_nic_cq_made) {
    write_vfun_nic_place(w, &of.place);
    w.u32(of.number);
    w.u32(of.reserved);
}

/// Writes each member.
pub fn write_vfun_nic_gid(w: &mut Writer<'_>, of: &vfun_nic_gid) {
    w.bytes(&of.raw);
}

/// Writes each member.
pub fn write_vfun_nic_info(w: &mut Writer<'_>, of: &vfun_nic_info) {
    w.u64(of.guid);
    w.u64(of.region_bytes);
    w.u64(of.message_bytes);
    w.u32(of.version);
    w.u32(of.qps);
    w.u32(of.work_depth);
    w.u32(of.sges);
    w.u32(of.inline_bytes);
    w.u32(of.cqs);
    w.u32(of.cq_depth);
    w.u32(of.mrs);
    w.u32(of.pds);
    w.u32(of.srqs);
    w.u32(of.ahs);
    w.u32(of.reads);
    w.u32(of.access);
    w.u32(of.reserved);
}

/// Writes each member.
pub fn write_vfun_nic_opened(w: &mut Writer<'_>, of: &vfun_nic_opened) {
    w.u64(of.program_bells);
    w.u64(of.nic_bells);
    w.u64(of.program_bytes);
    w.u64(of.nic_bytes);
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
pub fn write_vfun_nic_place(w: &mut Writer<'_>, of: &vfun_nic_place) {
    w.u64(of.program_at);
    w.u64(of.program_bytes);
    w.u64(of.nic_at);
    w.u64(of.nic_bytes);
}

/// Writes each member.
pub fn write_vfun_nic_port(w: &mut Writer<'_>, of: &vfun_nic_port) {
    w.u32(of.state);
    w.u32(of.physical_state);
    w.u32(of.max_mtu);
    w.u32(of.active_mtu);
    w.u32(of.gids);
    w.u32(of.pkeys);
    w.u32(of.capabilities);
    w.u32(of.max_message_bytes);
    w.u32(of.link_layer);
    w.u32(of.active_width);
    w.u32(of.active_speed);
    w.u16(of.lid);
    w.u16(of.sm_lid);
    w.u16(of.pkey);
    w.u16(of.reserved);
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
pub fn write_vfun_nic_qp_made(w: &mut Writer<'_>, of: &vfun_nic_qp_made) {
    write_vfun_nic_place(w, &of.sends);
    write_vfun_nic_place(w, &of.receives);
    w.u32(of.qpn);
    w.u32(of.bell);
}

/// Writes each member.
pub fn write_vfun_nic_srq_made(w: &mut Writer<'_>, of: &vfun_nic_srq_made) {
    write_vfun_nic_place(w, &of.place);
    w.u32(of.number);
    w.u32(of.reserved);
}

/// Reads each member.
pub fn read_vfun_nic_cm_data(r: &mut Reader<'_>) -> Result<vfun_nic_cm_data, Refusal> {
    let length = r.u32()?;
    let mut bytes = [0; 196];
    bytes.copy_from_slice(r.bytes(196)?);
    Ok(vfun_nic_cm_data { length, bytes })
}

/// Reads each member.
pub fn read_vfun_nic_cm_offer(r: &mut Reader<'_>) -> Result<vfun_nic_cm_offer, Refusal> {
    let qpn = r.u32()?;
    let qkey = r.u32()?;
    let responder_resources = r.u8()?;
    let initiator_depth = r.u8()?;
    let flow_control = r.u8()?;
    let retry_count = r.u8()?;
    let rnr_retry = r.u8()?;
    let srq = r.u8()?;
    let reserved = r.u16()?;
    Ok(vfun_nic_cm_offer {
        qpn,
        qkey,
        responder_resources,
        initiator_depth,
        flow_control,
        retry_count,
        rnr_retry,
        srq,
        reserved,
    })
}

/// Reads each member.
pub fn read_vfun_nic_cm_place(r: &mut Reader<'_>) -> Result<vfun_nic_cm_place, Refusal> {
    let mut gid = [0; 16];
    gid.copy_from_slice(r.bytes(16)?);
    let port = r.u16()?;
    let is_here = r.u16()?;
    Ok(vfun_nic_cm_place { gid, port, is_here })
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
pub fn read_vfun_nic_qp_init(r: &mut Reader<'_>) -> Result<vfun_nic_qp_init, Refusal> {
    let kind = r.u32()?;
    let all_signaled = r.u32()?;
    let send_depth = r.u32()?;
    let send_extension = r.u32()?;
    let receive_depth = r.u32()?;
    let receive_extension = r.u32()?;
    Ok(vfun_nic_qp_init {
        kind,
        all_signaled,
        send_depth,
        send_extension,
        receive_depth,
        receive_extension,
    })
}

fn vfun_nic_close(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.check_owned(context_name, kinds::CONTEXT)?;
    args.end()?;
    let returned = native.vfun_nic_close(context);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(context_name);
    Ok(Returned::Fine)
}

fn vfun_nic_info(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    args.end()?;
    let mut info = vfun_nic_info {
        guid: 0,
        region_bytes: 0,
        message_bytes: 0,
        version: 0,
        qps: 0,
        work_depth: 0,
        sges: 0,
        inline_bytes: 0,
        cqs: 0,
        cq_depth: 0,
        mrs: 0,
        pds: 0,
        srqs: 0,
        ahs: 0,
        reads: 0,
        access: 0,
        reserved: 0,
    };
    let returned = native.vfun_nic_info(context, &mut info);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_info(reply, &info);
    Ok(Returned::Fine)
}

fn vfun_nic_port(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    args.end()?;
    let mut port = vfun_nic_port {
        state: 0,
        physical_state: 0,
        max_mtu: 0,
        active_mtu: 0,
        gids: 0,
        pkeys: 0,
        capabilities: 0,
        max_message_bytes: 0,
        link_layer: 0,
        active_width: 0,
        active_speed: 0,
        lid: 0,
        sm_lid: 0,
        pkey: 0,
        reserved: 0,
    };
    let returned = native.vfun_nic_port(context, &mut port);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_port(reply, &port);
    Ok(Returned::Fine)
}

fn vfun_nic_gid(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let index = args.u32()?;
    args.end()?;
    let mut gid = vfun_nic_gid { raw: [0; 16] };
    let returned = native.vfun_nic_gid(context, index, &mut gid);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_gid(reply, &gid);
    Ok(Returned::Fine)
}

fn vfun_nic_pd_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let pd_name = args.name()?;
    cx.objects.check_free(pd_name)?;
    args.end()?;
    let mut pd = 0usize;
    let returned = native.vfun_nic_pd_make(context, &mut pd);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = context_name;
    cx.objects.insert(pd_name, kinds::PD, pd, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_pd_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let pd_name = args.name()?;
    let pd = cx.objects.check_owned(pd_name, kinds::PD)?;
    args.end()?;
    let returned = native.vfun_nic_pd_end(pd);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(pd_name);
    Ok(Returned::Fine)
}

fn vfun_nic_mr_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let mr_name = args.name()?;
    let mr = cx.objects.check_owned(mr_name, kinds::MR)?;
    args.end()?;
    let returned = native.vfun_nic_mr_end(mr);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(mr_name);
    Ok(Returned::Fine)
}

fn vfun_nic_cq_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let depth = args.u32()?;
    let has_channel = args.u32()?;
    let cq_name = args.name()?;
    cx.objects.check_free(cq_name)?;
    args.end()?;
    let mut made = vfun_nic_cq_made {
        place: vfun_nic_place { program_at: 0, program_bytes: 0, nic_at: 0, nic_bytes: 0 },
        number: 0,
        reserved: 0,
    };
    let mut cq = 0usize;
    let returned = native.vfun_nic_cq_make(context, depth, has_channel, &mut made, &mut cq);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_cq_made(reply, &made);
    let parent = context_name;
    cx.objects.insert(cq_name, kinds::CQ, cq, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_cq_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cq_name = args.name()?;
    let cq = cx.objects.check_owned(cq_name, kinds::CQ)?;
    args.end()?;
    let returned = native.vfun_nic_cq_end(cq);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(cq_name);
    Ok(Returned::Fine)
}

fn vfun_nic_srq_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let pd_name = args.name()?;
    let pd = cx.objects.find(pd_name, kinds::PD)?;
    let depth = args.u32()?;
    let extension = args.u32()?;
    let srq_name = args.name()?;
    cx.objects.check_free(srq_name)?;
    args.end()?;
    let mut made = vfun_nic_srq_made {
        place: vfun_nic_place { program_at: 0, program_bytes: 0, nic_at: 0, nic_bytes: 0 },
        number: 0,
        reserved: 0,
    };
    let mut srq = 0usize;
    let returned = native.vfun_nic_srq_make(pd, depth, extension, &mut made, &mut srq);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_srq_made(reply, &made);
    let parent = pd_name;
    cx.objects.insert(srq_name, kinds::SRQ, srq, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_srq_limit(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let srq_name = args.name()?;
    let srq = cx.objects.find(srq_name, kinds::SRQ)?;
    let limit = args.u32()?;
    args.end()?;
    let returned = native.vfun_nic_srq_limit(srq, limit);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_srq_query(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let srq_name = args.name()?;
    let srq = cx.objects.find(srq_name, kinds::SRQ)?;
    args.end()?;
    let mut limit = 0;
    let returned = native.vfun_nic_srq_query(srq, &mut limit);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(limit);
    Ok(Returned::Fine)
}

fn vfun_nic_srq_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let srq_name = args.name()?;
    let srq = cx.objects.check_owned(srq_name, kinds::SRQ)?;
    args.end()?;
    let returned = native.vfun_nic_srq_end(srq);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(srq_name);
    Ok(Returned::Fine)
}

fn vfun_nic_qp_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let pd_name = args.name()?;
    let pd = cx.objects.find(pd_name, kinds::PD)?;
    let mut init = read_vfun_nic_qp_init(&mut args)?;
    let send_cq_name = args.name()?;
    let send_cq = cx.objects.find(send_cq_name, kinds::CQ)?;
    let receive_cq_name = args.name()?;
    let receive_cq = cx.objects.find(receive_cq_name, kinds::CQ)?;
    let srq_name = args.name()?;
    let srq = cx.objects.find_or_none(srq_name, kinds::SRQ)?;
    let qp_name = args.name()?;
    cx.objects.check_free(qp_name)?;
    args.end()?;
    let mut made = vfun_nic_qp_made {
        sends: vfun_nic_place { program_at: 0, program_bytes: 0, nic_at: 0, nic_bytes: 0 },
        receives: vfun_nic_place { program_at: 0, program_bytes: 0, nic_at: 0, nic_bytes: 0 },
        qpn: 0,
        bell: 0,
    };
    let mut qp = 0usize;
    let returned = native.vfun_nic_qp_make(pd, &init, send_cq, receive_cq, srq, &mut made, &mut qp);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_qp_made(reply, &made);
    let parent = pd_name;
    cx.objects.insert(qp_name, kinds::QP, qp, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_qp_modify(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let qp_name = args.name()?;
    let qp = cx.objects.find(qp_name, kinds::QP)?;
    let mask = args.u32()?;
    let mut attr = read_vfun_nic_qp_attr(&mut args)?;
    args.end()?;
    let returned = native.vfun_nic_qp_modify(qp, mask, &attr);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_qp_query(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let qp_name = args.name()?;
    let qp = cx.objects.find(qp_name, kinds::QP)?;
    args.end()?;
    let mut attr = vfun_nic_qp_attr {
        path: vfun_nic_path {
            gid: [0; 16],
            flow_label: 0,
            lid: 0,
            is_global: 0,
            sgid_index: 0,
            hop_limit: 0,
            traffic_class: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            port: 0,
        },
        state: 0,
        current_state: 0,
        path_mtu: 0,
        qkey: 0,
        rq_psn: 0,
        sq_psn: 0,
        dest_qpn: 0,
        access: 0,
        pkey_index: 0,
        port: 0,
        sqd_notify: 0,
        sq_draining: 0,
        reads: 0,
        reads_of_peer: 0,
        min_rnr_timer: 0,
        timeout: 0,
        retry_count: 0,
        rnr_retry: 0,
        reserved: 0,
    };
    let returned = native.vfun_nic_qp_query(qp, &mut attr);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    write_vfun_nic_qp_attr(reply, &attr);
    Ok(Returned::Fine)
}

fn vfun_nic_qp_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let qp_name = args.name()?;
    let qp = cx.objects.check_owned(qp_name, kinds::QP)?;
    args.end()?;
    let returned = native.vfun_nic_qp_end(qp);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(qp_name);
    Ok(Returned::Fine)
}

fn vfun_nic_ah_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let pd_name = args.name()?;
    let pd = cx.objects.find(pd_name, kinds::PD)?;
    let mut path = read_vfun_nic_path(&mut args)?;
    let ah_name = args.name()?;
    cx.objects.check_free(ah_name)?;
    args.end()?;
    let mut number = 0;
    let mut ah = 0usize;
    let returned = native.vfun_nic_ah_make(pd, &path, &mut number, &mut ah);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(number);
    let parent = pd_name;
    cx.objects.insert(ah_name, kinds::AH, ah, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_ah_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let ah_name = args.name()?;
    let ah = cx.objects.check_owned(ah_name, kinds::AH)?;
    args.end()?;
    let returned = native.vfun_nic_ah_end(ah);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(ah_name);
    Ok(Returned::Fine)
}

fn vfun_nic_cm_make(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let space = args.u32()?;
    let cm_name = args.name()?;
    cx.objects.check_free(cm_name)?;
    args.end()?;
    let mut number = 0;
    let mut cm = 0usize;
    let returned = native.vfun_nic_cm_make(context, space, &mut number, &mut cm);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(number);
    let parent = context_name;
    cx.objects.insert(cm_name, kinds::CM, cm, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_cm_take(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let context_name = args.name()?;
    let context = cx.objects.find(context_name, kinds::CONTEXT)?;
    let number = args.u32()?;
    let cm_name = args.name()?;
    cx.objects.check_free(cm_name)?;
    args.end()?;
    let mut cm = 0usize;
    let returned = native.vfun_nic_cm_take(context, number, &mut cm);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    let parent = context_name;
    cx.objects.insert(cm_name, kinds::CM, cm, parent);

    Ok(Returned::Fine)
}

fn vfun_nic_cm_bind(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    let port = args.u32()?;
    args.end()?;
    let mut bound = 0;
    let returned = native.vfun_nic_cm_bind(cm, port, &mut bound);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    reply.u32(bound);
    Ok(Returned::Fine)
}

fn vfun_nic_cm_listen(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    let backlog = args.u32()?;
    args.end()?;
    let returned = native.vfun_nic_cm_listen(cm, backlog);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_connect(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    let mut to = read_vfun_nic_cm_place(&mut args)?;
    let mut offer = read_vfun_nic_cm_offer(&mut args)?;
    let mut data = read_vfun_nic_cm_data(&mut args)?;
    args.end()?;
    let returned = native.vfun_nic_cm_connect(cm, &to, &offer, &data);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_accept(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    let mut offer = read_vfun_nic_cm_offer(&mut args)?;
    let mut data = read_vfun_nic_cm_data(&mut args)?;
    args.end()?;
    let returned = native.vfun_nic_cm_accept(cm, &offer, &data);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_establish(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    args.end()?;
    let returned = native.vfun_nic_cm_establish(cm);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_reject(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    let mut data = read_vfun_nic_cm_data(&mut args)?;
    args.end()?;
    let returned = native.vfun_nic_cm_reject(cm, &data);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_disconnect(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.find(cm_name, kinds::CM)?;
    args.end()?;
    let returned = native.vfun_nic_cm_disconnect(cm);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    Ok(Returned::Fine)
}

fn vfun_nic_cm_end(
    state: &mut hand::State,
    native: &Native,
    cx: &mut Context<'_>,
    mut args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let cm_name = args.name()?;
    let cm = cx.objects.check_owned(cm_name, kinds::CM)?;
    args.end()?;
    let returned = native.vfun_nic_cm_end(cm);
    reply.i32(returned);
    if returned != OK {
        return Ok(Returned::Failure(returned as u32));
    }
    cx.objects.remove(cm_name);
    Ok(Returned::Fine)
}

type Call = fn(
    &mut hand::State,
    &Native,
    &mut Context<'_>,
    Reader<'_>,
    &mut Writer<'_>,
) -> Result<Returned, Refusal>;

/// Calls by their numbers, from 16 on.
const CALLS: [Option<Call>; 60] = [
    Some(hand::vfun_nic_open),
    Some(vfun_nic_close),
    Some(vfun_nic_info),
    Some(vfun_nic_port),
    Some(vfun_nic_gid),
    Some(vfun_nic_pd_make),
    Some(vfun_nic_pd_end),
    Some(hand::vfun_nic_mr_make),
    Some(hand::vfun_nic_mr_add),
    Some(vfun_nic_mr_end),
    Some(vfun_nic_cq_make),
    Some(vfun_nic_cq_end),
    Some(vfun_nic_srq_make),
    Some(vfun_nic_srq_limit),
    Some(vfun_nic_srq_query),
    Some(vfun_nic_srq_end),
    Some(vfun_nic_qp_make),
    Some(vfun_nic_qp_modify),
    Some(vfun_nic_qp_query),
    Some(vfun_nic_qp_end),
    Some(vfun_nic_ah_make),
    Some(vfun_nic_ah_end),
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    Some(vfun_nic_cm_make),
    Some(vfun_nic_cm_take),
    Some(vfun_nic_cm_bind),
    Some(vfun_nic_cm_listen),
    Some(vfun_nic_cm_connect),
    Some(vfun_nic_cm_accept),
    Some(vfun_nic_cm_establish),
    Some(vfun_nic_cm_reject),
    Some(vfun_nic_cm_disconnect),
    Some(vfun_nic_cm_end),
];

/// Makes one call, by its number.
pub fn dispatch(
    state: &mut hand::State,
    native: &Native,
    call: u16,
    cx: &mut Context<'_>,
    args: Reader<'_>,
    reply: &mut Writer<'_>,
) -> Result<Returned, Refusal> {
    let at = usize::from(call).wrapping_sub(16);
    let make = CALLS.get(at).copied().flatten().ok_or(Refusal::Unknown)?;
    make(state, native, cx, args, reply)
}

/// Whether a call and its answer are wiped after use.
pub fn is_secret(call: u16) -> bool {
    false
}

/// Frees an object whose program is gone, and says whether the library did. Objects without a
/// function here end with their parents.
pub fn destroy(native: &Native, kind: u16, object: usize) -> bool {
    match kind {
        kinds::CONTEXT => OK == native.vfun_nic_close(object),
        _ => true,
    }
}
