//! Buffers that are tables of pages of their VM's memory ([`vfun_wire::pages`]): who may have one, and how it
//! goes back.

use super::buffers::Buffer;
use super::catalog::Client;
use super::grant::Holder;
use super::nacks;
use super::requests::{body, empty};
use super::{Action, ControlRequest, Core, ServiceId, WindowId};
use vfun_wire::message::{BufferPut, Kind};
use vfun_wire::version::Features;
use vfun_wire::{Handle, Nack};

impl Core {
    /// The client and the VM that a window is of; none if it is of no VM.
    pub fn client_and_vm(&self, window: WindowId) -> Option<(&Client, &str)> {
        let (client, w) = (self.client_of(window).ok()?, self.windows.get(&window)?);
        Some((client, w.vm.as_deref()?))
    }

    /// Whether a service is a NIC for RDMA.
    pub(super) fn is_nic(&self, id: ServiceId) -> bool {
        let s = self.services.get(&id);
        let driver =
            s.and_then(|s| self.catalog.function_of(s.owner, &s.function)?.driver_at(s.location));
        driver.is_some_and(|driver| vfun_kinds::of(driver).takes_rdma)
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
        match &holder.vm {
            Some(vm) if client.shared_memory.contains_key(vm) => Ok(()),
            vm => Err(nacks::no_shared_memory(vm.as_ref().unwrap_or(&client.name))),
        }
    }

    /// Gives a table of pages back, if that is what a request names: it is over when no service has the table any
    /// more, and asked for again until then. The kernel module asks that also when the session is over: the pages
    /// stay pinned as long.
    pub(super) fn table_put(
        &mut self,
        r: &ControlRequest,
        out: &mut Vec<Action>,
    ) -> Option<Result<Vec<u8>, Nack>> {
        let put = body::<BufferPut>(&r.body, Kind::BufferPut).ok()?;
        let handle = Handle(put.buffer.get());
        let own = |b: &Buffer| {
            b.pages && b.holder.window == r.to.window && b.holder.session == Handle(r.session)
        };
        if !self.buffers.get(handle).is_ok_and(own) {
            return None;
        }
        self.end_buffer(handle, false, "given back by the app", out);
        Some(match self.buffers.get(handle) {
            Ok(_) => Err(nacks::table_in_use(handle)),
            Err(_) => Ok(empty()),
        })
    }
}
