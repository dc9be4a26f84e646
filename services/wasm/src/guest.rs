//! A channel's instance of a module.

use crate::layout::{self, Area, CALL_BYTES, CALL_OUT_LEN};
use crate::limits::*;
use crate::module::{Compiled, Module};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::Serve;
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use wasmtime::{Instance, Memory, Store, StoreLimits, StoreLimitsBuilder, Trap, TypedFunc};

/// A channel's state: an instance with a memory of its own.
pub struct Guest {
    module: Module,
    config: Config,
    /// None after a trap, until the next call.
    live: Option<Live>,
}

/// An instance that was initialized.
pub(crate) struct Live {
    store: Store<StoreLimits>,
    memory: Memory,
    function: TypedFunc<(u32, u32), i32>,
    exit: Option<TypedFunc<u32, ()>>,
    state: u32,
    area: Area,
}

/// What a trap is to the caller: the module has a bug.
#[cold]
pub(crate) fn trapped(e: &wasmtime::Error) -> DriverError {
    let sentence = match e.downcast_ref::<Trap>() {
        // Cells without data space show 44 bytes.
        Some(Trap::UnreachableCodeReached) => "trap: unreachable (a panic or an abort)".into(),
        Some(trap) => {
            let text = trap.to_string();
            format!("trap: {}", text.strip_prefix("wasm trap: ").unwrap_or(&text))
        }
        None => format!("trap: {e:#}"),
    };
    DriverError::new(abi::PANIC, sentence)
}

fn no_room(what: &str) -> DriverError {
    DriverError::new(abi::PANIC, format!("the module's memory has no room for {what}"))
}

impl Guest {
    /// An instance for a channel.
    pub fn new(module: Module, config: &Config) -> Result<Self, DriverError> {
        let live = Live::new(&module.0, config)?;
        Ok(Guest { module, config: config.clone(), live: Some(live) })
    }
}

