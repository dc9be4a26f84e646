//! Launches of one channel: arguments become the kernel's, and it runs.

use super::{Buffer, ClError, Context, Device, Kernel, Program, Queue, failed};
use crate::limits::{BUFFERS_KEPT, OWN_ALIGN};
use cl3::{command_queue, kernel, memory};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use vfun_kernelmap::{Bound, DeviceKind, Launch};
use vfun_sdk::loader::{ArgsAt, OutAt};

/// How arguments and results get to the device and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The device is the host's processors: it works on the window itself.
    InPlace,
    /// The device shares the host's memory and has caches of its own: it is
    /// handed the window's, and told before and after.
    Shared,
    /// The device has memory of its own.
    Copied,
}

impl Way {
    /// The best one for `device`.
    pub fn of(device: &Device) -> Way {
        match (device.unified, device.kind) {
            (true, DeviceKind::Cpu) => Way::InPlace,
            (true, _) => Way::Shared,
            (false, _) => Way::Copied,
        }
    }
}

#[repr(align(128))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; OWN_ALIGN]);

/// A channel's queue, kernel and buffers.
pub struct Launcher {
    queue: Queue,
    kernel: Kernel,
    way: Way,
    dimensions: u32,
    /// Buffers over the window, by address, length and whether it is written.
    kept: HashMap<(usize, usize, bool), Buffer>,
    /// Memory of the device, one for each argument that was ever copied.
    own: Vec<Option<(usize, Buffer)>>,
    /// Buffers of the call under way that are not kept.
    passing: Vec<Buffer>,
    /// Results to be brought back: argument, offset, length.
    back: Vec<(usize, usize, usize)>,
    /// Results that the device is to show: index in `passing`, length.
    shown: Vec<(usize, usize)>,
    /// A private copy of arguments that were not in a cell's data space.
    inline: Vec<Line>,
    copies: u64,
}

impl Launcher {
    /// A queue and a kernel of its own, for launches of so many dimensions.
    pub fn new(
        context: &Context,
        device: &Device,
        program: &Program,
        name: &str,
        way: Way,
        dimensions: usize,
    ) -> Result<Self, ClError> {
        Ok(Launcher {
            queue: context.queue(device)?,
            kernel: program.kernel(name)?,
            way,
            dimensions: dimensions as u32,
            kept: HashMap::new(),
            own: vec![],
            passing: vec![],
            back: vec![],
            shown: vec![],
            inline: vec![],
            copies: 0,
        })
    }

    /// Arguments and results that were copied so far.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// One launch, to its end. `launch`'s ranges lie inside the arguments and
    /// the results.
    pub fn run(
        &mut self,
        context: &Context,
        launch: &Launch,
        args: ArgsAt<'_>,
        out: &mut OutAt<'_>,
    ) -> Result<(), ClError> {
        let done = self.start(context, launch, args, out).and_then(|()| self.finish(out));
        if done.is_err() {
            // Nothing of this call may touch memory after it: neither the next
            // call's nor, once the channel is gone, anybody's.
            let _ = command_queue::finish(self.queue.0);
        }
        self.passing.clear();
        done
    }

    /// Where arguments are: those that are not in the window, at an address
    /// that is the same in the next call.
    fn arguments(&mut self, args: ArgsAt<'_>) -> *const u8 {
        if args.is_shared() || args.len() > 4096 {
            return args.as_ptr();
        }
        let lines = args.len().div_ceil(OWN_ALIGN).max(1);
        if self.inline.len() < lines {
            self.inline.resize(lines, Line([0; OWN_ALIGN]));
        }
        let to = self.inline.as_mut_ptr().cast::<u8>();
        // SAFETY: `to` has room for so many lines, which are ours; the
        // arguments are good for their length, and elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(args.as_ptr(), to, args.len()) };
        to
    }

    fn start(
        &mut self,
        context: &Context,
        launch: &Launch,
        args: ArgsAt<'_>,
        out: &mut OutAt<'_>,
    ) -> Result<(), ClError> {
        let outside = |what| ClError { what, code: memory::CL_INVALID_VALUE };
        self.back.clear();
        self.shown.clear();
        let (from, from_len) = (self.arguments(args), args.len());
        let (to, to_len) = (out.as_mut_ptr(), out.capacity());
        for (i, bound) in launch.args.iter().enumerate() {
            match *bound {
                Bound::Scalar { bytes, len } => self.set(i, len, bytes.as_ptr().cast())?,
                Bound::Local(len) => self.set(i, len, null())?,
                Bound::Input { offset, len, align } => {
                    if offset.checked_add(len).is_none_or(|end| end > from_len) {
                        return Err(outside("a range of the arguments"));
                    }
                    let at = from.wrapping_add(offset);
                    if self.way == Way::Copied || !at.addr().is_multiple_of(align) {
                        let mem = self.own(context, i, len)?;
                        // SAFETY: `at` is good for `len` bytes until this call
                        // has ended, and so has the copy by then.
                        unsafe {
                            self.write(mem, at, len)?;
                        }
                        self.set_memory(i, mem)?;
                    } else {
                        self.in_place(context, i, at.cast_mut(), len, false)?;
                    }
                }
                Bound::Output { offset, len, align } => {
                    if offset.checked_add(len).is_none_or(|end| end > to_len) {
                        return Err(outside("a range of the results"));
                    }
                    let at = to.wrapping_add(offset);
                    if self.way == Way::Copied || !at.addr().is_multiple_of(align) {
                        let mem = self.own(context, i, len)?;
                        self.set_memory(i, mem)?;
                        self.back.push((i, offset, len));
                    } else {
                        self.in_place(context, i, at, len, true)?;
                    }
                }
            }
        }
        self.enqueue(launch)
    }

