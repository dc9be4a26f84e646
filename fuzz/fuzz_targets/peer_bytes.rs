//! Bytes of a peer that is not trusted: a host's answers as an app reads them,
//! frames of the TCP transport as app and gateway read them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    match which % 3 {
        0 => vfun::fuzzing::answers(data),
        1 => vfun::fuzzing::frames(data),
        _ => vfun_gateway::fuzz(data, 1 << (which % 20)),
    }
});
