//! Words to services, none of which may be lost: one whose socket is full is
//! told later, in the same order.

use super::Daemon;
use crate::core::{Event, ServiceId, WindowId};
use crate::limits::TELL_AGAIN;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use vfun_supervise::{Error, Open, ToService};
use vfun_wire::Handle;

/// Words that may wait for one service: beyond it, it hears nothing any more,
/// and is ended.
const UNTOLD_MAX: usize = 1 << 14;

/// Something that a service is to be told.
pub(super) enum Word {
    /// A message that comes without descriptors.
    Plain(ToService),
    /// A channel to serve, in this window, with these vectors. Descriptors are
    /// taken when it is sent: those of all that wait would be too many.
    Open(Open, WindowId, (u16, u16)),
    /// To hand a channel over, with the baton to pass, if there is one still.
    HandOver(Handle),
}

/// What became of it.
enum Told {
    Yes,
    /// Its socket is full, or it is gone.
    Later,
    /// It can never be told this.
    Never(io::Error),
}

impl Daemon {
    /// Tells a service something, now or later.
    pub(super) fn tell(&mut self, id: ServiceId, word: Word) {
        if !self.services.contains_key(&id) {
            return self.untellable(id, &word, &io::Error::other("its service is gone"));
        }
        let told = match self.untold.contains_key(&id) {
            true => Told::Later,
            false => self.tell_now(id, &word),
        };
        match told {
            Told::Yes => {}
            Told::Never(e) => self.untellable(id, &word, &e),
            Told::Later => {
                // One that is gone is noticed by its pidfd.
                let waiting = self.untold.entry(id).or_default();
                waiting.push_back(word);
                if waiting.len() > UNTOLD_MAX
                    && let Some(p) = self.services.get(&id)
                {
                    p.kill();
                }
            }
        }
    }

    /// Tells services what they could not be told.
    pub(super) fn tell_again(&mut self) {
        let ids: Vec<ServiceId> = self.untold.keys().copied().collect();
        for id in ids {
            let Some(mut waiting) = self.untold.remove(&id) else { continue };
            if !self.services.contains_key(&id) {
                continue;
            }
            while let Some(word) = waiting.front() {
                match self.tell_now(id, word) {
                    Told::Yes => {}
                    Told::Later => break,
                    Told::Never(e) => self.untellable(id, word, &e),
                }
                waiting.pop_front();
            }
            if !waiting.is_empty() {
                self.untold.insert(id, waiting);
            }
        }
    }

    pub(super) fn tell_patience(&self) -> Option<Duration> {
        (!self.untold.is_empty()).then_some(TELL_AGAIN)
    }

    fn tell_now(&mut self, id: ServiceId, word: &Word) -> Told {
        let sent = match word {
            Word::Plain(message) => match self.services.get(&id) {
                Some(p) => vfun_supervise::send(p.socket(), message, &[]),
                None => return Told::Later,
            },
            Word::HandOver(channel) => self.send_hand_over(id, *channel),
            Word::Open(open, window, vectors) => {
                self.share_window(id, *window);
                self.make_room_for_threads(id);
                self.send_open(id, open, *window, *vectors)
            }
        };
        let Err(e) = sent else { return Told::Yes };
        let open = matches!(word, Word::Open(..));
        match e {
            Error::Io(e) => match Errno::from_io_error(&e) {
                // Of descriptors on their way there may be only so many, too.
                Some(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS) => Told::Later,
                // Its end is about to be noticed, and what follows from that
                // is better than a channel that cannot be opened.
                Some(Errno::PIPE | Errno::CONNRESET) => Told::Later,
                _ if open => Told::Never(e),
                _ => Told::Later,
            },
            e => Told::Never(io::Error::other(e)),
        }
    }

    fn send_hand_over(&mut self, id: ServiceId, channel: Handle) -> Result<(), Error> {
        let gone = || io::Error::other("its service is gone");
        let process = self.services.get(&id).ok_or_else(gone)?;
        let baton = self.batons.get(&channel);
        let fds: Vec<_> = baton.iter().map(|b| b.as_fd()).collect();
        let word = ToService::HandOver { channel: channel.0 };
        vfun_supervise::send(process.socket(), &word, &fds)?;
        self.batons.remove(&channel);
        Ok(())
    }

    fn send_open(
        &mut self,
        id: ServiceId,
        open: &Open,
        window: WindowId,
        vectors: (u16, u16),
    ) -> Result<(), Error> {
        let gone = || io::Error::other("its service or window is gone");
        let process = self.services.get(&id).ok_or_else(gone)?;
        let a = self.windows.get(&window).ok_or_else(gone)?;
        let file = a.window.fd();
        let reading = a.window.for_reading()?;
        let mut fds = vec![reading.as_fd(), file.as_fd()];
        if let Some(bells) = a.window.bells() {
            fds.push(bells.to_host[usize::from(vectors.0)].as_fd());
            fds.push(bells.to_app[usize::from(vectors.1)].as_fd());
        }
        let baton = if open.standby { Some(vfun_window::baton()?) } else { None };
        if let Some((_, taker)) = &baton {
            fds.push(taker.as_fd());
        }
        vfun_supervise::send(process.socket(), &ToService::Open(open.clone()), &fds)?;
        if let Some((giver, _)) = baton {
            self.batons.insert(Handle(open.channel), giver);
        }
        Ok(())
    }

    /// A service will never be told this: a channel that it was to open has none.
    fn untellable(&mut self, service: ServiceId, word: &Word, e: &io::Error) {
        match word {
            Word::Open(open, ..) => {
                let reason = format!("the channel could not be passed to its service: {e}");
                let channel = Handle(open.channel);
                self.events.push_back(Event::ChannelOpenFailed { service, channel, reason });
            }
            Word::Plain(_) | Word::HandOver(_) => {
                tracing::debug!(service, "it could not be told something: {e}")
            }
        }
    }
}
