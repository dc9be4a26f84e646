//! The device `vfun0`: there whether or not a host offers a NIC, so that opening it says why not.
#![allow(unsafe_code)]

use crate::abi::{ibv_device, numbers};
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

/// What a program's list points to. Only its names and kinds are read.
struct DeviceStruct(ibv_device);
// SAFETY: nobody writes it.
unsafe impl Send for DeviceStruct {}
// SAFETY: as above.
unsafe impl Sync for DeviceStruct {}

const NAME: &str = "vfun0";
const DEVICE_NAME: &str = "vfun-verbs0";

fn text<const N: usize>(of: &str) -> [c_char; N] {
    let mut to = [0; N];
    for (place, byte) in to.iter_mut().zip(of.bytes().take(N - 1)) {
        *place = byte as c_char;
    }
    to
}

/// The only one.
pub fn device() -> *mut ibv_device {
    static DEVICE: OnceLock<DeviceStruct> = OnceLock::new();
    let made = || {
        DeviceStruct(ibv_device {
            ops: [std::ptr::null_mut(); 2],
            node_type: numbers::NODE_CA,
            transport_type: numbers::TRANSPORT_IB,
            name: text(NAME),
            dev_name: text(DEVICE_NAME),
            // No folders of sysfs: nothing that was tried reads them.
            dev_path: text(""),
            ibdev_path: text(""),
        })
    };
    std::ptr::from_ref(&DEVICE.get_or_init(made).0).cast_mut()
}

/// The NIC's number, in network order. Asks the NIC once.
pub fn guid() -> u64 {
    static GUID: OnceLock<u64> = OnceLock::new();
    if let Some(known) = GUID.get() {
        return *known;
    }
    match crate::context::Context::open() {
        Ok(context) => {
            let guid = context.info.guid.to_be();
            context.close();
            *GUID.get_or_init(|| guid)
        }
        Err(_) => 0,
    }
}

/// `struct ibv_device **ibv_get_device_list(int *num_devices)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    if !count.is_null() {
        // SAFETY: the program's place.
        unsafe { *count = 1 };
    }
    // One and a null; of this size, so that it can be freed.
    Box::into_raw(Box::new([device(), std::ptr::null_mut()])).cast()
}

/// `void ibv_free_device_list(struct ibv_device **list)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if !list.is_null() {
        // SAFETY: it is one that ibv_get_device_list made, once.
        drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_device; 2]>()) });
    }
}

/// `const char *ibv_get_device_name(struct ibv_device *device)`
///
/// # Safety
/// C's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(of: *mut ibv_device) -> *const c_char {
    if of.is_null() {
        return std::ptr::null();
    }
    // SAFETY: a device lives for ever.
    unsafe { (*of).name.as_ptr() }
}

/// `int ibv_get_device_index(struct ibv_device *device)`
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_index(_of: *mut ibv_device) -> c_int {
    0
}

/// `__be64 ibv_get_device_guid(struct ibv_device *device)`
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_guid(_of: *mut ibv_device) -> u64 {
    guid()
}
