//! The keeper's side.

use crate::{
    Change, FromKeeper, NOT_KEPT, NOTE_BYTES, PACKET_BYTES, THINGS_MAX, ToKeeper, Will, not_kept,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use vfun_window::fdpass;

/// How often a keeper without a manager looks whether its root is still there.
const ALONE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// How long a manager may take to take what it is sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long room for descriptors on their way is waited for: less than a manager waits
/// for the keeper's next word.
const ROOM: Duration = Duration::from_secs(4);
/// Between two looks for it.
const ROOM_AGAIN: Duration = Duration::from_millis(5);

struct Thing {
    note: String,
    fds: Vec<OwnedFd>,
    will: Option<Will>,
}

/// Keeps until it is told to end, or until no manager is there and `path`, by
/// which one could connect, is gone.
pub fn serve(listener: OwnedFd, path: &Path) -> io::Result<()> {
    let mut things: BTreeMap<String, Thing> = BTreeMap::new();
    let mut manager: Option<OwnedFd> = None;
    let mut room = vec![0; PACKET_BYTES];
    // A manager that could not reach this keeper has put another one in its
    // place: what this one has means nothing any more.
    let place = place_of(path);
    let replaced = || place_of(path) != place;
    loop {
        let (newcomer, message) = wait(&listener, manager.as_ref())?;
        if newcomer {
            // A new manager takes the place of the old one.
            let socket = rustix::net::accept_with(&listener, SocketFlags::CLOEXEC)?;
            // What the old one said last is not lost.
            while let Some(old) = manager.as_ref()
                && wait_for(old.as_fd())
                && let Some(told) = hear(old, &mut room)
            {
                if take(&mut things, told) {
                    return Ok(());
                }
            }
            manager = tell_all(&socket, &things).is_ok().then_some(socket);
            if manager.is_none() {
                carry_out(&things);
            }
        } else if message {
            let Some(socket) = manager.as_ref() else { continue };
            match hear(socket, &mut room) {
                Some(told) => {
                    if take(&mut things, told) {
                        return Ok(());
                    }
                }
                None if path.exists() && replaced() => return Ok(()),
                None => {
                    // Before it hangs up: a manager that lives puts it right.
                    carry_out(&things);
                    manager = None;
                }
            }
        } else if manager.is_none() && replaced() {
            return Ok(());
        }
    }
}

/// Which file is at `path`; the system's name for it, as long as its socket is open.
fn place_of(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Waits for a manager or for what it says.
fn wait(listener: &OwnedFd, manager: Option<&OwnedFd>) -> io::Result<(bool, bool)> {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    fds.extend(manager.map(|m| PollFd::new(m, PollFlags::IN)));
    match poll(&mut fds, manager.is_none().then_some(&ALONE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let ready = |i: usize| fds.get(i).is_some_and(|f| !f.revents().is_empty());
    Ok((ready(0), ready(1)))
}

/// Whether something can be read at once.
fn wait_for(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}

/// One message; `None` when the manager is gone or speaks nonsense.
fn hear(manager: &OwnedFd, room: &mut [u8]) -> Option<(ToKeeper, Vec<OwnedFd>)> {
    let (n, fds) = fdpass::receive(manager, room).ok()?;
    if n == 0 {
        return None;
    }
    Some((serde_json::from_slice(&room[..n]).ok()?, fds))
}

fn note(things: &mut BTreeMap<String, Thing>, change: Change) {
    let Some(mut note) = change.note else { return drop(things.remove(&change.name)) };
    let bytes = note.len();
    if bytes > NOTE_BYTES {
        // A manager of this version does not send it. The note before it would be wrong.
        note = not_kept(bytes);
        if things.get(&change.name).is_none_or(|t| !t.note.starts_with(NOT_KEPT)) {
            eprintln!(
                "vfun-keeper: ERROR: the note '{}' has {bytes} bytes, and {NOTE_BYTES} at most are kept: the next manager begins anew",
                change.name
            );
        }
    }
    let room = things.len() < THINGS_MAX;
    match things.get_mut(&change.name) {
        Some(thing) => thing.note = note,
        None if room => {
            things.insert(change.name, Thing { note, fds: vec![], will: None });
        }
        None => eprintln!(
            "vfun-keeper: ERROR: keeps {THINGS_MAX} things, and has no room for '{}': the next manager will not know of it",
            change.name
        ),
    }
}

/// Does what it was told; true if that is to end.
fn take(things: &mut BTreeMap<String, Thing>, (message, fds): (ToKeeper, Vec<OwnedFd>)) -> bool {
    match message {
        ToKeeper::Change(changes) => {
            for change in changes {
                note(things, change);
            }
        }
        ToKeeper::Hold { name, note, will } => {
            things.insert(name, Thing { note, fds, will });
        }
        ToKeeper::End => return true,
    }
    false
}

/// Says one thing. Of a user's descriptors only so many may be on their way in sockets,
/// and another program of this user may use that up for a while: a manager that is
/// told of nothing would begin anew.
fn tell(manager: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let until = Instant::now() + ROOM;
    let mut said = false;
    loop {
        match fdpass::send(manager, bytes, fds) {
            Err(e) if fdpass::no_room(&e) && Instant::now() < until => {
                if !std::mem::replace(&mut said, true) {
                    eprintln!("vfun-keeper: waits for room for descriptors on their way: {e}");
                }
                std::thread::sleep(ROOM_AGAIN);
            }
            done => return done,
        }
    }
}

/// The manager is gone without a word.
fn carry_out(things: &BTreeMap<String, Thing>) {
    for thing in things.values() {
        if let (Some(will), Some(file)) = (thing.will, thing.fds.first()) {
            // A file that takes it no longer has nobody who looks at it.
            let _ = rustix::io::pwrite(file, &will.value.to_le_bytes(), will.offset);
        }
    }
}

fn tell_all(manager: &OwnedFd, things: &BTreeMap<String, Thing>) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    set_socket_timeout(manager, Timeout::Send, Some(PATIENCE))?;
    for (name, thing) in things {
        let message = FromKeeper::Kept { name: name.clone(), note: thing.note.clone() };
        let fds: Vec<_> = thing.fds.iter().map(AsFd::as_fd).collect();
        tell(manager, &serde_json::to_vec(&message)?, &fds)?;
    }
    fdpass::send(manager, &serde_json::to_vec(&FromKeeper::All)?, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keeper, TooLong};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    fn keeper(path: &Path) -> std::thread::JoinHandle<io::Result<()>> {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        let path = path.to_owned();
        std::thread::spawn(move || serve(listener, &path))
    }

    fn note(name: &str, note: Option<&str>) -> Change {
        Change { name: name.into(), note: note.map(str::to_owned) }
    }

    #[test]
    fn what_one_manager_leaves_the_next_one_finds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let thread = keeper(&path);
        let (first, kept) = Keeper::connect(&path).unwrap();
        assert!(kept.is_empty());
        let (a, b) = rustix::pipe::pipe().unwrap();
        first.hold("pipe", "one", None, &[a.as_fd(), b.as_fd()]).unwrap();
        let many = (0..3000).map(|i| note(&format!("n/{i}"), Some(&"x".repeat(60)))).collect();
        first.change(many).unwrap();
        first.change(vec![note("n/7", None), note("pipe", Some("two")), note("", None)]).unwrap();
        let memory = vfun_window::memfd("k", 4096).unwrap();
        first.hold("m", "", Some(Will { offset: 8, value: 4 }), &[memory.as_fd()]).unwrap();
        first.change(vec![note("m2", None)]).unwrap();
        drop((first, a, b));
        // At once: what was said last counts all the same.
        let (second, kept) = Keeper::connect(&path).unwrap();
        assert_eq!(kept.len(), 3001);
        assert!(kept.iter().all(|k| k.name != "n/7"));
        let pipe = kept.iter().find(|k| k.name == "pipe").unwrap();
        assert_eq!((pipe.note.as_str(), pipe.fds.len()), ("two", 2));
        rustix::io::write(&pipe.fds[1], b"hello").unwrap();
        let mut got = [0; 5];
        rustix::io::read(&pipe.fds[0], &mut got).unwrap();
        assert_eq!(&got, b"hello");
        drop(second);
        let mut word = [0; 8];
        while word != 4u64.to_le_bytes() {
            rustix::io::pread(&memory, &mut word, 8).unwrap();
        }
        let (second, _) = Keeper::connect(&path).unwrap();
        second.end();
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_note_that_is_too_long_is_told_of_and_does_not_leave_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let thread = keeper(&path);
        let (manager, _) = Keeper::connect(&path).unwrap();
        let longest = "\"".repeat(NOTE_BYTES);
        let changes = vec![note("a", Some("one")), note("b", Some(&longest))];
        assert!(manager.change(changes).unwrap().is_empty());
        for bytes in [NOTE_BYTES + 1, PACKET_BYTES * 2, 8 << 20] {
            let changes = vec![note("a", Some(&"x".repeat(bytes))), note("c", Some("three"))];
            let too_long = TooLong { name: "a".into(), bytes };
            assert_eq!(manager.change(changes).unwrap(), [too_long]);
            assert!(manager.hold("d", &"x".repeat(bytes), None, &[]).is_err());
        }
        let (second, kept) = Keeper::connect(&path).unwrap();
        let told: Vec<_> = kept.iter().map(|k| (k.name.as_str(), k.note.as_str())).collect();
        assert_eq!(told.len(), 3);
        assert!(told[0].0 == "a" && told[0].1.starts_with("not kept"), "{:?}", told[0]);
        assert_eq!(&told[1..], [("b", longest.as_str()), ("c", "three")]);
        second.end();
        thread.join().unwrap().unwrap();
    }

    /// As a manager of another version may send it.
    #[test]
    fn a_note_that_is_too_long_takes_the_place_of_the_one_before_as_none() {
        let mut things = BTreeMap::new();
        let mut said = |text: String| {
            super::note(&mut things, note("a", Some(&text)));
            things["a"].note.clone()
        };
        assert_eq!(said("one".into()), "one");
        let long = NOTE_BYTES + 1;
        assert_eq!(said("x".repeat(long)), "not kept: 32769 bytes, 32768 at most");
        assert_eq!(said("two".into()), "two");
    }

    #[test]
    fn a_keeper_that_was_replaced_ends_and_touches_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let old = keeper(&path);
        let (manager, _) = Keeper::connect(&path).unwrap();
        let memory = vfun_window::memfd("k", 4096).unwrap();
        let will = Some(Will { offset: 8, value: 4 });
        manager.hold("window", "", will, &[memory.as_fd()]).unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = keeper(&path);
        drop(manager);
        old.join().unwrap().unwrap();
        let mut word = [0; 8];
        rustix::io::pread(&memory, &mut word, 8).unwrap();
        assert_eq!(word, [0; 8], "the manager goes on with another keeper");
        let (manager, kept) = Keeper::connect(&path).unwrap();
        assert!(kept.is_empty());
        manager.end();
        new.join().unwrap().unwrap();
    }

    #[test]
    fn a_keeper_whose_root_is_gone_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let thread = keeper(&path);
        drop(Keeper::connect(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        thread.join().unwrap().unwrap();
    }
}
