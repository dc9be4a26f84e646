//! Open devices.
#![allow(unsafe_code)]

use crate::abi::{ibv_context, ibv_context_ops, ibv_device, numbers, verbs_context};
use crate::asynchronous::AsyncEvents;
use crate::errno::{self, EINVAL, EIO, ENODEV, Errno, checked, pointer};
use crate::generated::{
    REMOTE, vfun_nic_close, vfun_nic_context, vfun_nic_info, vfun_nic_open, vfun_nic_opened,
};
use crate::memory::Regions;
use crate::{cq, device, post, qp, query, registry, srq};
use std::ffi::c_int;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use vfun::Queues;
use vfun_remoting_guest::{Link, say_once};
use vfun_verbs::bells::{self, ProgramBells};
use vfun_window::WindowMemory;

/// An open device. The program has a pointer to the last member of `abi`.
#[repr(C)]
pub struct Context {
    pub abi: verbs_context,
    pub link: &'static Link,
    pub nic: *mut vfun_nic_context,
    pub info: vfun_nic_info,
    pub queues: Queues,
    pub bells: ProgramBells<WindowMemory>,
    pub regions: Regions,
    pub events: AsyncEvents,
    /// The NIC is gone: nothing is served any more.
    lost: AtomicBool,
}

// SAFETY: what threads change is behind locks and atomics; the C part is written before any other
// thread has it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The one of a program's pointer.
    ///
    /// # Safety
    /// The pointer is one that `ibv_open_device` gave, and was not closed.
    pub unsafe fn of<'a>(context: *mut ibv_context) -> &'a Context {
        // SAFETY: the program's pointer is inside of this struct.
        unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast() }
    }

    /// What the program has of it.
    pub fn pointer(&self) -> *mut ibv_context {
        let whole = std::ptr::from_ref(self).cast_mut();
        whole.cast::<ibv_context>().wrapping_byte_add(offset_of!(verbs_context, context))
    }

    /// Opens the NIC.
    pub fn open() -> Result<&'static Context, Errno> {
        let link = REMOTE.link()?;
        registry::listen(link)?;
        let queues = queues_of(link)?;
        let (opened, nic) = open_nic(&queues)?;
        let bell = |at: u64| at as usize..(at as usize).saturating_add(bells::BYTES);
        let bells = queues.memory(bell(opened.program_bells), bell(opened.nic_bells));
        let mut info = MaybeUninit::uninit();
        // SAFETY: the place is ours, and the context is.
        let told = checked(unsafe { crate::generated::vfun_nic_info(nic, info.as_mut_ptr()) });
        let ready = told.and_then(|()| bells.map_err(|_| EIO));
        let bells = ready.inspect_err(|_| {
            // SAFETY: nothing was made of it.
            unsafe { vfun_nic_close(nic) };
        })?;
        let events = AsyncEvents::new()?;
        let made = Box::leak(Box::new(Context {
            abi: table(events.descriptor()),
            link,
            nic,
            // SAFETY: it was written: the call succeeded.
            info: unsafe { info.assume_init() },
            queues,
            bells: ProgramBells::new(bells),
            regions: Regions::default(),
            events,
            lost: AtomicBool::new(false),
        }));
        registry::add(made);
        Ok(made)
    }

    /// Ends it, and all that was made of it.
    pub fn close(&'static self) {
        registry::remove(self);
        // SAFETY: the NIC knows it; of a lost one nothing is left to end.
        let _ = unsafe { vfun_nic_close(self.nic) };
        // SAFETY: it is one that `open` leaked, and the program uses it no more.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self).cast_mut()) });
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Notes that the NIC is gone; whether it was not noted before.
    pub fn lose(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }

    /// Rings the NIC if a look at its page of doorbells said that it sleeps.
    #[inline]
    pub fn ring_if(&self, sleeps: bool) {
        if sleeps {
            self.queues.ring();
        }
    }

    /// Whether the NIC serves this context. Notes its end, and tells the program.
    #[cold]
    pub fn check(&'static self) -> bool {
        if self.queues.check().is_err() {
            registry::lost_context(self);
        }
        !self.is_lost()
    }

    /// Memory of both sides where the NIC said that a queue lies, with the program's part zeroed.
    pub fn part(&self, place: &crate::generated::vfun_nic_place) -> Result<WindowMemory, Errno> {
        let range = |at: u64, bytes: u64| Some(at as usize..at.checked_add(bytes)? as usize);
        let ranges = range(place.program_at, place.program_bytes)
            .zip(range(place.nic_at, place.nic_bytes))
            .ok_or(EIO)?;
        let memory = self.queues.memory(ranges.0, ranges.1).map_err(|_| EIO)?;
        memory.mine().zero();
        Ok(memory)
    }
}

