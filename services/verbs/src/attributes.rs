//! What `ibv_modify_qp` sets, and addresses.

/// Where a program is in its tenant's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub gid: [u8; 16],
    pub lid: u16,
}

/// Where an address vector or an address handle leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// `None`: only the LID counts.
    pub gid: Option<[u8; 16]>,
    pub lid: u16,
}

impl Path {
    /// Whether it leads there.
    #[inline]
    pub fn leads_to(&self, address: &Address) -> bool {
        match self.gid {
            Some(gid) => gid == address.gid,
            None => self.lid == address.lid,
        }
    }
}

/// Those attributes of a queue pair that change what it does. The others are kept by who
/// answers `ibv_query_qp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// What its peer may do: [`vfun_verbs::flags::access`].
    pub access: u32,
    pub qkey: u32,
    pub path: Path,
    pub dest_qpn: u32,
    /// Two to this times 4.096 µs; 0: for ever.
    pub timeout: u8,
    pub retry_cnt: u8,
    /// 7: for ever.
    pub rnr_retry: u8,
    /// 0.01 ms (1) to 655.36 ms (0), as the specification numbers them.
    pub min_rnr_timer: u8,
    /// Whether the end of SQD's draining is told.
    pub tell_drained: bool,
}
