//! Queue pairs of one program that are each other's peers, for measuring: what a program in C would do with
//! libibverbs, by the same functions.
#![allow(unsafe_code)]

use crate::abi::*;
use crate::channel::{ibv_create_comp_channel, ibv_get_cq_event};
use crate::context::{Context, ibv_close_device};
use crate::cq::{ibv_ack_cq_events, ibv_create_cq, ibv_destroy_cq, req_notify_cq};
use crate::domains::{ibv_alloc_pd, ibv_dereg_mr, ibv_reg_mr};
use crate::errno::{self, Errno, checked};
use crate::modify::ibv_modify_qp;
use crate::poll::poll_cq;
use crate::post::post_send;
use crate::qp::{ibv_create_qp, ibv_destroy_qp};
use crate::query::ibv_query_port;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use vfun_verbs::flags::{access, attribute, send};
use vfun_verbs::{QpState, QpType, Status};

/// Entries of a queue of sends, and of the completion queue.
const DEPTH: u32 = 128;
const COMPLETIONS: c_int = 4096;
const RIGHTS: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;

/// Memory of the program's own, with all its pages.
pub struct OwnPages {
    at: *mut u8,
    bytes: usize,
}

impl OwnPages {
    fn new(bytes: usize) -> Result<Self, Errno> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, wherever there is room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(errno::last());
        }
        // SAFETY: it was just mapped.
        unsafe { at.cast::<u8>().write_bytes(1, bytes) };
        Ok(OwnPages { at: at.cast(), bytes })
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        // SAFETY: it is its own, and no region any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// A region of all of a program's pages.
struct Region {
    mr: *mut ibv_mr,
    pages: OwnPages,
}

impl Region {
    fn new(pd: *mut ibv_pd, bytes: usize) -> Result<Self, Errno> {
        let pages = OwnPages::new(bytes)?;
        Ok(Region { mr: register(pd, &pages)?, pages })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is its own, and nothing is under way.
        unsafe { ibv_dereg_mr(self.mr) };
    }
}

fn register(pd: *mut ibv_pd, pages: &OwnPages) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the domain lives; the memory is there.
    let mr = unsafe { ibv_reg_mr(pd, pages.at.cast(), pages.bytes, RIGHTS as c_int) };
    made(mr)
}

/// A program with pairs of queue pairs, and two regions of memory.
pub struct Loopback {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    pairs: Vec<[*mut ibv_qp; 2]>,
    /// What is read, and what is written.
    regions: Vec<Region>,
}

fn made<T>(pointer: *mut T) -> Result<*mut T, Errno> {
    if pointer.is_null() { Err(errno::last()) } else { Ok(pointer) }
}

fn words(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(errno.0).to_string()
}

