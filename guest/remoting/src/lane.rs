//! Calls that do not wait for their answers, in their order.

use crate::failure::Failure;
use std::collections::VecDeque;
use std::time::Duration;
use vfun::{Error, Function, OwnedPending};
use vfun_remoting::limits::{BATCH_BYTES, RECORDS_MAX};
use vfun_remoting::{AnswerHead, CallHead, HEAD_BYTES, Writer, numbers, put_record};

/// How long a call waits at a time for a cell that another thread's call holds.
const CELL_PAUSE: Duration = Duration::from_micros(20);

/// What was collected and what is under way, of one connection.
pub(crate) struct Lane {
    /// The number of the next ordered call.
    next: u32,
    /// A batch that is being collected, from its head on.
    batch: Vec<u8>,
    records: usize,
    /// Batches that were sent, the oldest first.
    flying: VecDeque<OwnedPending>,
    /// The first failure of a call that did not wait, as its answer said it.
    failed: Option<u32>,
}

impl Default for Lane {
    fn default() -> Self {
        let records = 0;
        Lane { next: 1, batch: vec![], records, flying: VecDeque::new(), failed: None }
    }
}

impl Lane {
    /// Whether nothing is collected and nothing under way.
    pub fn is_clear(&self) -> bool {
        self.records == 0 && self.flying.is_empty()
    }

    /// Collects a call; whether the batch is full and must be sent.
    pub fn collect(&mut self, call: u16, write: impl FnOnce(&mut Writer<'_>)) -> bool {
        self.put(call, false, write);
        self.batch.len() >= BATCH_BYTES || self.records >= RECORDS_MAX - 1
    }

    fn put(&mut self, call: u16, waits: bool, write: impl FnOnce(&mut Writer<'_>)) {
        if self.records == 0 {
            self.batch.clear();
            self.batch.resize(HEAD_BYTES, 0);
        }
        put_record(&mut self.batch, call, waits, write);
        self.records += 1;
    }

    /// Sends what was collected, without waiting for its answer.
    pub fn flush(&mut self, function: &Function) -> Result<(), Failure> {
        if self.records > 0 {
            let sent = self.send(function)?;
            self.flying.push_back(sent);
        }
        Ok(())
    }

    /// Sends what was collected and one call behind it, whose answer the caller waits for.
    pub fn send_with(
        &mut self,
        function: &Function,
        call: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<OwnedPending, Failure> {
        self.put(call, true, write);
        self.send(function)
    }

    fn send(&mut self, function: &Function) -> Result<OwnedPending, Failure> {
        let head = CallHead { sequence: self.next, call: numbers::BATCH };
        self.batch[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        let sent = loop {
            match function.submit_parts(&[&self.batch[..]]) {
                Err(Error::Full { .. }) => self.wait_for_a_cell()?,
                sent => break sent,
            }
        };
        // Sent or lost: nothing is sent twice.
        self.records = 0;
        let sent = sent.map_err(|e| Failure::from(&e))?;
        self.next = self.next.checked_add(1).unwrap_or(1);
        Ok(sent)
    }

    fn wait_for_a_cell(&mut self) -> Result<(), Failure> {
        match self.flying.pop_front() {
            Some(oldest) => self.land(oldest),
            None => {
                std::thread::sleep(CELL_PAUSE);
                Ok(())
            }
        }
    }

    fn land(&mut self, sent: OwnedPending) -> Result<(), Failure> {
        let mut answer = vec![];
        sent.append_to(&mut answer).map_err(|e| Failure::from(&e))?;
        let (head, _) = AnswerHead::split(&answer)?;
        self.note(head);
        head.refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Notes what an answer says of calls that did not wait.
    pub fn note(&mut self, head: AnswerHead) {
        if head.failed > 0 {
            self.failed.get_or_insert(head.first);
        }
    }

    /// Takes the answers that are there.
    pub fn reap(&mut self) -> Result<(), Failure> {
        while self.flying.front().is_some_and(OwnedPending::poll) {
            let oldest = self.flying.pop_front().expect("looked at");
            self.land(oldest)?;
        }
        Ok(())
    }

    /// The first failure of a call that did not wait, once.
    pub fn take_failed(&mut self) -> Option<u32> {
        self.failed.take()
    }
}
