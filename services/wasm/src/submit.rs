//! The function `submit`: checks and compiles what a client brings, and hands
//! it to the manager, which keeps it or says why not.
//!
//! The manager never parses a module and never compiles one: all that it takes
//! from here are lengths, digests and a few numbers, and it checks these again.

use crate::limits::{
    AFTER_TOO_FAST, COMPILER_STACK_BYTES, DEADLINE_MS_DEFAULT, MEMORY_BYTES_MAX, MEMORY_DEFAULT,
    PAGE_BYTES,
};
use crate::{LoadError, Module};
use sha2::{Digest, Sha256};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::{Engine, EngineInputs, ManagerLink, Serve};
use vfun_sdk::{CallOutcome, Config, DriverError, abi};
use vfun_submit::limits::*;
use vfun_submit::{Code, Op, Request};
use vfun_supervise::submitted::{CODE_BYTES_MAX, VERDICT_MS, own_name};
use vfun_supervise::{ModuleRequest, ModuleVerdict, Offered};
use vfun_window::{Access, Mapping};

/// Checks and compiles what a client submits: the function `submit`.
pub struct Checker(Arc<Shared>);

struct Shared {
    manager: ManagerLink,
    /// By which modules and their code go to the manager: one at a time.
    room: Mutex<Room>,
    /// Held by who waits after it asked too often.
    pause: Mutex<()>,
}

struct Room {
    file: OwnedFd,
    map: Arc<Mapping>,
}

/// A channel of it.
pub struct Submits {
    shared: Arc<Shared>,
    channel: u64,
}

fn refused(code: Code, sentence: impl Into<String>) -> DriverError {
    DriverError::new(code.number() as i32, sentence)
}

impl Checker {
    /// With what came with the manager's first message.
    pub fn new(given: EngineInputs) -> Result<Self, String> {
        let EngineInputs { mut fds, manager } = given;
        let file = fds.pop().ok_or("the memory file for modules is missing")?;
        let len = (u64::from(MODULE_BYTES_MAX) + CODE_BYTES_MAX) as usize;
        let map = Mapping::new(&file, 0, len, Access::ReadWrite)
            .map_err(|e| format!("the memory file for modules: {e}"))?;
        // wasmtime makes its handlers of signals, and looks at the processor,
        // with the first engine: before the stricter list is there.
        Module::checked(MINIMAL, PAGE_BYTES).err();
        Ok(Checker(Arc::new(Shared {
            manager,
            room: Mutex::new(Room { file, map }),
            pause: Mutex::new(()),
        })))
    }
}

/// The smallest module there is, which lacks all that is needed.
const MINIMAL: &[u8] = b"\0asm\x01\0\0\0";

impl Engine for Checker {
    type Instance = Submits;
    fn max_args(&self) -> u32 {
        REQUEST_BYTES_MAX
    }
    fn max_result(&self) -> u32 {
        ANSWER_BYTES_MAX
    }
    fn open(&self, config: &Config) -> Result<Submits, DriverError> {
        Ok(Submits { shared: self.0.clone(), channel: config.channel })
    }
}

impl Serve for Submits {
    fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        mut out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        if command == abi::COMMAND_RST {
            return Ok(CallOutcome::Done(0)); // nothing is kept between calls
        }
        // Once, into private memory: what is checked is what is compiled.
        let mut bytes = vec![0; args.len()];
        args.copy_to(&mut bytes);
        let request =
            Request::decode(&bytes).map_err(|e| refused(Code::Malformed, e.to_string()))?;
        let verdict = match request.op {
            Op::Submit => self.submit(&request)?,
            Op::List => self.ask(ModuleRequest::List, None),
            Op::Remove => {
                let name = request.name.unwrap_or("");
                let name = own_name(name).map_err(|e| refused(Code::Malformed, e.to_string()))?;
                self.ask(ModuleRequest::Remove { name }, None)
            }
        };
        let answer = match verdict {
            Some(ModuleVerdict::Done { answer }) => unhex(&answer),
            Some(ModuleVerdict::Refused { code, sentence }) => {
                if code == Code::TooFast.number() {
                    self.pause();
                }
                return Err(DriverError::new(code as i32, sentence));
            }
            None => None,
        };
        let answer = answer.ok_or_else(|| {
            refused(
                Code::HostTrouble,
                "the manager gave no answer in time: `list` shows whether it was done; try again",
            )
        })?;
        match out.write(&answer) {
            true => Ok(CallOutcome::Done(answer.len())),
            false => Err(DriverError::too_large(answer.len(), out.capacity())),
        }
    }
}

