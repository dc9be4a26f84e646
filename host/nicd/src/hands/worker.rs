//! The thread of a VM: does what is to be done for it, one after the other, and hears what
//! its hypervisor says.

use super::{Device, Hands, SaidByVm};
use crate::heard::{Heard, Hearing};
use crate::limits::JOBS_WAITING;
use crate::wake::Wake;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use vfun_admin::VmName;
use vfun_nics::{Event, OpId, VfId};

/// Something to do for a VM.
#[derive(Debug)]
pub enum HandsJob {
    Inspect(OpId),
    Plug(OpId, Device),
    Unplug(OpId, VfId),
}

impl HandsJob {
    pub fn op(&self) -> OpId {
        match self {
            HandsJob::Inspect(op) | HandsJob::Plug(op, _) | HandsJob::Unplug(op, _) => *op,
        }
    }
}

/// The number of a VM's thread: a thread that ends late, of a VM that was removed, must not
/// speak for a new VM of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerId(pub u64);

/// The thread. It ends when this is dropped and its jobs are done.
pub struct HandsWorker {
    id: WorkerId,
    jobs: SyncSender<HandsJob>,
    wake: Wake,
}

impl HandsWorker {
    /// Starts it for this VM. What it finds goes to `hearing`.
    pub fn start(
        id: WorkerId,
        vm: VmName,
        hands: Box<dyn Hands>,
        hearing: Hearing,
    ) -> std::io::Result<Self> {
        let (jobs, todo) = sync_channel(JOBS_WAITING);
        let wake = Wake::new()?;
        let ring = wake.clone();
        let thread = VmThread { id, vm, hands, hearing, todo, wake: ring };
        std::thread::Builder::new().name("vm".into()).spawn(move || thread.run())?;
        Ok(HandsWorker { id, jobs, wake })
    }

    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Has something done. Does not wait; gives the job back if too many wait.
    pub fn begin(&self, job: HandsJob) -> Result<(), OpId> {
        self.jobs.try_send(job).map_err(|e| match e {
            std::sync::mpsc::TrySendError::Full(job)
            | std::sync::mpsc::TrySendError::Disconnected(job) => job.op(),
        })?;
        self.wake.ring();
        Ok(())
    }
}

impl Drop for HandsWorker {
    fn drop(&mut self) {
        // The thread finds the queue closed: this one's sender is gone once it looks again.
        let (closed, _) = sync_channel(1);
        self.jobs = closed;
        self.wake.ring();
    }
}

struct VmThread {
    id: WorkerId,
    vm: VmName,
    hands: Box<dyn Hands>,
    hearing: Hearing,
    todo: Receiver<HandsJob>,
    wake: Wake,
}

impl VmThread {
    fn run(mut self) {
        let mut looked = Instant::now();
        let mut look_now = true;
        loop {
            match self.todo.try_recv() {
                Ok(job) => {
                    // After a plug too: a look from before it says that the VF is not there.
                    look_now |= !matches!(job, HandsJob::Inspect(_));
                    self.work(job);
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.pass_on();
                    let left = self.hands.look_again().saturating_sub(looked.elapsed());
                    if look_now || left.is_zero() {
                        let found = self.hands.inspect();
                        self.tell(SaidByVm::Found(found));
                        (looked, look_now) = (Instant::now(), false);
                    } else {
                        self.wait(left);
                    }
                }
            }
        }
    }

    fn work(&mut self, job: HandsJob) {
        let (op, result) = match job {
            HandsJob::Inspect(op) => {
                let found = self.hands.inspect();
                self.tell(SaidByVm::Found(found));
                (op, Ok(()))
            }
            HandsJob::Plug(op, device) => (op, self.hands.plug(&device)),
            HandsJob::Unplug(op, vf) => (op, self.hands.unplug(&vf)),
        };
        // What the VM said before comes before: it says nothing of what was plugged since.
        self.pass_on();
        self.hearing.tell(Heard::Event(Event::Done(op, result)));
    }

    /// Passes on what the VM said.
    fn pass_on(&mut self) {
        for said in self.hands.hear() {
            self.tell(said);
        }
    }

    fn tell(&self, said: SaidByVm) {
        self.hearing.tell(Heard::Vm(self.id, self.vm.clone(), said));
    }

    /// Waits for a job, for the VM, or for this long.
    fn wait(&self, at_most: Duration) {
        let wake = self.wake.as_fd();
        let line = self.hands.line();
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        if let Some(line) = &line {
            fds.push(PollFd::new(line, PollFlags::IN));
        }
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Timespec::try_from(at_most).ok().as_ref());
        self.wake.hush();
    }
}
