//! The metrics of network VFs.

use super::Writer;
use crate::nics::NicsSeen;
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt;
use vfun_nics::view::{PoolView, View, VmView};

type OfPool = fn(&View, &PoolView) -> usize;
type GaugeOfVm = fn(&VmView) -> f64;
type CountOfVm = fn(&VmView) -> u64;

const POOLS: [(&str, &str, OfPool); 4] = [
    ("nics_vfs", "Network VFs that the pool has", |_, p| p.vfs.len()),
    ("nics_vfs_held", "Network VFs that a VM uses", |_, p| in_state(p, "held")),
    (
        "nics_vfs_quarantined",
        "Network VFs that nobody gets, as their last VM may still have them or a reset failed",
        |_, p| in_state(p, "quarantined"),
    ),
    ("nics_vms_waiting", "VMs that have no network VF only because others hold them", |view, p| {
        view.vms.iter().filter(|vm| vm.pool == p.name && vm.waits).count()
    }),
];

const GAUGES: [(&str, &str, GaugeOfVm); 3] = [
    ("nics_vm_holds_vf", "Whether the VM uses a network VF", |vm| {
        f64::from(u8::from(vm.vf_state.as_deref() == Some("held")))
    }),
    ("nics_vm_packet_rate", "Packets a second, both ways, that count in the contest", |vm| {
        vm.packets_per_s
    }),
    ("nics_vm_agent", "Whether the VM's agent is there", |vm| f64::from(u8::from(vm.has_agent))),
];

const COUNTERS: [(&str, &str, CountOfVm); 3] = [
    ("nics_vm_moves", "Times that the VM began to use a network VF", |vm| vm.moves),
    ("nics_vm_failed_moves", "Times that the VM failed to take or to keep a network VF", |vm| {
        vm.failed
    }),
    ("nics_vm_abrupt_moves", "Times that a network VF went without the agent's word", |vm| {
        vm.abrupt.into()
    }),
];

fn in_state(pool: &PoolView, state: &str) -> usize {
    pool.vfs.iter().filter(|vf| vf.state == state).count()
}

/// Writes them; nothing where the manager lends none.
pub(super) fn write(w: &mut Writer, seen: &NicsSeen) -> fmt::Result {
    let up = |w: &mut Writer, up: f64| w.gauge("nics_up", "Whether vfun-nics answers", None, up);
    match seen {
        NicsSeen::Off => Ok(()),
        NicsSeen::Silent => up(w, 0.0),
        NicsSeen::All(view) => {
            up(w, 1.0)?;
            pools(w, view)?;
            vms(w, view)
        }
    }
}

fn pools(w: &mut Writer, view: &View) -> fmt::Result {
    for (name, help, read) in POOLS {
        let mut to = w.family(name, help, None, MetricType::Gauge)?;
        for pool in &view.pools {
            let labels = [("pool", pool.name.as_str())];
            to.encode_family(&labels)?.encode_gauge(&(read(view, pool) as f64))?;
        }
    }
    Ok(())
}

fn vms(w: &mut Writer, view: &View) -> fmt::Result {
    for (name, help, read) in GAUGES {
        let mut to = w.family(name, help, None, MetricType::Gauge)?;
        for vm in &view.vms {
            to.encode_family(&labels(vm))?.encode_gauge(&read(vm))?;
        }
    }
    for (name, help, read) in COUNTERS {
        let mut to = w.family(name, help, None, MetricType::Counter)?;
        for vm in &view.vms {
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_family(&labels(vm))?.encode_counter(&read(vm), none)?;
        }
    }
    Ok(())
}

fn labels(vm: &VmView) -> [(&'static str, &str); 3] {
    [("client", &vm.vm.client), ("vm", &vm.vm.vm), ("pool", &vm.pool)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::registry::Registry;
    use std::sync::Arc;
    use vfun_admin::VmName;
    use vfun_nics::declared::{Hypervisor, Vm};
    use vfun_nics::view::VfView;

    #[derive(Debug)]
    struct Only(NicsSeen);

    impl Collector for Only {
        fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
            write(&mut Writer(encoder), &self.0)
        }
    }

    fn text(seen: NicsSeen) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Only(seen)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    fn declared() -> Vm {
        Vm::new("cards", Hypervisor::External, "02:00:00:00:00:01", "br0", "t0")
    }

    fn vm(name: &str, vf: Option<&str>) -> VmView {
        VmView {
            vm: VmName::new("web", name),
            declared: declared(),
            pool: "cards".into(),
            hypervisor: "the VM runs".into(),
            agent: "there".into(),
            has_agent: true,
            trouble: None,
            path: None,
            packets_per_s: 12.5,
            paravirtual_us: None,
            vf_us: None,
            vf: vf.map(str::to_owned),
            vf_state: vf.map(|_| "held".into()),
            waits: vf.is_none(),
            why: vec![],
            change: vec![],
            abrupt: 1,
            moves: 7,
            failed: 2,
            back_off_ms: 0,
        }
    }

    fn vf(name: &str, state: &str) -> VfView {
        let vf = name.to_owned();
        VfView { vf, state: state.into(), ..VfView::default() }
    }

    #[test]
    fn pools_and_vms_are_shown() {
        let vfs = vec![vf("a", "held"), vf("b", "quarantined"), vf("c", "free")];
        let pool = PoolView { name: "cards".into(), declared: None, vfs };
        let other = PoolView { name: "other".into(), declared: None, vfs: vec![] };
        let vms = vec![vm("one", Some("a")), vm("two", None)];
        let view = View { pools: vec![pool, other], vms, stray: vec![], manifest_troubles: vec![] };
        let text = text(NicsSeen::All(Arc::new(view)));
        for line in [
            "nics_up 1.0",
            "nics_vfs{pool=\"cards\"} 3.0",
            "nics_vfs{pool=\"other\"} 0.0",
            "nics_vfs_held{pool=\"cards\"} 1.0",
            "nics_vfs_quarantined{pool=\"cards\"} 1.0",
            "nics_vms_waiting{pool=\"cards\"} 1.0",
            "nics_vms_waiting{pool=\"other\"} 0.0",
            "nics_vm_holds_vf{client=\"web\",vm=\"one\",pool=\"cards\"} 1.0",
            "nics_vm_holds_vf{client=\"web\",vm=\"two\",pool=\"cards\"} 0.0",
            "nics_vm_packet_rate{client=\"web\",vm=\"two\",pool=\"cards\"} 12.5",
            "nics_vm_agent{client=\"web\",vm=\"one\",pool=\"cards\"} 1.0",
            "nics_vm_moves_total{client=\"web\",vm=\"one\",pool=\"cards\"} 7",
            "nics_vm_failed_moves_total{client=\"web\",vm=\"one\",pool=\"cards\"} 2",
            "nics_vm_abrupt_moves_total{client=\"web\",vm=\"one\",pool=\"cards\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn one_that_is_silent_is_shown_and_one_that_is_off_is_not() {
        assert!(text(NicsSeen::Silent).contains("\nnics_up 0.0\n"));
        assert!(!text(NicsSeen::Off).contains("nics"));
    }
}
