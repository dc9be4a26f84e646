//! Numbers of `infiniband/verbs.h` that the protocol's crates do not have.

/// `IBV_NODE_CA`, `IBV_TRANSPORT_IB`.
pub const NODE_CA: i32 = 1;
pub const TRANSPORT_IB: i32 = 0;
/// `IBV_ATOMIC_HCA`: atomic among all that use this NIC.
pub const ATOMIC_HCA: i32 = 1;
/// `__VERBS_ABI_IS_EXTENDED`.
pub const ABI_IS_EXTENDED: usize = usize::MAX;

/// `ibv_device_cap_flags`.
pub mod device {
    pub const CURR_QP_STATE_MOD: u32 = 1 << 7;
    pub const SYS_IMAGE_GUID: u32 = 1 << 11;
    pub const RC_RNR_NAK_GEN: u32 = 1 << 12;
    pub const N_NOTIFY_CQ: u32 = 1 << 14;
}

/// `ibv_access_flags`, beside those of `vfun_verbs::flags::access`.
pub mod access {
    pub const ZERO_BASED: u32 = 1 << 5;
    pub const HUGETLB: u32 = 1 << 7;
    /// Flags that a device may leave alone: `IBV_ACCESS_OPTIONAL_RANGE`.
    pub const OPTIONAL: u32 = 0x3FF0_0000;
}

/// `ibv_qp_init_attr_mask`.
pub mod init {
    pub const PD: u32 = 1;
    pub const CREATE_FLAGS: u32 = 1 << 2;
    pub const SEND_OPS_FLAGS: u32 = 1 << 6;
}

/// `ibv_srq_init_attr_mask`, and the basic type.
pub mod srq_init {
    pub const TYPE: u32 = 1;
    pub const PD: u32 = 1 << 1;
    pub const BASIC: u32 = 0;
}

/// `ibv_srq_attr_mask`.
pub mod srq {
    pub const MAX_WR: u32 = 1;
    pub const LIMIT: u32 = 1 << 1;
}

/// `ibv_create_cq_wc_flags` that are offered: all of a common completion.
pub const WC_FLAGS: u64 = 0x7F;
/// `IBV_GID_TYPE_IB`.
pub const GID_TYPE_IB: u32 = 0;
