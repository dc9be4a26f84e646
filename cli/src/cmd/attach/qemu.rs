//! Windows in and out of a plain QEMU, by QMP.

use super::Goes;
use crate::fail::{Failure, Result};
use std::path::Path;
use vfun_qmp::plug::{self, Plugged};

/// Plugs a window in.
pub fn attach(socket: &Path, window: &dyn Goes, bus: Option<&str>) -> Result<Plugged> {
    let of_vmm = window.of_vmm()?;
    let device = of_vmm.hot_plug().ok_or_else(|| {
        Failure::usage(format!("QEMU has no device that carries the window {}", of_vmm.id))
    })?;
    plug::attach(socket, device, || window.is_free(), bus).map_err(|failure: Failure| {
        // Only a person can name one.
        let advice = failure.advice.clone().filter(|advice| advice.contains("pcie-root-port"));
        match advice {
            Some(advice) => failure.advise(format!("{advice}, or name a bus with --bus")),
            None => failure,
        }
    })
}
