//! Windows into a libvirt domain.

use super::Goes;
use crate::fail::{Exit, Failure, Result};
use vfun_qmp::libvirt::Domain;
use vfun_qmp::plug::Plugged;

/// Plugs a window in.
pub fn attach(domain: &Domain<'_>, window: &dyn Goes) -> Result<Plugged> {
    let of_vmm = window.of_vmm()?;
    let shmem = of_vmm.libvirt().ok_or_else(|| {
        let path = of_vmm.path.display();
        Failure::new(Exit::Failed, format!("libvirt cannot give a domain the window {path}"))
            .advise(of_vmm.not_by_libvirt().replace('\n', " ").trim())
    })?;
    domain.attach(&shmem, || window.is_free())
}
