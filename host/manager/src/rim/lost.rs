//! Windows whose pages went away or whose header was overwritten, and windows'
//! files that are no longer what the manager has mapped.
//!
//! A window in a file can be truncated by whoever may write the file; the manager's
//! mapping then reads as zeros (`vfun_window::Mapping::guarded`). The window is taken
//! down by name, and made again once its file is whole or can be made so. So is one
//! whose header its guest overwrote. A file that was removed or replaced changes
//! nothing for the VM that runs: both sides have the old one mapped. What a transport
//! does about it is in [`wiring`](super::wiring).

use super::{Daemon, wiring};
use crate::core::WindowId;
use crate::core::catalog::{ClientKind, VmId, VmOf};
use crate::core::grant::Holder;
use crate::limits::{WINDOW_AGAIN, WINDOW_AGAIN_LOOK, WINDOW_FILES_LOOK};
use std::time::{Duration, Instant};
use vfun_rim::methods::*;
use vfun_wire::header::{HOST_STATE_OFF, host_state};

/// A VM whose window was taken down.
pub(super) struct TakenDownVm {
    vm: VmId,
    /// Which window; none if that was before this manager.
    window: Option<WindowId>,
    /// What happened to it.
    why: &'static str,
    again: Instant,
    /// Why it could not be made again, as it was said.
    said: String,
}

/// Whether a VM's app has a grant; those of managers of clients with one VM name none.
fn is_of(h: &Holder, vm: &VmId) -> bool {
    h.client_id == vm.client && h.vm.as_ref().is_none_or(|name| *name == vm.vm)
}

impl Daemon {
    /// Takes windows down whose pages went away, and sees to those that are.
    pub(super) fn look_after_windows(&mut self) {
        let lost: Vec<WindowId> = self
            .rim
            .windows
            .iter()
            .filter(|(_, a)| a.window.is_lost())
            .map(|(id, _)| *id)
            .collect();
        lost.into_iter().for_each(|id| self.window_lost(id));
        if self.last_files.elapsed() >= WINDOW_FILES_LOOK {
            self.last_files = Instant::now();
            self.look_at_files();
            self.look_at_headers();
        }
        self.lay_out_again();
    }

    pub(super) fn windows_patience(&self) -> Option<Duration> {
        let again = self.down.iter().map(|d| d.again).min()?;
        Some(again.saturating_duration_since(Instant::now()))
    }

    /// What the host says at a window's start is the host's to write, but a VM can.
    fn look_at_headers(&mut self) {
        let state = self.serving_state();
        let vms = self.rim.windows.iter();
        let vms = vms.filter(|(_, a)| a.transport.row().serves == ClientKind::Vm);
        let spoilt: Vec<_> = vms
            .filter(|(_, a)| !a.window.header_stands(state))
            .map(|(id, a)| (*id, a.transport))
            .collect();
        spoilt.into_iter().for_each(|(id, transport)| wiring::of(transport).spoilt(self, id));
    }

