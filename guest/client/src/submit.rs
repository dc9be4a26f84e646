//! Functions of one's own: WebAssembly modules that this app brings to the host.

use crate::error::{Error, Result};
use crate::request::FunctionRequest;
use crate::session::Session;
use std::time::Duration;
use vfun_submit::limits::{ANSWER_BYTES_MAX, MODULE_BYTES_MAX};
use vfun_submit::{Answer, Code, FUNCTION, Op, Outcome, Request};
use vfun_wire::version::FunctionVersion;

/// A module, and on which terms it is to be offered. Whatever is not said is
/// left to the module and its host.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    module: &'a [u8],
    name: Option<String>,
    signature: String,
    memory_bytes: u64,
    deadline_ms: u32,
    replace: bool,
}

impl<'a> Submission<'a> {
    /// A module: the bytes of a `.wasm` file.
    pub fn new(module: &'a [u8]) -> Self {
        Submission {
            module,
            name: None,
            signature: String::new(),
            memory_bytes: 0,
            deadline_ms: 0,
            replace: false,
        }
    }
    /// Its name, instead of the one in the module. The function is `my.NAME`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
    /// What its arguments and results are, such as `(n: u64) -> u64`.
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = signature.into();
        self
    }
    /// Most memory of each channel's instance, bytes: 64 KiB to 1 GiB, 16 MiB
    /// unless said otherwise.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }
    /// The longest that a call may take; a second unless said otherwise.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline_ms = u32::try_from(deadline.as_millis().max(1)).unwrap_or(u32::MAX);
        self
    }
    /// Takes the place of another module of this name, which is refused
    /// otherwise. Grants of that one keep it until they are released. The very
    /// same module is compiled anew.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }
}

/// A function that this app's client submitted, and it alone may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFunction {
    /// Its name, such as `my.double`.
    pub name: String,
    pub version: FunctionVersion,
    /// SHA-256 of its module.
    pub sha256: [u8; 32],
    /// Bytes of its module.
    pub module_bytes: u32,
    /// Most memory of each channel's instance, bytes.
    pub memory_bytes: u64,
    /// The longest that a call may take.
    pub deadline: Duration,
    /// Longest arguments of a call, bytes.
    pub max_args: u32,
    /// Longest results of a call, bytes.
    pub max_result: u32,
    /// Fingerprint of its signature; 0 if it has none.
    pub signature: u64,
    /// When it was submitted, seconds since 1970 by the host's clock.
    pub submitted_at: u64,
    /// How long the host took to check and compile it.
    pub compiled_in: Duration,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The function as it is offered now.
    pub function: OwnFunction,
    /// The very same module was there already, on the same terms: nothing was done.
    pub already_there: bool,
    /// It was there already, and was compiled and written anew: because
    /// [`Submission::replace`] said so, or because what the host had kept of it
    /// was spoiled or of another build of its compiler.
    pub renewed: bool,
    /// It took another one's place.
    pub replaced: bool,
}

impl From<vfun_submit::Entry> for OwnFunction {
    fn from(e: vfun_submit::Entry) -> Self {
        OwnFunction {
            name: e.name,
            version: FunctionVersion(e.version),
            sha256: e.sha256,
            module_bytes: e.module_bytes,
            memory_bytes: e.memory_bytes,
            deadline: Duration::from_millis(e.deadline_ms.into()),
            max_args: e.max_args,
            max_result: e.max_result,
            signature: e.signature,
            submitted_at: e.at_s,
            compiled_in: Duration::from_micros(e.compile_us.into()),
        }
    }
}

impl Session {
    /// Brings a module to the host: it is checked and compiled there, in a
    /// sandbox of this client's, and offered to this client alone, until it is
    /// removed, whatever becomes of this session. Policy decides who may.
    pub fn submit_module(&self, s: &Submission<'_>) -> Result<Submitted> {
        if s.module.len() > MODULE_BYTES_MAX as usize {
            return Err(Error::BadOption(format!(
                "the module has {} bytes, a host takes at most {MODULE_BYTES_MAX}",
                s.module.len()
            )));
        }
        let request = Request {
            op: Op::Submit,
            replace: s.replace,
            memory_bytes: s.memory_bytes,
            deadline_ms: s.deadline_ms,
            name: s.name.as_deref(),
            signature: &s.signature,
            module: s.module,
        };
        let answer = self.ask_submit(&request)?;
        Ok(Submitted {
            already_there: answer.outcome == Outcome::AlreadyThere,
            renewed: answer.outcome == Outcome::Renewed,
            replaced: answer.outcome == Outcome::Replaced,
            function: one(answer)?,
        })
    }

    /// The functions that this client submitted.
    pub fn submitted_modules(&self) -> Result<Vec<OwnFunction>> {
        let answer = self.ask_submit(&Request::bare(Op::List, None))?;
        Ok(answer.entries.into_iter().map(OwnFunction::from).collect())
    }

    /// Offers a function no more that this client submitted. Grants of it keep
    /// it until they are released.
    pub fn withdraw_module(&self, name: &str) -> Result<OwnFunction> {
        one(self.ask_submit(&Request::bare(Op::Remove, Some(name)))?)
    }

    fn ask_submit(&self, request: &Request<'_>) -> Result<Answer> {
        let bytes = request.encode().map_err(|e| Error::BadOption(e.to_string()))?;
        // Small answers and the sentences of refusals fit too.
        let cell = (bytes.len() as u32).max(match request.op {
            Op::List => ANSWER_BYTES_MAX,
            _ => 4096,
        });
        let ask = FunctionRequest::new(FUNCTION).depth(1).cell_bytes(cell);
        let function = self.negotiate(&ask)?.activate()?;
        let results = function.call(&bytes).map_err(not_accepted)?;
        Answer::decode(&results)
            .map_err(|e| Error::HostNonsense(format!("the answer to a submission: {e}")))
    }
}

fn one(answer: Answer) -> Result<OwnFunction> {
    let count = answer.entries.len();
    match <[_; 1]>::try_from(answer.entries) {
        Ok([e]) => Ok(e.into()),
        Err(_) => Err(Error::HostNonsense(format!("a submission was answered by {count} entries"))),
    }
}

fn not_accepted(e: Error) -> Error {
    match e {
        Error::Driver { code, sentence } => match u32::try_from(code).ok().and_then(Code::from_number) {
            Some(code) => Error::NotAccepted { code, sentence },
            None => Error::Driver { code, sentence },
        },
        Error::Deadline => Error::NotAccepted {
            code: Code::BadModule,
            sentence: "checking and compiling the module, and its start, took too long: make it smaller, or split its largest functions".into(),
        },
        Error::DriverCrashed => Error::NotAccepted {
            code: Code::BadModule,
            sentence: "checking and compiling the module needed more memory or stack than this client's services may have: make it smaller, or split its largest functions".into(),
        },
        other => other,
    }
}
