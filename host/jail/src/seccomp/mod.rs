//! Lists of the system calls that a service may make, one for each kind of
//! driver, as programs for the kernel.
//!
//! A call is allowed; or refused with an error, where programs are known to
//! ask and to go on without; or it ends the service. Calls that only an attack
//! makes end it at once, by the kernel's hand ([`Answer::Kill`]). All others
//! end it by a signal whose handler tells which call it was
//! ([`Answer::Tell`]), so that whoever wrote the driver learns what to leave
//! out: the call is not made in either case.

mod lists;
mod names;
mod program;

pub use names::name;
pub use program::Program;

use crate::devices::{Device, Requests};
use std::borrow::Cow;
use vfun_supervise::{Driver, Filters};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is made.
    Allow,
    /// It fails with this error.
    Errno(i32),
    /// A signal that the service answers by telling which call it was, and ending.
    Tell,
    /// The service is ended.
    Kill,
}

/// A condition on the lower or upper half of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    argument: u8,
    upper: bool,
    mask: u32,
    value: u32,
}

impl When {
    /// The lower half of an argument, masked, is this value.
    pub const fn masked(argument: u8, mask: u32, value: u32) -> Self {
        When { argument, upper: false, mask, value }
    }
    /// The lower half of an argument is this value.
    pub const fn is(argument: u8, value: u32) -> Self {
        Self::masked(argument, u32::MAX, value)
    }
    /// The upper half of an argument is 0.
    pub const fn short(argument: u8) -> Self {
        When { argument, upper: true, mask: u32::MAX, value: 0 }
    }
}

/// One line of a list: the first that fits a call decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The call's number.
    pub call: u32,
    /// All of these hold.
    pub when: Cow<'static, [When]>,
    /// What becomes of it then.
    pub answer: Answer,
}

/// A constant of the C library as a call's number.
pub(crate) const fn number(call: libc::c_long) -> u32 {
    call as u32
}

/// The lists for a driver, as its service installs them: one before it loads
/// the driver, a stricter one once that is done. `makes_code`: the driver
/// makes machine code or loads libraries while it serves, so that the second
/// is as wide as the first. `devices`: those that it may open, and what it may
/// ask of them.
pub fn filters(driver: &Driver, makes_code: bool, devices: &[Device]) -> Filters {
    let (loading, serving) = match driver {
        Driver::Native { .. } => (lists::loading(), lists::native()),
        Driver::Wasm { .. } => (lists::compiling(), lists::wasm()),
        Driver::Submitted { .. } => (lists::taking(), lists::wasm()),
        Driver::Submit => (lists::compiling(), lists::submit()),
        Driver::OpenCl { .. } => (lists::building(), lists::opencl()),
        Driver::Floor => (lists::floor(), vec![]),
    };
    // A module's code, and a kernel's, is all made before it is served.
    let makes_code = makes_code && matches!(driver, Driver::Native { .. });
    let requests: Vec<Requests> = devices.iter().flat_map(|d| d.ioctls.iter().copied()).collect();
    let words = |rules: Vec<Rule>| match rules.is_empty() {
        true => vec![],
        // The first rule that fits decides.
        false if devices.is_empty() => Program::new(&rules).words(),
        false => Program::new(&[lists::devices(driver, &requests), rules].concat()).words(),
    };
    Filters { serving: if makes_code { vec![] } else { words(serving) }, loading: words(loading) }
}

/// Whether the kernel has what the lists need.
pub fn available() -> Result<(), String> {
    // Without it /proc has no such file.
    match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(text)
            if ["allow", "errno", "trap", "kill_process"]
                .iter()
                .all(|a| text.split_whitespace().any(|w| w == *a)) =>
        {
            Ok(())
        }
        Ok(text) => Err(format!("the kernel's filters can only: {}", text.trim())),
        Err(e) => Err(format!("the kernel has no filters of system calls ({e})")),
    }
}
