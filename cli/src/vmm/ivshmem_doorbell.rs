//! QEMU connects to the manager's socket, which gives it window and doorbells.

use super::{Vmm, Window, quoted, xml};
use serde_json::json;
use vfun_qmp::plug::HotPlug;
use vfun_wire::limits::VECTORS;

/// The transport `ivshmem-doorbell`.
pub struct Doorbell;

impl Vmm for Doorbell {
    fn qemu(&self, w: &Window<'_>) -> Option<[String; 4]> {
        let id = &w.id;
        Some([
            "-chardev".into(),
            format!("socket,id={id},path={}", w.qemu_path()),
            "-device".into(),
            format!("ivshmem-doorbell,id={id},chardev={id},vectors={VECTORS}"),
        ])
    }

    fn hot_plug(&self, w: &Window<'_>) -> Option<HotPlug> {
        Some(HotPlug {
            id: w.id.clone(),
            backend: "chardev-add",
            arguments: json!({ "id": w.id, "backend": { "type": "socket", "data": {
                "server": false, "addr": { "type": "unix", "data": { "path": w.path } } } } }),
            device: json!({ "driver": "ivshmem-doorbell", "chardev": w.id, "vectors": VECTORS }),
            device_id: w.id.clone(),
        })
    }

    fn libvirt(&self, w: &Window<'_>) -> Option<String> {
        let (name, socket) = (&w.name, xml(&w.path.display().to_string()));
        Some(format!(
            "<shmem name='{name}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{socket}'/>\n  <msi vectors='{VECTORS}' ioeventfd='on'/>\n</shmem>"
        ))
    }

    fn permission(&self, w: &Window<'_>) -> String {
        format!(
            "QEMU runs there as libvirt-qemu, a member of group kvm: the manager gives the socket to\n  that group. Its folders must let that user through: `namei -l {}` shows them.\n",
            quoted(&w.path.display().to_string())
        )
    }
}
