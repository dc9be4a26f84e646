//! Windows whose pages went away or whose header was overwritten, and windows'
//! files that are no longer what the manager has mapped.
//!
//! A plain window is a file that others may write, so it can be truncated; the
//! manager's mapping then reads as zeros (`vfun_window::Mapping::guarded`). The
//! window is taken down by name, and laid out anew once its file is whole or
//! can be made so. So is one whose header its guest overwrote: no program that
//! looks at it anew would take it for a window. A file that was removed or replaced changes nothing for the
//! VM that runs: both sides have the old one mapped.

use super::Daemon;
use super::attach::HOST;
use super::ivshmem::PLAIN;
use crate::core::WindowId;
use crate::core::catalog::Client;
use crate::limits::{WINDOW_AGAIN, WINDOW_AGAIN_LOOK, WINDOW_FILES_LOOK};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use vfun_rim::methods::*;
use vfun_wire::header::{HOST_STATE_OFF, host_state};

/// A client whose window was taken down.
pub(super) struct Down {
    client: u32,
    /// Which window; none if that was before this manager.
    window: Option<WindowId>,
    /// What happened to it.
    why: &'static str,
    again: Instant,
    /// Why it could not be laid out anew, as it was said.
    said: String,
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
        let vms = self.rim.windows.iter().filter(|(_, a)| a.transport != HOST);
        let spoiled = vms.filter(|(_, a)| !a.window.header_stands(state));
        let spoiled: Vec<WindowId> = spoiled.map(|(id, _)| *id).collect();
        for id in spoiled {
            let Some(a) = self.rim.windows.get(&id) else { continue };
            if a.transport == PLAIN && !a.window.header_is_itself() {
                self.take_down(id, "its guest overwrote its header");
                continue;
            }
            // That of a window with doorbells was made for this VM alone.
            let client = a.client;
            a.window.write_header(state);
            self.warn_of(
                client,
                format_args!(
                    "window {id}: its guest overwrote its header, which was written again"
                ),
            );
        }
    }

    fn look_at_files(&mut self) {
        let plain: Vec<WindowId> = self
            .rim
            .windows
            .iter()
            .filter(|(_, a)| a.transport == PLAIN)
            .map(|(id, _)| *id)
            .collect();
        let clients = self.rim.windows.values().filter(|a| a.transport == PLAIN).map(|a| a.client);
        let clients: std::collections::BTreeSet<u32> = clients.collect();
        self.replaced.retain(|client| clients.contains(client));
        for id in plain {
            let Some(a) = self.rim.windows.get(&id) else { continue };
            let Ok(stat) = rustix::fs::fstat(a.window.fd()) else { continue };
            if (stat.st_size as u64) < a.window.bytes() {
                self.window_lost(id);
                continue;
            }
            let client = a.client;
            let Some(name) = self.rim.core.catalog().clients.get(&client).map(|c| c.name.clone())
            else {
                continue;
            };
            let file = self.window_file(&name);
            let there = std::fs::symlink_metadata(&file).ok().map(|m| (m.dev(), m.ino()));
            let same = there == Some((stat.st_dev, stat.st_ino));
            if same {
                self.replaced.remove(&client);
            } else if self.replaced.insert(client) {
                let what = if there.is_some() { "replaced by another" } else { "removed" };
                tracing::warn!(
                    "client {name}: the file {} of its window was {what}: the VM that runs goes on with the old one; before it starts again, turn it off, remove the file, and declare the client anew",
                    file.display()
                );
            }
        }
    }

    fn window_lost(&mut self, id: WindowId) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let bytes = a.window.bytes();
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

    /// Ends a window that cannot go on as it is; a plain one is laid out anew.
    fn take_down(&mut self, id: WindowId, why: &'static str) {
        let Some(a) = self.rim.windows.get(&id) else { return };
        let (client, plain) = (a.client, a.transport == PLAIN);
        let size = rustix::fs::fstat(a.window.fd()).map_or(0, |s| s.st_size as u64);
        // What is left of it may be read by its apps. Never beyond its end:
        // that would make it longer.
        if size >= HOST_STATE_OFF as u64 + 8 {
            let ended = u64::from(host_state::ENDED).to_le_bytes();
            let _ = rustix::io::pwrite(a.window.fd(), &ended, HOST_STATE_OFF as u64);
        }
        self.warn_of(client, format_args!("its grants end, its window is taken down: {why}"));
        self.window_gone(id);
        if plain {
            let again = Instant::now() + WINDOW_AGAIN;
            self.down.push(Down { client, window: Some(id), why, again, said: String::new() });
        }
    }

    /// Gives a client its window at the start: at once, or when services that
    /// an earlier manager left no longer touch the one before.
    pub(super) fn prepare_vm_when_free(&mut self, client: &Client) -> Result<(), String> {
        let (id, again) = (client.id, Instant::now() + WINDOW_AGAIN);
        if client.doorbell || self.rim.core.letting_go(|c, _| c == id).next().is_none() {
            return self.prepare_vm(client);
        }
        let why = "services still let go of the one before";
        self.down.push(Down { client: id, window: None, why, again, said: String::new() });
        Ok(())
    }

    /// A client has no window after the start: it is tried again.
    pub(super) fn window_failed(&mut self, client: &Client, said: String) {
        tracing::error!("client {}: {said}", client.name);
        let (client, again) = (client.id, Instant::now() + WINDOW_AGAIN);
        self.down.push(Down { client, window: None, why: "", again, said });
    }

    /// Ends the services that still let go of a window: once its file is whole
    /// again their mapping is, too, and a call that goes on would write into
    /// what is another's by then. True if there are any: they may take a moment.
    fn end_those_in(&self, d: &Down) -> bool {
        let of = |client, window| match d.window {
            Some(id) => window == id,
            None => client == d.client,
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
        let due: Vec<Down> = due;
        for mut d in due {
            let Some(client) = self.rim.core.catalog().clients.get(&d.client).cloned() else {
                continue;
            };
            if self.prepared(&client) {
                continue;
            }
            if self.end_those_in(&d) {
                d.again = now + WINDOW_AGAIN_LOOK;
                self.down.push(d);
                continue;
            }
            match self.prepare_vm(&client) {
                Ok(()) => {
                    self.warn_of(client.id, format_args!("its window was laid out anew"));
                    self.settle();
                }
                Err(e) => {
                    if d.said != e {
                        tracing::error!("client {}: {e}", client.name);
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
        let name = |id: &u32| {
            let client: Option<&Client> = self.rim.core.catalog().clients.get(id);
            client.map_or_else(|| id.to_string(), |c| c.name.clone())
        };
        let down = self.down.iter().map(|d| {
            let why = if d.said.is_empty() { d.why } else { &d.said };
            format!("the window of client {} is down: {why}", name(&d.client))
        });
        let replaced = self.replaced.iter().map(|c| {
            format!("the file of client {}'s window is not the one its VM has mapped", name(c))
        });
        down.chain(replaced).collect()
    }
}
