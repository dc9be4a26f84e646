//! Where a driver puts a call's results.
#![allow(unsafe_code)]

use crate::{Answerer, Args, Buffer, DriverError, OpenCalls, WaitsFor, abi};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The results of one call: a private buffer, or the cell's data space in
/// place. Write-only: what was written may not be there when read back.
pub struct Out<'a> {
    ptr: *mut u8,
    capacity: usize,
    len: usize,
    /// Null where no call can be answered later.
    service: *const abi::DriverService,
    later: bool,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> Out<'a> {
    /// # Safety
    /// `call` is what a service handed to `vfun_driver_function` and `'a` ends
    /// before that function returns; `service` is what it handed to `init`.
    #[inline]
    pub(crate) unsafe fn from_call(
        call: &abi::Call,
        service: *const abi::DriverService,
    ) -> Out<'a> {
        let (ptr, capacity) = (call.out.cast(), call.out_capacity as usize);
        Out { ptr, capacity, len: 0, service, later: false, life: PhantomData }
    }

    /// Results in private memory: for a driver's own tests.
    pub fn private(bytes: &'a mut [u8]) -> Out<'a> {
        let (ptr, capacity) = (bytes.as_mut_ptr(), bytes.len());
        let service = std::ptr::null();
        Out { ptr, capacity, len: 0, service, later: false, life: PhantomData }
    }

    /// The same for a driver that answers later: `calls` gets the answers.
    pub fn private_later(bytes: &'a mut [u8], calls: &'a OpenCalls) -> Out<'a> {
        Out { service: calls.service(), ..Out::private(bytes) }
    }

    /// The call was begun and is answered later, by what this gives, which may be
    /// sent to another thread. Return `Ok(())` then; what was written here does
    /// not count. If an error is returned, that is the answer.
    ///
    /// The call's deadline goes on, counted from the return: past it the caller gets "deadline"
    /// and the service goes on. If the service dies the caller gets "service lost".
    /// A channel moves to another service only when these calls are answered.
    ///
    /// Fails where no call can be answered later (a WebAssembly module).
    #[cold]
    pub fn later(&mut self) -> Result<Answerer, DriverError> {
        self.take_handle(WaitsFor::Begun)
    }

    /// The same for a call that waits for an event, with nothing done for it: no
    /// deadline holds, and it stays open as long as its grant. If the service dies
    /// or the channel moves, the next service's driver gets the call anew.
    #[cold]
    pub fn on_event(&mut self) -> Result<Answerer, DriverError> {
        self.take_handle(WaitsFor::Event)
    }

    fn take_handle(&mut self, hold: WaitsFor) -> Result<Answerer, DriverError> {
        let flags = match hold {
            WaitsFor::Begun => 0,
            WaitsFor::Event => abi::LATER_EVENT,
        };
        let none = || DriverError::new(abi::PANIC, "no call can be answered later here");
        // SAFETY: null, or the service's table, which lives while this does.
        let service = unsafe { self.service.as_ref() }.ok_or_else(none)?;
        // SAFETY: this is the channel's thread, in a call.
        let call = unsafe { (service.later)(service, flags) };
        let call = NonNull::new(call).ok_or_else(none)?;
        self.later = true;
        // SAFETY: the service made it for this one alone.
        Ok(unsafe { Answerer::from_raw(call) })
    }

    /// A buffer of the app that makes this call, by the handle that it passed. One that
    /// the app has not, no matter who else has it, is an error for the caller
    /// ([`abi::BAD_ARGS`]). So is one that is not mapped here, or whose memory is gone
    /// ([`abi::PANIC`]).
    ///
    /// Where it lies ([`Buffer::as_mut_ptr`]) stays good until the call is answered, also
    /// if it is answered [later](Out::later).
    pub fn buffer(&self, handle: u64) -> Result<Buffer<'a>, DriverError> {
        let name = || format!("{}.{}", handle as u32, handle >> 32);
        let none = || DriverError::bad_args(format!("this app has no buffer {}", name()));
        // SAFETY: null, or the service's table, which lives while this does.
        let service = unsafe { self.service.as_ref() }.ok_or_else(none)?;
        let (mut bytes, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: this is the channel's thread, in a call; there is room for both.
        match unsafe { (service.buffer)(service, handle, &mut bytes, &mut len) } {
            // SAFETY: the service lends them for as long as the call, which outlives 'a.
            abi::OK => Ok(unsafe { Buffer::from_raw(bytes.cast(), len as usize) }),
            abi::BAD_ARGS => Err(none()),
            code => Err(DriverError::new(
                code,
                format!(
                    "buffer {} is not mapped: its window is gone, or the service's log says why",
                    name()
                ),
            )),
        }
    }

    /// A table of pages that the kernel module of the caller's VM wrote ([`vfun_wire::pages`]), and that VM's
    /// memory. Errors, and how long both stay, are those of [`Out::buffer`].
    pub fn pages(&self, handle: u64) -> Result<abi::PagesPlace, DriverError> {
        let name = || format!("{}.{}", handle as u32, handle >> 32);
        let none = || DriverError::bad_args(format!("this app has no table of pages {}", name()));
        // SAFETY: null, or the service's table, which lives while this does.
        let service = unsafe { self.service.as_ref() }.ok_or_else(none)?;
        let mut place = std::mem::MaybeUninit::uninit();
        // SAFETY: this is the channel's thread, in a call; there is room.
        match unsafe { (service.pages)(service, handle, place.as_mut_ptr()) } {
            // SAFETY: the service has written it.
            abi::OK => Ok(unsafe { place.assume_init() }),
            abi::BAD_ARGS => Err(none()),
            code => Err(DriverError::new(
                code,
                format!("the memory of table {} is not mapped: the service's log says why", name()),
            )),
        }
    }

    /// Whether the call is answered later.
    #[inline]
    pub fn is_later(&self) -> bool {
        self.later
    }

    /// Most bytes that fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Bytes of results so far: the end of what was written or set.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no results so far.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn range(&self, off: usize, len: usize) -> Result<*mut u8, DriverError> {
        match off.checked_add(len) {
            // SAFETY: off <= off + len <= capacity, so the result is inside the room.
            Some(end) if end <= self.capacity => Ok(unsafe { self.ptr.add(off) }),
            _ => Err(DriverError::too_large(off.saturating_add(len), self.capacity)),
        }
    }

    /// Writes `bytes` at `off`; the results reach at least that far.
    #[inline]
    pub fn write_at(&mut self, off: usize, bytes: &[u8]) -> Result<(), DriverError> {
        let to = self.range(off, bytes.len())?;
        // SAFETY: `to` has `bytes.len()` writable bytes for 'a; `bytes` is
        // private memory and cannot overlap them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.len = self.len.max(off + bytes.len());
        Ok(())
    }

    /// Makes `bytes` the results.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        self.len = 0;
        self.write_at(0, bytes)
    }

    /// Makes one little-endian number the results.
    #[inline]
    pub fn put_u64(&mut self, value: u64) -> Result<(), DriverError> {
        self.put(&value.to_le_bytes())
    }

    /// Makes the arguments the results, with one copy.
    #[inline]
    pub fn put_args(&mut self, args: &Args<'_>) -> Result<(), DriverError> {
        let to = self.range(0, args.len())?;
        // SAFETY: both are valid for `args.len()` bytes; the pages of
        // arguments and those of results are never the same.
        unsafe { std::ptr::copy_nonoverlapping(args.as_ptr(), to, args.len()) };
        self.len = args.len();
        Ok(())
    }

    /// Says how many bytes were written through [`Out::as_mut_ptr`].
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), DriverError> {
        self.range(0, len)?;
        self.len = len;
        Ok(())
    }

    /// Where the results go, for a driver's own unsafe code (a C library that
    /// fills a buffer). Tell [`Out::set_len`] afterwards.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_later_and_once() {
        let calls = OpenCalls::new(|| ());
        let mut room = [0; 8];
        let mut out = Out::private_later(&mut room, &calls);
        let call = out.later().unwrap();
        assert!(out.is_later() && call.is_open());
        let held = calls.hold(0).unwrap();
        std::thread::spawn(move || call.answer(b"late").unwrap()).join().unwrap();
        assert_eq!(calls.answers(), [(held.key(), Ok(b"late".to_vec()))]);
        assert!(!calls.has_answers() && calls.hold(0).is_none());

        let (dropped, failed, late) =
            (out.later().unwrap(), out.on_event().unwrap(), out.on_event().unwrap());
        assert!(!dropped.is_open() && !failed.is_open(), "one call has one handle");
        assert_eq!(failed.fail(&DriverError::new(7, "no")), Err(crate::Cancelled));
        drop(dropped);
        assert_eq!(calls.answers(), []);
        let held = calls.hold(0).unwrap();
        assert_eq!(held.key().0, WaitsFor::Event);
        drop(late);
        let words = DriverError::new(abi::PANIC, crate::DROPPED);
        assert_eq!(calls.answers(), [(held.key(), Err(words))]);

        // A call that was cancelled, and a channel that is gone.
        let call = out.later().unwrap();
        drop(calls.hold(0).unwrap());
        assert_eq!(call.answer(b"too late"), Err(crate::Cancelled));
        let call = out.later().unwrap();
        drop(calls);
        call.answer(b"to nobody").unwrap();
        let mut out = Out::private(&mut room);
        assert_eq!(out.later().unwrap_err().code, abi::PANIC);
    }

    #[test]
    fn writes_are_bounded_and_counted() {
        let mut room = [0; 16];
        let mut o = Out::private(&mut room);
        o.write_at(4, b"abcd").unwrap();
        assert_eq!(o.len(), 8);
        o.put_u64(5).unwrap();
        assert_eq!((o.len(), o.capacity()), (8, 16));
        assert_eq!(o.put(&[0; 17]).unwrap_err().code, abi::RESULT_TOO_LARGE);
        assert!(o.write_at(usize::MAX, &[1]).is_err());
        assert!(o.set_len(17).is_err());
        o.put_args(&Args::private(b"xyz")).unwrap();
        assert_eq!(o.len(), 3);
        assert!(o.put_args(&Args::private(&[0; 17])).is_err());
        assert_eq!(&room[..8], b"xyz\0\0\0\0\0");
    }
}
