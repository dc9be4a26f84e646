//! WebAssembly modules: the host's own, those that clients submitted, and the
//! function `submit`, which takes them. One program serves all three.

use crate::limits::{WASM_MEMORY_DEFAULT, WASM_MEMORY_MAX, WASM_MEMORY_MIN};
use crate::{Kind, Opens, Part, Program};
use libc::{SYS_lseek, SYS_pread64};
use serde::Deserialize;
use std::io::Read;
use std::path::Path;
use toml::Spanned;
use vfun_jail::seccomp::Rule;
use vfun_jail::seccomp::lists::{CODE, DATA, NO_FILE, READ_FILES, SECOND, allow, service};
use vfun_policy::size;
use vfun_policy::source::ManifestError;
use vfun_supervise::Driver;
use vfun_wire::kind::ChannelKind;
use vfun_wire::version::Features;

pub static PROGRAM: Program =
    Program { name: "vfun-service-wasm", serves: "WebAssembly modules", made_by: "make wasm" };

pub static KIND: Kind = Kind {
    word: "wasm",
    program: &PROGRAM,
    channels: &[ChannelKind::Calls],
    keys: &["memory"],
    declare,
    file: |driver| match driver {
        Driver::Wasm { module, .. } => Some(module),
        _ => None,
    },
    reads: Vec::new,
    scratch_bytes: 0,
    devices: Opens::Never,
    // A module's code is all made before it is served.
    makes_code: false,
    writes: false,
    needs: Features(0),
    takes_rdma: false,
    one_per_vm: false,
    // The module is read and compiled, and nothing is written.
    loading: || service(&[CODE, SECOND, READ_FILES]),
    serving,
};

/// A submitted module comes through descriptors, so that no file is opened.
pub static SUBMITTED: Kind = Kind {
    file: |_| None,
    declare: of_clients,
    loading: || service(&[CODE, SECOND, DESCRIPTORS, NO_FILE]),
    ..KIND
};

/// The function `submit` compiles while it serves, and opens no file. A module's own
/// code runs in it once, to say what the module is.
pub static SUBMIT: Kind =
    Kind { file: |_| None, declare: of_clients, serving: || service(&[CODE, NO_FILE]), ..KIND };

/// A module that is compiled: memory for its instances, and no file, and no more
/// code. Its traps are signals, whose handlers are there by then.
fn serving() -> Vec<Rule> {
    service(&[DATA, NO_FILE])
}

/// Reading descriptors that came with the first message.
const DESCRIPTORS: &[Rule] = &[allow(SYS_pread64), allow(SYS_lseek)];

#[derive(Deserialize)]
struct WasmKeys {
    memory: Option<Spanned<String>>,
}

fn declare(part: &Part<'_>) -> Result<Driver, ManifestError> {
    let module = part.library("a function of kind \"wasm\" needs `library`, its module")?;
    if let (Some(at), Err(wrong)) = (part.library, begins_as_module(&module)) {
        return Err(part.src.error(at, wrong));
    }
    let memory_bytes = match part.keys::<WasmKeys>()?.memory {
        None => WASM_MEMORY_DEFAULT,
        Some(m) => match size(m.get_ref()) {
            Ok(b) if (WASM_MEMORY_MIN..=WASM_MEMORY_MAX).contains(&b) => b,
            Ok(_) => {
                let (least, most) = (WASM_MEMORY_MIN >> 10, WASM_MEMORY_MAX >> 20);
                let range =
                    format!("the memory of a module's instance is {least} KiB to {most} MiB");
                return Err(part.src.error(&m, range));
            }
            Err(e) => return Err(part.src.error(&m, e)),
        },
    };
    Ok(Driver::Wasm { module, memory_bytes })
}

/// No manifest declares what clients submit, and none needs `submit`.
fn of_clients(part: &Part<'_>) -> Result<Driver, ManifestError> {
    Err(part.src.whole("a submitted function has no manifest"))
}

/// The service checks the rest of the module.
fn begins_as_module(path: &Path) -> Result<(), String> {
    let mut begins = vec![];
    let read = std::fs::File::open(path).and_then(|f| f.take(8).read_to_end(&mut begins));
    match read {
        Ok(_) if begins == *b"\0asm\x01\0\0\0" => Ok(()),
        Ok(_) => Err(format!("{} is not a WebAssembly module", path.display())),
        Err(e) => Err(format!("{} cannot be read: {e}", path.display())),
    }
}
