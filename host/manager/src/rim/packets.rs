//! What helpers and the manager say to each other by packets: JSON, one word each.

use super::Kind;
use super::room::Room;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::fd::OwnedFd;

/// What reading from a helper came to.
pub(super) enum HelperSaid<W> {
    Word(W),
    Nothing,
    /// It is not to be heard any more, and why.
    Broken(String),
}

/// The next word of a helper, of so many bytes at most. Its words are called `what`.
pub(super) fn hear<W: DeserializeOwned>(
    socket: &OwnedFd,
    most: usize,
    what: &str,
) -> HelperSaid<W> {
    // One byte more than there may be, to see that there are more.
    let mut bytes = vec![0; most + 1];
    let got = rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT);
    match got.map(|(n, _)| n) {
        Ok(0) => HelperSaid::Broken("it closed its socket".into()),
        Ok(n) if n > most => HelperSaid::Broken("it sent a packet that is too long".into()),
        Ok(n) => match serde_json::from_slice(&bytes[..n]) {
            Ok(said) => HelperSaid::Word(said),
            Err(e) => HelperSaid::Broken(format!("it sent what is no {what}: {e}")),
        },
        Err(Errno::AGAIN | Errno::INTR) => HelperSaid::Nothing,
        Err(e) => HelperSaid::Broken(format!("its socket failed: {e}")),
    }
}

/// What a helper is still to be told.
pub(super) trait Untold {
    type Word: Serialize;
    fn next(&mut self, now: u64) -> Option<Self::Word>;
    /// It was told this.
    fn told(&mut self, now: u64, word: &Self::Word);
}

/// The socket to a helper, watched as this kind.
pub(super) struct ToHelper<'a> {
    pub socket: &'a OwnedFd,
    pub room: &'a mut Room,
    pub epoll: &'a OwnedFd,
    pub kind: Kind,
}

impl ToHelper<'_> {
    /// Tells it so many words at most, as long as it takes them.
    pub fn pass_on(self, untold: &mut impl Untold, most: usize, now: u64) -> Result<(), Errno> {
        for _ in 0..most {
            let Some(word) = untold.next(now) else {
                // What it refused stays the next: nothing is left of that.
                self.room.took();
                break;
            };
            let bytes = serde_json::to_vec(&word).expect("plain data");
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(self.socket, &bytes, flags) {
                Ok(_) => {
                    untold.told(now, &word);
                    self.room.took();
                }
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    self.room.refused(now);
                    break;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        let Some(full) = self.room.watch() else { return Ok(()) };
        let room = if full { EventFlags::OUT } else { EventFlags::empty() };
        epoll::modify(self.epoll, self.socket, self.kind.token(0), EventFlags::IN | room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::{CreateFlags, EventData};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn sockets() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// Numbers up to a last one.
    struct Numbers(u64, u64);

    impl Untold for Numbers {
        type Word = u64;
        fn next(&mut self, _: u64) -> Option<u64> {
            (self.0 <= self.1).then_some(self.0)
        }
        fn told(&mut self, _: u64, word: &u64) {
            assert_eq!(*word, self.0);
            self.0 += 1;
        }
    }

    #[test]
    fn words_come_one_by_one_and_nonsense_is_named() {
        let (ours, theirs) = sockets();
        let say = |bytes: &[u8]| rustix::net::send(&theirs, bytes, SendFlags::empty()).unwrap();
        assert!(matches!(hear::<u64>(&ours, 4, "number"), HelperSaid::Nothing));
        say(b"12");
        say(b"x");
        say(b"12345");
        assert!(matches!(hear::<u64>(&ours, 4, "number"), HelperSaid::Word(12)));
        let broken = |said| match said {
            HelperSaid::<u64>::Broken(why) => why,
            _ => panic!("that is a word"),
        };
        assert!(broken(hear(&ours, 4, "number")).contains("what is no number"));
        assert!(broken(hear(&ours, 4, "number")).contains("too long"));
        drop(theirs);
        assert!(broken(hear(&ours, 4, "number")).contains("closed"));
    }

    #[test]
    fn what_there_is_no_room_for_is_told_later() {
        let (ours, theirs) = sockets();
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, &ours, EventData::new_u64(0), EventFlags::IN).unwrap();
        let (mut room, mut numbers) = (Room::default(), Numbers(0, 99_999));
        let pass_on = |room: &mut Room, numbers: &mut Numbers| {
            let to = ToHelper { socket: &ours, room, epoll: &epoll, kind: Kind::LinksSocket };
            to.pass_on(numbers, 1_000_000, 7).unwrap();
        };
        pass_on(&mut room, &mut numbers);
        assert!(room.is_full() && (1..100_000).contains(&numbers.0), "{}", numbers.0);
        let mut heard = 0;
        while heard < 100_000 {
            match hear::<u64>(&theirs, 8, "number") {
                HelperSaid::Word(word) => {
                    assert_eq!(word, heard);
                    heard += 1;
                }
                HelperSaid::Nothing => {
                    room.try_again();
                    pass_on(&mut room, &mut numbers);
                }
                HelperSaid::Broken(why) => panic!("{why}"),
            }
        }
        assert!(!room.is_full() || numbers.0 == 100_000);
    }
}