impl Loopback {
    /// Opens the device; memory of so many bytes moves between two regions.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(bytes: usize) -> Result<Self, String> {
        let begin = || -> Result<Self, Errno> {
            let context = Context::open()?.pointer();
            // SAFETY: the context is open, and what is made of it lives until it is closed.
            unsafe {
                let pd = made(ibv_alloc_pd(context))?;
                let channel = made(ibv_create_comp_channel(context))?;
                let none = std::ptr::null_mut();
                let cq = made(ibv_create_cq(context, COMPLETIONS, none, channel, 0))?;
                let regions = vec![Region::new(pd, bytes)?, Region::new(pd, bytes)?];
                Ok(Loopback { context, pd, channel, cq, pairs: vec![], regions })
            }
        };
        begin().map_err(words)
    }

    /// How many pairs there are.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Makes pairs until there are so many, or ends the last ones.
    ///
    /// # Errors
    /// A sentence.
    pub fn resize(&mut self, pairs: usize) -> Result<(), String> {
        while self.pairs.len() > pairs {
            for qp in self.pairs.pop().into_iter().flatten() {
                // SAFETY: nothing is under way at it.
                unsafe { ibv_destroy_qp(qp) };
            }
        }
        while self.pairs.len() < pairs {
            let pair = self.pair().map_err(words)?;
            self.pairs.push(pair);
        }
        Ok(())
    }

    fn pair(&self) -> Result<[*mut ibv_qp; 2], Errno> {
        // SAFETY: zeros are null pointers and numbers.
        let mut init: ibv_qp_init_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        (init.send_cq, init.recv_cq) = (self.cq, self.cq);
        init.qp_type = QpType::Rc.to_wire().into();
        init.cap = ibv_qp_cap {
            max_send_wr: DEPTH,
            max_recv_wr: 2,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        // SAFETY: domain and queue live.
        let make = |mut init| unsafe { made(ibv_create_qp(self.pd, &mut init)) };
        let pair = [make(init)?, make(init)?];
        for (own, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            self.connect(own, other)?;
        }
        Ok(pair)
    }

    fn connect(&self, own: *mut ibv_qp, other: *mut ibv_qp) -> Result<(), Errno> {
        use attribute::*;
        let mut port = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open; the place is ours, and zeros are numbers.
        let lid = unsafe {
            checked(ibv_query_port(self.context, 1, port.as_mut_ptr()))?;
            port.assume_init().lid
        };
        // SAFETY: zeros are numbers.
        let mut attr: ibv_qp_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        (attr.port_num, attr.qp_access_flags) = (1, RIGHTS);
        (attr.path_mtu, attr.max_dest_rd_atomic, attr.max_rd_atomic) = (5, 1, 1);
        (attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry) = (12, 14, 7, 7);
        (attr.ah_attr.dlid, attr.ah_attr.port_num) = (lid, 1);
        // SAFETY: the queue pair lives.
        attr.dest_qp_num = unsafe { (*other).qp_num };
        for (state, mask) in [
            (QpState::Init, PKEY_INDEX | PORT | ACCESS_FLAGS),
            (QpState::Rtr, AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
            (QpState::Rts, TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
        ] {
            attr.qp_state = state as u32;
            // SAFETY: as above; the attributes are ours.
            checked(unsafe { ibv_modify_qp(own, &mut attr, (STATE | mask) as c_int) })?;
        }
        Ok(())
    }

    /// Posts a write of so many bytes, which completes.
    ///
    /// # Errors
    /// A sentence.
    #[inline]
    pub fn write(&mut self, pair: usize, bytes: u32) -> Result<(), String> {
        let (from, to) = (&self.regions[0], &self.regions[1]);
        let length = bytes.min(from.pages.bytes as u32);
        // SAFETY: the regions live.
        let (lkey, rkey) = unsafe { ((*from.mr).lkey, (*to.mr).rkey) };
        let mut sge = ibv_sge { addr: from.pages.at.addr() as u64, length, lkey };
        let mut wr = ibv_send_wr {
            wr_id: pair as u64,
            next: std::ptr::null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
            // IBV_WR_RDMA_WRITE.
            opcode: 0,
            send_flags: send::SIGNALED.into(),
            imm_data: 0,
            wr: [to.pages.at.addr() as u64, rkey.into(), 0, 0],
            remote_srqn: 0,
            bind_or_tso: [0; 6],
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the structs are ours, and the queue pair lives.
        checked(unsafe { post_send(self.pairs[pair][0], &mut wr, &mut bad) }).map_err(words)
    }

    /// Takes completions that are there: how many.
    ///
    /// # Errors
    /// A sentence: one of them failed.
    #[inline]
    pub fn poll(&mut self) -> Result<usize, String> {
        let mut all = [ibv_wc::default(); 16];
        // SAFETY: the places are ours, and the queue lives.
        let got = unsafe { poll_cq(self.cq, all.len() as c_int, all.as_mut_ptr()) };
        let got = usize::try_from(got).map_err(|_| "the completion queue is broken".to_owned())?;
        match all[..got].iter().find(|wc| wc.status != u32::from(Status::Success.to_wire())) {
            None => Ok(got),
            Some(wc) => Err(format!("a write failed with status {}", wc.status)),
        }
    }

    /// Takes one completion, however long it takes.
    ///
    /// # Errors
    /// As [`Loopback::poll`].
    #[inline]
    pub fn complete(&mut self) -> Result<(), String> {
        while self.poll()? == 0 {
            vfun_window::pause();
        }
        Ok(())
    }

    /// Asks for an event, writes, sleeps until the event comes, and takes the completion.
    ///
    /// # Errors
    /// A sentence.
    pub fn asleep(&mut self, bytes: u32) -> Result<(), String> {
        // SAFETY: the queue lives.
        unsafe { req_notify_cq(self.cq, 0) };
        self.write(0, bytes)?;
        let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel lives, and the places are ours.
        let got = unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut context) };
        if got != 0 {
            return Err(words(errno::last()));
        }
        // SAFETY: the queue lives.
        unsafe { ibv_ack_cq_events(self.cq, 1) };
        self.complete()
    }

    /// New memory of the program, which no NIC has seen.
    ///
    /// # Errors
    /// A sentence.
    pub fn pages(&self, bytes: usize) -> Result<OwnPages, String> {
        OwnPages::new(bytes).map_err(words)
    }

    /// Registers memory, and ends the region after the caller has looked at the clock.
    ///
    /// # Errors
    /// A sentence.
    pub fn register<T>(&self, pages: &OwnPages, look: impl FnOnce() -> T) -> Result<T, String> {
        let mr = register(self.pd, pages).map_err(words)?;
        let looked = look();
        // SAFETY: it was just made.
        match unsafe { ibv_dereg_mr(mr) } {
            0 => Ok(looked),
            number => Err(words(Errno(number))),
        }
    }

    /// Asks the NIC for something small: how long a control call takes.
    ///
    /// # Errors
    /// A sentence.
    pub fn ask(&self) -> Result<(), String> {
        let mut port = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open; the place is ours.
        checked(unsafe { ibv_query_port(self.context, 1, port.as_mut_ptr()) }).map_err(words)
    }

    /// Copies the same bytes without the NIC.
    pub fn copy(&mut self, bytes: usize) {
        let (from, to) = (&self.regions[0].pages, &self.regions[1].pages);
        let bytes = bytes.min(from.bytes).min(to.bytes);
        // SAFETY: both regions have so many bytes, and nothing is under way.
        unsafe { std::ptr::copy_nonoverlapping(from.at, to.at, bytes) };
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let _ = self.resize(0);
        self.regions.clear();
        // SAFETY: nothing uses them any more; the context ends what is left.
        unsafe {
            ibv_destroy_cq(self.cq);
            ibv_close_device(self.context);
        }
    }
}
