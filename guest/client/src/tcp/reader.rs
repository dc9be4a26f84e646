//! Frames out of a stream of bytes, whoever reads next.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};
use vfun_tls::Line;
use vfun_wire::frame::FrameHead;
use vfun_wire::limits::FRAME_BYTES_MAX;
use zerocopy::FromBytes;

/// Bytes fetched at once: many small frames, or the start of a large one.
const FETCH: usize = 64 << 10;
const HEAD: usize = size_of::<FrameHead>();

/// A frame in private memory, whole.
#[derive(Debug)]
pub(crate) struct Frame {
    pub kind: u16,
    pub id: u64,
    pub body: Vec<u8>,
}

/// How long to wait for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Takes what is there and does not wait.
    Now,
    /// Waits until this moment and no longer.
    Until(Instant),
    /// Waits for as long as the connection is there.
    Always,
}

/// What was read of the frame under way.
pub(super) struct Reader {
    fetched: Box<[u8]>,
    start: usize,
    end: usize,
    large: Option<(FrameHead, Vec<u8>, usize)>,
}

impl Reader {
    pub fn new() -> Self {
        Reader { fetched: vec![0; FETCH].into(), start: 0, end: 0, large: None }
    }

    /// The next frame; `None` if it does not arrive in time.
    pub fn read(&mut self, line: &Line, patience: Patience) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            let room = match &mut self.large {
                Some((_, body, got)) => &mut body[*got..],
                None => {
                    self.fetched.copy_within(self.start..self.end, 0);
                    (self.start, self.end) = (0, self.end - self.start);
                    &mut self.fetched[self.end..]
                }
            };
            let Some(n) = receive(line, room, patience)? else { return Ok(None) };
            match &mut self.large {
                Some((_, _, got)) => *got += n,
                None => self.end += n,
            }
        }
    }

    /// A frame out of what is here already.
    fn take(&mut self) -> Result<Option<Frame>> {
        if let Some((head, body, got)) = self.large.take() {
            if got < body.len() {
                self.large = Some((head, body, got));
                return Ok(None);
            }
            return Ok(Some(Frame { kind: head.kind.get(), id: head.id.get(), body }));
        }
        let here = &self.fetched[self.start..self.end];
        let Ok((head, rest)) = FrameHead::read_from_prefix(here) else { return Ok(None) };
        let bytes = head.body_bytes.get();
        if bytes > FRAME_BYTES_MAX || head.reserved.get() != 0 {
            let what = format!(
                "it sent a frame of {bytes} bytes (limit {FRAME_BYTES_MAX}), or reserved bytes set"
            );
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        let bytes = bytes as usize;
        if let Some(body) = rest.get(..bytes) {
            let body = body.to_vec();
            self.start += HEAD + bytes;
            return Ok(Some(Frame { kind: head.kind.get(), id: head.id.get(), body }));
        }
        if HEAD + bytes > FETCH {
            let mut body = vec![0; bytes];
            let got = rest.len();
            body[..got].copy_from_slice(rest);
            (self.start, self.end) = (0, 0);
            self.large = Some((head, body, got));
        }
        Ok(None)
    }
}

/// Bytes received, more than none; `None` if none arrive in time.
fn receive(line: &Line, room: &mut [u8], patience: Patience) -> Result<Option<usize>> {
    loop {
        if let Patience::Until(until) = patience {
            let left = until.saturating_duration_since(Instant::now());
            if !wait_for(line, PollFlags::IN, left)?
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
            {
                return Ok(None);
            }
        }
        match line.recv(&mut *room, matches!(patience, Patience::Always)) {
            Ok(0) => {
                return Err(Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
            }
            Ok(n) => return Ok(Some(n)),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => match patience {
                Patience::Until(until) if Instant::now() < until => {}
                Patience::Always => {}
                _ => return Ok(None),
            },
            Err(e) => return Err(e),
        }
    }
}

/// Waits until the line is ready for one of `flags`; which it is.
pub(super) fn wait_for(line: &Line, flags: PollFlags, timeout: Duration) -> Result<PollFlags> {
    if flags.contains(PollFlags::IN) && line.holds_some() {
        return Ok(PollFlags::IN);
    }
    let mut fds = [PollFd::new(line.tcp(), flags)];
    let ts = Timespec {
        tv_sec: timeout.as_secs().min(1 << 30) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&ts)) {
        Ok(0) | Err(Errno::INTR) => Ok(PollFlags::empty()),
        Ok(_) => Ok(fds[0].revents()),
        Err(e) => Err(e.into()),
    }
}

/// Frames out of bytes that came all at once.
#[cfg(fuzzing)]
pub(super) fn fuzz(bytes: &[u8]) {
    let mut reader = Reader::new();
    let n = bytes.len().min(reader.fetched.len());
    reader.fetched[..n].copy_from_slice(&bytes[..n]);
    reader.end = n;
    let mut taken = 0;
    while let Ok(Some(frame)) = reader.take() {
        taken += HEAD + frame.body.len();
        assert!(taken <= n, "more was taken than came");
    }
}
