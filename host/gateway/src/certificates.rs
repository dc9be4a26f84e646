//! What the gateway shows, read anew when its files change: certificates are
//! renewed while it serves.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::SystemTime;
use vfun_tls::{FileError, Server};

/// Where they are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those between it and its issuer.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Issuers of callers' certificates, where callers must show one.
    pub client_ca: Option<PathBuf>,
}

type Stamps = Vec<Option<(SystemTime, u64)>>;

impl TlsFiles {
    fn read(&self) -> Result<Server, FileError> {
        Server::read(&self.cert, &self.key, self.client_ca.as_deref())
    }

    /// By which a change is seen.
    fn stamps(&self) -> Stamps {
        let files = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        let stamp = |file: &PathBuf| {
            let found = std::fs::metadata(file).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        files.into_iter().flatten().map(stamp).collect()
    }
}

/// What is shown now.
pub struct Certificates {
    files: TlsFiles,
    now: Mutex<(Stamps, Server)>,
}

impl Certificates {
    /// Reads them; that something is wrong with them is an error only here.
    pub fn new(files: TlsFiles) -> Result<Self, FileError> {
        let stamps = files.stamps();
        let server = files.read()?;
        Ok(Certificates { files, now: Mutex::new((stamps, server)) })
    }

    /// Those that the files hold; the ones before, while these will not do.
    pub fn current(&self) -> Server {
        let mut now = self.now.lock().unwrap_or_else(|e| e.into_inner());
        let stamps = self.files.stamps();
        if stamps != now.0 {
            match self.files.read() {
                Ok(server) => {
                    tracing::info!("{} was read again", self.files.cert.display());
                    now.1 = server;
                }
                Err(e) => tracing::error!("{e}; the certificate from before goes on to be used"),
            }
            now.0 = stamps;
        }
        now.1.clone()
    }
}
