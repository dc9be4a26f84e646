//! What a service says of a module, checked: every byte of it may be made up.

use super::Refused;
use vfun_kinds::limits::{WASM_MEMORY_MAX, WASM_MEMORY_MIN};
use vfun_signature::{Record, Signature};
use vfun_submit::Code;
use vfun_submit::limits::MODULE_BYTES_MAX;
use vfun_supervise::Offered;
use vfun_supervise::submitted::{CODE_BYTES_MAX, own_name};
use vfun_wire::limits::{CELL_BYTES_MAX, DEADLINE_MS_MAX, SIGNATURE_BYTES};

/// A module that may be taken, as far as it alone is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// As it was said, with lengths cut to what the signature allows.
    pub offered: Offered,
    /// Absent where the module takes and gives bytes.
    pub signature: Option<Signature>,
}

/// Whether this is SHA-256 in hexadecimal digits, as names of files are made of it.
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The longest that a value can have by its record, if the driver takes as
/// much as the shortest.
fn length(r: &Record, most: u32, what: &str) -> Result<u32, Refused> {
    if r.min_bytes() > u64::from(most) {
        return Err(Refused::new(
            Code::BadModule,
            format!(
                "by the signature {what} have at least {} bytes, the module takes at most {most}: correct one of them",
                r.min_bytes()
            ),
        ));
    }
    Ok(r.max_bytes().min(most.into()) as u32)
}

impl Wanted {
    /// Checks what a service says.
    pub fn check(mut offered: Offered) -> Result<Self, Refused> {
        let o = &offered;
        let malformed = |what: &str| Err(Refused::new(Code::Malformed, what));
        if own_name(&o.name).ok().as_deref() != Some(&*o.name) {
            return malformed("its name is none of a client's own function");
        }
        if !is_digest(&o.sha256) || !is_digest(&o.code_sha256) {
            return malformed("a digest is none");
        }
        if o.module_bytes == 0 || o.module_bytes > MODULE_BYTES_MAX.into() {
            return Err(Refused::new(
                Code::BeyondLimit,
                format!("a module has at most {MODULE_BYTES_MAX} bytes"),
            ));
        }
        if o.code_bytes > CODE_BYTES_MAX {
            return malformed("more compiled code than is kept");
        }
        if !(WASM_MEMORY_MIN..=WASM_MEMORY_MAX).contains(&o.memory_bytes) {
            return Err(Refused::new(
                Code::BeyondLimit,
                format!(
                    "the memory of a module's instance is {} KiB to {} MiB",
                    WASM_MEMORY_MIN >> 10,
                    WASM_MEMORY_MAX >> 20
                ),
            ));
        }
        if !(1..=DEADLINE_MS_MAX).contains(&o.deadline_ms) {
            return Err(Refused::new(
                Code::BeyondLimit,
                format!("a deadline is from 1 to {DEADLINE_MS_MAX} ms"),
            ));
        }
        let (mut max_args, mut max_result) =
            (o.max_args.min(CELL_BYTES_MAX), o.max_result.min(CELL_BYTES_MAX));
        let signature = match o.signature.as_str() {
            "" => None,
            text if text.len() > SIGNATURE_BYTES => {
                return malformed("its signature is longer than one can be");
            }
            text => {
                let bad = |e: vfun_signature::SignatureError| {
                    Refused::new(Code::BadModule, format!("the signature: {e}"))
                };
                let s: Signature = text.parse().map_err(bad)?;
                max_args = length(&s.args, max_args, "arguments")?;
                max_result = length(&s.results, max_result, "results")?;
                Some(s)
            }
        };
        (offered.max_args, offered.max_result) = (max_args, max_result);
        Ok(Wanted { offered, signature })
    }
}
