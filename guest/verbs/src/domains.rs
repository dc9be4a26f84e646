//! Protection domains, regions of memory and address handles.
#![allow(unsafe_code)]

use crate::abi::{ibv_ah, ibv_ah_attr, ibv_context, ibv_mr, ibv_pd, numbers};
use crate::context::Context;
use crate::errno::{EINVAL, EOPNOTSUPP, Errno, checked, number, pointer};
use crate::generated::{
    vfun_nic_ah, vfun_nic_ah_end, vfun_nic_ah_make, vfun_nic_mr, vfun_nic_mr_add, vfun_nic_mr_end,
    vfun_nic_mr_make, vfun_nic_path, vfun_nic_pd, vfun_nic_pd_end, vfun_nic_pd_make,
};
use crate::memory::{self, PAGE, Run};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use vfun_verbs::flags::access;

/// Runs that one call takes: `VFUN_NIC_RUNS_OF_CALL`.
const RUNS_OF_CALL: usize = 128;

/// A number for what programs call `handle`.
pub fn handle() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[repr(C)]
pub struct Pd {
    head: ibv_pd,
    pub nic: *mut vfun_nic_pd,
}

impl Pd {
    /// # Safety
    /// The pointer is one that `ibv_alloc_pd` gave, and was not freed.
    pub unsafe fn of<'a>(pd: *mut ibv_pd) -> &'a Pd {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*pd.cast() }
    }

    pub fn context(&self) -> &'static Context {
        // SAFETY: a context outlives what is made of it, by the rules of verbs.
        unsafe { Context::of(self.head.context) }
    }
}

/// `struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: C's rules for this function.
    let of = unsafe { Context::of(context) };
    let mut nic = std::ptr::null_mut();
    // SAFETY: the place is ours.
    let made = checked(unsafe { vfun_nic_pd_make(of.nic, &mut nic) });
    let head = ibv_pd { context, handle: handle() };
    pointer(made.map(|()| Box::into_raw(Box::new(Pd { head, nic })).cast()))
}

/// `int ibv_dealloc_pd(struct ibv_pd *pd)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { Pd::of(pd) };
    // SAFETY: the NIC's object is of this domain.
    let ended = unsafe { vfun_nic_pd_end(of.nic) };
    // SAFETY: it was made by Box; the program uses it no more.
    number(gone(of.context(), ended).map(|()| drop(unsafe { Box::from_raw(pd.cast::<Pd>()) })))
}

/// What an end of an object came to: with a NIC that is gone, the object is gone too.
pub fn gone(context: &Context, status: i32) -> Result<(), Errno> {
    checked(status).or_else(|errno| if context.is_lost() { Ok(()) } else { Err(errno) })
}

#[repr(C)]
struct Mr {
    head: ibv_mr,
    nic: *mut vfun_nic_mr,
    backing: memory::Backing,
}

/// Registers the runs: the region, and its key.
fn make_region(
    pd: &Pd,
    (iova, length, rights): (u64, u64, u32),
    runs: &[Run],
) -> Result<(*mut vfun_nic_mr, u32), Errno> {
    let bytes = |part: &[Run]| part.iter().flat_map(Run::bytes).collect::<Vec<u8>>();
    let (mut mr, mut key) = (std::ptr::null_mut(), 0);
    let mut parts = runs.chunks(RUNS_OF_CALL);
    let first = bytes(parts.next().ok_or(EINVAL)?);
    let (from, len) = (first.as_ptr(), first.len() as u64);
    // SAFETY: the bytes and places are ours.
    checked(unsafe {
        vfun_nic_mr_make(pd.nic, iova, length, rights, from, len, &mut mr, &mut key)
    })?;
    for part in parts {
        let more = bytes(part);
        // SAFETY: as above.
        let added = unsafe { vfun_nic_mr_add(mr, more.as_ptr(), more.len() as u64, &mut key) };
        checked(added).inspect_err(|_| {
            // SAFETY: the NIC's object is ours, and nobody has it.
            unsafe { vfun_nic_mr_end(mr) };
        })?;
    }
    Ok((mr, key))
}

