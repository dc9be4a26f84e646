//! A driver's state, and calls to it.

use super::{ArgsAt, Loaded, OutAt};
use crate::abi::{self, Call, DriverConfig, DriverService, DriverSetting, SENTENCE_BYTES};
use crate::{CallOutcome, Config, DriverError};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

/// One state of a driver: what a channel has. Dropping it calls `exit`.
pub struct Instance {
    state: *mut c_void,
    function: abi::FunctionFn,
    library: Arc<Loaded>,
    sentence: Box<[u8; SENTENCE_BYTES]>,
    /// It may answer calls later.
    later: bool,
}

/// The first version of the interface in which a call can be answered later.
const ABI_WITH_LATER: u32 = 2;

fn c_text(what: &str, text: &str) -> Result<CString, DriverError> {
    CString::new(text).map_err(|_| {
        DriverError::new(
            crate::BAD_SETTING,
            format!("{what} has a zero byte, which C cannot carry"),
        )
    })
}

fn said(room: &[u8]) -> String {
    let end = room.iter().position(|&b| b == 0).unwrap_or(room.len());
    String::from_utf8_lossy(&room[..end]).into_owned()
}

impl Instance {
    /// `service` is null or lives as long as what this gives.
    pub(super) fn new(
        library: Arc<Loaded>,
        config: &Config,
        service: *const DriverService,
    ) -> Result<Self, DriverError> {
        let client = c_text("the client's name", &config.client)?;
        let app = c_text("the app's name", &config.app)?;
        let function = c_text("the function's name", &config.function)?;
        let strings = config
            .settings
            .iter()
            .map(|(k, v)| Ok((c_text("a setting", k)?, c_text(k, v)?)))
            .collect::<Result<Vec<_>, DriverError>>()?;
        let settings: Vec<_> = strings
            .iter()
            .map(|(k, v)| DriverSetting { key: k.as_ptr(), value: v.as_ptr() })
            .collect();
        let mut sentence = Box::new([0u8; SENTENCE_BYTES]);
        let c = DriverConfig {
            abi: library.info.abi,
            depth: config.depth.into(),
            channel: config.channel,
            client: client.as_ptr(),
            app: app.as_ptr(),
            function: function.as_ptr(),
            version_major: config.version.0,
            version_minor: config.version.1,
            cell_bytes: config.cell_bytes,
            settings: settings.as_ptr(),
            settings_count: settings.len() as u64,
            sentence: sentence.as_mut_ptr().cast::<c_char>(),
            sentence_capacity: SENTENCE_BYTES as u64,
            service,
        };
        let mut state = std::ptr::null_mut();
        // SAFETY: all that `c` points to lives until the end of this function;
        // `state` has room for the pointer.
        let code = unsafe { (library.init)(&c, &mut state) };
        if code != abi::OK {
            return Err(DriverError { code, sentence: said(&sentence[..]) });
        }
        let later = !service.is_null() && library.info.abi >= ABI_WITH_LATER;
        Ok(Instance { state, function: library.function, library, sentence, later })
    }

    /// One call: `args` in, results into `out`; how many bytes came.
    #[inline]
    pub fn call(&mut self, args: &[u8], out: &mut [u8]) -> Result<usize, DriverError> {
        match self.run(abi::COMMAND_SET, ArgsAt::private(args), OutAt::private(out))? {
            CallOutcome::Done(len) => Ok(len),
            CallOutcome::Later => Err(DriverError::new(abi::PANIC, "the call is answered later")),
        }
    }

    /// Makes the driver forget what earlier calls left behind.
    pub fn rst(&mut self) -> Result<(), DriverError> {
        self.run(abi::COMMAND_RST, ArgsAt::private(&[]), OutAt::private(&mut [])).map(|_| ())
    }

    /// One call or `rst`, with arguments and results where the service has them.
    #[inline]
    pub fn run(
        &mut self,
        command: u32,
        args: ArgsAt<'_>,
        out: OutAt<'_>,
    ) -> Result<CallOutcome, DriverError> {
        self.sentence[0] = 0;
        let mut call = Call {
            command,
            flags: if args.shared { abi::CALL_SHARED_ARGS } else { 0 },
            args: args.ptr.cast(),
            args_len: args.len as u64,
            out: out.ptr.cast(),
            out_capacity: out.capacity as u64,
            out_len: 0,
            sentence: self.sentence.as_mut_ptr().cast::<c_char>(),
            sentence_capacity: SENTENCE_BYTES as u64,
        };
        // SAFETY: the state is from `init` and used by one thread at a time
        // (`&mut self`); the places are good for their lengths during the call.
        let code = unsafe { (self.function)(self.state, &mut call) };
        if code != abi::OK {
            return self.not_done(code);
        }
        if call.out_len > out.capacity as u64 {
            return Err(DriverError::too_large(call.out_len as usize, out.capacity));
        }
        Ok(CallOutcome::Done(call.out_len as usize))
    }

    #[cold]
    fn not_done(&self, code: c_int) -> Result<CallOutcome, DriverError> {
        match code {
            abi::LATER if self.later => Ok(CallOutcome::Later),
            _ => Err(DriverError { code, sentence: said(&self.sentence[..]) }),
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the state is from `init`, and this is its last use.
        unsafe { (self.library.exit)(self.state) };
    }
}