impl Serve for Guest {
    #[inline]
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        mut out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        if command == abi::COMMAND_RST {
            // Nothing that the module kept outlives its memory.
            self.live = None;
            self.live = Some(Live::new(&self.module.0, &self.config)?);
            return Ok(CallOutcome::Done(0));
        }
        let live = match &mut self.live {
            Some(live) => live,
            none => none.insert(Live::new(&self.module.0, &self.config)?),
        };
        match live.call(command, args, &mut out) {
            Ok(done) => done.map(CallOutcome::Done),
            Err(trap) => {
                self.live = None;
                Err(trapped(&trap))
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        if let Some(exit) = live.exit.take() {
            // A trap here has nobody to be told to.
            let _ = exit.call(&mut live.store, live.state);
        }
    }
}

impl Live {
    /// An instance of which nothing was called but what it runs by itself.
    pub(crate) fn bare(c: &Compiled) -> Result<(Store<StoreLimits>, Instance), DriverError> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(c.memory_bytes)
            .table_elements(TABLE_ENTRIES_MAX)
            .instances(1)
            .memories(1)
            .tables(TABLES_MAX)
            .build();
        let mut store = Store::new(&c.engine, limits);
        store.limiter(|limits| limits);
        let instance = c.pre.instantiate(&mut store).map_err(|e| trapped(&e))?;
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut store, "_initialize") {
            initialize.call(&mut store, ()).map_err(|e| trapped(&e))?;
        }
        Ok((store, instance))
    }

    fn new(c: &Compiled, config: &Config) -> Result<Self, DriverError> {
        let (mut store, instance) = Self::bare(c)?;
        let memory =
            instance.get_memory(&mut store, "memory").ok_or_else(|| no_room("anything"))?;
        // Arguments and results of up to 48 bytes travel in the cell's line,
        // whatever data space the app asked for.
        let inline = abi::INLINE_BYTES as u32;
        let room = |most: u32| most.min(config.cell_bytes).max(inline);
        let (args_room, out_room) = (room(c.info.max_args), room(c.info.max_result));
        let bytes = Area::bytes(args_room, out_room, layout::config_bytes(config));
        let base = place(&mut store, instance, memory, bytes)?;
        let area = Area::at(base, args_room, out_room);
        let function =
            instance.get_typed_func(&mut store, "vfun_driver_function").map_err(|e| trapped(&e))?;
        let init = instance.get_typed_func::<(u32, u32), i32>(&mut store, "vfun_driver_init").ok();
        let exit = instance.get_typed_func(&mut store, "vfun_driver_exit").ok();
        let mut live = Live { store, memory, function, exit, state: 0, area };
        if let Some(init) = init {
            let told = layout::config(config, &area, c.info.abi);
            let outside = |_| no_room("its configuration");
            memory.write(&mut live.store, area.args as usize, &told).map_err(outside)?;
            memory.write(&mut live.store, area.sentence as usize, &[0]).map_err(outside)?;
            let code =
                init.call(&mut live.store, (area.args, area.state)).map_err(|e| trapped(&e))?;
            if code != abi::OK {
                return Err(live.failed(code));
            }
            let mut state = [0; 4];
            memory.read(&live.store, area.state as usize, &mut state).map_err(outside)?;
            live.state = u32::from_le_bytes(state);
        }
        Ok(live)
    }

    /// One call. The outer error is a trap, after which the instance is lost.
    #[inline]
    fn call(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: &mut OutAt<'_>,
    ) -> Result<Result<usize, DriverError>, wasmtime::Error> {
        let area = self.area;
        let capacity = out.capacity().min(area.out_room as usize);
        let call = area.call as usize;
        let bytes = self.memory.data_mut(&mut self.store);
        // The area is inside the memory, which never shrinks.
        let (from, room) = (area.args as usize, area.args_room as usize);
        if !args.copy_to(&mut bytes[from..from + room]) {
            return Ok(Err(DriverError::bad_args("the arguments do not fit the channel")));
        }
        let told = area.call(command, args.len() as u32, capacity as u32);
        bytes[call..call + CALL_BYTES].copy_from_slice(&told);
        bytes[area.sentence as usize] = 0;
        let code = self.function.call(&mut self.store, (self.state, area.call))?;
        if code != abi::OK {
            return Ok(Err(self.failed(code)));
        }
        let bytes = self.memory.data(&self.store);
        let at = call + CALL_OUT_LEN;
        let len = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if len > capacity as u64 {
            return Ok(Err(DriverError::too_large(len as usize, capacity)));
        }
        let from = area.out as usize;
        out.write(&bytes[from..from + len as usize]);
        Ok(Ok(len as usize))
    }

    #[cold]
    fn failed(&self, code: i32) -> DriverError {
        let from = self.area.sentence as usize;
        let room = &self.memory.data(&self.store)[from..from + abi::SENTENCE_BYTES];
        let end = room.iter().position(|&b| b == 0).unwrap_or(room.len());
        DriverError { code, sentence: String::from_utf8_lossy(&room[..end]).into_owned() }
    }
}

/// Room of `bytes` in the module's memory: where its own function says, or
/// pages that are added for that.
fn place(
    store: &mut Store<StoreLimits>,
    instance: Instance,
    memory: Memory,
    bytes: u64,
) -> Result<u32, DriverError> {
    let what = || no_room(&format!("{bytes} bytes of arguments and results"));
    let size = u32::try_from(bytes).map_err(|_| what())?;
    let base = match instance.get_typed_func::<u32, u32>(&mut *store, "vfun_wasm_area") {
        Ok(area) => area.call(&mut *store, size).map_err(|e| trapped(&e))?,
        Err(_) => {
            let pages = bytes.div_ceil(PAGE_BYTES);
            let before = memory.grow(&mut *store, pages).map_err(|_| what())?;
            (before * PAGE_BYTES) as u32
        }
    };
    let inside = u64::from(base) + bytes <= memory.data_size(&*store) as u64;
    if base == 0 || !base.is_multiple_of(16) || !inside {
        return Err(what());
    }
    Ok(base)
}