/// A channel of queues: as large as the program says, or as the host grants.
fn queues_of(link: &'static Link) -> Result<Queues, Errno> {
    static SAID: Once = Once::new();
    let wish = std::env::var("VFUN_VERBS_QUEUE_PAGES").ok().and_then(|n| n.parse().ok());
    let mut pages = wish.unwrap_or(crate::limits::QUEUE_PAGES);
    loop {
        match link.queues((pages, pages)) {
            Ok(queues) => return Ok(queues),
            Err(_) if pages / 2 >= crate::limits::QUEUE_PAGES_MIN => pages /= 2,
            Err(why) => {
                say_once(&SAID, || {
                    let what = format!("no room for queues of verbs: {why}");
                    vec![what, format!("{} (VFUN_QUIET=1 hides this)", why.advice())]
                });
                return Err(ENODEV);
            }
        }
    }
}

fn open_nic(queues: &Queues) -> Result<(vfun_nic_opened, *mut vfun_nic_context), Errno> {
    let [low, high] = queues.token();
    let mut opened = MaybeUninit::uninit();
    let mut nic = std::ptr::null_mut();
    // SAFETY: the places are ours.
    let status =
        unsafe { vfun_nic_open(1, queues.handle(), low, high, opened.as_mut_ptr(), &mut nic) };
    checked(status)?;
    // SAFETY: it was written: the call succeeded.
    Ok((unsafe { opened.assume_init() }, nic))
}

/// The functions that inline functions of the header call.
pub fn table(async_fd: c_int) -> verbs_context {
    // SAFETY: zeros are null pointers and numbers.
    let mut table: verbs_context = unsafe { MaybeUninit::zeroed().assume_init() };
    table.query_port = Some(query::query_port);
    table.query_device_ex = Some(query::query_device_ex);
    table.create_cq_ex = Some(cq::create_cq_ex);
    table.create_qp_ex = Some(qp::create_qp_ex);
    table.create_srq_ex = Some(srq::create_srq_ex);
    table.get_srq_num = Some(srq::get_srq_num);
    table.size = size_of::<verbs_context>();
    let ops: &mut ibv_context_ops = &mut table.context.ops;
    ops.poll_cq = Some(crate::poll::poll_cq);
    ops.req_notify_cq = Some(cq::req_notify_cq);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);
    ops.post_srq_recv = Some(srq::post_srq_recv);
    table.context.device = device::device();
    table.context.cmd_fd = -1;
    table.context.async_fd = async_fd;
    table.context.num_comp_vectors = 1;
    table.context.abi_compat = std::ptr::without_provenance_mut(numbers::ABI_IS_EXTENDED);
    table
}

/// `struct ibv_context *ibv_open_device(struct ibv_device *device)`
#[unsafe(no_mangle)]
pub extern "C" fn ibv_open_device(of: *mut ibv_device) -> *mut ibv_context {
    let opened = match of == device::device() {
        true => Context::open().map(Context::pointer),
        false => Err(EINVAL),
    };
    pointer(opened)
}

/// `int ibv_close_device(struct ibv_context *context)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    if context.is_null() {
        return errno::minus_one(Err(EINVAL));
    }
    // SAFETY: C's rules for this function.
    unsafe { Context::of(context) }.close();
    0
}
