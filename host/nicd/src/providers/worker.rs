//! The thread of a pool: does what is to be done with its VFs, lists and counts them.

use super::{Provider, VfOwner};
use crate::heard::{Heard, Hearing};
use crate::limits::{COUNT, JOBS_WAITING, LIST_VFS};
use crate::lines::Lines;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Instant;
use vfun_nics::{Event, OpId, PoolName, VfId};

/// Something to do with a VF on the host.
#[derive(Debug)]
pub enum ProviderJob {
    Prepare(OpId, VfId, VfOwner),
    Relearn(OpId, VfId, VfOwner),
    Reset(OpId, VfId),
    /// List the VFs now.
    List,
}

/// The thread. It ends when this is dropped and its jobs are done.
pub struct ProviderWorker {
    jobs: SyncSender<ProviderJob>,
}

impl ProviderWorker {
    pub fn start(
        pool: PoolName,
        provider: Box<dyn Provider>,
        hearing: Hearing,
    ) -> std::io::Result<Self> {
        let (jobs, todo) = sync_channel(JOBS_WAITING);
        let thread = PoolThread { pool, provider, hearing, lines: Lines::about("a pool") };
        std::thread::Builder::new().name("pool".into()).spawn(move || thread.run(&todo))?;
        Ok(ProviderWorker { jobs })
    }

    /// Has something done. Does not wait; false if too much waits.
    pub fn begin(&self, job: ProviderJob) -> bool {
        !matches!(
            self.jobs.try_send(job),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }
}

struct PoolThread {
    pool: PoolName,
    provider: Box<dyn Provider>,
    hearing: Hearing,
    lines: Lines,
}

impl PoolThread {
    fn run(mut self, todo: &Receiver<ProviderJob>) {
        let mut listed: Option<Instant> = None;
        let mut counted: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let over = |at: Option<Instant>, span| at.is_none_or(|at| now - at >= span);
            if over(listed, LIST_VFS) {
                listed = Some(now);
                self.list();
            }
            if over(counted, COUNT) {
                counted = Some(now);
                let packets = self.provider.packets();
                if !packets.is_empty() {
                    self.hearing.tell(Heard::VfPackets(packets));
                }
            }
            let left = COUNT.saturating_sub(counted.map_or(COUNT, |at| at.elapsed()));
            match todo.recv_timeout(left) {
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn list(&mut self) {
        match self.provider.list() {
            Ok(found) => {
                self.hearing.tell(Heard::Vfs(self.pool.clone(), found));
            }
            // What there was stays: nothing is known.
            Err(why) => self.lines.warn(&format!("pool {}: {why}", self.pool)),
        }
    }

    fn work(&mut self, job: ProviderJob) {
        let (op, done) = match job {
            ProviderJob::Prepare(op, vf, owner) => (op, self.provider.prepare(&vf, &owner)),
            ProviderJob::Relearn(op, vf, owner) => (op, self.provider.relearn(&vf, &owner)),
            ProviderJob::Reset(op, vf) => (op, self.provider.reset(&vf)),
            ProviderJob::List => return self.list(),
        };
        self.hearing.tell(Heard::Event(Event::Done(op, done)));
    }
}
