//! A container or VM mounts the folder of the window's file; no doorbells.

use super::{Vmm, Window, quoted};
use std::path::Path;
use vfun_qmp::libvirt::Shmem;
use vfun_qmp::plug::HotPlug;

/// The transport `dir`.
pub struct Dir;

impl Vmm for Dir {
    fn qemu(&self, _: &Window<'_>) -> Option<[String; 4]> {
        None
    }

    fn hot_plug(&self, _: &Window<'_>) -> Option<HotPlug> {
        None
    }

    fn libvirt(&self, _: &Window<'_>) -> Option<Shmem> {
        None
    }

    fn permission(&self, _: &Window<'_>) -> String {
        String::new()
    }

    fn others(&self, w: &Window<'_>) -> String {
        let folder = quoted(&w.path.parent().unwrap_or(Path::new("/")).display().to_string());
        format!(
            "A container gets the folder as a bind mount, and its programs name it:\n\n    podman run --mount type=bind,source={folder},target=/mnt/vfun --env VFUN_ENDPOINT=dir:/mnt/vfun ...\n\nA VM gets it as virtiofs with DAX, which QEMU does not have: see docs/transports.md.\n"
        )
    }
}
