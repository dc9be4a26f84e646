//! Modules that clients submitted: whether one may come, and what is kept of it.
//!
//! The word of a service is that of a guest: a driver may have taken it over.
//! So what it says of a module is checked here as if nobody had before, and
//! the module itself is never parsed: it is bytes with a digest.
//!
//! - [`wanted`]: what a service says, checked.
//! - [`holding`]: what a client has, and whether it may have more.

pub mod holding;
pub mod wanted;

pub use holding::{Holding, Kept, KeptCode, Pace};
pub use wanted::Wanted;

use crate::catalog::Function;
use vfun_submit::Code;
use vfun_submit::limits::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use vfun_supervise::Driver;
use vfun_supervise::submitted::SUBMIT_MS;
use vfun_wire::NackCode;
use vfun_wire::version::FunctionVersion;

/// Why a wish was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which refusal it is, for programs.
    pub code: Code,
    /// Why, as a sentence for people.
    pub sentence: String,
}

impl Refused {
    pub fn new(code: Code, sentence: impl Into<String>) -> Self {
        Refused { code, sentence: sentence.into() }
    }

    /// As it is put on record, if it is about what somebody may do.
    pub fn on_record(&self) -> Option<NackCode> {
        match self.code {
            Code::Denied => Some(NackCode::Denied),
            Code::OverQuota | Code::TooFast => Some(NackCode::OverQuota),
            Code::BeyondLimit => Some(NackCode::BeyondLimit),
            Code::Malformed => Some(NackCode::Malformed),
            _ => None,
        }
    }
}

/// The function by which modules are submitted: part of every catalog.
pub fn built_in(id: u32) -> Function {
    Function {
        id,
        name: vfun_submit::FUNCTION.into(),
        version: FunctionVersion(1 << 16),
        summary: "takes a client's own WebAssembly module".into(),
        software: Some(Driver::Submit),
        hardware: None,
        deadline_ms: SUBMIT_MS,
        fixed_deadline: false,
        max_args: REQUEST_BYTES_MAX,
        max_result: ANSWER_BYTES_MAX,
        settings: Default::default(),
        reads: vec![],
        writes: vec![],
        environment: Default::default(),
        makes_code: false,
        devices: vec![],
        codes: Default::default(),
        signature: None,
    }
}

/// functionIDs of submitted functions: this and their place among their
/// client's. They are none of the database's, whose numbers would tell one
/// client how many others submit.
pub const FIRST_ID: u32 = 1 << 31;
