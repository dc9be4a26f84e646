//! The driver of an API: from the bytes of a call to the bytes of an answer.

use crate::attached::{Lending, Memory};
use crate::backend::{Backend, Returned};
use crate::connection::{Connection, only};
use crate::events::Events;
use crate::order::{Early, Order, Turn};
use crate::tokens::{self, Token};
use std::sync::Arc;
use vfun_remoting::{AnswerHead, CallHead, Reader, Records, Refusal, Wiped, Writer, numbers, wipe};
use vfun_sdk::{Args, Config, Driver, DriverError, Out};

/// A connection to one API.
pub struct Remoted<B: Backend> {
    connection: Connection<B>,
    order: Order,
    /// The two halves have compared their descriptions.
    greeted: bool,
    /// By which a channel of events is known to belong to this connection.
    token: Option<Token>,
    /// The events of the connection that this channel listens to. Calls have another channel.
    hears: Option<Arc<Events>>,
    call: Vec<u8>,
    answer: Vec<u8>,
    scratch: Vec<u8>,
    most_bytes: usize,
}

/// Whether a call, or one of a batch, is wiped after use.
fn is_secret<B: Backend>(call: &[u8]) -> bool {
    match CallHead::split(call) {
        Ok((head, body)) if head.call == numbers::BATCH => {
            Records::new(body).flatten().any(|record| B::is_secret(record.call))
        }
        Ok((head, _)) => B::is_secret(head.call),
        Err(_) => false,
    }
}

/// What becomes of the cell of a call.
enum Then {
    /// It is answered with what was written.
    Answer,
    /// It stays open.
    Open,
}

impl<B: Backend> Driver for Remoted<B> {
    fn init(config: &Config) -> Result<Self, DriverError> {
        Ok(Remoted::over(B::open(config)?, config.cell_bytes as usize))
    }

    fn call(&mut self, args: &Args<'_>, out: &mut Out<'_>) -> Result<(), DriverError> {
        self.copy(args)?;
        let mut call = std::mem::take(&mut self.call);
        let then = self.take(&call, out);
        let secret = is_secret::<B>(&call);
        if secret {
            wipe(&mut call);
        }
        self.call = call;
        let done = match then? {
            Then::Answer => out.put(&self.answer),
            Then::Open => Ok(()),
        };
        if secret {
            wipe_all(&mut self.answer);
            wipe_all(&mut self.scratch);
        }
        done
    }
}

/// Also what stands behind the end: an answer that was too long, and was refused.
fn wipe_all(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.capacity(), 0);
    wipe(bytes);
}

impl<B: Backend> Remoted<B> {
    /// A new connection, whose cells have so many bytes of data space.
    pub(crate) fn over(backend: B, cell_bytes: usize) -> Self {
        Remoted {
            connection: Connection::over(backend),
            order: Order::default(),
            greeted: false,
            token: None,
            hears: None,
            call: vec![],
            // A vector that grows leaves its bytes behind.
            answer: Vec::with_capacity(cell_bytes),
            scratch: vec![],
            most_bytes: vfun_sdk::abi::INLINE_BYTES.max(cell_bytes),
        }
    }

    /// Lends memory without an open call.
    #[cfg(feature = "trial")]
    pub(crate) fn lend(&mut self, handle: u64, memory: Memory) {
        let memory = Lending::Buffer(memory);
        self.connection.attached.insert(handle, memory, None).expect("a handle that is not lent");
    }

    /// Names of the objects of a kind.
    #[cfg(feature = "trial")]
    pub(crate) fn names(&self, kind: crate::Kind) -> Vec<vfun_remoting::Name> {
        self.connection.names(kind)
    }

    /// The one copy: what is checked below cannot change any more.
    fn copy(&mut self, args: &Args<'_>) -> Result<(), DriverError> {
        if args.len() > self.most_bytes {
            return Err(DriverError::bad_args(format!("a call of {} bytes", args.len())));
        }
        self.call.resize(args.len(), 0);
        args.read_at(0, &mut self.call)
    }

