//! `vfun nics list`, `explain` and `pool list`.

use super::ask::Allocator;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use vfun_admin::VmName;
use vfun_nics::declared::{Pool, Source};
use vfun_nics::view::{PoolView, VfView, View, VmView};

/// All pools, VFs and VMs.
pub fn list(allocator: &Allocator, output: Output) -> Result<()> {
    let view = allocator.view()?;
    output.show(&view, || render(&view))
}

/// Pools and their VFs.
pub fn pools(allocator: &Allocator, output: Output) -> Result<()> {
    let view = allocator.view()?;
    output.show(&view.pools, || render_pools(&view))
}

/// Why a VM holds a VF, or none.
pub fn explain(allocator: &Allocator, output: Output, name: &VmName) -> Result<()> {
    let view = allocator.view()?;
    let mut vfs = view.pools.iter().flat_map(|pool| &pool.vfs);
    let vf = vfs.find(|vf| vf.owner.as_ref() == Some(name)).cloned();
    let vm = row(view, name)?;
    output.show(&vm, || facts(&vm, vf.as_ref()))
}

/// How things are with one VM.
pub fn vm(allocator: &Allocator, name: &VmName) -> Result<VmView> {
    row(allocator.view()?, name)
}

fn row(view: View, name: &VmName) -> Result<VmView> {
    if let Some(row) = view.vms.into_iter().find(|row| row.vm == *name) {
        return Ok(row);
    }
    let of_manifest = view.manifest_troubles.into_iter().find(|t| t.vm == *name);
    Err(match of_manifest {
        Some(trouble) => Failure::new(
            Exit::Failed,
            format!("VM {name} is not declared, although its client's manifest says so: {}", trouble.why),
        ),
        None => Failure::new(Exit::Failed, format!("VM {name} is not declared for network VFs"))
            .advise("`vfun nics add`, or [nics] in its client's manifest, declares it; `vfun nics list` shows those that are"),
    })
}

fn render(view: &View) -> String {
    let troubles = view.manifest_troubles.iter();
    let troubles: String = troubles
        .map(|t| {
            format!("\nTROUBLE: the manifest of client {}: VM {}: {}\n", t.vm.client, t.vm, t.why)
        })
        .collect();
    let mut text = render_pools(view);
    if view.vms.is_empty() {
        return text + "no VM is declared: `vfun nics add` declares one\n" + &troubles;
    }
    let mut table =
        Table::new(&["VM", "POOL", "VF", "STATE", "PATH", ">PACKETS/S", "AGENT", "WHY"]);
    for vm in &view.vms {
        table.row([
            vm.vm.to_string(),
            vm.pool.clone(),
            vm.vf.clone().unwrap_or_else(|| "-".into()),
            vm.vf_state.clone().unwrap_or_else(|| "-".into()),
            path(vm).into(),
            out::rate(vm.packets_per_s),
            vm.agent.split([',', ';']).next().unwrap_or_default().to_owned(),
            vm.why.first().cloned().unwrap_or_default(),
        ]);
    }
    text += &format!("\n{}{troubles}", table.render());
    text
}

/// What its agent measured by each path.
fn latency(vm: &VmView) -> String {
    let of = |us: Option<u32>| us.map_or("not measured".into(), |us| format!("{us} µs"));
    format!("paravirtual NIC {}, VF {}", of(vm.paravirtual_us), of(vm.vf_us))
}

fn path(vm: &VmView) -> &'static str {
    match vm.path {
        Some(vfun_bond::Path::Vf) => "vf",
        Some(vfun_bond::Path::Paravirtual) => "paravirtual",
        None => "-",
    }
}

fn render_pools(view: &View) -> String {
    if view.pools.is_empty() && view.stray.is_empty() {
        return "there is no pool: `vfun nics pool add` makes one\n".into();
    }
    let mut text: String = view.pools.iter().map(render_pool).collect();
    if !view.stray.is_empty() {
        text += "VFs that are noted and in no pool\n";
        text += &vfs(&view.stray);
    }
    text
}

fn render_pool(pool: &PoolView) -> String {
    let head = match &pool.declared {
        Some(declared) => describe(declared),
        None => "it is being taken away".into(),
    };
    let vfs = if pool.vfs.is_empty() { "it has no VFs\n".into() } else { vfs(&pool.vfs) };
    format!("pool {}: {head}\n{vfs}", pool.name)
}

fn describe(pool: &Pool) -> String {
    let source = match &pool.source {
        Source::Sriov { pf } => format!("VFs of {pf}"),
        Source::Emulated { model, .. } => format!("emulated NICs ({model})"),
        Source::VhostUser { switch, .. } => {
            format!("ports of Open vSwitch (vhost-user, {})", switch.display())
        }
    };
    format!(
        "{source}; policy {}, each {} s, for at least {} s",
        pool.policy,
        pool.interval_ms / 1000,
        pool.tenure_ms / 1000
    )
}

fn vfs(rows: &[VfView]) -> String {
    let name = |vm: &Option<VmName>| vm.as_ref().map_or_else(|| "-".into(), VmName::to_string);
    let mut table = Table::new(&["VF", "STATE", ">FOR", "OWNER", "NEXT", "TROUBLE"]);
    for vf in rows {
        table.row([
            vf.vf.clone(),
            vf.state.clone(),
            out::age(vf.for_ms / 1000),
            name(&vf.owner),
            name(&vf.next),
            vf.trouble.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    table.render()
}

/// The steps of a VF's last move, in order.
fn moved(vf: &VfView) -> Option<String> {
    let steps: Vec<String> =
        vf.last_move.steps().iter().map(|(name, ms)| format!("{name} {ms} ms")).collect();
    (!steps.is_empty()).then(|| steps.join(", "))
}

fn facts(vm: &VmView, has: Option<&VfView>) -> String {
    let vf = match (&vm.vf, &vm.vf_state) {
        (Some(vf), Some(state)) => format!("{vf}, {state}"),
        (Some(vf), None) => vf.clone(),
        _ => "none".into(),
    };
    let mut facts =
        Facts::new().fact("VM", vm.vm.to_string()).fact("pool", vm.pool.clone()).fact("VF", vf);
    if let Some(moved) = has.and_then(moved) {
        facts = facts.fact("the VF's last move", moved);
    }
    for why in &vm.why {
        facts = facts.fact("why", why.clone());
    }
    for change in &vm.change {
        facts = facts.fact("what would change it", change.clone());
    }
    facts = facts
        .fact("packets/s that count", out::rate(vm.packets_per_s))
        .fact("packet there and back", latency(vm))
        .fact("path", path(vm))
        .fact("hypervisor", vm.hypervisor.clone())
        .fact("agent", vm.agent.clone());
    if let Some(trouble) = &vm.trouble {
        facts = facts.fact("the agent says", trouble.clone());
    }
    if vm.back_off_ms > 0 {
        facts = facts.fact("pause after a failure", out::age(vm.back_off_ms.div_ceil(1000)));
    }
    facts.fact("VF lost without its agent's word", format!("{} times", vm.abrupt)).render()
}
