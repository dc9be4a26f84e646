//! The VMM maps a file as persistent memory; no doorbells.

use super::{Vmm, Window, memory_argument, quoted};
use serde_json::json;
use vfun_admin::Transport;
use vfun_qmp::libvirt::Shmem;
use vfun_qmp::plug::{HotPlug, memory};

/// The transport `pmem`.
pub struct Pmem;

/// Bytes of the file: those before the window, and the window.
fn bytes(w: &Window<'_>) -> u64 {
    Transport::Pmem.row().origin + w.bytes
}

impl Vmm for Pmem {
    fn qemu(&self, w: &Window<'_>) -> Option<[String; 4]> {
        let id = &w.id;
        Some([
            "-object".into(),
            memory_argument(w, bytes(w)),
            "-device".into(),
            format!("virtio-pmem-pci,id={id}-device,memdev={id}"),
        ])
    }

    fn hot_plug(&self, w: &Window<'_>) -> Option<HotPlug> {
        Some(HotPlug {
            id: w.id.clone(),
            backend: "object-add",
            arguments: memory(&w.id, w.path, bytes(w)),
            device: json!({ "driver": "virtio-pmem-pci", "memdev": w.id }),
            device_id: format!("{}-device", w.id),
        })
    }

    fn libvirt(&self, _: &Window<'_>) -> Option<Shmem> {
        None
    }

    fn not_by_libvirt(&self) -> &'static str {
        "libvirt: give the domain the arguments above as <qemu:commandline>.\n"
    }

    fn permission(&self, _: &Window<'_>) -> String {
        String::new()
    }

    fn others(&self, w: &Window<'_>) -> String {
        let path = w.path.display().to_string();
        let file = quoted(&path);
        format!(
            "QEMU must have room for such memory: -m SIZE,slots=1,maxmem=LARGER.\n\nOther VMMs:\n\n    cloud-hypervisor --pmem file={file}\n    crosvm run --pmem {file}\n    firecracker (1.14 and later), in its configuration:\n      \"pmem\": [{{ \"id\": \"virtfun\", \"path_on_host\": {}, \"root_device\": false, \"read_only\": false }}]\n",
            json!(path)
        )
    }
}
