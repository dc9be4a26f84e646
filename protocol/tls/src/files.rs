//! What each end is told by files.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is wrong with a file, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct FileError {
    pub file: PathBuf,
    /// A sentence for people: why it is of no use.
    pub why: String,
}

fn error(file: &Path, why: impl Into<String>) -> FileError {
    FileError { file: file.to_owned(), why: why.into() }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn text(file: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(file).map_err(|e| {
        let what = match e.kind() {
            std::io::ErrorKind::PermissionDenied => ": let the user read it that this runs as",
            _ => "",
        };
        error(file, format!("cannot be read: {e}{what}"))
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text(file)?).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(error(file, "holds no certificate: it must be PEM, with BEGIN CERTIFICATE")),
        Err(e) => Err(error(file, format!("is no PEM file of certificates: {e}"))),
    }
}

fn roots(file: &Path) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|e| error(file, format!("holds a certificate that cannot be read: {e}")))?;
    }
    Ok(Arc::new(roots))
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let text = text(file)?;
    let mode = std::fs::metadata(file).map_err(|e| error(file, e.to_string()))?.permissions();
    if mode.mode() & 0o007 != 0 {
        return Err(error(file, "is a private key that every user may read: chmod 600 it"));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|e| {
        error(file, format!("holds no private key ({e}): it must be PEM, not encrypted"))
    })
}

fn pair_error(file: &Path, e: rustls::Error) -> FileError {
    match e {
        rustls::Error::InconsistentKeys(_) => {
            error(file, "is not the key of the certificate: give the two that belong together")
        }
        other => error(file, format!("cannot be used with the certificate: {other}")),
    }
}

/// What a gateway shows, and asks of its callers.
#[derive(Clone, Debug)]
pub struct Server(Arc<ServerConfig>);

impl Server {
    /// From a certificate with its chain, its key, and, where callers must show
    /// certificates, those of their issuers.
    pub fn read(cert: &Path, key_file: &Path, client_ca: Option<&Path>) -> Result<Self, FileError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| error(cert, e.to_string()))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider())
                    .build()
                    .map_err(|e| error(ca, e.to_string()))?,
            ),
        };
        let mut config = builder
            .with_single_cert(certificates(cert)?, key(key_file)?)
            .map_err(|e| pair_error(key_file, e))?;
        // Nothing is resumed, so nothing need be written after the handshake.
        config.send_tls13_tickets = 0;
        Ok(Server(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }
}

/// What a caller believes, and shows.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// From the certificates of issuers (or a gateway's own), the name that the
    /// gateway's certificate must have, and the caller's certificate with its
    /// key, where it has one.
    pub fn read(
        ca: &Path,
        name: &str,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Self, FileError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| error(ca, e.to_string()))?
            .with_root_certificates(roots(ca)?);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key_file)) => builder
                .with_client_auth_cert(certificates(cert)?, key(key_file)?)
                .map_err(|e| pair_error(key_file, e))?,
        };
        config.resumption = rustls::client::Resumption::disabled();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| error(ca, format!("'{bare}' is no name that a certificate can have")))?;
        Ok(Client { config: Arc::new(config), name })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    pub(crate) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }
}
