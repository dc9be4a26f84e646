//! QEMU connects to the manager's socket, which gives it window and doorbells.

use super::{Vmm, Window, quoted};
use vfun_qmp::libvirt::Shmem;
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
        Some(HotPlug::ivshmem_doorbell(&w.id, w.path, VECTORS))
    }

    fn libvirt(&self, w: &Window<'_>) -> Option<Shmem> {
        Some(Shmem::ivshmem_doorbell(&w.name, w.path, VECTORS))
    }

    fn permission(&self, w: &Window<'_>) -> String {
        format!(
            "QEMU runs there as libvirt-qemu, a member of group kvm: the manager gives the socket to\n  that group. Its folders must let that user through: `namei -l {}` shows them.\n",
            quoted(&w.path.display().to_string())
        )
    }
}
