//! What a manager must not lose when it is killed: descriptors (windows,
//! bells, connections of VMs and services) and notes about them, kept by a
//! process so small that there is little in it that could fail.
//!
//! The manager puts things in under a name and takes all of them out when it
//! starts anew. A kept connection stays open, so that neither QEMU nor a
//! service nor an app notices; nothing is read from it meanwhile, so nothing
//! that was said is lost either.
//!
//! Packets of JSON over a `SOCK_SEQPACKET` UNIX socket that only the manager's
//! user can reach; descriptors travel by SCM_RIGHTS. What was sent is kept:
//! the packet is in the kernel's hands even if the sender dies the moment after.

#![forbid(unsafe_code)]

mod link;
mod serve;

pub use link::{Keeper, Kept};
pub use serve::serve;

use serde::{Deserialize, Serialize};

/// Largest packet, bytes.
pub const PACKET_BYTES: usize = 128 << 10;
/// Notes of one batch are cut so that it fits a packet with room to spare.
pub const BATCH_BYTES: usize = PACKET_BYTES / 2;
/// Most bytes of a note.
pub const NOTE_BYTES: usize = PACKET_BYTES / 4;
/// Most things kept: beyond what the manager's own limits let it hold.
pub const THINGS_MAX: usize = 1 << 18;

/// A note under its name; without a note the name is forgotten, its descriptors with it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Change {
    /// Name under which the keeper holds it.
    pub name: String,
    /// What to know of it.
    pub note: Option<String>,
}

/// A note beyond [`NOTE_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: usize,
}

/// How [`not_kept`] begins.
const NOT_KEPT: &str = "not kept: ";

/// What is kept in place of a note beyond [`NOTE_BYTES`], and is no note of anything.
fn not_kept(bytes: usize) -> String {
    format!("{NOT_KEPT}{bytes} bytes, {NOTE_BYTES} at most")
}

/// Cuts changes into packets of at most `most` bytes, each kept whole or not at all,
/// and gives each to `send`, in order.
///
/// In place of a note beyond [`NOTE_BYTES`] one is sent that is no note of anything:
/// the one before would be wrong. Returns these.
pub fn packets(
    changes: Vec<Change>,
    most: usize,
    mut send: impl FnMut(Vec<Change>) -> std::io::Result<()>,
) -> std::io::Result<Vec<TooLong>> {
    let size = |c: &Change| c.name.len() + c.note.as_ref().map_or(0, |n| n.len() * 2) + 64;
    let (mut packet, mut bytes, mut too_long) = (vec![], 0, vec![]);
    for mut change in changes {
        if let Some(note) = change.note.as_mut().filter(|n| n.len() > NOTE_BYTES) {
            let bytes = note.len();
            *note = not_kept(bytes);
            too_long.push(TooLong { name: change.name.clone(), bytes });
        }
        if bytes + size(&change) > most && !packet.is_empty() {
            send(std::mem::take(&mut packet))?;
            bytes = 0;
        }
        bytes += size(&change);
        packet.push(change);
    }
    if !packet.is_empty() {
        send(packet)?;
    }
    Ok(too_long)
}

/// What to write when the manager is gone without a word: a 64-bit number into
/// the first of a thing's descriptors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Will {
    /// Bytes from the file's start.
    pub offset: u64,
    /// Number to write there.
    pub value: u64,
}

/// What a manager says to the keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToKeeper {
    /// All of these or, if the sender dies before, none.
    Change(Vec<Change>),
    /// Keep the descriptors that come along under this name, with a note, and
    /// carry out the will.
    Hold { name: String, note: String, will: Option<Will> },
    /// Forget all and end.
    End,
}

/// Keeper to manager, when it connects.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromKeeper {
    /// One thing, with its descriptors.
    Kept { name: String, note: String },
    /// All that was kept has been sent.
    All,
}