impl Submits {
    /// An app that asks again at once, on all its channels, would have the manager
    /// do nothing but refuse: one after the other they wait here.
    fn pause(&self) {
        let _turn = self.shared.pause.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(AFTER_TOO_FAST);
    }

    fn ask(&self, wish: ModuleRequest, file: Option<&OwnedFd>) -> Option<ModuleVerdict> {
        let patience = Duration::from_millis(VERDICT_MS.into());
        self.shared.manager.ask(self.channel, wish, file.map(AsFd::as_fd), patience)
    }

    fn submit(&self, r: &Request<'_>) -> Result<Option<ModuleVerdict>, DriverError> {
        let memory_bytes = match r.memory_bytes {
            0 => MEMORY_DEFAULT,
            n if (PAGE_BYTES..=MEMORY_BYTES_MAX).contains(&n) => n,
            n => {
                let (least, most) = (PAGE_BYTES >> 10, MEMORY_BYTES_MAX >> 20);
                return Err(refused(
                    Code::BeyondLimit,
                    format!("{n} bytes of memory: an instance has {least} KiB to {most} MiB"),
                ));
            }
        };
        let from = Instant::now();
        let (module, code) = checked_apart(r.module, memory_bytes).map_err(|e| of(&e))?;
        let compile_us = from.elapsed().as_micros().min(u32::MAX.into()) as u32;
        let info = module.info();
        let name = own_name(r.name.unwrap_or(&info.name))
            .map_err(|e| refused(Code::BadModule, e.to_string()))?;
        // Code that is too large is made anew by each service that serves it.
        let code = if code.len() as u64 <= CODE_BYTES_MAX { code } else { vec![] };
        let hex = |bytes: &[u8]| -> String {
            Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
        };
        let wish = ModuleRequest::Add(Box::new(Offered {
            name,
            version: u32::from(info.version.0) << 16 | u32::from(info.version.1),
            max_args: info.max_args,
            max_result: info.max_result,
            signature: r.signature.to_owned(),
            memory_bytes,
            deadline_ms: if r.deadline_ms == 0 { DEADLINE_MS_DEFAULT } else { r.deadline_ms },
            replace: r.replace,
            module_bytes: r.module.len() as u64,
            sha256: hex(r.module),
            code_bytes: code.len() as u64,
            code_sha256: hex(&code),
            compile_us,
        }));
        let room = self.shared.room.lock().unwrap_or_else(PoisonError::into_inner);
        let write = |at: usize, bytes: &[u8]| {
            let all = room.map.write().ok_or_else(|| "the file cannot be written".to_owned())?;
            all.write(at, bytes).map_err(|e| e.to_string())
        };
        write(0, r.module)
            .and_then(|()| write(r.module.len(), &code))
            .map_err(|e| refused(Code::HostTrouble, format!("the module's way: {e}")))?;
        Ok(self.ask(wish, Some(&room.file)))
    }
}

/// Compiles on a thread with a stack of its own: code that is nested deeply
/// needs more of it than a channel's thread has.
fn checked_apart(bytes: &[u8], memory_bytes: u64) -> Result<(Module, Vec<u8>), LoadError> {
    if bytes.len() as u64 > MODULE_BYTES_MAX.into() {
        return Err(LoadError::TooLarge { bytes: bytes.len() as u64 });
    }
    if !bytes.starts_with(MINIMAL) {
        return Err(LoadError::NotWasm);
    }
    std::thread::scope(|s| {
        std::thread::Builder::new()
            .name("compile".into())
            .stack_size(COMPILER_STACK_BYTES)
            .spawn_scoped(s, || Module::checked(bytes, memory_bytes))
            .map_err(|e| LoadError::Engine { why: e.to_string() })?
            .join()
            .unwrap_or(Err(LoadError::Engine { why: "the compiler gave up".into() }))
    })
}

