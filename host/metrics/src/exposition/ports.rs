//! The metrics of VMs' ports.

use super::Writer;
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;
use std::fmt;
use vfun_admin::ports::{PortCounts, PortRow};

type Flag = fn(&PortRow) -> bool;
type Count = fn(&PortCounts) -> u64;

const FLAGS: [(&str, &str, Flag); 2] = [
    ("port_in_use", "Whether the VM uses the port", |p| p.state.as_deref() == Some("active")),
    ("port_trouble", "Whether something is wrong with the port's device", |p| p.trouble.is_some()),
];

const COUNTS: [(&str, &str, Option<Unit>, Count); 8] = [
    ("port_frames_from_vm", "Frames of the VM that were relayed", None, |c| c.from_vm),
    ("port_from_vm", "Bytes of these", Some(Unit::Bytes), |c| c.from_vm_bytes),
    ("port_frames_to_vm", "Frames to the VM that were relayed", None, |c| c.to_vm),
    ("port_to_vm", "Bytes of these", Some(Unit::Bytes), |c| c.to_vm_bytes),
    ("port_full", "Frames to the VM that had no room", None, |c| c.full),
    ("port_away", "Frames to the VM while it takes none, or none so long", None, |c| c.away),
    ("port_refused", "Frames of the VM that its tap device did not take", None, |c| c.refused),
    ("port_bad", "Times that what the VM put into its ring made no sense", None, |c| c.bad),
];

/// Writes them; nothing where no VM has ports.
pub(super) fn write(w: &mut Writer, ports: &[PortRow]) -> fmt::Result {
    if ports.is_empty() {
        return Ok(());
    }
    for (name, help, read) in FLAGS {
        let mut to = w.family(name, help, None, MetricType::Gauge)?;
        for port in ports {
            to.encode_family(&labels(port))?.encode_gauge(&f64::from(u8::from(read(port))))?;
        }
    }
    for (name, help, unit, read) in &COUNTS {
        let mut to = w.family(name, help, unit.as_ref(), MetricType::Counter)?;
        for (port, counts) in ports.iter().filter_map(|p| Some((p, p.counts?))) {
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_family(&labels(port))?.encode_counter(&read(&counts), none)?;
        }
    }
    Ok(())
}

fn labels(port: &PortRow) -> [(&'static str, &str); 3] {
    [("client", &port.client), ("vm", &port.vm), ("port", &port.port)]
}