    /// Makes the call if it is its turn, and then those that waited for it.
    fn take(&mut self, call: &[u8], out: &mut Out<'_>) -> Result<Then, DriverError> {
        let (head, body) = match CallHead::split(call) {
            Ok(split) => split,
            Err(refusal) => return Ok(self.refuse(refusal)),
        };
        if !self.greeted && head.call != numbers::HELLO {
            return Ok(self.refuse(Refusal::Fresh));
        }
        let own = matches!(
            head.call,
            numbers::HELLO | numbers::LISTEN | numbers::EVENTS | numbers::ATTACH
        );
        match self.order.turn(head.sequence) {
            // These hold a cell of their own and stand in no order.
            _ if own && head.sequence != 0 => return Ok(self.refuse(Refusal::Malformed)),
            Turn::Now => {}
            Turn::Past => return Ok(self.refuse(Refusal::Malformed)),
            Turn::Early => {
                let early = Early { bytes: Wiped(call.to_vec()), call: out.later()? };
                self.order.keep(head.sequence, early);
                return Ok(Then::Open);
            }
        }
        let then = match head.call {
            numbers::HELLO => self.hello(body),
            numbers::LISTEN => self.listen(body),
            numbers::EVENTS => self.wait_for_events(out)?,
            numbers::ATTACH => self.attach(body, out)?,
            _ => self.make(head.call, body),
        };
        if head.sequence != 0 {
            let answer = std::mem::take(&mut self.answer);
            self.make_those_that_waited(head.sequence);
            self.answer = answer;
        }
        Ok(then)
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Then {
        let head = AnswerHead { refusal: Some(refusal), ..AnswerHead::default() };
        Writer::answer(&mut self.answer).set_head(head);
        Then::Answer
    }

    fn make_those_that_waited(&mut self, made: u32) {
        let mut next = self.order.made(made);
        while let Some(early) = next {
            let (head, body) = CallHead::split(&early.bytes).expect("read before");
            self.make(head.call, body);
            let _ = early.call.answer(&self.answer); // cancelled: nobody waits any more
            next = self.order.made(head.sequence);
        }
    }

    fn hello(&mut self, body: &[u8]) -> Then {
        let mut args = Reader::new(body);
        match (args.u64(), args.end()) {
            (Ok(theirs), Ok(())) if theirs == B::DESCRIPTION => {
                self.greeted = true;
                let token =
                    *self.token.get_or_insert_with(|| tokens::make(&self.connection.events));
                let mut reply = Writer::answer(&mut self.answer);
                reply.u64(B::DESCRIPTION);
                token.into_iter().for_each(|half| reply.u64(half));
                Then::Answer
            }
            (Ok(_), Ok(())) => self.refuse(Refusal::Different),
            _ => self.refuse(Refusal::Malformed),
        }
    }

    fn wait_for_events(&mut self, out: &mut Out<'_>) -> Result<Then, DriverError> {
        let Some(events) = self.hears.clone() else {
            return Ok(self.refuse(Refusal::Unsupported));
        };
        let room = out.capacity();
        if let Err(refusal) = events.check(room) {
            return Ok(self.refuse(refusal));
        }
        events.wait(out.on_event()?, room);
        Ok(Then::Open)
    }

    fn listen(&mut self, body: &[u8]) -> Then {
        let mut args = Reader::new(body);
        let (Ok(a), Ok(b), Ok(())) = (args.u64(), args.u64(), args.end()) else {
            return self.refuse(Refusal::Malformed);
        };
        match tokens::find([a, b]) {
            Some(events) => {
                self.hears = Some(events);
                Writer::answer(&mut self.answer);
                Then::Answer
            }
            None => self.refuse(Refusal::Object),
        }
    }

    fn attach(&mut self, body: &[u8], out: &mut Out<'_>) -> Result<Then, DriverError> {
        let Ok(handle) = only(&mut Reader::new(body)) else {
            return Ok(self.refuse(Refusal::Malformed));
        };
        let memory = match out.pages(handle) {
            Ok(place) => Lending::Pages(place),
            // No table: a buffer, or nothing of this app's.
            Err(e) if e.code == vfun_sdk::abi::BAD_ARGS => {
                let buffer = out.buffer(handle)?;
                Lending::Buffer(Memory { start: buffer.as_mut_ptr(), len: buffer.len() })
            }
            Err(e) => return Err(e),
        };
        // A refusal answers the call with an error.
        let _ = self.connection.attached.insert(handle, memory, out.on_event()?);
        Ok(Then::Open)
    }

    /// A call, or a batch of them.
    fn make(&mut self, call: u16, body: &[u8]) -> Then {
        if call == numbers::BATCH {
            return self.make_all(body);
        }
        let mut reply = Writer::answer(&mut self.answer);
        match self.connection.make(call, Reader::new(body), &mut reply) {
            Ok(_) => Then::Answer,
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// The records of a batch, in order. One that fails does not stop those after it: they were
    /// said to have begun when they were collected.
    fn make_all(&mut self, body: &[u8]) -> Then {
        let mut head = AnswerHead::default();
        let mut reply = Writer::answer(&mut self.answer);
        for record in Records::new(body) {
            let (waits, made) = match record {
                Err(refusal) => (true, Err(refusal)),
                Ok(r) if r.waits => {
                    (true, self.connection.make(r.call, Reader::new(r.body), &mut reply))
                }
                Ok(r) => {
                    let mut nobody = Writer::answer(&mut self.scratch);
                    (false, self.connection.make(r.call, Reader::new(r.body), &mut nobody))
                }
            };
            let failure = match made {
                Ok(Returned::Fine) => continue,
                Ok(Returned::Failure(_)) if waits => continue,
                Ok(Returned::Failure(status)) => status,
                Err(refusal) if waits => {
                    head.refusal = Some(refusal);
                    reply.forget_body();
                    break;
                }
                Err(refusal) => u32::from(refusal.number()) << 16,
            };
            if head.failed == 0 {
                head.first = failure;
            }
            head.failed = head.failed.saturating_add(1);
        }
        reply.set_head(head);
        Then::Answer
    }
}

impl<B: Backend> Drop for Remoted<B> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            tokens::forget(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Kind, Native};
    use vfun_sdk::OpenCalls;

    struct Nothing;

    impl Backend for Nothing {
        const DESCRIPTION: u64 = 1;
        fn open(_: &Config) -> Result<Self, DriverError> {
            Ok(Nothing)
        }
        fn dispatch(
            &mut self,
            _: u16,
            _: &mut Context<'_>,
            _: Reader<'_>,
            _: &mut Writer<'_>,
        ) -> Result<Returned, Refusal> {
            Ok(Returned::Fine)
        }
        fn is_secret(_: u16) -> bool {
            false
        }
        fn destroy(&mut self, _: Kind, _: Native) -> bool {
            true
        }
    }

    /// A thread that sleeps in the channel of calls would make each answer there ring.
    #[test]
    fn the_channel_of_calls_hears_no_events() {
        let calls = OpenCalls::new(|| ());
        let mut remoted = Remoted::over(Nothing, 4096);
        let mut make = |call, words: &[u64]| {
            let mut bytes = vec![];
            let mut w = Writer::call(&mut bytes, CallHead { sequence: 0, call });
            words.iter().for_each(|word| w.u64(*word));
            let mut room = [0; 256];
            let mut out = Out::private_later(&mut room, &calls);
            remoted.call(&Args::private(&bytes), &mut out).expect("taken");
            let (open, len) = (out.is_later(), out.len());
            (open, AnswerHead::split(&room[..len]).map(|(head, _)| head.refusal))
        };
        assert_eq!(make(numbers::HELLO, &[1]), (false, Ok(None)));
        assert_eq!(make(numbers::EVENTS, &[]), (false, Ok(Some(Refusal::Unsupported))));
    }
}
