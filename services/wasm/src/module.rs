//! A module, checked and compiled.

use crate::LoadError;
use crate::code;
use crate::guest::{Guest, Live, trapped};
use crate::layout::{self, INFO_BYTES};
use crate::limits::*;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use vfun_sdk::service::Engine;
use vfun_sdk::{Config, DriverError};
use wasmtime::{ExternType, FuncType, InstancePre, Linker, StoreLimits, ValType};

pub use crate::layout::Info;

/// What every instance is made of.
pub(crate) struct Compiled {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) pre: InstancePre<StoreLimits>,
    pub(crate) info: Info,
    pub(crate) memory_bytes: usize,
}

/// A module, checked and compiled; clones share it.
#[derive(Clone)]
pub struct Module(pub(crate) Arc<Compiled>);

impl Module {
    /// Reads, checks and compiles the module at `path`. Each of its instances
    /// has at most `memory_bytes` of linear memory.
    pub fn open(path: &Path, memory_bytes: u64) -> Result<Self, LoadError> {
        let missing = |e: std::io::Error| LoadError::Missing {
            path: path.display().to_string(),
            why: e.to_string(),
        };
        let file = std::fs::File::open(path).map_err(missing)?;
        let bytes = file.metadata().map_err(missing)?.len();
        if bytes > MODULE_BYTES_MAX {
            return Err(LoadError::TooLarge { bytes });
        }
        let mut read = vec![];
        // It may have grown since.
        file.take(MODULE_BYTES_MAX + 1).read_to_end(&mut read).map_err(missing)?;
        Self::new(read, memory_bytes)
    }

    /// Checks and compiles a module. On a thread of its own, which is left
    /// behind if that takes too long: the caller is to end the process then.
    pub fn new(bytes: Vec<u8>, memory_bytes: u64) -> Result<Self, LoadError> {
        if bytes.len() as u64 > MODULE_BYTES_MAX {
            return Err(LoadError::TooLarge { bytes: bytes.len() as u64 });
        }
        if !bytes.starts_with(b"\0asm\x01\0\0\0") {
            return Err(LoadError::NotWasm);
        }
        let engine = |e: String| LoadError::Engine { why: e };
        let (done, told) = channel();
        let compiling = std::thread::Builder::new()
            .name("compile".into())
            .spawn(move || done.send(compile(&bytes, memory_bytes, addresses_are_bounded())))
            .map_err(|e| engine(e.to_string()))?;
        match told.recv_timeout(LOAD_MAX) {
            Ok(result) => {
                // It has nothing more to do; whoever filters system calls next
                // is not to leave a thread out.
                let _ = compiling.join();
                result.map(|c| Module(Arc::new(c)))
            }
            Err(RecvTimeoutError::Timeout) => Err(LoadError::TooSlow),
            Err(RecvTimeoutError::Disconnected) => {
                Err(engine("the compiler ended without a result".into()))
            }
        }
    }

    /// Checks and compiles a module here and now, and gives its machine code
    /// too, for [`Module::from_code`].
    pub fn checked(bytes: &[u8], memory_bytes: u64) -> Result<(Self, Vec<u8>), LoadError> {
        let bounded = addresses_are_bounded();
        let engine = engine(memory_bytes, bounded)?;
        let code = engine.precompile_module(bytes).map_err(invalid)?;
        let module = code::load(&engine, &code).map_err(invalid)?;
        let compiled = finish(engine, &module, memory_bytes)?;
        Ok((Module(Arc::new(compiled)), code))
    }

    /// A module whose machine code was made before, by this program, with the
    /// same bounds, for a processor of this kind: anything else is an error.
    /// That nobody changed it is for the caller to know; see [`code::load`].
    pub fn from_code(code: &[u8], memory_bytes: u64) -> Result<Self, LoadError> {
        let engine = engine(memory_bytes, addresses_are_bounded())?;
        let module = code::load(&engine, code).map_err(invalid)?;
        Ok(Module(Arc::new(finish(engine, &module, memory_bytes)?)))
    }

    /// What the module says of itself.
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// Checks that this is the module that a manifest means.
    pub fn expect(&self, name: &str, version: (u16, u16)) -> Result<(), LoadError> {
        let info = self.info();
        if info.name != name {
            return Err(LoadError::WrongName { wanted: name.to_owned(), found: info.name.clone() });
        }
        if info.version != version {
            return Err(LoadError::WrongVersion {
                name: name.to_owned(),
                wanted: version,
                found: info.version,
            });
        }
        Ok(())
    }
}