/// Registers memory.
fn register(
    pd: *mut ibv_pd,
    (addr, length): (*mut c_void, usize),
    iova: u64,
    asked: u32,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: the callers' rules are C's.
    let of = unsafe { Pd::of(pd) };
    let rights = asked & !(numbers::access::OPTIONAL | numbers::access::HUGETLB);
    if rights & !access::ALL != 0 {
        return Err(EOPNOTSUPP);
    }
    let remote_writes = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    let misplaced = iova % PAGE as u64 != addr.addr() as u64 % PAGE as u64;
    if misplaced || remote_writes && rights & access::LOCAL_WRITE == 0 {
        return Err(EINVAL);
    }
    let context = of.context();
    let back = || memory::back(context.link, addr.expose_provenance(), length, rights);
    let mut backing = back()?;
    // Entries name a bounced region by the program's addresses, and so does the table of bounces.
    if backing.bounce.is_some() && iova != addr.addr() as u64 {
        return Err(EOPNOTSUPP);
    }
    let what = (iova, length as u64, rights);
    let (nic, key) = match make_region(of, what, &backing.runs) {
        Err(EOPNOTSUPP) if backing.pinned && memory::pin_no_more(context.link) => {
            backing = back()?;
            make_region(of, what, &backing.runs)?
        }
        made => made?,
    };
    if let Some(bounce) = &backing.bounce {
        context.regions.add(key, bounce.clone());
    }
    let head = ibv_mr {
        context: context.pointer(),
        pd,
        addr,
        length,
        handle: handle(),
        lkey: key,
        rkey: key,
    };
    Ok(Box::into_raw(Box::new(Mr { head, nic, backing })).cast())
}

/// `struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    rights: c_int,
) -> *mut ibv_mr {
    pointer(register(pd, (addr, length), addr.addr() as u64, rights as u32))
}

/// `struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    rights: c_int,
) -> *mut ibv_mr {
    pointer(register(pd, (addr, length), iova, rights as u32))
}

/// `struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
/// unsigned int access)`: what `ibv_reg_mr` of the header becomes.
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    rights: c_uint,
) -> *mut ibv_mr {
    pointer(register(pd, (addr, length), iova, rights))
}

/// `int ibv_dereg_mr(struct ibv_mr *mr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: C's rules for this function.
    let of = unsafe { &*mr.cast::<Mr>() };
    // SAFETY: a context outlives what is made of it.
    let context = unsafe { Context::of(of.head.context) };
    // SAFETY: the NIC's object is of this region.
    let ended = gone(context, unsafe { vfun_nic_mr_end(of.nic) });
    number(ended.map(|()| {
        if of.backing.bounce.is_some() {
            context.regions.remove(of.head.lkey);
        }
        // SAFETY: it was made by Box; the program uses it no more.
        drop(unsafe { Box::from_raw(mr.cast::<Mr>()) });
    }))
}

#[repr(C)]
pub struct Ah {
    head: ibv_ah,
    nic: *mut vfun_nic_ah,
    /// What entries of datagrams call it.
    pub number: u32,
}

impl Ah {
    /// # Safety
    /// The pointer is one that `ibv_create_ah` gave, and was not destroyed.
    pub unsafe fn of<'a>(ah: *const ibv_ah) -> &'a Ah {
        // SAFETY: the program's pointer is that of the first member.
        unsafe { &*ah.cast() }
    }
}

/// The path of an address handle, as the NIC takes it.
pub fn path(attr: &ibv_ah_attr) -> vfun_nic_path {
    vfun_nic_path {
        // SAFETY: both members of the union are bytes.
        gid: unsafe { attr.grh.dgid.raw },
        flow_label: attr.grh.flow_label,
        lid: attr.dlid,
        is_global: attr.is_global,
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port: attr.port_num,
    }
}

/// `struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: C's rules for this function.
    let (of, attr) = unsafe { (Pd::of(pd), &*attr) };
    let (mut nic, mut number) = (std::ptr::null_mut(), 0);
    // SAFETY: the places are ours.
    let made = checked(unsafe { vfun_nic_ah_make(of.nic, &path(attr), &mut number, &mut nic) });
    let head = ibv_ah { context: of.context().pointer(), pd, handle: handle() };
    pointer(made.map(|()| Box::into_raw(Box::new(Ah { head, nic, number })).cast()))
}

/// `int ibv_destroy_ah(struct ibv_ah *ah)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: C's rules for this function; a context outlives what is made of it.
    let (of, context) = unsafe { (Ah::of(ah), Context::of((*ah).context)) };
    // SAFETY: the NIC's object is of this handle.
    let ended = gone(context, unsafe { vfun_nic_ah_end(of.nic) });
    // SAFETY: it was made by Box; the program uses it no more.
    number(ended.map(|()| drop(unsafe { Box::from_raw(ah.cast::<Ah>()) })))
}
