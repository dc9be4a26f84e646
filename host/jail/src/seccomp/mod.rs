//! Lists of the system calls that a service may make, as programs for the kernel:
//! what lists are made of ([`lists`]), and how one becomes a program ([`Program`]).
//!
//! A call is allowed; or refused with an error, where programs are known to
//! ask and to go on without; or it ends the service. Calls that only an attack
//! makes end it at once, by the kernel's hand ([`Answer::Kill`]). All others
//! end it by a signal whose handler tells which call it was
//! ([`Answer::Tell`]), so that whoever wrote the driver learns what to leave
//! out: the call is not made in either case.

pub mod lists;
mod names;
mod program;

pub use lists::devices;
pub use names::name;
pub use program::Program;

use std::borrow::Cow;

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
pub const fn number(call: libc::c_long) -> u32 {
    call as u32
}

/// What a list says of a call: the first rule that fits, else [`Answer::Tell`].
/// The kernel's program says the same.
pub fn answer(rules: &[Rule], call: libc::c_long, arguments: [u64; 6]) -> Answer {
    let fits = |w: &When| {
        let argument = arguments[usize::from(w.argument)];
        let half = if w.upper { (argument >> 32) as u32 } else { argument as u32 };
        half & w.mask == w.value
    };
    let mut of_call = rules.iter().filter(|r| r.call == number(call));
    of_call.find(|r| r.when.iter().all(fits)).map_or(Answer::Tell, |r| r.answer)
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
