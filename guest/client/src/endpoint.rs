//! Where the host is to be found.

use crate::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// `VFUN_ENDPOINT` if it is set; else the kernel module's device if there
    /// is one, else an ivshmem window, else the manager's socket on this machine.
    #[default]
    Auto,
    /// The manager on this machine, by its socket (`None`: `host.sock` in
    /// `$VFUN_ROOT`, or in `/var/lib/virtfun`).
    Host(Option<PathBuf>),
    /// A window by the guest's kernel module, by the path of its device, such as
    /// `/dev/vfun0` (`None`: the only one). For any user of its group.
    Module(Option<PathBuf>),
    /// A window in a PCI device, mapped by this process itself (root's), by its address (`None`: the only one).
    Ivshmem(Option<String>),
    /// A gateway, by `HOST:PORT`: calls are copied over the network.
    Tcp(String),
    /// The same by TLS: what travels is encrypted, and the gateway proves that it
    /// is the one of that name. See [`crate::TlsFiles`].
    Tls(String),
}

/// The path that a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// Shared memory with the manager of this machine.
    Host,
    /// Shared memory with the host of this VM, by the guest's kernel module.
    Module,
    /// Shared memory with the host of this VM, in a PCI device.
    Ivshmem,
    /// Copies over a network.
    Tcp,
}

impl TransportKind {
    /// Its name: `host`, `module`, `ivshmem` or `tcp`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TransportKind::Host => "host",
            TransportKind::Module => "module",
            TransportKind::Ivshmem => "ivshmem",
            TransportKind::Tcp => "tcp",
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadEndpoint(text.to_string());
        match text.split_once(':') {
            None if text == "auto" => Ok(Endpoint::Auto),
            None if text == "host" => Ok(Endpoint::Host(None)),
            None if text == "module" => Ok(Endpoint::Module(None)),
            None if text == "ivshmem" => Ok(Endpoint::Ivshmem(None)),
            Some(("host", path)) if !path.is_empty() => Ok(Endpoint::Host(Some(path.into()))),
            Some(("module", path)) if !path.is_empty() => Ok(Endpoint::Module(Some(path.into()))),
            Some(("ivshmem", at)) if !at.is_empty() => Ok(Endpoint::Ivshmem(Some(at.into()))),
            Some((kind @ ("tcp" | "tls"), at)) => match at.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(if kind == "tls" {
                        Endpoint::Tls(at.into())
                    } else {
                        Endpoint::Tcp(at.into())
                    })
                }
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Auto => f.write_str("auto"),
            Endpoint::Host(None) => f.write_str("host"),
            Endpoint::Host(Some(path)) => write!(f, "host:{}", path.display()),
            Endpoint::Module(None) => f.write_str("module"),
            Endpoint::Module(Some(path)) => write!(f, "module:{}", path.display()),
            Endpoint::Ivshmem(None) => f.write_str("ivshmem"),
            Endpoint::Ivshmem(Some(at)) => write!(f, "ivshmem:{at}"),
            Endpoint::Tcp(at) => write!(f, "tcp:{at}"),
            Endpoint::Tls(at) => write!(f, "tls:{at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive() {
        for text in [
            "auto",
            "host",
            "host:/run/x/host.sock",
            "module",
            "module:/dev/vfun1",
            "ivshmem",
            "ivshmem:0000:00:04.0",
            "tcp:[::1]:70",
            "tls:host.example:70",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "hosts",
            "host:",
            "module:",
            "tcp",
            "tcp:x",
            "tcp::1",
            "tcp:a:99999",
            "tls:a",
            "vsock:3",
        ] {
            let e = text.parse::<Endpoint>().unwrap_err();
            assert!(e.to_string().contains("tcp:HOST:PORT"), "{e}");
        }
    }
}