    /// Writes a header again that its guest overwrote.
    pub(super) fn write_header_again(&mut self, id: WindowId) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        a.window.write_header(self.serving_state());
        let client = a.client;
        self.warn_of(
            client,
            format_args!("window {id}: its guest overwrote its header, which was written again"),
        );
    }

    pub(super) fn window_lost(&mut self, id: WindowId) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let bytes = a.window.file_bytes();
        let size = rustix::fs::fstat(a.window.fd()).map_or(0, |s| s.st_size as u64);
        let (why, how) = match size < bytes {
            true => (
                "it was truncated",
                format!("window truncated: its file has {size} of {bytes} bytes"),
            ),
            false => (
                "there was no memory for its pages",
                "window lost: there was no memory for its pages".to_owned(),
            ),
        };
        let client = a.client;
        self.warn_of(client, format_args!("{how}"));
        self.take_down(id, why);
    }

    /// Ends a window that cannot go on as it is, by its transport.
    pub(super) fn take_down(&mut self, id: WindowId, why: &'static str) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let (client, transport) = (a.client, a.transport);
        let size = rustix::fs::fstat(a.window.fd()).map_or(0, |s| s.st_size as u64);
        // What is left of it may be read by its apps. Never beyond its end:
        // that would make it longer.
        let at = a.window.origin() + HOST_STATE_OFF as u64;
        if size >= at + 8 {
            let ended = u64::from(host_state::ENDED).to_le_bytes();
            let _ = rustix::io::pwrite(a.window.fd(), &ended, at);
        }
        self.warn_of(client, format_args!("its grants end, its window is taken down: {why}"));
        wiring::of(transport).lost(self, id, why);
    }

    /// A VM whose window was taken down gets it made again in a moment.
    pub(super) fn lay_out_later(&mut self, vm: VmId, id: WindowId, why: &'static str) {
        let again = Instant::now() + WINDOW_AGAIN;
        self.down.push(TakenDownVm { vm, window: Some(id), why, again, said: String::new() });
    }

    /// Whether a VM's window was taken down, or could not be laid out, and is tried again.
    pub(super) fn is_down(&self, vm: VmOf<'_>) -> bool {
        let id = vm.id();
        self.down.iter().any(|d| d.vm == id)
    }

    /// A VM is removed: one of its name that comes later is another one.
    pub(super) fn forget_down(&mut self, vm: VmOf<'_>) {
        let id = vm.id();
        self.down.retain(|d| d.vm != id);
    }

    /// Gives a VM at the start what its transport needs, unless it goes on with what an
    /// earlier manager gave it.
    pub(super) fn prepare_at_start(&mut self, vm: VmOf<'_>) {
        if wiring::of(vm.vm.transport).prepared(self, vm) {
            return;
        }
        if let Err(e) = self.prepare_when_free(vm) {
            self.window_failed(vm, e);
        }
    }

    /// Gives a VM its window at the start: at once, or when services that
    /// an earlier manager left no longer touch the one before.
    fn prepare_when_free(&mut self, vm: VmOf<'_>) -> Result<(), String> {
        let (id, again) = (vm.id(), Instant::now() + WINDOW_AGAIN);
        let new_each_time = !vm.vm.transport.in_file();
        let its = |h: &Holder| is_of(h, &id);
        if new_each_time || self.rim.core.letting_go(its).next().is_none() {
            return wiring::of(vm.vm.transport).prepare(self, vm);
        }
        let why = "services still let go of the one before";
        self.down.push(TakenDownVm { vm: id, window: None, why, again, said: String::new() });
        Ok(())
    }

    /// A VM has no window after the start: it is tried again.
    fn window_failed(&mut self, vm: VmOf<'_>, said: String) {
        tracing::error!("client {}: {said}", vm.name());
        let (vm, again) = (vm.id(), Instant::now() + WINDOW_AGAIN);
        self.down.push(TakenDownVm { vm, window: None, why: "", again, said });
    }

    /// Ends the services that still let go of a window: once its file is whole
    /// again their mapping is, too, and a call that goes on would write into
    /// what is another's by then. True if there are any: they may take a moment.
    fn end_those_in(&self, d: &TakenDownVm) -> bool {
        let of = |h: &Holder| match d.window {
            Some(id) => h.window == id,
            None => is_of(h, &d.vm),
        };
        let mut some = false;
        for service in self.rim.core.letting_go(of) {
            // One that is gone is about to be noticed.
            some = true;
            if let Some(p) = self.rim.services.get(&service) {
                p.kill();
            }
        }
        some
    }

    /// Lays windows out anew whose files are whole again, or empty.
    fn lay_out_again(&mut self) {
        let now = Instant::now();
        let (due, wait) = std::mem::take(&mut self.down).into_iter().partition(|d| d.again <= now);
        self.down = wait;
        let due: Vec<TakenDownVm> = due;
        for mut d in due {
            let client = self.rim.core.catalog().clients.get(&d.vm.client).cloned();
            let Some(vm) = client.as_ref().and_then(|c| c.vm(&d.vm.vm)) else { continue };
            let wiring = wiring::of(vm.vm.transport);
            if wiring.prepared(self, vm) {
                continue;
            }
            if self.end_those_in(&d) {
                d.again = now + WINDOW_AGAIN_LOOK;
                self.down.push(d);
                continue;
            }
            match wiring.prepare(self, vm) {
                Ok(()) => {
                    let name = vm.name();
                    let words = format_args!("the window of {name} was made again, empty");
                    self.warn_of(vm.client.id, words);
                    self.settle();
                }
                Err(e) => {
                    if d.said != e {
                        tracing::error!("client {}: {e}", vm.name());
                        d.said = e;
                    }
                    d.again = now + WINDOW_AGAIN;
                    self.down.push(d);
                }
            }
        }
    }

    /// What is wrong with windows, for people.
    pub(super) fn windows_troubles(&self) -> Vec<String> {
        let name = |id: &VmId| match self.rim.core.catalog().vm(id) {
            Some(vm) => vm.name().to_string(),
            None => id.vm.clone(),
        };
        let down = self.down.iter().map(|d| {
            let why = if d.said.is_empty() { d.why } else { &d.said };
            format!("the window of client {} is down: {why}", name(&d.vm))
        });
        let replaced = self.replaced.iter().map(|c| {
            format!("the file of client {}'s window is not the one its VM has mapped", name(c))
        });
        down.chain(replaced).collect()
    }
}
