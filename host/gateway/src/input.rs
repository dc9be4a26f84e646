//! Frames out of a connection's bytes. Room is made as bytes arrive, not as a
//! peer says that they will.

use crate::limits::{FETCH, FRAME_BYTES_PER_SECOND, FRAME_TIME};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::time::{Duration, Instant};
use vfun_tls::Line;
use vfun_wire::frame::FrameHead;
use zerocopy::FromBytes;

const HEAD: usize = size_of::<FrameHead>();

/// A frame: its body lies in the input until the next fill.
pub struct Frame {
    pub kind: u16,
    pub id: u64,
    pub body: Range<usize>,
}

/// Bytes that have come and are not served yet.
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Since when the frame at `start` is incomplete.
    partial: Option<Instant>,
}

/// Why a connection is not read any more.
#[derive(Debug)]
pub enum Ended {
    /// The peer closed it, between two frames.
    Closed,
    /// The peer does not keep to the protocol.
    Broken(String),
}

impl From<Errno> for Ended {
    fn from(e: Errno) -> Self {
        Ended::Broken(format!("the connection failed: {}", io::Error::from(e)))
    }
}

impl Input {
    pub fn new() -> Self {
        Input { bytes: vec![0; FETCH], start: 0, end: 0, partial: None }
    }

    pub fn body(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.body.clone()]
    }

    /// The next complete frame of at most `limit` bytes of body.
    pub fn take(&mut self, limit: usize) -> Result<Option<Frame>, Ended> {
        let here = &self.bytes[self.start..self.end];
        let Ok((head, rest)) = FrameHead::read_from_prefix(here) else { return Ok(None) };
        let bytes = head.body_bytes.get() as usize;
        if bytes > limit {
            return Err(Ended::Broken(format!(
                "a frame of {bytes} bytes, where {limit} are the most"
            )));
        }
        if head.reserved.get() != 0 {
            return Err(Ended::Broken("a frame with reserved bytes set".into()));
        }
        if rest.len() < bytes {
            return Ok(None);
        }
        let body = self.start + HEAD..self.start + HEAD + bytes;
        self.start = body.end;
        self.partial = None;
        Ok(Some(Frame { kind: head.kind.get(), id: head.id.get(), body }))
    }

    /// Bytes of the frame under way, as far as its head says.
    fn needed(&self) -> usize {
        let here = &self.bytes[self.start..self.end];
        FrameHead::read_from_prefix(here)
            .map_or(HEAD, |(head, _)| HEAD + head.body_bytes.get() as usize)
    }

    /// Makes room for more of the frame under way.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            // At most twice what has come: a head alone reserves nothing.
            let more = self.needed().min(2 * self.bytes.len()).max(self.end + HEAD);
            self.bytes.resize(more, 0);
        }
    }

    /// Reads what has come. With `wait`, waits for it as long as [`Line::recv`] does. False if nothing came. Call only after [`Input::take`]
    /// has found no frame.
    pub fn fill(&mut self, line: &Line, wait: bool) -> Result<bool, Ended> {
        self.make_room();
        let room = &mut self.bytes[self.end..];
        let got = match line.recv(room, wait) {
            Ok(0) if self.start == self.end => return Err(Ended::Closed),
            Ok(0) => return Err(Ended::Broken("the connection closed within a frame".into())),
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(e) if e.kind() == ErrorKind::ConnectionReset && self.start == self.end => {
                return Err(Ended::Closed);
            }
            Err(e) => {
                let why = vfun_tls::of_caller(&e);
                return Err(Ended::Broken(format!("the connection failed: {why}")));
            }
        };
        self.end += got;
        if self.start == self.end {
            return Ok(false);
        }
        let since = *self.partial.get_or_insert_with(Instant::now);
        let share = Duration::from_secs(self.needed() as u64 / FRAME_BYTES_PER_SECOND);
        if since.elapsed() > FRAME_TIME + share {
            return Err(Ended::Broken("a frame took too long to arrive".into()));
        }
        Ok(got > 0)
    }

    /// Gives memory back that a large frame needed, once a connection is idle.
    pub fn shrink(&mut self) {
        if self.start == self.end && self.bytes.len() > FETCH {
            self.bytes = vec![0; FETCH];
            (self.start, self.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use zerocopy::IntoBytes;
    use zerocopy::little_endian::{U16, U32, U64};

    fn pair() -> (TcpStream, Line) {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let a = TcpStream::connect(l.local_addr().unwrap()).unwrap();
        (a, Line::plain(l.accept().unwrap().0))
    }

    fn frame(id: u64, body: &[u8]) -> Vec<u8> {
        let head = FrameHead {
            body_bytes: U32::new(body.len() as u32),
            kind: U16::new(9),
            reserved: U16::ZERO,
            id: U64::new(id),
        };
        [head.as_bytes(), body].concat()
    }

    fn next(input: &mut Input, from: &Line) -> Frame {
        loop {
            if let Some(f) = input.take(1 << 20).unwrap() {
                return f;
            }
            input.fill(from, true).unwrap();
        }
    }

    #[test]
    fn frames_survive_any_cut() {
        let (mut a, b) = pair();
        let big = vec![7; 300_000];
        let all = [frame(1, b""), frame(2, b"xyz"), frame(3, &big), frame(4, b"end")].concat();
        let writer = std::thread::spawn(move || {
            for piece in all.chunks(977) {
                a.write_all(piece).unwrap();
            }
            a
        });
        let mut input = Input::new();
        for (id, body) in [(1, &b""[..]), (2, b"xyz"), (3, &big), (4, b"end")] {
            let f = next(&mut input, &b);
            assert_eq!((f.id, f.kind), (id, 9));
            assert!(input.body(&f) == body);
        }
        drop(writer.join().unwrap());
        assert!(input.take(1 << 20).unwrap().is_none());
        assert!(matches!(input.fill(&b, true), Err(Ended::Closed)));
        input.shrink();
        assert_eq!(input.bytes.len(), FETCH);
    }

    #[test]
    fn a_wild_length_reserves_nothing() {
        let (mut a, b) = pair();
        let mut input = Input::new();
        a.write_all(&frame(1, &[0; 4000])[..2000]).unwrap();
        input.fill(&b, true).unwrap();
        assert!(input.take(1 << 26).unwrap().is_none());
        assert!(input.fill(&b, false).is_ok_and(|got| !got));
        assert_eq!(input.bytes.len(), FETCH);
        let mut wild = frame(1, b"");
        wild[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let (mut a, b) = pair();
        a.write_all(&wild).unwrap();
        let mut input = Input::new();
        input.fill(&b, true).unwrap();
        assert!(matches!(input.take(4096), Err(Ended::Broken(why)) if why.contains("4096")));
    }
}

/// Frames out of bytes that came in pieces.
#[cfg(fuzzing)]
pub fn fuzz(mut bytes: &[u8], limit: usize) {
    let mut input = Input::new();
    let mut taken = 0;
    let all = bytes.len();
    loop {
        match input.take(limit) {
            Ok(Some(frame)) => {
                taken += HEAD + input.body(&frame).len();
                assert!(frame.body.len() <= limit && taken <= all);
            }
            Ok(None) if bytes.is_empty() => return,
            Ok(None) => {
                input.make_room();
                let room = &mut input.bytes[input.end..];
                assert!(!room.is_empty(), "no room for what comes");
                let n = room.len().min(bytes.len()).min(1 + all / 3);
                room[..n].copy_from_slice(&bytes[..n]);
                input.end += n;
                bytes = &bytes[n..];
            }
            Err(_) => return,
        }
    }
}
