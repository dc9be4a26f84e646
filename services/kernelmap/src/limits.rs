//! Limits of a mapping, with their reasons. A manifest is the operator's, so
//! these keep mistakes small rather than attackers out; what a call may make of
//! an expression is bounded by [`STACK_MAX`] and by arithmetic that is checked.

/// Longest expression, bytes: a formula that a person can read.
pub const EXPRESSION_BYTES: usize = 200;
/// Values that an expression may hold at once while it is computed, and how
/// deep its brackets nest: they lie on the thread's stack.
pub const STACK_MAX: usize = 16;
/// Arguments of a kernel: devices must take 1024 bytes of them, which are 128
/// pointers; nobody's kernel has that many.
pub const ARGS_MAX: usize = 64;
/// Numbers of a call that expressions and scalars may name.
pub const NUMBERS_MAX: usize = 32;
/// Conditions on a call's sizes.
pub const CONDITIONS_MAX: usize = 16;
/// Dimensions of a launch, by the standard's own minimum.
pub const DIMENSIONS_MAX: usize = 3;
/// Longest options for the compiler, bytes.
pub const OPTIONS_BYTES: usize = 1024;
/// Longest name of a kernel, platform or device, bytes.
pub const NAME_BYTES: usize = 128;
/// Most bytes that a trial call may have on either side: it only makes the
/// device's compiler finish its work.
pub const TRIAL_BYTES: usize = 1 << 20;
