//! The machine itself: what is asked of KVM, and how its processor enters and leaves.

#![allow(unsafe_code)]

use crate::memory::{LEAVE, PAGE, Page, Region, TABLES_AT, Tables, regions};
use crate::{Job, NoMachine, Stop};
use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_MEM_READONLY, kvm_dtable, kvm_segment, kvm_sregs,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Error, Kvm, VcpuExit, VcpuFd, VmFd};
use std::io::ErrorKind;

/// Pages of the stack on which a job runs.
const STACK: usize = 16;

/// Bits of control registers: protection, the coprocessor's exceptions as they are today,
/// read-only pages also for a kernel, paging; large addresses, SSE; 64 bits, pages in
/// which nothing is run.
const CR0: u64 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 31;
const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10;
const EFER: u64 = 1 << 8 | 1 << 10 | 1 << 11;
/// The one bit of the flags that is always set.
const FLAGS: u64 = 1 << 1;

/// Ring 3, in which programs run.
const USER_MODE: u8 = 3;
/// Types of segments: code, data, and a task that runs.
const CODE: u8 = 11;
const DATA: u8 = 3;
const TASK: u8 = 11;

/// A virtual machine of one processor, whose memory is what this program had as it was
/// made: make what a job needs before, and keep it.
pub struct Machine {
    // Before the memory that it stands on.
    processor: VcpuFd,
    _vm: VmFd,
    _tables: Tables,
    stack: Vec<Page>,
}

/// Says what KVM refused.
trait Refused<T> {
    fn refused(self, doing: &'static str) -> Result<T, NoMachine>;
}

impl<T> Refused<T> for Result<T, Error> {
    fn refused(self, doing: &'static str) -> Result<T, NoMachine> {
        let why = |e: Error| std::io::Error::from_raw_os_error(e.errno()).to_string();
        self.map_err(|e| NoMachine::Refused { doing, why: why(e) })
    }
}

fn open() -> Result<Kvm, NoMachine> {
    Kvm::new().map_err(|e| {
        let e = std::io::Error::from_raw_os_error(e.errno());
        NoMachine::NoKvm(match e.kind() {
            ErrorKind::NotFound => "this host has no /dev/kvm".to_owned(),
            ErrorKind::PermissionDenied => {
                "/dev/kvm may not be opened by this user: add the user to the group kvm".to_owned()
            }
            _ => format!("/dev/kvm cannot be opened: {e}"),
        })
    })
}

impl Machine {
    /// Makes one, of all memory that this program has now.
    ///
    /// # Errors
    /// [`NoMachine`]: there is no KVM for this program, or it refuses something.
    pub fn new() -> Result<Self, NoMachine> {
        let kvm = open()?;
        // Before the look at what memory there is.
        let stack: Vec<Page> = (0..STACK).map(|_| Page::new()).collect();
        let maps = std::fs::read_to_string("/proc/self/maps")
            .map_err(|e| NoMachine::NoKvm(format!("/proc/self/maps cannot be read: {e}")))?;
        let regions = regions(&maps);
        if regions.len() >= kvm.get_nr_memslots() {
            return Err(NoMachine::Refused {
                doing: "giving the machine its memory",
                why: format!("this program has {} regions, which are too many", regions.len()),
            });
        }
        let tables = Tables::of(&regions);
        let vm = kvm.create_vm().refused("making a machine")?;
        give_memory(&vm, &regions, &tables)?;
        let processor = vm.create_vcpu(0).refused("making its processor")?;
        let can = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).refused("asking what it can")?;
        processor.set_cpuid2(&can).refused("saying what it can")?;
        let sregs = processor.get_sregs().refused("reading its registers")?;
        processor.set_sregs(&user_mode(sregs)).refused("setting it to user mode")?;
        Ok(Machine { processor, _vm: vm, _tables: tables, stack })
    }

