//! QEMU maps a file as the memory of an ivshmem device; no doorbells.

use super::{Vmm, Window, memory_argument, quoted};
use std::path::Path;
use vfun_qmp::libvirt::{FOLDER, Shmem};
use vfun_qmp::plug::HotPlug;

/// The transport `ivshmem-plain`.
pub struct Plain;

impl Vmm for Plain {
    fn qemu(&self, w: &Window<'_>) -> Option<[String; 4]> {
        let id = &w.id;
        Some([
            "-object".into(),
            memory_argument(w, w.bytes),
            "-device".into(),
            format!("ivshmem-plain,id={id}-device,memdev={id}"),
        ])
    }

    fn hot_plug(&self, w: &Window<'_>) -> Option<HotPlug> {
        Some(HotPlug::ivshmem_plain(&w.id, w.path, w.bytes))
    }

    fn libvirt(&self, w: &Window<'_>) -> Option<Shmem> {
        let is_found = w.path == Path::new(FOLDER).join(&w.name);
        is_found.then(|| Shmem::ivshmem_plain(&w.name, w.bytes))
    }

    fn not_by_libvirt(&self) -> &'static str {
        "libvirt finds windows in /dev/shm only: start vfund with --window-dir /dev/shm, or give the\ndomain the arguments above as <qemu:commandline>.\n"
    }

    fn permission(&self, w: &Window<'_>) -> String {
        format!(
            "QEMU runs there as another user, who must be let at the window, once a boot of the host:\n\n    setfacl -m u:libvirt-qemu:rw {}\n",
            quoted(&w.path.display().to_string())
        )
    }
}
