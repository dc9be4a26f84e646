//! What becomes of each function of libibverbs and librdmacm. `guest/verbs/coverage.tsv` has all of them, for
//! `vfun verbs check` and `docs/verbs-functions.md`; `tests/coverage.rs` writes both of this, of what the built
//! library has, and of what the real libraries and their header have.

use crate::refused;

/// What becomes of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// It does what its manual page says.
    Done,
    /// It succeeds and has nothing to do, or answers that there is nothing.
    Nothing,
    /// The real library's own function runs: it needs no device.
    Real,
    /// It fails with `EOPNOTSUPP`, and the library says why.
    Refused,
}

impl Coverage {
    /// The word in the table.
    pub const fn word(self) -> &'static str {
        match self {
            Coverage::Done => "done",
            Coverage::Nothing => "nothing",
            Coverage::Real => "real",
            Coverage::Refused => "refused",
        }
    }
}

/// A function, and why it is so.
pub type Note = (&'static str, Coverage, &'static str);

const NO_DEVICE: &str = "it needs no device";
const NO_FILES: &str = "vfun0 has no files under /sys: no program that was tried reads them";
const FORK: &str =
    "a child of fork has a copy of registered memory, and none of its parent's objects";
const NO_ENHANCEMENTS: &str = "there are no enhancements of a connection to be said";
/// Of `ibv_resolve_eth_l2_from_gid`, which says it itself.
pub const NO_ETHERNET: &str = "the port of vfun0 is no Ethernet, so that a GID has no MAC address";
const SOCKETS: &str = "rsocket refuses to make one";

/// Functions that need a note. Those that a macro refuses have theirs beside them (`REFUSED`).
const NOTES: &[Note] = {
    use Coverage::{Nothing, Real, Refused};
    &[
        ("ibv_fork_init", Nothing, FORK),
        ("ibv_is_fork_initialized", Nothing, FORK),
        ("ibv_dontfork_range", Nothing, FORK),
        ("ibv_dofork_range", Nothing, FORK),
        ("ibv_resolve_eth_l2_from_gid", Refused, NO_ETHERNET),
        ("rdma_notify", Nothing, "the host tells both sides of a connection that it is there"),
        (
            "rdma_set_option",
            Nothing,
            "there are no packets whose type of service or time-out could be set, and a port is free as soon as its id has gone; other options are refused",
        ),
        ("ibv_query_ece", Nothing, NO_ENHANCEMENTS),
        ("rdma_get_remote_ece", Nothing, NO_ENHANCEMENTS),
        (
            "ibv_query_qp_data_in_order",
            Nothing,
            "it answers no: the last eight bytes of a write are stored last, but nothing more is promised",
        ),
        ("ibv_event_type_str", Real, NO_DEVICE),
        ("ibv_node_type_str", Real, NO_DEVICE),
        ("ibv_port_state_str", Real, NO_DEVICE),
        ("ibv_wc_status_str", Real, NO_DEVICE),
        ("ibv_rate_to_mbps", Real, NO_DEVICE),
        ("ibv_rate_to_mult", Real, NO_DEVICE),
        ("ibv_copy_ah_attr_from_kern", Real, NO_DEVICE),
        ("ibv_copy_path_rec_from_kern", Real, NO_DEVICE),
        ("ibv_copy_path_rec_to_kern", Real, NO_DEVICE),
        ("ibv_copy_qp_attr_from_kern", Real, NO_DEVICE),
        ("ibv_get_sysfs_path", Real, NO_FILES),
        ("ibv_read_sysfs_file", Real, NO_FILES),
        ("ibv_rereg_mr", Refused, "end the region and register the memory again"),
        ("raccept", Refused, SOCKETS),
        ("rbind", Refused, SOCKETS),
        ("rclose", Refused, SOCKETS),
        ("rconnect", Refused, SOCKETS),
        ("rfcntl", Refused, SOCKETS),
        ("rgetpeername", Refused, SOCKETS),
        ("rgetsockname", Refused, SOCKETS),
        ("rgetsockopt", Refused, SOCKETS),
        ("riomap", Refused, SOCKETS),
        ("riounmap", Refused, SOCKETS),
        ("riowrite", Refused, SOCKETS),
        ("rlisten", Refused, SOCKETS),
        ("rpoll", Refused, SOCKETS),
        ("rread", Refused, SOCKETS),
        ("rreadv", Refused, SOCKETS),
        ("rrecv", Refused, SOCKETS),
        ("rrecvfrom", Refused, SOCKETS),
        ("rrecvmsg", Refused, SOCKETS),
        ("rselect", Refused, SOCKETS),
        ("rsend", Refused, SOCKETS),
        ("rsendmsg", Refused, SOCKETS),
        ("rsendto", Refused, SOCKETS),
        ("rsetsockopt", Refused, SOCKETS),
        ("rshutdown", Refused, SOCKETS),
        ("rwrite", Refused, SOCKETS),
        ("rwritev", Refused, SOCKETS),
        (
            "rsocket",
            Refused,
            "rsockets look into librdmacm's private structs: use sockets, or verbs",
        ),
    ]
};

