//! A queue pair, and what it is doing.

use crate::access::{Side, View};
use crate::attributes::Attributes;
use crate::program::ProgramCounts;
use vfun_queue::{Broken, Memory, Producer};
use vfun_verbs::completions::Answerer;
use vfun_verbs::flags::access;
use vfun_verbs::limits::ENTRY_BYTES;
use vfun_verbs::{
    Completion, QpState, QpType, ReceiveEntry, SendEntry, SendOpcode, Status, Taken, WorkConsumer,
};

/// A completion queue.
pub(crate) struct Cq<M> {
    pub program: u32,
    pub queue: Producer<M, ENTRY_BYTES>,
    pub events: Answerer,
    /// Whether anybody can be told of events.
    pub has_channel: bool,
    /// Queue pairs that use it, each once for sends and once for receives.
    pub users: u32,
    /// It was full, or its program broke its rules: it takes no more.
    pub failed: bool,
}

/// A shared receive queue.
pub(crate) struct Srq<M> {
    pub program: u32,
    pub pd: u32,
    pub queue: WorkConsumer<M>,
    pub users: u32,
    /// Below so many receives there is an event, once; 0: none.
    pub limit: u32,
}

/// A protection domain.
pub(crate) struct Pd {
    pub program: u32,
    pub users: u32,
}

/// An address handle.
pub(crate) struct Ah {
    pub program: u32,
    pub pd: u32,
    pub path: crate::attributes::Path,
}

/// A receive that was taken and whose message is not complete.
#[derive(Default)]
pub(crate) struct Incoming {
    pub entry: ReceiveEntry,
    pub position: u64,
    /// There is one.
    pub is: bool,
    /// It makes no sense.
    pub bad: bool,
}

/// What a requester waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// The peer has no receive.
    Receive,
    /// The peer is not there, or not ready.
    Peer,
}

/// Until when, and how many tries are left.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub what: Waits,
    /// `None`: for ever.
    pub until: Option<u64>,
    pub tries: u8,
}

/// The entry that a queue pair works on.
#[derive(Default)]
pub(crate) struct Current {
    pub entry: SendEntry,
    pub position: u64,
    /// There is one.
    pub is: bool,
    /// It makes no sense.
    pub bad: bool,
    /// Its checks are done.
    pub begun: bool,
    /// Bytes of it, and those that were moved.
    pub total: u64,
    pub done: u64,
}

/// What does not change while it exists.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub program: u32,
    pub pd: u32,
    pub kind: QpType,
    pub send_cq: u32,
    pub receive_cq: u32,
    pub srq: Option<u32>,
    pub all_signaled: bool,
}

pub(crate) struct Qp<M> {
    pub fixed: Fixed,
    /// Its number for peers.
    pub qpn: u32,
    /// Its doorbell bit.
    pub bit: usize,
    pub state: QpState,
    pub set: Attributes,
    pub sends: WorkConsumer<M>,
    /// `None`: it has a shared one.
    pub receives: Option<WorkConsumer<M>>,
    pub current: Current,
    pub incoming: Incoming,
    pub wait: Option<Wait>,
    /// The queue pair at the other end: both name each other, and it is ready.
    pub peer: Option<u32>,
    /// Its place in its program's list of queue pairs that the NIC looks at; `None`: not there.
    pub active: Option<usize>,
    /// How many looks found no work, since the last one that did.
    pub idle: u32,
    /// When the NIC looks at it even if nobody rings, ns: as in the engine's timers.
    pub timer: Option<u64>,
    /// Told of its first message already.
    pub established: bool,
    /// Told that its last receive was used already.
    pub told_last: bool,
    /// What its entries did.
    pub counts: ProgramCounts,
}

impl<M> Qp<M> {
    pub fn new(
        fixed: Fixed,
        (qpn, bit): (u32, usize),
        sends: WorkConsumer<M>,
        receives: Option<WorkConsumer<M>>,
    ) -> Self {
        Qp {
            fixed,
            qpn,
            bit,
            state: QpState::Reset,
            set: Attributes::default(),
            sends,
            receives,
            current: Current::default(),
            incoming: Incoming::default(),
            wait: None,
            peer: None,
            active: None,
            idle: 0,
            timer: None,
            established: false,
            told_last: false,
            counts: ProgramCounts::default(),
        }
    }

    /// Takes the next entry, if there is none yet and it sends. Whether there is one.
    ///
    /// # Errors
    /// [`Broken`]: the program broke the queue's rules.
    #[inline(always)]
    pub fn take_send(&mut self) -> Result<bool, Broken>
    where
        M: Memory,
    {
        let current = &mut self.current;
        if current.is || self.state != QpState::Rts {
            return Ok(current.is);
        }
        current.position = self.sends.position();
        current.bad = match self.sends.take_send(&mut current.entry)? {
            Taken::Nothing => return Ok(false),
            Taken::Entry => false,
            Taken::Bad(_) => true,
        };
        (current.is, current.begun) = (true, false);
        (current.total, current.done) = (current.entry.bytes(), 0);
        self.idle = 0;
        Ok(true)
    }

    /// The requester's memory.
    #[inline]
    pub fn own_view(&self) -> View<'_> {
        let op = self.current.entry.head.op;
        let written = op == SendOpcode::Read || op.is_atomic();
        let access = if written { access::LOCAL_WRITE } else { 0 };
        View { side: Side::Sends(&self.current.entry), pd: self.fixed.pd, access }
    }

    /// The completion of the entry that it works on.
    #[inline]
    pub fn sent(&self, status: Status) -> Completion {
        let head = &self.current.entry.head;
        Completion {
            status,
            opcode: head.op.completes_as(),
            flags: 0,
            wr_id: head.wr_id,
            qpn: self.qpn,
            src_qp: 0,
            byte_len: self.current.total as u32,
            imm: 0,
            position: self.current.position as u32,
            slid: 0,
        }
    }

    /// Whether messages for it are taken.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
    }
}