/// What is wrong with a module, for its author.
fn of(e: &LoadError) -> DriverError {
    match e {
        LoadError::Memory { wants, allowed } => refused(
            Code::BeyondLimit,
            format!(
                "the module begins with {wants} bytes of memory and may have {allowed}: submit it with more, or make its stack and data smaller"
            ),
        ),
        LoadError::TooLarge { .. } => refused(Code::BeyondLimit, e.to_string()),
        LoadError::Engine { .. } => refused(Code::HostTrouble, e.to_string()),
        _ => refused(Code::BadModule, e.to_string()),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let pair = |p: &[u8]| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

/// A submitted module, with its code where the manager has some that fits.
pub fn taken(
    given: EngineInputs,
    sha256: &str,
    code: Option<&str>,
    memory_bytes: u64,
) -> Result<Module, String> {
    let mut fds = given.fds.into_iter();
    let module = fds.next().ok_or("its module is missing")?;
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
    };
    if let (Some(file), Some(wanted)) = (fds.next(), code) {
        let bytes = read(file, CODE_BYTES_MAX)?;
        // Code that a disk has spoiled is not to be run, nor is that of an
        // older program: there is the module.
        if digest(&bytes) == wanted
            && let Ok(module) = Module::from_code(&bytes, memory_bytes)
        {
            return Ok(module);
        }
    }
    let bytes = read(module, MODULE_BYTES_MAX.into())?;
    if digest(&bytes) != sha256 {
        return Err("what the host kept of the module is not what was submitted (its digest differs): submit it again".into());
    }
    Module::new(bytes, memory_bytes).map_err(|e| e.to_string())
}

fn read(file: OwnedFd, most: u64) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut bytes = vec![];
    std::fs::File::from(file)
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("the module that the host kept cannot be read: {e}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common;

    fn assembled(body: &str) -> Vec<u8> {
        let info = common::info("m", 8, 8);
        common::assembled(&format!(
            r#"(module (memory (export "memory") 1)
            (global (export "vfun_driver_info") i32 (i32.const 16))
            (data (i32.const 16) "{info}") {body})"#
        ))
    }

    const ANSWERS: &str = r#"(func (export "vfun_driver_function") (param i32 i32) (result i32)
        (i64.store (i32.load offset=24 (local.get 1)) (i64.const 42))
        (i64.store offset=40 (local.get 1) (i64.const 8)) (i32.const 0))"#;

    fn answer(module: &Module) -> u64 {
        let mut guest = module.open(&Config::default()).unwrap();
        let mut room = [0; 48];
        let n = guest
            .run(abi::COMMAND_SET, ArgsAt::private(&[0; 8]), OutAt::private(&mut room))
            .unwrap();
        assert_eq!(n.done(), Some(8));
        u64::from_le_bytes(room[..8].try_into().unwrap())
    }

    #[test]
    fn code_made_once_serves_again() {
        let bytes = assembled(ANSWERS);
        let (module, code) = checked_apart(&bytes, 1 << 20).unwrap();
        assert_eq!(answer(&module), 42);
        let again = Module::from_code(&code, 1 << 20).unwrap();
        assert_eq!((answer(&again), again.info()), (42, module.info()));
        // Of other programs, or cut, it is refused.
        assert!(Module::from_code(&code[..code.len() / 2], 1 << 20).is_err());
        assert!(Module::from_code(b"", 1 << 20).is_err());
        assert!(Module::from_code(&bytes, 1 << 20).is_err());
    }

    #[test]
    fn what_is_wrong_has_a_code_and_the_compilers_words() {
        let said = |bytes: &[u8]| {
            let e = of(&checked_apart(bytes, 1 << 20).err().unwrap());
            (Code::from_number(e.code as u32).unwrap(), e.sentence)
        };
        assert_eq!(said(b"\x7fELF").0, Code::BadModule);
        let (code, words) = said(&assembled(r#"(func (export "vfun_driver_function"))"#));
        assert!(code == Code::BadModule && words.contains("vfun_driver_function"), "{words}");
        let wrong = assembled(
            r#"(func (export "vfun_driver_function") (param i32 i32) (result i32) (i64.const 1))"#,
        );
        let (code, words) = said(&wrong);
        assert!(code == Code::BadModule && words.contains("type mismatch"), "{words}");
        assert_eq!(said(&vec![0; (8 << 20) + 1]).0, Code::BeyondLimit);
        assert!(checked_apart(&assembled(ANSWERS), 4096).is_err(), "less memory than it has");
    }

    #[test]
    fn digits_become_bytes() {
        assert_eq!(unhex("00ff1A"), Some(vec![0, 255, 26]));
        assert!(unhex("0").is_none() && unhex("zz").is_none() && unhex("").unwrap().is_empty());
    }
}
