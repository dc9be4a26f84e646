//! Between a [`Driver`] and the C interface. Only the macro
//! [`export_driver!`](crate::export_driver) calls what is here.
#![allow(unsafe_code)]

mod panics;

use crate::abi::{self, Call, DriverConfig};
use crate::error::to_buffer;
use crate::{Args, Config, Driver, DriverError, Out};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the state pointer points to: the driver's value, absent after a
/// panic, and what it takes to make a new one.
struct Slot<D> {
    driver: Option<D>,
    config: Config,
    /// What answers calls later; null where nothing does.
    service: *const abi::DriverService,
}

/// # Safety
/// `p` is null or a zero-terminated string that lives while this runs.
unsafe fn text(p: *const c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

/// # Safety
/// `c` is a configuration as the header describes it.
unsafe fn read_config(c: &DriverConfig) -> Config {
    let settings = if c.settings.is_null() || c.settings_count == 0 {
        Default::default()
    } else {
        // SAFETY: the header promises `settings_count` settings there.
        let all = unsafe { std::slice::from_raw_parts(c.settings, c.settings_count as usize) };
        // SAFETY: their strings are zero-terminated and live during init.
        all.iter().map(|s| unsafe { (text(s.key), text(s.value)) }).collect()
    };
    // SAFETY: these too.
    let (client, app, function) = unsafe { (text(c.client), text(c.app), text(c.function)) };
    Config {
        client,
        app,
        function,
        version: (c.version_major, c.version_minor),
        channel: c.channel,
        depth: c.depth as u16,
        cell_bytes: c.cell_bytes,
        settings,
    }
}

/// # Safety
/// `p` has `capacity` writable bytes, or is null.
#[cold]
unsafe fn refuse(e: &DriverError, p: *mut c_char, capacity: u64) -> c_int {
    if !p.is_null() {
        // SAFETY: as promised by the caller; the room is private to the service.
        let room = unsafe { std::slice::from_raw_parts_mut(p.cast::<u8>(), capacity as usize) };
        to_buffer(&e.sentence, room);
    }
    e.code
}

/// `vfun_driver_init` of `D`.
///
/// # Safety
/// As the header says of `vfun_driver_init`.
pub unsafe fn init<D: Driver>(config: *const DriverConfig, state: *mut *mut c_void) -> c_int {
    panics::watch();
    // SAFETY: the header promises a valid configuration.
    let c = unsafe { &*config };
    let made = catch_unwind(AssertUnwindSafe(|| {
        if c.abi != abi::ABI {
            return Err(DriverError::new(
                abi::PANIC,
                format!("the service speaks driver interface {}, this driver {}", c.abi, abi::ABI),
            ));
        }
        // SAFETY: the interface's version is ours, so the fields are as declared.
        let config = unsafe { read_config(c) };
        let service = c.service;
        D::init(&config).map(|driver| Box::new(Slot { driver: Some(driver), config, service }))
    }));
    match made {
        Ok(Ok(slot)) => {
            // SAFETY: the header promises room for one pointer.
            unsafe { *state = Box::into_raw(slot).cast() };
            abi::OK
        }
        // SAFETY: the header promises room for the sentence.
        Ok(Err(e)) => unsafe { refuse(&e, c.sentence, c.sentence_capacity) },
        // SAFETY: as above.
        Err(p) => unsafe { refuse(&panics::told(p), c.sentence, c.sentence_capacity) },
    }
}

/// `vfun_driver_function` of `D`.
///
/// # Safety
/// As the header says of `vfun_driver_function`; `state` is from [`init`] of the same `D`.
#[inline]
pub unsafe fn function<D: Driver>(state: *mut c_void, call: *mut Call) -> c_int {
    // SAFETY: `init` put a Slot<D> there; one thread uses it at a time. The
    // call is valid and the driver's alone while this runs.
    let (slot, call) = unsafe { (&mut *state.cast::<Slot<D>>(), &mut *call) };
    let done = catch_unwind(AssertUnwindSafe(|| {
        let driver = match &mut slot.driver {
            Some(driver) => driver,
            none => none.insert(D::init(&slot.config)?),
        };
        match call.command {
            abi::COMMAND_SET => {
                // SAFETY: both live only inside this closure.
                let (args, mut out) =
                    unsafe { (Args::from_call(call), Out::from_call(call, slot.service)) };
                driver.call(&args, &mut out)?;
                call.out_len = out.len() as u64;
                Ok(if out.is_later() { abi::LATER } else { abi::OK })
            }
            abi::COMMAND_RST => driver.rst().map(|()| abi::OK),
            other => Err(DriverError::bad_args(format!("command {other} is unknown"))),
        }
    }));
    match done {
        Ok(Ok(code)) => code,
        // SAFETY: the header promises room for the sentence.
        Ok(Err(e)) => unsafe { refuse(&e, call.sentence, call.sentence_capacity) },
        Err(p) => {
            let e = panics::told(p);
            let broken = slot.driver.take();
            if catch_unwind(AssertUnwindSafe(|| drop(broken))).is_err() {
                panics::forget();
            }
            // SAFETY: as above.
            unsafe { refuse(&e, call.sentence, call.sentence_capacity) }
        }
    }
}

/// `vfun_driver_exit` of `D`.
///
/// # Safety
/// As the header says of `vfun_driver_exit`; `state` is from [`init`] of the same `D`.
pub unsafe fn exit<D: Driver>(state: *mut c_void) {
    // SAFETY: `init` made this box, and nobody uses it any more.
    let slot = unsafe { Box::from_raw(state.cast::<Slot<D>>()) };
    if catch_unwind(AssertUnwindSafe(|| drop(slot))).is_err() {
        panics::forget();
    }
}