/// All notes about functions of the libraries.
pub fn notes() -> impl Iterator<Item = Note> {
    let refused = refused::REFUSED.iter().chain(crate::rdmacm::REFUSED);
    let refused = refused.map(|(name, why)| (*name, Coverage::Refused, *why));
    refused.chain(NOTES.iter().copied())
}

const WINDOWS: &str = "this NIC has no memory windows";
const XRC: &str = "this NIC has no XRC";
const MEMORY: &str = "this NIC has no memory of its own, and no region of nothing";
const FLOWS: &str = "this NIC steers no flows";
const RAW: &str = "this NIC has no queues of raw packets";
const COUNTERS: &str = "this NIC has no counters of the program's";
const DOMAINS: &str = "this NIC has no thread domains: its queues need no lock of the device";
const OFFLOAD: &str = "this NIC has no such offload";
const CLOCK: &str = "this NIC has no clock of its own";
const QUEUE: &str = "a completion queue keeps what it was made with";

/// Inline functions of `infiniband/verbs.h`. A program that calls one of them has no symbol for it.
pub const INLINE: &[Note] = {
    use Coverage::{Done, Real, Refused};
    &[
        ("ibv_post_send", Done, ""),
        ("ibv_post_recv", Done, ""),
        ("ibv_post_srq_recv", Done, ""),
        ("ibv_poll_cq", Done, ""),
        ("ibv_req_notify_cq", Done, ""),
        ("ibv_query_device_ex", Done, ""),
        ("ibv_query_gid_ex", Done, ""),
        ("ibv_query_gid_table", Done, ""),
        ("ibv_create_cq_ex", Done, ""),
        ("ibv_create_qp_ex", Done, ""),
        ("ibv_create_srq_ex", Done, ""),
        ("ibv_get_srq_num", Done, ""),
        ("ibv_start_poll", Done, ""),
        ("ibv_next_poll", Done, ""),
        ("ibv_end_poll", Done, ""),
        ("ibv_wc_read_byte_len", Done, ""),
        ("ibv_wc_read_dlid_path_bits", Done, ""),
        ("ibv_wc_read_imm_data", Done, ""),
        ("ibv_wc_read_invalidated_rkey", Done, ""),
        ("ibv_wc_read_opcode", Done, ""),
        ("ibv_wc_read_qp_num", Done, ""),
        ("ibv_wc_read_sl", Done, ""),
        ("ibv_wc_read_slid", Done, ""),
        ("ibv_wc_read_src_qp", Done, ""),
        ("ibv_wc_read_vendor_err", Done, ""),
        ("ibv_wc_read_wc_flags", Done, ""),
        ("ibv_wr_start", Done, ""),
        ("ibv_wr_complete", Done, ""),
        ("ibv_wr_abort", Done, ""),
        ("ibv_wr_send", Done, ""),
        ("ibv_wr_send_imm", Done, ""),
        ("ibv_wr_rdma_write", Done, ""),
        ("ibv_wr_rdma_write_imm", Done, ""),
        ("ibv_wr_rdma_read", Done, ""),
        ("ibv_wr_atomic_cmp_swp", Done, ""),
        ("ibv_wr_atomic_fetch_add", Done, ""),
        ("ibv_wr_set_ud_addr", Done, ""),
        ("ibv_wr_set_sge", Done, ""),
        ("ibv_wr_set_sge_list", Done, ""),
        ("ibv_wr_set_inline_data", Done, ""),
        ("ibv_wr_set_inline_data_list", Done, ""),
        ("verbs_get_ctx", Real, NO_DEVICE),
        ("ibv_cq_ex_to_cq", Real, NO_DEVICE),
        ("ibv_inc_rkey", Real, NO_DEVICE),
        ("ibv_is_qpt_supported", Real, NO_DEVICE),
        ("ibv_flow_label_to_udp_sport", Real, NO_DEVICE),
        ("ibv_alloc_mw", Refused, WINDOWS),
        ("ibv_bind_mw", Refused, WINDOWS),
        ("ibv_dealloc_mw", Refused, WINDOWS),
        ("ibv_wr_bind_mw", Refused, WINDOWS),
        ("ibv_wr_local_inv", Refused, WINDOWS),
        ("ibv_wr_send_inv", Refused, WINDOWS),
        ("ibv_open_xrcd", Refused, XRC),
        ("ibv_close_xrcd", Refused, XRC),
        ("ibv_open_qp", Refused, XRC),
        ("ibv_wr_set_xrc_srqn", Refused, XRC),
        ("ibv_alloc_dm", Refused, MEMORY),
        ("ibv_free_dm", Refused, MEMORY),
        ("ibv_memcpy_to_dm", Refused, MEMORY),
        ("ibv_memcpy_from_dm", Refused, MEMORY),
        ("ibv_reg_dm_mr", Refused, MEMORY),
        ("ibv_alloc_null_mr", Refused, MEMORY),
        ("ibv_create_flow", Refused, FLOWS),
        ("ibv_destroy_flow", Refused, FLOWS),
        ("ibv_create_flow_action_esp", Refused, FLOWS),
        ("ibv_modify_flow_action_esp", Refused, FLOWS),
        ("ibv_destroy_flow_action", Refused, FLOWS),
        ("ibv_attach_counters_point_flow", Refused, FLOWS),
        ("ibv_wc_read_flow_tag", Refused, FLOWS),
        ("ibv_create_wq", Refused, RAW),
        ("ibv_modify_wq", Refused, RAW),
        ("ibv_destroy_wq", Refused, RAW),
        ("ibv_post_wq_recv", Refused, RAW),
        ("ibv_create_rwq_ind_table", Refused, RAW),
        ("ibv_destroy_rwq_ind_table", Refused, RAW),
        ("ibv_wc_read_cvlan", Refused, RAW),
        ("ibv_create_counters", Refused, COUNTERS),
        ("ibv_destroy_counters", Refused, COUNTERS),
        ("ibv_read_counters", Refused, COUNTERS),
        ("ibv_alloc_td", Refused, DOMAINS),
        ("ibv_dealloc_td", Refused, DOMAINS),
        ("ibv_alloc_parent_domain", Refused, DOMAINS),
        ("ibv_advise_mr", Refused, OFFLOAD),
        ("ibv_post_srq_ops", Refused, OFFLOAD),
        ("ibv_wc_read_tm_info", Refused, OFFLOAD),
        ("ibv_wr_send_tso", Refused, OFFLOAD),
        ("ibv_wr_atomic_write", Refused, OFFLOAD),
        ("ibv_modify_qp_rate_limit", Refused, OFFLOAD),
        ("ibv_query_rt_values_ex", Refused, CLOCK),
        ("ibv_wc_read_completion_ts", Refused, CLOCK),
        ("ibv_wc_read_completion_wallclock_ns", Refused, CLOCK),
        ("ibv_modify_cq", Refused, QUEUE),
    ]
};

/// Inline functions that call a table of the context, and whether it has something to call.
pub fn called() -> [(&'static str, bool); 10] {
    let table = crate::context::table(-1);
    let ops = &table.context.ops;
    [
        ("ibv_post_send", ops.post_send.is_some()),
        ("ibv_post_recv", ops.post_recv.is_some()),
        ("ibv_post_srq_recv", ops.post_srq_recv.is_some()),
        ("ibv_poll_cq", ops.poll_cq.is_some()),
        ("ibv_req_notify_cq", ops.req_notify_cq.is_some()),
        ("ibv_query_device_ex", table.query_device_ex.is_some()),
        ("ibv_create_qp_ex", table.create_qp_ex.is_some()),
        ("ibv_create_srq_ex", table.create_srq_ex.is_some()),
        ("ibv_get_srq_num", table.get_srq_num.is_some()),
        ("ibv_create_cq_ex", table.create_cq_ex.is_some()),
    ]
}
