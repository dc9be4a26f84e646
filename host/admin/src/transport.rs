//! The ways by which a window gets to its other end: one row each.
//!
//! Manifests, the manager, the admin interface and `vfun` read this table. What the
//! manager does for a transport is in `host/manager/src/rim/wiring`, a file each.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One way by which a window gets to its other end. Its name stands in manifests,
/// in the keeper's notes and in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Transport {
    /// A memfd, handed to a program over the manager's UNIX socket.
    Host,
    /// A memfd and bells, handed to QEMU over the client's UNIX socket.
    IvshmemDoorbell,
    /// A file that QEMU maps as the memory of an ivshmem device.
    IvshmemPlain,
    /// A file that a VMM maps as persistent memory: virtio-pmem or NVDIMM.
    Pmem,
    /// A file in a folder that a VM or container mounts.
    Dir,
}

/// Whose programs use a client's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Those in a VM, which has a window of its own.
    Vm,
    /// Programs on the host, each with a window of its own.
    Host,
}

impl ClientKind {
    /// Its name in manifests and reports.
    pub const fn name(self) -> &'static str {
        match self {
            ClientKind::Vm => "vm",
            ClientKind::Host => "host",
        }
    }
}

/// What the other end is given to find its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// A connection to a UNIX socket. Each connection gets a new window, whose
    /// life ends with the connection.
    Socket,
    /// A file. The window stays when its VM ends.
    File,
}

/// What is true of a transport.
#[derive(Debug)]
pub struct TransportRow {
    pub transport: Transport,
    pub name: &'static str,
    /// Which kind of client it serves.
    pub serves: ClientKind,
    /// What the other end is given.
    pub found_by: FoundBy,
    /// Each side can wake the other one. Without it both look by the clock.
    pub doorbell: bool,
    /// The manager sees the end of an app in the window at once; otherwise it
    /// waits for the app's heartbeat to stop.
    pub sees_app_end: bool,
    /// Bytes of the file before the window.
    pub origin: u64,
    /// Smallest window, bytes.
    pub window_min: u64,
    /// What it is, for people: one line.
    pub summary: &'static str,
}

use vfun_wire::limits::WINDOW_BYTES_MIN;

/// Each transport once, in the order of [`Transport`].
static ROWS: [TransportRow; 5] = [
    TransportRow {
        transport: Transport::Host,
        name: "host",
        serves: ClientKind::Host,
        found_by: FoundBy::Socket,
        doorbell: true,
        sees_app_end: true,
        origin: 0,
        window_min: WINDOW_BYTES_MIN,
        summary: "both sides sleep when there is nothing to do",
    },
    TransportRow {
        transport: Transport::IvshmemDoorbell,
        name: "ivshmem-doorbell",
        serves: ClientKind::Vm,
        found_by: FoundBy::Socket,
        doorbell: true,
        sees_app_end: false,
        origin: 0,
        window_min: WINDOW_BYTES_MIN,
        summary: "both sides sleep when there is nothing to do",
    },
    TransportRow {
        transport: Transport::IvshmemPlain,
        name: "ivshmem-plain",
        serves: ClientKind::Vm,
        found_by: FoundBy::File,
        doorbell: false,
        sees_app_end: false,
        origin: 0,
        window_min: WINDOW_BYTES_MIN,
        summary: "no doorbells, both sides look by the clock",
    },
    TransportRow {
        transport: Transport::Pmem,
        name: "pmem",
        serves: ClientKind::Vm,
        found_by: FoundBy::File,
        doorbell: false,
        sees_app_end: false,
        origin: PMEM_UNIT,
        window_min: PMEM_UNIT,
        summary: "no doorbells, both sides look by the clock",
    },
    TransportRow {
        transport: Transport::Dir,
        name: "dir",
        serves: ClientKind::Vm,
        found_by: FoundBy::File,
        doorbell: false,
        sees_app_end: false,
        origin: 0,
        window_min: WINDOW_BYTES_MIN,
        summary: "no doorbells, both sides look by the clock",
    },
];

/// VMMs and Linux take persistent memory in units of this many bytes.
const PMEM_UNIT: u64 = 2 << 20;

impl Transport {
    /// That of VMs whose client names none.
    pub const VM_DEFAULT: Transport = Transport::IvshmemDoorbell;

    /// What is true of windows of this transport.
    pub fn row(self) -> &'static TransportRow {
        &ROWS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether its windows are files.
    pub fn in_file(self) -> bool {
        self.row().found_by == FoundBy::File
    }

    /// Those of one kind of client.
    pub fn of(kind: ClientKind) -> impl Iterator<Item = Transport> {
        ROWS.iter().filter(move |r| r.serves == kind).map(|r| r.transport)
    }

    /// Names of those of VMs, as a person types them.
    pub fn names_of_vms() -> impl Iterator<Item = &'static str> {
        Self::of(ClientKind::Vm).map(Transport::name)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no transport has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no transport \"{0}\"")]
pub struct UnknownTransport(String);

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        let row = ROWS.iter().find(|r| r.name == name);
        row.map(|r| r.transport).ok_or_else(|| UnknownTransport(name.into()))
    }
}

impl From<Transport> for String {
    fn from(t: Transport) -> String {
        t.name().into()
    }
}

impl TryFrom<String> for Transport {
    type Error = UnknownTransport;

    fn try_from(name: String) -> Result<Self, UnknownTransport> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_where_its_transport_looks() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.transport as usize, at, "{}", row.name);
            assert_eq!(row.name.parse(), Ok(row.transport));
            let text = serde_json::to_string(&row.transport).unwrap();
            assert_eq!(text, format!("\"{}\"", row.name));
            assert_eq!(serde_json::from_str::<Transport>(&text).unwrap(), row.transport);
        }
        assert!("ivshmem".parse::<Transport>().is_err());
    }

    #[test]
    fn what_a_row_says_fits_together() {
        for row in &ROWS {
            // A file has no connection whose end could be seen, and no way for a bell.
            let file = row.found_by == FoundBy::File;
            assert!(!(file && (row.doorbell || row.sees_app_end)), "{}", row.name);
            assert!(file || row.origin == 0, "{}: a memfd begins with its window", row.name);
            assert!(row.window_min.is_power_of_two() && row.origin % 4096 == 0, "{}", row.name);
        }
        assert_eq!(Transport::of(ClientKind::Host).collect::<Vec<_>>(), [Transport::Host]);
    }
}