impl Engine for Module {
    type Instance = Guest;
    fn max_args(&self) -> u32 {
        self.info().max_args
    }
    fn max_result(&self) -> u32 {
        self.info().max_result
    }
    fn open(&self, config: &Config) -> Result<Guest, DriverError> {
        Guest::new(self.clone(), config)
    }
}

/// Whether this process may not have as many addresses as it likes.
fn addresses_are_bounded() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::As).current.is_some()
}

/// How modules are compiled.
fn settings(memory_bytes: u64, bounded: bool) -> wasmtime::Config {
    let mut c = wasmtime::Config::new();
    c.max_wasm_stack(STACK_BYTES);
    // Traps are told by their kind; names in a module are its author's words.
    c.wasm_backtrace_max_frames(None);
    c.native_unwind_info(false);
    // One memory of 32 bits, as the interface has it.
    c.wasm_memory64(false);
    c.wasm_multi_memory(false);
    // Memory begins as a copy of the module's data. Shared images of it would
    // need files in memory, which the service's sandbox does not give.
    c.memory_init_cow(false);
    // Results that differ between machines.
    c.wasm_relaxed_simd(false);
    // Whole address spaces are reserved for each memory, so that the processor
    // checks bounds for nothing. Where the process may not have so many
    // addresses the code checks them.
    if bounded {
        c.memory_reservation(memory_bytes);
        c.memory_reservation_for_growth(0);
        c.memory_guard_size(PAGE_BYTES);
        c.memory_may_move(false);
    }
    c
}

fn engine(memory_bytes: u64, bounded: bool) -> Result<wasmtime::Engine, LoadError> {
    wasmtime::Engine::new(&settings(memory_bytes, bounded))
        .map_err(|e| LoadError::Engine { why: format!("{e:#}") })
}

fn invalid(e: wasmtime::Error) -> LoadError {
    LoadError::Invalid { why: format!("{e:#}") }
}

fn compile(bytes: &[u8], memory_bytes: u64, bounded: bool) -> Result<Compiled, LoadError> {
    let engine = engine(memory_bytes, bounded)?;
    let module = wasmtime::Module::new(&engine, bytes).map_err(invalid)?;
    finish(engine, &module, memory_bytes)
}

/// Checks what the module needs and gives, and asks it what it is.
fn finish(
    engine: wasmtime::Engine,
    module: &wasmtime::Module,
    memory_bytes: u64,
) -> Result<Compiled, LoadError> {
    if let Some(i) = module.imports().next() {
        let (module, name) = (i.module().to_owned(), i.name().to_owned());
        return Err(LoadError::Import { module, name });
    }
    check_exports(module, memory_bytes)?;
    let pre = Linker::new(&engine).instantiate_pre(module).map_err(invalid)?;
    let unknown = Info { name: String::new(), version: (0, 0), max_args: 0, max_result: 0, abi: 1 };
    let mut compiled = Compiled { engine, pre, info: unknown, memory_bytes: memory_bytes as usize };
    compiled.info = ask(&compiled)?;
    Ok(compiled)
}

/// What an export is to be, in words and in types.
struct Wanted {
    name: &'static str,
    what: &'static str,
    params: usize,
    returns: bool,
    must: bool,
}

/// The functions of the interface.
const FUNCTIONS: [Wanted; 5] = [
    Wanted {
        name: "vfun_driver_function",
        what: "the function int (void *state, struct vfun_call *call)",
        params: 2,
        returns: true,
        must: true,
    },
    Wanted {
        name: "vfun_driver_init",
        what: "the function int (const struct vfun_driver_config *config, void **state)",
        params: 2,
        returns: true,
        must: false,
    },
    Wanted {
        name: "vfun_driver_exit",
        what: "the function void (void *state)",
        params: 1,
        returns: false,
        must: false,
    },
    Wanted {
        name: "vfun_wasm_area",
        what: "the function void *(uint32_t bytes)",
        params: 1,
        returns: true,
        must: false,
    },
    Wanted {
        name: "_initialize",
        what: "the function void (void)",
        params: 0,
        returns: false,
        must: false,
    },
];

