//! A window's bells, and how the manager rings them without being held up.

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
    ringer: Option<(SyncSender<u16>, JoinHandle<()>)>,
}

impl Bells {
    /// Bells of a program on this host. It gets no descriptor that it could
    /// write to of those that ring it, so the manager rings them itself.
    pub fn of_program(to_host: Vec<Bell>, to_app: Vec<Bell>) -> Self {
        Bells { to_host, to_app, ringer: None }
    }

    /// Bells of a VM. Its QEMU holds the eventfds themselves: one that was
    /// taken over by its guest could fill a counter and make the descriptor
    /// block, and whoever rings next would hang, for ever. So a thread of this
    /// window's own rings; if it hangs, this VM is not rung any more, and the
    /// thread ends with the eventfd.
    pub fn of_vm(to_host: Vec<Bell>, to_app: Vec<Bell>) -> std::io::Result<Self> {
        let (ringer, rings) = sync_channel::<u16>(WAITING);
        let bells = to_app.clone();
        let thread = std::thread::Builder::new().name("ringer".into()).stack_size(64 << 10).spawn(
            move || {
                for vector in rings {
                    if let Some(bell) = bells.get(usize::from(vector)) {
                        bell.ring();
                    }
                }
            },
        )?;
        Ok(Bells { to_host, to_app, ringer: Some((ringer, thread)) })
    }

    /// The ringer's thread, if there is one: it ends soon, unless it hangs.
    pub fn into_ringer(self) -> Option<JoinHandle<()>> {
        self.ringer.map(|(_, thread)| thread)
    }

    /// Whether they are a VM's.
    pub fn are_a_vms(&self) -> bool {
        self.ringer.is_some()
    }

    /// New bells, `VECTORS` each way.
    pub fn new_pair() -> std::io::Result<(Vec<Bell>, Vec<Bell>)> {
        let some = || (0..VECTORS).map(|_| Bell::new()).collect::<std::io::Result<Vec<_>>>();
        Ok((some()?, some()?))
    }

    /// Wakes those who sleep on a vector on the app's side. Never waits.
    pub fn ring_app(&self, vector: u16) {
        match (&self.ringer, self.to_app.get(usize::from(vector))) {
            (Some((ringer, _)), _) => match ringer.try_send(vector) {
                // Full: the ringer hangs, or so many rings are on their way
                // that this one is among them or makes no difference.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            },
            (None, Some(bell)) => bell.ring(),
            (None, None) => {}
        }
    }
}