    fn enqueue(&mut self, launch: &Launch) -> Result<(), ClError> {
        let what = "the launch";
        let cl = cl3::load_library()
            .as_ref()
            .map_err(|_| ClError { what, code: memory::CL_INVALID_VALUE })?;
        let local = launch.local.as_ref().map_or(null(), |l| l.as_ptr());
        // The queue and the kernel are ours, its arguments are set, and both
        // sizes have as many dimensions as are said. No event is asked for.
        let code = cl.clEnqueueNDRangeKernel(
            self.queue.0,
            self.kernel.0,
            self.dimensions,
            null(),
            launch.global.as_ptr(),
            local,
            0,
            null(),
            null_mut(),
        );
        match code {
            Some(0) => Ok(()),
            code => Err(ClError { what, code: code.unwrap_or(memory::CL_INVALID_VALUE) }),
        }
    }

    fn finish(&mut self, out: &mut OutAt<'_>) -> Result<(), ClError> {
        for k in 0..self.back.len() {
            let (i, offset, len) = self.back[k];
            let Some((_, mem)) = &self.own[i] else { continue };
            // SAFETY: the range was checked to lie inside the results, which
            // are good until this call has ended; `finish` waits for the copy.
            let event = unsafe {
                command_queue::enqueue_read_buffer(
                    self.queue.0,
                    mem.0,
                    0,
                    0,
                    len,
                    out.as_mut_ptr().wrapping_add(offset).cast(),
                    0,
                    null(),
                )
            };
            release(event.map_err(failed("copying results"))?);
        }
        for k in 0..self.shown.len() {
            let (at, len) = self.shown[k];
            self.show(self.passing[at].0, len)?;
        }
        command_queue::finish(self.queue.0).map_err(failed("the kernel's end"))
    }

    /// Makes what the device wrote visible to the host.
    fn show(&self, mem: *mut c_void, len: usize) -> Result<(), ClError> {
        let mut at = null_mut();
        let (queue, read) = (self.queue.0, memory::CL_MAP_READ);
        // SAFETY: the buffer is ours and has so many bytes; what is mapped is
        // unmapped at once, as it is the window's own memory.
        let events = unsafe {
            let mapped =
                command_queue::enqueue_map_buffer(queue, mem, 1, read, 0, len, &mut at, 0, null())
                    .map_err(failed("showing results"))?;
            let gone = command_queue::enqueue_unmap_mem_object(queue, mem, at, 0, null());
            (mapped, gone.map_err(failed("showing results"))?)
        };
        release(events.0);
        release(events.1);
        Ok(())
    }

    fn set(&mut self, i: usize, len: usize, value: *const c_void) -> Result<(), ClError> {
        // SAFETY: `value` is good for `len` bytes, or null for local memory;
        // OpenCL compares `len` with what the kernel takes.
        unsafe { kernel::set_kernel_arg(self.kernel.0, i as u32, len, value) }
            .map_err(failed("setting the kernel's arguments"))
    }

    fn set_memory(&mut self, i: usize, mem: *mut c_void) -> Result<(), ClError> {
        self.set(i, size_of::<*mut c_void>(), (&raw const mem).cast())
    }

    /// Device memory for argument `i`, of `len` bytes at least.
    fn own(&mut self, context: &Context, i: usize, len: usize) -> Result<*mut c_void, ClError> {
        self.copies += 1;
        if self.own.len() <= i {
            self.own.resize_with(i + 1, || None);
        }
        match &self.own[i] {
            Some((room, mem)) if *room >= len => Ok(mem.0),
            _ => {
                // The smaller one goes first.
                self.own[i] = None;
                let mem = context.own(len)?;
                let at = mem.0;
                self.own[i] = Some((len, mem));
                Ok(at)
            }
        }
    }

    /// Copies to the device.
    ///
    /// # Safety
    /// `from` is good for `len` bytes until the queue is finished.
    unsafe fn write(&self, to: *mut c_void, from: *const u8, len: usize) -> Result<(), ClError> {
        let queue = self.queue.0;
        // SAFETY: the caller's promise; the buffer has so many bytes.
        let event = unsafe {
            command_queue::enqueue_write_buffer(queue, to, 0, 0, len, from.cast(), 0, null())
        };
        release(event.map_err(failed("copying arguments"))?);
        Ok(())
    }

    /// Sets argument `i` to the memory at `at` itself.
    fn in_place(
        &mut self,
        context: &Context,
        i: usize,
        at: *mut u8,
        len: usize,
        writes: bool,
    ) -> Result<(), ClError> {
        let key = (at.addr(), len, writes);
        if self.way == Way::InPlace
            && let Some(kept) = self.kept.get(&key)
        {
            let mem = kept.0;
            return self.set_memory(i, mem);
        }
        // SAFETY: `at` is good for `len` bytes while this call lasts, and is
        // used by a later call only if that has the same range, or not at all.
        let made = unsafe { context.over(at, len, writes)? };
        let mem = made.0;
        self.set_memory(i, mem)?;
        if self.way == Way::InPlace && self.kept.len() < BUFFERS_KEPT {
            self.kept.insert(key, made);
        } else {
            // A device with caches is told anew each time: a buffer that lives
            // on may remember what was there.
            if writes && self.way == Way::Shared {
                self.shown.push((self.passing.len(), len));
            }
            self.passing.push(made);
        }
        Ok(())
    }
}

fn release(event: *mut c_void) {
    // SAFETY: a call has just returned it to us, for us to release.
    let _ = unsafe { cl3::event::release_event(event) };
}