fn is(t: &FuncType, wanted: &Wanted) -> bool {
    t.params().len() == wanted.params
        && t.results().len() == usize::from(wanted.returns)
        && t.params().chain(t.results()).all(|v| matches!(v, ValType::I32))
}

fn check_exports(module: &wasmtime::Module, memory_bytes: u64) -> Result<(), LoadError> {
    let (name, what) = ("memory", "the module's memory");
    match module.get_export(name) {
        None => return Err(LoadError::MissingExport { name, what }),
        Some(ExternType::Memory(m)) if !m.is_64() && !m.is_shared() => {
            let wants = m.minimum() * PAGE_BYTES;
            if wants > memory_bytes {
                return Err(LoadError::Memory { wants, allowed: memory_bytes });
            }
        }
        Some(_) => return Err(LoadError::WrongExport { name, what }),
    }
    for wanted in &FUNCTIONS {
        let (name, what) = (wanted.name, wanted.what);
        match module.get_export(name) {
            None if wanted.must => return Err(LoadError::MissingExport { name, what }),
            None => {}
            Some(ExternType::Func(t)) if is(&t, wanted) => {}
            Some(_) => return Err(LoadError::WrongExport { name, what }),
        }
    }
    let (name, what) = ("vfun_driver_info", "the address of struct vfun_driver_info");
    match module.get_export(name) {
        None => Err(LoadError::MissingExport { name, what }),
        Some(ExternType::Global(g)) if matches!(g.content(), ValType::I32) => Ok(()),
        Some(_) => Err(LoadError::WrongExport { name, what }),
    }
}

/// Reads `vfun_driver_info` out of an instance made for that.
fn ask(compiled: &Compiled) -> Result<Info, LoadError> {
    let start = |e: DriverError| LoadError::Start { why: e.sentence };
    let (mut store, instance) = Live::bare(compiled).map_err(start)?;
    let at = instance.get_global(&mut store, "vfun_driver_info").map(|g| g.get(&mut store));
    let at = at.and_then(|v| v.i32()).unwrap_or(0) as u32 as usize;
    let memory = instance
        .get_memory(&mut store, "memory")
        .ok_or_else(|| start(trapped(&wasmtime::Error::msg("the memory is gone"))))?;
    let mut bytes = [0; INFO_BYTES];
    memory
        .read(&store, at, &mut bytes)
        .map_err(|_| LoadError::BadInfo { what: "it is outside the module's memory" })?;
    layout::info(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;
    use vfun_sdk::abi;
    use vfun_sdk::loader::{ArgsAt, OutAt};
    use vfun_sdk::service::Serve;

    /// The virtual memory of this process, bytes.
    fn addresses() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn with_few_addresses_the_code_checks_bounds() {
        // Reads at the address in its arguments.
        let info = common::info("m", 8, 8);
        let text = format!(
            r#"(module (memory (export "memory") 1)
            (global (export "vfun_driver_info") i32 (i32.const 16))
            (data (i32.const 16) "{info}")
            (func (export "vfun_driver_function") (param $s i32) (param $c i32) (result i32)
                (i64.store (i32.load offset=24 (local.get $c))
                    (i64.load8_u (i32.load (i32.load offset=8 (local.get $c)))))
                (i64.store offset=40 (local.get $c) (i64.const 8)) (i32.const 0)))"#
        );
        let bytes = common::assembled(&text);
        let module = Module(Arc::new(compile(&bytes, 1 << 20, true).unwrap()));
        let before = addresses();
        let mut all: Vec<_> = (0..8).map(|_| module.open(&Config::default()).unwrap()).collect();
        let each = (addresses() - before) / 8;
        assert!(each < 4 << 20, "{each} bytes of addresses for a memory of 1 MiB");
        for guest in &mut all {
            let mut read = |at: u32| {
                let mut room = [0; 8];
                guest
                    .run(
                        abi::COMMAND_SET,
                        ArgsAt::private(&at.to_le_bytes()),
                        OutAt::private(&mut room),
                    )
                    .map(|_| room[0])
                    .map_err(|e| e.sentence)
            };
            assert_eq!(read(16), Ok(1), "the info's first byte");
            // Of its two pages, one is its own and one is the area.
            assert_eq!(read(2 * 65536 - 1), Ok(0));
            for at in [2 * 65536, 1 << 20, 1 << 24, u32::MAX] {
                assert_eq!(read(at), Err("trap: out of bounds memory access".into()), "{at}");
            }
        }
    }
}
