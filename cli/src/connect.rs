//! Sessions, as the command line asks for them.

use crate::admin::ROOT;
use crate::fail::{self, Failure, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use vfun::{ConnectOptions, Endpoint, Session};

/// For whom to connect.
#[derive(Args, Clone, Debug, Default)]
pub struct Who {
    /// Client's name; needed on the host and over TCP, as a VM is known by its window.
    #[arg(long, value_name = "NAME", env = "VFUN_CLIENT", hide_env = true)]
    pub client: Option<String>,
    /// The client's secret, if its manifest asks for one.
    #[arg(long, value_name = "SECRET", env = "VFUN_CREDENTIAL", hide_env_values = true)]
    pub credential: Option<String>,
    /// Read the secret from FILE; a newline at its end is ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "credential")]
    pub credential_file: Option<PathBuf>,
}

impl Who {
    /// The secret, from wherever it is named.
    pub fn secret(&self) -> Result<Option<Vec<u8>>> {
        match (&self.credential_file, &self.credential) {
            (Some(path), _) => Ok(Some(read_secret(path)?)),
            (None, Some(text)) => Ok(Some(text.clone().into_bytes())),
            (None, None) => Ok(None),
        }
    }
}

/// A secret in a file.
pub fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path).map_err(|e| fail::file(path, "read", &e))?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(Failure::usage(format!("{} holds no secret", path.display())));
    }
    Ok(bytes)
}

/// The host that the command line names.
#[derive(Clone, Debug, Default)]
pub struct Host {
    root: Option<PathBuf>,
    endpoint: Option<String>,
}

impl Host {
    /// By the options `--root` and `--endpoint`.
    pub fn new(root: Option<PathBuf>, endpoint: Option<String>) -> Self {
        Host { root, endpoint }
    }

    /// Root of the manager's tree on this machine.
    pub fn root(&self) -> &Path {
        self.root.as_deref().unwrap_or(Path::new(ROOT))
    }

    /// The way there: a root that is named names the manager of this machine,
    /// unless an endpoint is named too.
    pub fn endpoint(&self) -> Result<Endpoint> {
        let asked: Endpoint = match self.endpoint.as_deref() {
            None | Some("") => Endpoint::Auto,
            Some(text) => text.parse()?,
        };
        let socket = |root: &Path| Endpoint::Host(Some(root.join("host.sock")));
        let by_variable = std::env::var_os("VFUN_ROOT").map(PathBuf::from);
        Ok(match (asked, &self.root) {
            (Endpoint::Auto, Some(root)) if by_variable.as_ref() != Some(root) => socket(root),
            (Endpoint::Host(None), _) => socket(self.root()),
            (other, _) => other,
        })
    }

    /// Options for a session of this command.
    pub fn options(&self, who: &Who) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new("vfun").endpoint(self.endpoint()?);
        if let Some(client) = &who.client {
            options = options.client(client);
        }
        if let Some(secret) = who.secret()? {
            options = options.credential(secret);
        }
        Ok(options)
    }

    /// Opens a session with the host, as this client and app.
    pub fn session(&self, who: &Who) -> Result<Session> {
        Ok(self.options(who)?.connect()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(root: Option<&str>, endpoint: Option<&str>) -> String {
        let host = Host::new(root.map(PathBuf::from), endpoint.map(str::to_owned));
        host.endpoint().unwrap().to_string()
    }

    #[test]
    fn a_root_names_the_manager_of_this_machine() {
        assert_eq!(of(Some("/r"), Some("host")), "host:/r/host.sock");
        assert_eq!(of(Some("/r"), Some("tcp:h:1")), "tcp:h:1");
        assert_eq!(of(Some("/r"), Some("ivshmem")), "ivshmem");
        assert_eq!(of(None, None), "auto");
        assert_eq!(of(None, Some("host")), "host:/var/lib/virtfun/host.sock");
        if std::env::var_os("VFUN_ROOT").is_none() {
            assert_eq!(of(Some("/r"), None), "host:/r/host.sock");
        }
    }

    #[test]
    fn a_secret_in_a_file_has_no_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "abc \n").unwrap();
        assert_eq!(read_secret(&path).unwrap(), b"abc ");
        std::fs::write(&path, "\n").unwrap();
        assert!(read_secret(&path).unwrap_err().what.contains("no secret"));
    }
}
