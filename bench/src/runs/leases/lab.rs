//! A manager that offers the modelled device.

use super::super::Where;
use crate::lab::{Manager, pin};
use crate::{BenchError, Result};
use vfun_admin::{Ask, DeviceRow, LeaseRow};
use vfun_leases::Policy;
use vfun_modeldevice::{MANIFEST, NAME, rounds_per_us};

/// Libraries of the modelled device.
const LIBRARIES: [&str; 2] = ["libvfun_fn_model.so", "libvfun_fn_model_simulated.so"];

/// How long calls take, ns: fixed, for each byte, for each unit.
#[derive(Clone, Copy)]
pub struct Times {
    pub software: [f64; 3],
    pub hardware: [f64; 3],
}

pub struct Lab {
    pub manager: Manager,
    pub pins: pin::Plan,
}

impl Lab {
    /// With clients of these names, and a device with so many VFs.
    pub fn start(at: &Where, clients: &[&str], vfs: u16, times: Times) -> Result<Self> {
        let (_, programs) = at.program_and_folder();
        let drivers = at.drivers.clone().unwrap_or(programs);
        if let Some(missing) = LIBRARIES.iter().map(|l| drivers.join(l)).find(|l| !l.is_file()) {
            return Err(BenchError::NoProgram(missing));
        }
        let pins = pin::Plan::new(at.pin);
        let services: Vec<usize> = pins.service().into_iter().collect();
        let manager = at.manager(clients, None, &services)?;
        let manifest = manifest(vfs, times, &pins);
        manager.ask(&Ask::AddFunction { manifest, file: "function.toml".into() })?;
        Ok(Lab { manager, pins })
    }

    /// Leases VFs in this way from now on.
    pub fn lease(&self, policy: Policy, interval_ms: u64, hold_ms: u64) -> Result<()> {
        let (interval_ms, min_hold_ms) = (Some(interval_ms), Some(hold_ms));
        self.manager.ask(&Ask::SetLeases { policy: Some(policy), interval_ms, min_hold_ms })?;
        Ok(())
    }

    /// Grants that compete for VFs of the device.
    pub fn leases(&self) -> Result<Vec<LeaseRow>> {
        let model = |d: &DeviceRow| d.function == NAME;
        let view = self.manager.leases()?;
        Ok(view.devices.into_iter().find(model).map(|d| d.grants).unwrap_or_default())
    }
}

/// The one that ships, with other times. How fast software's work goes is measured here,
/// once, so that all services agree, on the processor where they run.
fn manifest(vfs: u16, times: Times, pins: &pin::Plan) -> String {
    let pace = {
        let _there = pin::Pinned::to(pins.service());
        rounds_per_us()
    };
    let head = MANIFEST.split("[settings]").next().unwrap_or_default();
    let head = head.replace("instances = 2", &format!("instances = {vfs}"));
    let mut text = format!("{head}[settings]\nrounds_per_us = {pace:.3}\n");
    for (place, times) in [("software", times.software), ("hardware", times.hardware)] {
        for (key, ns) in ["ns", "byte_ns", "unit_ns"].iter().zip(times) {
            text += &format!("{place}_{key} = {ns:.6}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_that_ships_can_be_given_other_times() {
        let times = Times { software: [5.0, 1.5, 0.0], hardware: [7.0, 0.25, 3.0] };
        let text = manifest(3, times, &pin::Plan::new(false));
        for part in [
            "instances = 3",
            "leased = true",
            "software_ns = 5.0",
            "hardware_byte_ns = 0.25",
            "hardware_unit_ns = 3.0",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.matches("software_ns").count(), 1);
    }
}
