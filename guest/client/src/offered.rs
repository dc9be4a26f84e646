//! A function where the host offers it, for programs that have it themselves.

use crate::error::{Error, Result};
use crate::function::Function;
use crate::request::FunctionRequest;
use crate::session::Session;
use vfun_signature::Signature;
use vfun_wire::nack::NackCode;
use vfun_wire::version::FunctionVersion;

/// The host's function of that name, version and signature (as text), open;
/// `None` where the host offers this client no function of that name. For
/// programs that can compute it themselves, as those made with
/// `#[vfunction]` can.
///
/// # Errors
/// Whatever else goes wrong: another version or signature, policy, no capacity.
pub fn offered(
    session: &Session,
    name: &str,
    version: (u16, u16),
    signature: &str,
    wanted: impl FnOnce(FunctionRequest) -> FunctionRequest,
) -> Result<Option<Function>> {
    let signature: Signature = signature
        .parse()
        .map_err(|e| Error::BadOption(format!("the signature of '{name}': {e}")))?;
    let request = FunctionRequest::new(name)
        .version(FunctionVersion::new(version.0, version.1))
        .signature(signature.fingerprint());
    match session.negotiate(&wanted(request)) {
        Ok(grant) => grant.activate().map(Some),
        Err(Error::Refused(nack)) if nack.code == NackCode::UnknownFunction => Ok(None),
        Err(e) => Err(e),
    }
}
