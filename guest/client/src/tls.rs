//! By what a program knows a gateway with TLS.

use crate::error::{Error, Result};
use std::path::PathBuf;

/// Files (PEM) and the name for an endpoint `tls:HOST:PORT`. What is `None` is
/// taken from the variable that each names.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Certificates of the issuers that are believed, or the gateway's own
    /// (`VFUN_TLS_CA`). Needed: nobody is believed without being named.
    pub ca: Option<PathBuf>,
    /// The name that the gateway's certificate must have (`VFUN_TLS_NAME`); the
    /// HOST of the endpoint where there is neither.
    pub name: Option<String>,
    /// This program's certificate, where the gateway asks for one (`VFUN_TLS_CERT`).
    pub cert: Option<PathBuf>,
    /// Its private key (`VFUN_TLS_KEY`), which not every user may read.
    pub key: Option<PathBuf>,
}

fn path(given: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    let from_variable = || std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    given.cloned().or_else(from_variable)
}

impl TlsFiles {
    /// Reads them, anew for each session, so that what was renewed is taken up.
    pub(crate) fn read(&self, address: &str) -> Result<vfun_tls::Client> {
        let wrong = |why: String| Error::Tls { address: address.to_string(), why };
        let ca = path(self.ca.as_ref(), "VFUN_TLS_CA").ok_or_else(|| {
            wrong(
                "nothing says whom to believe: name the gateway's certificate, or its issuer's, \
                 by VFUN_TLS_CA"
                    .into(),
            )
        })?;
        let cert = path(self.cert.as_ref(), "VFUN_TLS_CERT");
        let key = path(self.key.as_ref(), "VFUN_TLS_KEY");
        let identity = match (&cert, &key) {
            (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
            (None, None) => None,
            _ => return Err(wrong("VFUN_TLS_CERT and VFUN_TLS_KEY go together".into())),
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let variable = std::env::var("VFUN_TLS_NAME").ok().filter(|n| !n.is_empty());
        let name = self.name.clone().or(variable).unwrap_or_else(|| host.to_owned());
        vfun_tls::Client::read(&ca, &name, identity).map_err(|e| wrong(e.to_string()))
    }
}
