//! Network VFs: which VM has which, and what it sends.

use serde::Serialize;
use vfun_admin::VmName;
use vfun_cli::cmd::nics::ask::Allocator;
use vfun_cli::out;
use vfun_nics::view::View as NicsView;

/// A network VF at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkVf {
    pub pool: String,
    pub vf: String,
    /// In one word, as `vfun nics list` shows it.
    pub state: String,
    /// The VM that has it, or that it is on its way to or from.
    pub vm: Option<VmName>,
    /// Packets a second of that VM, both ways, that count in the contest.
    pub packets_per_s: Option<f64>,
}

/// All of them, or why they are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkVfs {
    pub rows: Vec<NetworkVf>,
    /// Why `vfun-nics` was not understood, in a sentence.
    pub trouble: Option<String>,
}

impl NetworkVfs {
    /// Asks `vfun-nics`.
    pub fn look(allocator: &Allocator) -> Self {
        match allocator.view() {
            Ok(view) => NetworkVfs { rows: rows(&view), trouble: None },
            Err(e) => NetworkVfs { rows: vec![], trouble: Some(e.what) },
        }
    }

    /// A table of those that have this text in a name; nothing if there is none.
    pub fn table(&self, filter: &str) -> String {
        if let Some(trouble) = &self.trouble {
            return format!("network VFs: {trouble}\n");
        }
        let mut table = out::Table::new(&["POOL", "VF", "STATE", "VM", ">PACKETS/S"]);
        let shown: Vec<_> = self.rows.iter().filter(|row| row.fits(filter)).collect();
        for row in &shown {
            table.row([
                row.pool.clone(),
                row.vf.clone(),
                row.state.clone(),
                row.vm.as_ref().map_or_else(|| "-".into(), VmName::to_string),
                row.packets_per_s.map_or_else(|| "-".into(), out::rate),
            ]);
        }
        if shown.is_empty() { String::new() } else { table.render() }
    }
}

impl NetworkVf {
    fn fits(&self, filter: &str) -> bool {
        let vm = self.vm.as_ref().map(VmName::to_string).unwrap_or_default();
        let wanted = filter.to_lowercase();
        [&self.pool, &self.vf, &vm].iter().any(|text| text.to_lowercase().contains(&wanted))
    }
}

fn rows(view: &NicsView) -> Vec<NetworkVf> {
    let rate = |vm: &VmName| view.vms.iter().find(|v| v.vm == *vm).map(|v| v.packets_per_s);
    let of_pool = |pool: &vfun_nics::view::PoolView| {
        let row = |vf: &vfun_nics::view::VfView| NetworkVf {
            pool: pool.name.clone(),
            vf: vf.vf.clone(),
            state: vf.state.clone(),
            vm: vf.owner.clone(),
            packets_per_s: vf.owner.as_ref().and_then(rate),
        };
        pool.vfs.iter().map(row).collect::<Vec<_>>()
    };
    view.pools.iter().flat_map(of_pool).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use vfun_nics::view::{PoolView, VfView};

    /// Two VFs; a VM has one of them.
    pub fn lent() -> NetworkVfs {
        let rows = [("0000:01:10.0", Some("web")), ("0000:01:10.2", None)];
        let row = |(vf, vm): (&str, Option<&str>)| NetworkVf {
            pool: "cards".into(),
            vf: vf.into(),
            state: if vm.is_some() { "held" } else { "free" }.into(),
            vm: vm.map(|vm| VmName::new(vm, vm)),
            packets_per_s: vm.map(|_| 12_000.0),
        };
        NetworkVfs { rows: rows.map(row).into(), trouble: None }
    }

    #[test]
    fn they_are_a_table_that_a_filter_makes_shorter() {
        let all = lent();
        let table = all.table("");
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        let cells: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(cells, ["cards", "0000:01:10.0", "held", "web", "12", "000"]);
        assert_eq!(lines[2].split_whitespace().last(), Some("-"));
        assert_eq!(all.table("WEB").lines().count(), 2);
        assert_eq!(all.table("nobody"), "");
        let silent = NetworkVfs { rows: vec![], trouble: Some("it is silent".into()) };
        assert_eq!(silent.table(""), "network VFs: it is silent\n");
    }

    #[test]
    fn a_vf_whose_vm_is_not_declared_has_no_rate() {
        let vf = VfView {
            vf: "a".into(),
            state: "unknown".into(),
            owner: Some(VmName::new("web", "web")),
            ..VfView::default()
        };
        let pool = PoolView { name: "p".into(), declared: None, vfs: vec![vf] };
        let found = rows(&NicsView {
            pools: vec![pool],
            vms: vec![],
            stray: vec![],
            manifest_troubles: vec![],
        });
        assert_eq!((found.len(), found[0].packets_per_s), (1, None));
    }
}
