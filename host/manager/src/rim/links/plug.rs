//! A window that two VMs share goes into them by itself once their ports are to be linked, where
//! a manifest says how QEMU of a VM is reached.

use crate::core::WindowId;
use crate::core::catalog::VmId;
use crate::limits::LINK_REST;
use crate::rim::Daemon;
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;

/// What was asked for, by the window and the VM's place in it, and until when it is not asked for again, ms.
#[derive(Default)]
pub(super) struct LinkPlugs(BTreeMap<(WindowId, usize), u64>);

impl Daemon {
    /// Has windows plugged into these VMs that share one.
    pub(super) fn plug_for_links(&mut self, apart: &BTreeSet<[VmId; 2]>) {
        let now = self.now();
        self.links.plugs.0.retain(|_, until| now < *until);
        for (key, vm, window) in self.unplugged(apart) {
            if self.links.plugs.0.contains_key(&key) {
                continue;
            }
            self.links.plugs.0.insert(key, now + LINK_REST.as_millis() as u64);
            if let Err(why) = self.plug_window(&vm, &window) {
                tracing::warn!("window {window} cannot be plugged into VM {vm}: {why}");
            }
        }
    }

    /// Windows of these VMs that one of them has not, though its QEMU can be reached.
    fn unplugged(&self, apart: &BTreeSet<[VmId; 2]>) -> Vec<((WindowId, usize), VmName, String)> {
        let mut found = vec![];
        for (id, d) in self.rim.further.iter().filter(|(id, _)| !self.links.bars.contains_key(id)) {
            let note = d.note();
            let mut vms: Vec<VmId> = note.peers.iter().map(|p| p.vm_id()).collect();
            vms.sort();
            if !apart.iter().any(|two| two[..] == vms[..]) {
                continue;
            }
            for (at, peer) in note.peers.iter().enumerate() {
                let client = self.rim.core.catalog().clients.get(&peer.client);
                let reached = client.filter(|c| c.qmp.contains_key(&peer.vm));
                if let Some(client) =
                    reached.filter(|_| peer.of.is_some() && !self.is_plugged(d, at))
                {
                    let vm = VmName::new(&client.name, &peer.vm);
                    found.push(((*id, at), vm, note.name.clone()));
                }
            }
        }
        found
    }
}
