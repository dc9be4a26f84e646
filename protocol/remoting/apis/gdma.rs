//! The words of statuses of the API gdma: services/gdma and guest/gdma both have this file, so that
//! a program reads the same from either library.

use std::ffi::CStr;

/// What a status means, and what to do about it.
pub fn text(status: i32) -> &'static CStr {
    match status {
        0 => c"done",
        1 => c"not finished yet, or still in use",
        -1 => c"a handle or an argument is wrong: was it given back, or never set?",
        -2 => c"the node's pool has no room in one piece: free buffers, or raise GDMA_POOL_BYTES",
        -3 => c"more, or larger, than the device takes: gdma_device_info says its limits",
        -4 => c"there is no such node, or none of the buffers is on the local node",
        -5 => c"beyond the end of a buffer, or the two ends overlap",
        -6 => c"the engine reported an error",
        -7 => {
            c"the engine or its service is gone, no host offers it, or the context is being closed"
        }
        -8 => c"not supported: another version of the library, or it was built without its engine",
        _ => c"no status of gdma",
    }
}
