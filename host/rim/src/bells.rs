//! A window's bells, and how the manager rings them without being held up.

use std::cell::OnceCell;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use vfun_window::Bell;
use vfun_wire::limits::VECTORS;

/// Rings that may wait for the ringer: more than one for a vector say nothing new.
const WAITING: usize = 64;

/// Bells of a window, one a vector each way.
pub struct Bells {
    /// The app rings these; 0 is the manager's.
    pub to_host: Vec<Bell>,
    /// These ring the app.
    pub to_app: Vec<Bell>,
    of_vm: bool,
    /// Its thread, once there is one.
    ringer: OnceCell<Option<Ringer>>,
}

/// Who else holds an eventfd could fill its counter and make the descriptor
/// block, for everybody, and whoever rings next would hang, for ever. So a
/// thread of this window's own rings; if it hangs, nobody is rung there any
/// more, and the thread ends with the eventfd.
struct Ringer(SyncSender<u16>, JoinHandle<()>);

impl Ringer {
    fn start(to_app: &[Bell]) -> std::io::Result<Self> {
        let (ringer, rings) = sync_channel::<u16>(WAITING);
        let bells = to_app.to_vec();
        let thread = std::thread::Builder::new().name("ringer".into()).stack_size(64 << 10).spawn(
            move || {
                for vector in rings {
                    if let Some(bell) = bells.get(usize::from(vector)) {
                        bell.ring();
                    }
                }
            },
        )?;
        Ok(Ringer(ringer, thread))
    }
}

impl Bells {
    /// Bells of a program on this host. It gets no descriptor that it could
    /// write to of those that ring it; its services do, of all but the first.
    pub fn of_program(to_host: Vec<Bell>, to_app: Vec<Bell>) -> Self {
        Bells { to_host, to_app, of_vm: false, ringer: OnceCell::new() }
    }

    /// Bells of a VM. Its QEMU holds the eventfds themselves, and may have been
    /// taken over by its guest.
    pub fn of_vm(to_host: Vec<Bell>, to_app: Vec<Bell>) -> std::io::Result<Self> {
        let ringer = OnceCell::from(Some(Ringer::start(&to_app)?));
        Ok(Bells { to_host, to_app, of_vm: true, ringer })
    }

    /// The ringer's thread, if there is one: it ends soon, unless it hangs.
    pub fn into_ringer(self) -> Option<JoinHandle<()>> {
        self.ringer.into_inner().flatten().map(|Ringer(_, thread)| thread)
    }

    /// Whether they are a VM's.
    pub fn are_a_vms(&self) -> bool {
        self.of_vm
    }

    /// New bells, `VECTORS` each way.
    pub fn new_pair() -> std::io::Result<(Vec<Bell>, Vec<Bell>)> {
        let some = || (0..VECTORS).map(|_| Bell::new()).collect::<std::io::Result<Vec<_>>>();
        Ok((some()?, some()?))
    }

    /// Wakes those who sleep on a vector on the app's side. Never waits.
    pub fn ring_app(&self, vector: u16) {
        if vector == 0 && !self.of_vm {
            // Nobody else has it.
            return self.to_app.iter().take(1).for_each(Bell::ring);
        }
        // Where no thread can be had the app looks by itself, later.
        let ringer = self.ringer.get_or_init(|| Ringer::start(&self.to_app).ok());
        if let Some(Ringer(ringer, _)) = ringer {
            match ringer.try_send(vector) {
                // Full: the ringer hangs, or so many rings are on their way
                // that this one is among them or makes no difference.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn rung(bell: &Bell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, None).is_ok()
    }

    #[test]
    fn a_bell_that_is_full_and_blocks_holds_up_its_windows_ringer_only() {
        let (to_host, to_app) = Bells::new_pair().unwrap();
        let (full, quiet) = (to_app[1].clone(), to_app[0].clone());
        let bells = Bells::of_program(to_host, to_app);
        // What a service without a filter can do with the descriptor it gets.
        rustix::io::ioctl_fionbio(&full, false).unwrap();
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..4 * WAITING {
            bells.ring_app(1);
        }
        bells.ring_app(0);
        assert!(rung(&quiet), "who waits for an answer is rung all the same");
        let thread = bells.into_ringer().expect("one was started");
        let mut count = [0; 8];
        rustix::io::read(&full, &mut count).unwrap(); // lets it go
        thread.join().unwrap();
    }
}
