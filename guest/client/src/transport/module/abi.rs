//! The kernel module's structs, as guest/kmod/vfun_uapi.h defines them. Guests
//! are little-endian (`vfun_window` refuses to be compiled for others), so that
//! native numbers are the wire's.

use rustix::ioctl::{Opcode, opcode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The ABI that this library speaks.
pub(super) const ABI: u32 = 2;
/// The group of the module's numbers.
const MAGIC: u8 = b'V';

/// What the module knows of its device.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Info {
    pub window_bytes: u64,
    pub generation: u64,
    pub features: u64,
    pub abi: u32,
    pub vectors: u32,
    pub pci: u32,
    pub gone: u32,
}

/// One control request, as `/dev/vfunN` takes it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Request {
    pub kind: u16,
    pub body_len: u16,
    pub timeout_ms: u32,
    pub body: u64,
    pub answer: u64,
    pub answer_room: u32,
    pub answer_len: u32,
    pub acked: u32,
    pub reserved: u32,
}

/// A wait for a channel's event count.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Wait {
    pub channel: u64,
    pub seen: u64,
    pub timeout_ns: u64,
}

/// A ring of a channel's service.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Ring {
    pub channel: u64,
}

/// An eventfd that is rung with a channel.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Eventfd {
    pub channel: u64,
    pub fd: i32,
    pub reserved: u32,
}

/// Whether a buffer goes on.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct BufferQuestion {
    pub buffer: u64,
}

/// Memory of this process that moves into a buffer.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Remap {
    pub buffer: u64,
    pub offset: u64,
    pub addr: u64,
    pub bytes: u64,
    pub write: u32,
    pub reserved: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Pin {
    pub buffer: u64,
    pub index: u64,
    pub addr: u64,
    pub bytes: u64,
    pub write: u32,
    pub reserved: u32,
}

/// The memory of a direct link of a port.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Link {
    pub channel: u64,
    pub way: u32,
    pub word: u32,
    pub number: u64,
    pub mine: u64,
    pub theirs: u64,
    pub ring_bytes: u64,
}

/// What a [`Link`] is asked for with.
pub(super) const LINK_ASK: u32 = 0;
pub(super) const LINK_TAKE: u32 = 1;
pub(super) const LINK_LEAVE: u32 = 2;
pub(super) const LINK_RING: u32 = 3;

/// In an offset of a mapping the number of the window begins at this bit.
pub(super) const MAP_SHIFT: u32 = 36;

pub(super) const INFO: Opcode = opcode::read::<Info>(MAGIC, 0);
pub(super) const REQUEST: Opcode = opcode::read_write::<Request>(MAGIC, 1);
pub(super) const WAIT: Opcode = opcode::read_write::<Wait>(MAGIC, 2);
pub(super) const RING: Opcode = opcode::write::<Ring>(MAGIC, 3);
pub(super) const EVENTFD: Opcode = opcode::write::<Eventfd>(MAGIC, 4);
pub(super) const BUFFER: Opcode = opcode::write::<BufferQuestion>(MAGIC, 6);
pub(super) const REMAP: Opcode = opcode::read_write::<Remap>(MAGIC, 7);
pub(super) const PIN: Opcode = opcode::read_write::<Pin>(MAGIC, 8);
pub(super) const LINK: Opcode = opcode::read_write::<Link>(MAGIC, 9);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::LinkWay;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    /// Every number that both sides must agree on, as C writes it and as it is here.
    fn table() -> Vec<(String, u64)> {
        let mut t: Vec<(String, u64)> = vec![];
        macro_rules! of {
            ($c:literal, $rust:ident: $($field:ident)*) => {
                t.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
                $(t.push((
                    format!("offsetof(struct {}, {})", $c, stringify!($field)),
                    offset_of!($rust, $field) as u64,
                ));)*
            };
        }
        of!("vfun_ioc_info", Info: window_bytes generation features abi vectors pci gone);
        of!("vfun_ioc_request", Request: kind body_len timeout_ms body answer answer_room
            answer_len acked reserved);
        of!("vfun_ioc_wait", Wait: channel seen timeout_ns);
        of!("vfun_ioc_ring", Ring: channel);
        of!("vfun_ioc_eventfd", Eventfd: channel fd reserved);
        of!("vfun_ioc_buffer", BufferQuestion: buffer);
        of!("vfun_ioc_remap", Remap: buffer offset addr bytes write reserved);
        of!("vfun_ioc_pin", Pin: buffer index addr bytes write reserved);
        of!("vfun_ioc_link", Link: channel way word number mine theirs ring_bytes);
        for (name, number) in [
            ("OUT", LinkWay::Out as u32),
            ("IN", LinkWay::In as u32),
            ("ASK", LINK_ASK),
            ("TAKE", LINK_TAKE),
            ("LEAVE", LINK_LEAVE),
            ("RING", LINK_RING),
        ] {
            t.push((format!("VFUN_LINK_{name}"), number.into()));
        }
        t.push(("VFUN_MAP_SHIFT".into(), MAP_SHIFT.into()));
        for (name, number) in [
            ("INFO", INFO),
            ("REQUEST", REQUEST),
            ("WAIT", WAIT),
            ("RING", RING),
            ("EVENTFD", EVENTFD),
            ("BUFFER", BUFFER),
            ("REMAP", REMAP),
            ("PIN", PIN),
            ("LINK", LINK),
        ] {
            t.push((format!("VFUN_IOC_{name}"), u64::from(number)));
        }
        t
    }

    #[test]
    fn the_kernel_modules_header_says_the_same() {
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kmod/vfun_uapi.h");
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("abi.c"), dir.path().join("abi"));
        let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include \"vfun_uapi.h\"\n\
                        int main(void) {\n"
            .to_owned();
        for (c, _) in table() {
            text += &format!("\tprintf(\"%llu\\n\", (unsigned long long)({c}));\n");
        }
        std::fs::write(&source, text + "\treturn 0;\n}\n").unwrap();
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let done = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(header.parent().unwrap())
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = Command::new(&program).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let said: Vec<u64> = said.lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(said.len(), table().len());
        for ((what, ours), theirs) in table().into_iter().zip(said) {
            assert_eq!(ours, theirs, "{what}");
        }
    }
}
