//! Calls that do not wait for their answers, in their order.

use crate::batch::Batch;
use crate::failure::Failure;
use std::collections::VecDeque;
use std::time::Duration;
use vfun::{Error, Function, OwnedPending};
use vfun_remoting::{AnswerHead, Writer};

/// How long a call waits at a time for a cell that another thread's call holds.
pub(crate) const CELL_PAUSE: Duration = Duration::from_micros(20);

/// What was collected and what is under way, of one connection.
pub(crate) struct Lane {
    /// The number of the next ordered call.
    next: u32,
    /// What is being collected.
    batch: Batch,
    /// Batches that were sent, the oldest first.
    flying: VecDeque<OwnedPending>,
    /// Calls that wait for their answers and took what was collected with them.
    carried: u32,
    /// The first failure of a call that did not wait, as its answer said it.
    failed: Option<u32>,
}

/// A call that was sent with what was collected before it.
pub(crate) struct Sent {
    pub call: OwnedPending,
    /// It has others with it: tell the lane when it is answered ([`Lane::landed`]).
    pub carries: bool,
}

impl Default for Lane {
    fn default() -> Self {
        let (batch, flying) = (Batch::default(), VecDeque::new());
        Lane { next: 1, batch, flying, carried: 0, failed: None }
    }
}

impl Lane {
    /// Whether nothing is collected and nothing under way that stands in an order.
    pub fn is_clear(&self) -> bool {
        self.batch.records() == 0 && self.flying.is_empty() && self.carried == 0
    }

    /// Collects a call; whether the batch is full and must be sent.
    pub fn collect(
        &mut self,
        function: &Function,
        call: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<bool, Failure> {
        self.put(function, call, false, write)?;
        Ok(self.batch.is_full())
    }

    fn put(
        &mut self,
        function: &Function,
        call: u16,
        waits: bool,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Failure> {
        if let Some(before) = self.batch.put(function.info().max_args(), call, waits, write)? {
            let last = std::mem::replace(&mut self.batch, before);
            let sent = self.flush(function);
            self.batch = last;
            sent?;
        }
        Ok(())
    }

    /// Sends what was collected, without waiting for its answer.
    pub fn flush(&mut self, function: &Function) -> Result<(), Failure> {
        if self.batch.records() > 0 {
            // Half of the cells stay free for calls that wait and for open ones.
            if self.flying.len() >= usize::from(function.info().depth / 2).max(1) {
                self.land_oldest()?;
            }
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
    ) -> Result<Sent, Failure> {
        self.put(function, call, true, write)?;
        let carries = self.batch.records() > 1;
        let call = self.send(function)?;
        self.carried += u32::from(carries);
        Ok(Sent { call, carries })
    }

    /// A call that carried others was answered, or will never be.
    pub fn landed(&mut self) {
        self.carried -= 1;
    }

    fn send(&mut self, function: &Function) -> Result<OwnedPending, Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        let bytes = batch.take(self.next);
        let sent = loop {
            match function.submit_parts(&[bytes]) {
                Err(Error::Full { .. }) => self.wait_for_a_cell()?,
                sent => break sent,
            }
        };
        // Sent or lost: nothing is sent twice. Its memory is for the next.
        self.batch = batch;
        let sent = sent.map_err(|e| Failure::from(&e))?;
        self.next = self.next.checked_add(1).unwrap_or(1);
        Ok(sent)
    }

    fn wait_for_a_cell(&mut self) -> Result<(), Failure> {
        if self.flying.is_empty() {
            std::thread::sleep(CELL_PAUSE);
        }
        self.land_oldest()
    }

    fn land_oldest(&mut self) -> Result<(), Failure> {
        self.flying.pop_front().map_or(Ok(()), |oldest| self.land(oldest))
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
            self.land_oldest()?;
        }
        Ok(())
    }

    /// The first failure of a call that did not wait, once.
    pub fn take_failed(&mut self) -> Option<u32> {
        self.failed.take()
    }
}
