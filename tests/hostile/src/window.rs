//! A window without the library: every byte of it is the attacker's to write.

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::io::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vfun_window::{Access, Bell, Mapping, Registers, WriteSpan, fdpass};
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::control::{Posted, WORD_ANSWERED, answer_off};
use vfun_wire::header::POSTED_OFF;
use vfun_wire::ivshmem::{PCI_DEVICE, PCI_VENDOR, REG_DOORBELL, ring_host};
use vfun_wire::limits::*;
use vfun_wire::{PAGE, names};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Where the attacker's window comes from.
#[derive(Clone, Debug)]
pub enum Place {
    /// A memory file by the manager's socket.
    Host {
        /// `host.sock`.
        socket: PathBuf,
        /// For which client.
        client: String,
    },
    /// BAR 2 of an ivshmem device, at this address or the only one there is.
    Pci(Option<String>),
    /// A plain window's file, as whoever may write it on the host sees it.
    File(PathBuf),
}

enum Ringer {
    Bells(Vec<Bell>),
    Registers(Registers),
    Nobody,
}

/// A window, mapped whole and for writing.
pub struct Window {
    /// All of it.
    pub span: WriteSpan,
    ringer: Ringer,
    /// Sequence numbers used last, by control cell.
    pub(crate) seqs: [AtomicU32; CONTROL_CELLS],
    _socket: Option<OwnedFd>,
}

impl Window {
    /// Gets it; an error if the host gives none.
    pub fn attach(place: &Place) -> Result<Arc<Self>> {
        let (file, bytes, ringer, socket) = match place {
            Place::Host { socket, client } => host(socket, client)?,
            Place::Pci(address) => pci(address.as_deref())?,
            Place::File(path) => {
                let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
                let bytes = rustix::fs::fstat(&file)?.st_size as usize;
                (file, bytes, Ringer::Nobody, None)
            }
        };
        let map = Mapping::new(&file, 0, bytes, Access::ReadWrite).map_err(Error::other)?;
        let span = map.write().expect("mapped for writing");
        let seqs = std::array::from_fn(|cell| {
            let word = span.load(answer_off(cell) / 8 + WORD_ANSWERED, Ordering::Acquire);
            AtomicU32::new(Posted::unpack(word).seq)
        });
        Ok(Arc::new(Window { span, ringer, seqs, _socket: socket }))
    }

    /// Rings the host.
    pub fn ring(&self, vector: u16) {
        match &self.ringer {
            Ringer::Bells(bells) => bells[usize::from(vector) % bells.len()].ring(),
            Ringer::Registers(r) => r.store32(REG_DOORBELL, ring_host(vector)),
            Ringer::Nobody => {}
        }
    }

    /// Rings with any value where the device takes one: other peers, other vectors.
    pub fn ring_wild(&self, word: u64) {
        match &self.ringer {
            Ringer::Registers(r) => r.store32(REG_DOORBELL, word as u32),
            _ => self.ring(word as u16),
        }
    }

    /// Says that something was posted.
    pub fn posted(&self) {
        self.span.fetch_add(POSTED_OFF / 8, 1, Ordering::SeqCst);
        self.ring(0);
    }

    /// Words in it.
    pub fn words(&self) -> u64 {
        self.span.len() as u64 / 8
    }

    /// Stores a word, wherever it is.
    pub fn store(&self, word: u64, value: u64) {
        self.span.store(word as usize, value, Ordering::Relaxed);
    }
}

type Raw = (OwnedFd, usize, Ringer, Option<OwnedFd>);

/// A connection to the manager's socket that has said nothing yet.
pub fn connect(socket: &Path) -> Result<OwnedFd> {
    let fd = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    Ok(fd)
}

fn host(path: &Path, client: &str) -> Result<Raw> {
    let socket = connect(path)?;
    let ask = Attach {
        magic: U64::new(ATTACH_MAGIC),
        client: names::encode(client).map_err(Error::other)?,
        credential_len: U16::new(0),
        remote: 0,
        reserved: [0; 5],
        credential: [0; CREDENTIAL_BYTES],
    };
    fdpass::send(&socket, ask.as_bytes(), &[])?;
    let mut bytes = [0; size_of::<AttachAck>()];
    let (n, mut fds) = fdpass::receive(&socket, &mut bytes)?;
    let ack = AttachAck::read_from_bytes(&bytes[..n])
        .map_err(|_| Error::other("the manager's answer is cut short"))?;
    if ack.code.get() != 0 || fds.len() != 1 + 2 * usize::from(VECTORS) {
        let said = usize::from(ack.sentence_len.get()).min(SENTENCE_BYTES);
        return Err(Error::other(String::from_utf8_lossy(&ack.sentence[..said]).into_owned()));
    }
    fds.truncate(1 + usize::from(VECTORS));
    let window = fds.remove(0);
    let bells = fds.into_iter().map(Bell::from_fd).collect();
    Ok((window, ack.window_bytes.get() as usize, Ringer::Bells(bells), Some(socket)))
}

/// The folder of an ivshmem device.
fn device(asked: Option<&str>) -> Result<PathBuf> {
    let is = |folder: &Path, file: &str, id: u16| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|t| t.trim() == format!("{id:#06x}"))
    };
    std::fs::read_dir("/sys/bus/pci/devices")?
        .flatten()
        .map(|e| e.path())
        .find(|p| {
            asked.is_none_or(|a| p.ends_with(a))
                && is(p, "vendor", PCI_VENDOR)
                && is(p, "device", PCI_DEVICE)
        })
        .ok_or_else(|| Error::other("no ivshmem device is in this machine"))
}

fn pci(asked: Option<&str>) -> Result<Raw> {
    let folder = device(asked)?;
    let open = |name: &str| {
        rustix::fs::open(folder.join(name), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    };
    let bar = open("resource2_wc").or_else(|_| open("resource2"))?;
    let bytes = rustix::fs::fstat(&bar)?.st_size as usize;
    // Registers of a device without doorbells take the stores and do nothing.
    let resources = std::fs::read_to_string(folder.join("resource"))?;
    let start = resources.split_whitespace().next().and_then(|t| t.strip_prefix("0x"));
    let start = start.and_then(|t| usize::from_str_radix(t, 16).ok()).unwrap_or(0);
    let ringer = open("resource0")
        .ok()
        .and_then(|r| Registers::new(r, start % PAGE, REG_DOORBELL + 4).ok())
        .map_or(Ringer::Nobody, Ringer::Registers);
    Ok((bar, bytes, ringer, None))
}

/// The descriptor of a file, for whoever cuts it short.
pub fn truncate(path: &Path, bytes: u64) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::ftruncate(file.as_fd(), bytes)?)
}
