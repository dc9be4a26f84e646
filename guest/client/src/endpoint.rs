//! Where the host is to be found.

use crate::error::Error;
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// `VFUN_ENDPOINT` if it is set; else the kernel module's device if there
    /// is one, else an ivshmem window, else one in persistent memory, else the manager's socket on this machine.
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
    /// A window in persistent memory (virtio-pmem, NVDIMM), mapped by this process
    /// itself (root's), by its device, such as `/dev/dax0.0` (`None`: the only one).
    Pmem(Option<PathBuf>),
    /// A window in a mounted folder, which this process maps itself.
    Dir(PathBuf),
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
    /// Shared memory with the host of this VM, which is persistent memory to it.
    Pmem,
    /// Shared memory in a mounted folder.
    Dir,
    /// Copies over a network.
    Tcp,
}

/// What is true of a way to reach the host.
struct Row {
    kind: TransportKind,
    /// The word before the colon of an endpoint.
    name: &'static str,
    /// The endpoint, of what follows the colon; none where that will not do.
    make: fn(Option<&str>) -> Option<Endpoint>,
    /// Whether it is tried where nobody names an endpoint.
    auto: bool,
}

/// Each once; those that are tried by themselves, in that order. The network is never
/// chosen without being asked for.
static ROWS: [Row; 7] = [
    Row {
        kind: TransportKind::Module,
        name: "module",
        make: |at| Some(Endpoint::Module(at.map(Into::into))),
        auto: true,
    },
    Row {
        kind: TransportKind::Ivshmem,
        name: "ivshmem",
        make: |at| Some(Endpoint::Ivshmem(at.map(Into::into))),
        auto: true,
    },
    Row {
        kind: TransportKind::Pmem,
        name: "pmem",
        make: |at| Some(Endpoint::Pmem(at.map(Into::into))),
        auto: true,
    },
    Row {
        kind: TransportKind::Dir,
        name: "dir",
        make: |at| at.map(|at| Endpoint::Dir(at.into())),
        auto: false,
    },
    Row {
        kind: TransportKind::Host,
        name: "host",
        make: |at| Some(Endpoint::Host(at.map(Into::into))),
        auto: true,
    },
    Row {
        kind: TransportKind::Tcp,
        name: "tcp",
        make: |at| at.filter(|at| is_address(at)).map(|at| Endpoint::Tcp(at.into())),
        auto: false,
    },
    Row {
        kind: TransportKind::Tcp,
        name: "tls",
        make: |at| at.filter(|at| is_address(at)).map(|at| Endpoint::Tls(at.into())),
        auto: false,
    },
];

/// Whether it is `HOST:PORT`.
fn is_address(at: &str) -> bool {
    at.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl TransportKind {
    /// Its name: the word before the colon of its endpoint.
    pub fn as_str(self) -> &'static str {
        ROWS.iter().find(|r| r.kind == self).map_or("", |r| r.name)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Endpoint {
    /// Those that [`Endpoint::Auto`] tries, best first.
    pub fn automatic() -> impl Iterator<Item = Endpoint> {
        ROWS.iter().filter(|r| r.auto).filter_map(|r| (r.make)(None))
    }

    /// The word before the colon, and what follows it.
    fn parts(&self) -> (&'static str, Option<Cow<'_, str>>) {
        let path = |p: &'_ Option<PathBuf>| p.as_ref().map(|p| p.display().to_string().into());
        match self {
            Endpoint::Auto => ("auto", None),
            Endpoint::Host(at) => ("host", path(at)),
            Endpoint::Module(at) => ("module", path(at)),
            Endpoint::Ivshmem(at) => ("ivshmem", at.as_deref().map(Into::into)),
            Endpoint::Pmem(at) => ("pmem", path(at)),
            Endpoint::Dir(at) => ("dir", Some(at.display().to_string().into())),
            Endpoint::Tcp(at) => ("tcp", Some(at.into())),
            Endpoint::Tls(at) => ("tls", Some(at.into())),
        }
    }

    /// The word before the colon.
    pub fn name(&self) -> &'static str {
        self.parts().0
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, at) = match text.split_once(':') {
            None => (text, None),
            Some((name, at)) => (name, Some(at)),
        };
        let made = match (name, at) {
            ("auto", None) => Some(Endpoint::Auto),
            (_, Some("")) => None,
            _ => ROWS.iter().find(|r| r.name == name).and_then(|r| (r.make)(at)),
        };
        made.ok_or_else(|| Error::BadEndpoint(text.to_string()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (name, None) => f.write_str(name),
            (name, Some(at)) => write!(f, "{name}:{at}"),
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
            "pmem",
            "pmem:/dev/dax1.0",
            "dir:/mnt/vfun",
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
            "pmem:",
            "dir",
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
