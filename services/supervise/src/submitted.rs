//! What the manager and the service `submit` share about submitted modules, and
//! guests do not need: the names of their functions, and limits.

use vfun_submit::{Malformed, PREFIX, is_own};

/// Largest compiled module, bytes: machine code and its tables are up to six
/// times the module's size.
pub const CODE_BYTES_MAX: u64 = 56 << 20;
/// Longest that checking, compiling and keeping a module may take, ms: the deadline of
/// `submit`, as long as an activation may take.
pub const SUBMIT_MS: u32 = 10_000;
/// How long a service waits for the manager's word on a module, ms: it writes
/// some MiB to a disk. Part of [`SUBMIT_MS`].
pub const VERDICT_MS: u32 = 3_000;

/// The function's name for what a module, or who submits it, calls itself.
pub fn own_name(name: &str) -> Result<String, Malformed> {
    let whole = match is_own(name) {
        true => name.to_owned(),
        false => format!("{PREFIX}{name}"),
    };
    let tail = whole.get(PREFIX.len()..).unwrap_or("");
    vfun_wire::names::check(&whole)
        .and_then(|()| vfun_wire::names::check(tail))
        .map_err(|e| Malformed(format!("a function cannot be called '{name}': {e}")))?;
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_have_the_prefix_once() {
        for name in ["x", "a.b", "A-1_z", &"x".repeat(61)] {
            let own = own_name(name).unwrap();
            assert_eq!(own, format!("my.{name}"));
            assert!(is_own(&own) && vfun_wire::names::check(&own).is_ok());
            assert_eq!(own_name(&own).unwrap(), own);
        }
        for name in ["", "my.", "-x", "my..x", "a b", &"x".repeat(62)] {
            assert!(own_name(name).is_err(), "{name}");
        }
    }
}
