//! Answers, written by several threads to one connection.

use crate::limits::WRITE_TIME;
use crate::outcome;
use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vfun_tls::Line;
use vfun_wire::Nack;
use vfun_wire::frame::{ACK, CALL, CallAnswer, FrameHead, NACK};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

const HEAD: usize = size_of::<FrameHead>();

/// The writing side of a connection.
pub struct Output {
    line: Arc<Line>,
    writing: Mutex<()>,
    ended: AtomicBool,
}

fn head(kind: u16, id: u64, body_bytes: usize) -> FrameHead {
    FrameHead {
        body_bytes: U32::new(body_bytes as u32),
        kind: U16::new(kind),
        reserved: U16::ZERO,
        id: U64::new(id),
    }
}

/// Appends a frame.
fn push(to: &mut Vec<u8>, kind: u16, id: u64, body: &[u8]) {
    to.extend_from_slice(head(kind, id, body.len()).as_bytes());
    to.extend_from_slice(body);
}

/// Appends the ack or nack of request `id`.
pub fn push_answer(to: &mut Vec<u8>, id: u64, answer: &Result<Vec<u8>, Nack>) {
    match answer {
        Ok(body) => push(to, ACK, id, body),
        Err(nack) => push(to, NACK, id, nack.encode().as_bytes()),
    }
}

/// Appends the answer of call `id`, whose results `take` appends.
pub fn push_call(
    to: &mut Vec<u8>,
    id: u64,
    take: impl FnOnce(&mut Vec<u8>) -> vfun::Result<usize>,
) {
    let from = to.len();
    let ok = CallAnswer { status: U32::ZERO, broken: U32::ZERO };
    push(to, CALL, id, ok.as_bytes());
    if let Err(e) = take(to) {
        to.truncate(from);
        let (answer, words) = outcome::of_call(&e);
        push(to, CALL, id, answer.as_bytes());
        to.extend_from_slice(&words);
    }
    let body = (to.len() - from - HEAD) as u32;
    to[from..from + size_of::<U32>()].copy_from_slice(&body.to_le_bytes());
}

/// Appends the answer of call `id` that needs no function.
pub fn push_plain_call(to: &mut Vec<u8>, id: u64, answer: &[u8]) {
    push(to, CALL, id, answer);
}

impl Output {
    /// Takes over a connection's writing side.
    pub fn new(line: Arc<Line>) -> io::Result<Self> {
        line.tcp().set_write_timeout(Some(WRITE_TIME))?;
        Ok(Output { line, writing: Mutex::new(()), ended: AtomicBool::new(false) })
    }

    /// Sends whole frames. A peer that does not take them ends its connection.
    pub fn send(&self, frames: &[u8]) {
        if frames.is_empty() || self.ended() {
            return;
        }
        let _writing = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        let mut tcp = self.line.tcp();
        let sent = self.line.sealed(frames).try_for_each(|piece| tcp.write_all(&piece?));
        if let Err(e) = sent {
            if !self.ended() {
                tracing::info!("a caller takes no answers: {e}");
            }
            self.end();
        }
    }

    /// Ends the connection: whoever reads it sees its end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.line.tcp().shutdown(Shutdown::Both);
    }

    /// Whether it was ended.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