    /// Runs a job in the machine until it leaves it. What the job points to was there as
    /// the machine was made.
    ///
    /// # Errors
    /// [`NoMachine`]: the machine stopped otherwise. It is of no use then, and nor is the job.
    pub fn run<J: Job>(&mut self, job: &mut J) -> Result<Stop, NoMachine> {
        let mut regs = self.processor.get_regs().refused("reading its registers")?;
        regs.rip = enter::<J> as *const () as u64;
        regs.rdi = std::ptr::from_mut(job).expose_provenance() as u64;
        // As behind a call: the stack is 8 bytes off 16.
        regs.rsp = self.stack.as_ptr_range().end.expose_provenance() as u64 - 8;
        regs.rflags = FLAGS;
        self.processor.set_regs(&regs).refused("setting its registers")?;
        let left = loop {
            match self.processor.run() {
                Ok(VcpuExit::MmioWrite(_, &[a, b, c, d])) => {
                    break u32::from_le_bytes([a, b, c, d]);
                }
                Ok(exit) => return Err(NoMachine::Stopped(format!("{exit:?}"))),
                // A signal came.
                Err(e) if e.errno() == INTERRUPTED => {}
                Err(e) => return Err(e).refused("running it"),
            }
        };
        self.settle()?;
        Stop::of(left).ok_or_else(|| NoMachine::Stopped(format!("it left with {left}")))
    }

    /// Finishes the store that ended the last run. KVM completes such a store at the start of
    /// the next run, and overwrites registers that were set before that.
    fn settle(&mut self) -> Result<(), NoMachine> {
        self.processor.set_kvm_immediate_exit(1);
        let ended = match self.processor.run() {
            Err(e) if e.errno() == INTERRUPTED => Ok(()),
            Err(e) => Err(e).refused("running it"),
            Ok(exit) => Err(NoMachine::Stopped(format!("{exit:?}"))),
        };
        self.processor.set_kvm_immediate_exit(0);
        ended
    }
}

/// What the system says of a call that a signal ended.
const INTERRUPTED: i32 = 4;

fn give_memory(vm: &VmFd, regions: &[Region], tables: &Tables) -> Result<(), NoMachine> {
    let tables = Region {
        from: tables.pages().as_ptr().expose_provenance() as u64,
        bytes: tables.pages().len() as u64 * PAGE,
        write: true,
        run: false,
        physical: TABLES_AT,
    };
    for (slot, region) in regions.iter().chain([&tables]).enumerate() {
        let slot = kvm_userspace_memory_region {
            slot: slot as u32,
            flags: if region.write { 0 } else { KVM_MEM_READONLY },
            guest_phys_addr: region.physical,
            memory_size: region.bytes,
            userspace_addr: region.from,
        };
        // SAFETY: the slots do not overlap: each region lies behind the one before. What
        // runs in the machine is this crate's own safe code, at the addresses that it has
        // here, while the thread that entered it waits: it reads and writes what that
        // thread might. Beside that the processor only notes in the tables, which are
        // atomic, what was used. Memory that this program gives back is gone from the
        // machine, too: KVM follows the mappings.
        unsafe { vm.set_user_memory_region(slot) }.refused("giving the machine its memory")?;
    }
    Ok(())
}

fn segment(selector: u16, type_: u8, code: bool) -> kvm_segment {
    kvm_segment {
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        dpl: USER_MODE,
        db: u8::from(!code),
        l: u8::from(code),
        s: 1,
        g: 1,
        ..kvm_segment::default()
    }
}

/// 64 bits, paging, ring 3. There are no tables of segments, tasks or interrupts: who
/// needs one of them there stops the machine.
fn user_mode(before: kvm_sregs) -> kvm_sregs {
    let none = kvm_dtable::default();
    let data = segment(0x2b, DATA, false);
    let task = kvm_segment { limit: 0x67, type_: TASK, present: 1, ..kvm_segment::default() };
    kvm_sregs {
        cs: segment(0x33, CODE, true),
        ss: data,
        ds: data,
        es: data,
        fs: data,
        gs: data,
        tr: task,
        ldt: kvm_segment { unusable: 1, ..kvm_segment::default() },
        gdt: none,
        idt: none,
        cr0: CR0,
        cr3: TABLES_AT,
        cr4: CR4,
        efer: EFER,
        ..before
    }
}

/// Where the machine's processor begins.
extern "C" fn enter<J: Job>(job: *mut J) -> ! {
    // SAFETY: `Machine::run` has the job alone and does nothing with it until the
    // processor has left the machine, which is the next thing that happens here.
    let stop = unsafe { &mut *job }.go();
    // SAFETY: at that address the machine has no memory, so the store ends its run and
    // changes nothing. The processor does not come back: it is set to another place
    // before it runs again, and would stop here.
    unsafe {
        std::arch::asm!(
            "mov dword ptr [{at}], {stop:e}",
            "ud2",
            at = in(reg) LEAVE,
            stop = in(reg) stop as u32,
            options(noreturn),
        )
    }
}
