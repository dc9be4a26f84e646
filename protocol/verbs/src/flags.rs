//! Bits, with the numbers of `infiniband/verbs.h`.

/// Of a send entry.
pub mod send {
    /// Entries before it are complete before it begins. Always so here.
    pub const FENCE: u8 = 1;
    /// It completes with an entry in the completion queue.
    pub const SIGNALED: u8 = 2;
    /// The receiver gets an event if it asked for solicited ones.
    pub const SOLICITED: u8 = 4;
    /// Its data stand in the entry.
    pub const INLINE: u8 = 8;
    /// All bits that this version knows.
    pub const ALL: u8 = 15;
}

/// What a memory region, or a queue pair's peer, may do.
pub mod access {
    pub const LOCAL_WRITE: u32 = 1;
    pub const REMOTE_WRITE: u32 = 2;
    pub const REMOTE_READ: u32 = 4;
    pub const REMOTE_ATOMIC: u32 = 8;
    /// Any that a peer can use.
    pub const REMOTE: u32 = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
    /// All rights that this version offers.
    pub const ALL: u32 = LOCAL_WRITE | REMOTE;
}

/// Of a completion.
pub mod completion {
    /// The first 40 bytes received say where a datagram came from.
    pub const GRH: u16 = 1;
    /// There is an immediate value.
    pub const WITH_IMM: u16 = 2;
}

/// Attributes that `ibv_modify_qp` sets.
pub mod attribute {
    pub const STATE: u32 = 1;
    pub const CUR_STATE: u32 = 1 << 1;
    pub const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    pub const ACCESS_FLAGS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const AV: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub const ALT_PATH: u32 = 1 << 14;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const PATH_MIG_STATE: u32 = 1 << 18;
    pub const CAP: u32 = 1 << 19;
    pub const DEST_QPN: u32 = 1 << 20;
}
