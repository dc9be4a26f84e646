//! The thread that writes what clients bring, in the order in which it was told:
//! a disk that is slow holds up who submits, and nobody else.

use super::{Holding, Kept, Refused, store};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use vfun_submit::Code;
use vfun_supervise::Offered;

/// What is to be done in a client's folder.
pub enum Task {
    /// Keep what a service hands over.
    Keep {
        /// The memory file that the service filled.
        file: OwnedFd,
        /// What should be in it.
        offered: Box<Offered>,
        /// The very same, if it is kept already: where that is whole, nothing is written.
        same: Option<Box<Kept>>,
        /// Which build of the service's program there is: code of another one is
        /// of no use.
        program: String,
        /// What the client has: if this fails, all else goes.
        held: Holding,
    },
    /// Write down what a client has now. What is only of what it had stays, as
    /// that is offered still.
    List {
        /// What the client has from now on.
        held: Holding,
        /// Until now: what the list says if this fails.
        before: Holding,
    },
    /// Remove files that no function of these is of.
    Sweep {
        /// What the client has.
        held: Holding,
    },
    /// Remove all that a client has.
    Forget,
}

/// A task and its place.
pub struct Job<T> {
    /// Folder of the client's modules.
    pub dir: PathBuf,
    /// What is to be done there.
    pub task: Task,
    /// For whoever hears what came of it.
    pub of: T,
}

/// What came of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It is on the disk.
    Written,
    /// It was there already, byte for byte.
    Whole,
}

/// The thread that writes clients' modules to the disk.
pub struct Writer<T> {
    to: Sender<Job<T>>,
    done: Receiver<(T, Result<TaskOutcome, Refused>)>,
    /// Readable when something is done.
    bell: UnixStream,
}

impl<T: Send + 'static> Writer<T> {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        // As long as there are changes under way, which is one a client, and
        // orders of the operator's that wait for an answer.
        let (to, jobs) = channel::<Job<T>>();
        let (tell, done) = channel();
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        std::thread::Builder::new().name("modules".into()).spawn(move || {
            for Job { dir, task, of } in jobs {
                if tell.send((of, task.run(&dir))).is_err() {
                    return;
                }
                let _ = (&ring).write(&[1]); // full: it is readable already
            }
        })?;
        Ok(Writer { to, done, bell })
    }

    /// What is readable when something is done.
    pub fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// Hands a task over; if it cannot be, what it was for comes back.
    pub fn hand(&self, job: Job<T>) -> Result<(), (T, Refused)> {
        self.to.send(job).map_err(|e| {
            let why = "the host cannot take it now: the thread that keeps modules is gone";
            (e.0.of, Refused::new(Code::HostTrouble, why))
        })
    }

    /// What is done, in the order in which it was handed over.
    pub fn done(&self) -> Vec<(T, Result<TaskOutcome, Refused>)> {
        let mut rings = [0; 64];
        while (&self.bell).read(&mut rings).is_ok_and(|n| n > 0) {}
        self.done.try_iter().collect()
    }
}

impl Task {
    /// Does it. What was there before is there after a failure.
    pub fn run(self, dir: &std::path::Path) -> Result<TaskOutcome, Refused> {
        match self {
            Task::Keep { file, offered, same, program, held } => {
                let (module, code) = store::read(file.as_fd(), &offered)?;
                if same.is_some_and(|kept| store::is_whole(dir, &kept, &program)) {
                    return Ok(TaskOutcome::Whole);
                }
                store::keep(dir, &offered, &module, &code)
                    .inspect_err(|_| store::sweep(dir, &[&held]))?;
            }
            Task::List { held, before } => {
                if let Err(e) = store::save(dir, &held) {
                    // The list on the disk may be either of them.
                    store::sweep(dir, &[&held, &before]);
                    return Err(store::trouble("its list of this client's modules", &e));
                }
            }
            Task::Sweep { held } => store::sweep(dir, &[&held]),
            Task::Forget => store::forget(dir)
                .map_err(|e| Refused::new(Code::HostTrouble, format!("{}: {e}", dir.display())))?,
        }
        Ok(TaskOutcome::Written)
    }
}
