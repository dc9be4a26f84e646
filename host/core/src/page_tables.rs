//! Buffers that are tables of pages of their VM's memory ([`vfun_wire::pages`]): who may have one, and how it
//! goes back.

use super::buffers::{Buffer, Stage};
use super::catalog::Client;
use super::grant::Holder;
use super::nacks;
use super::requests::{body, empty};
use super::{Action, ControlRequest, Core, WindowId};
use vfun_wire::message::{BufferPut, Kind};
use vfun_wire::version::Features;
use vfun_wire::{Handle, Nack};

impl Core {
    /// The client and the VM that a window is of.
    pub fn client_and_vm(&self, window: WindowId) -> Option<(&Client, &str)> {
        let (client, w) = (self.client_of(window).ok()?, self.windows.get(&window)?);
        Some((client, w.vm.as_deref().unwrap_or(&client.name)))
    }

    /// Whether a session has tables of pages.
    pub fn has_page_tables(&self, session: Handle) -> bool {
        self.buffers.of(session).any(|(_, b)| b.pages && !b.is_over())
    }

    /// Whether a session may have tables of pages: the kernel module alone writes them, and the manifest
    /// names the VM's memory.
    pub(super) fn may_have_pages(
        &self,
        session: Handle,
        holder: &Holder,
        client: &Client,
    ) -> Result<(), Nack> {
        if !self.session(session)?.features.has(Features::PAGES.with(Features::MODULE)) {
            return Err(nacks::pages_need_module());
        }
        let vm = holder.vm.as_ref().unwrap_or(&client.name);
        match client.shared_memory.contains_key(vm) {
            true => Ok(()),
            false => Err(nacks::no_shared_memory(vm)),
        }
    }

    /// Gives a table of pages back, if that is what a request names: it is answered when no service has the
    /// table any more. The kernel module asks that also when the session is over: the pages stay pinned until
    /// it is answered.
    pub(super) fn table_put(&mut self, r: &ControlRequest, out: &mut Vec<Action>) -> bool {
        let Ok(put) = body::<BufferPut>(&r.body, Kind::BufferPut) else { return false };
        let handle = Handle(put.buffer.get());
        let own = |b: &Buffer| {
            b.pages && b.holder.window == r.to.window && b.holder.session == Handle(r.session)
        };
        if !self.buffers.get(handle).is_ok_and(own) {
            return false;
        }
        self.end_buffer(handle, false, "given back by the app", out);
        self.buffers.change(handle, |b| {
            if let Stage::Ending { giving, .. } = &mut b.stage {
                *giving = Some(r.to);
            }
        });
        // No service had it: it is gone by now.
        if self.buffers.get(handle).is_err() {
            out.push(Action::Answer { to: r.to, result: Ok(empty()) });
        }
        true
    }
}
