//! What each step of a move takes in real guests: the published table 2.
//!
//! Two guests on a bridge of their own take turns with one emulated VF. Manager, `vfun-nics`,
//! agents and guests are the real ones, and `vfun-nics` says what each step took.

use super::super::Where;
use super::NicsPlan;
use super::floor::{self, PlugFloor};
use crate::error::Doing;
use crate::lab::Manager;
use crate::report::{NicsExperiment, NicsReport, NicsRow, Origin};
use crate::{BenchError, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::{VmName, line};
use vfun_leases::Policy;
use vfun_nicd::ask::{Answer, Ask, socket};
use vfun_nics::declared::{Pool, Rule, Source};
use vfun_nics::moved::MoveTimes;
use vfun_nics::view::{VfView, View};

const POOL: &str = "cards";
const VMS: [&str; 2] = ["vm0", "vm1"];
/// How long two guests may take to boot, and one move.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what `vfun-nics` says.
const LOOK: Duration = Duration::from_millis(50);

/// Says to this program that it is in a network of its own.
const INSIDE: &str = "VFUN_BENCH_OWN_NETWORK";
const BRIDGE: &str = "br0";
/// Makes that network: nothing of it is seen outside, and no rule of the host's holds in it.
/// /sys shows the interfaces of the namespace in which it was mounted. The bridge has an
/// address of its own: else it is that of a port, and ports come and go.
const NETWORK: &str = "mount -t sysfs sysfs /sys && ip link set lo up && \
     ip link add br0 address 02:00:00:09:00:01 type bridge && ip link set br0 up && \
     for f in /proc/sys/net/bridge/bridge-nf-call-*; do [ ! -e $f ] || echo 0 >$f; done && \
     exec \"$@\"";

/// Guests that compete for a VF. They end with this.
struct Guests(Vec<Child>);

impl Guests {
    fn boot(vfun: &Path, manager: &Manager) -> Result<Self> {
        let mut guests = Guests(vec![]);
        for vm in VMS {
            let log = manager.root().join(format!("guest-{vm}.log"));
            let log = std::fs::File::create(&log).doing(|| format!("no {}", log.display()))?;
            let child = Command::new(vfun)
                .arg("--root")
                .arg(manager.root())
                .args(["guest", "--client", vm, "--window", "4MiB", "--bridge", BRIDGE])
                .args(["--pool", POOL, "--timeout", "3600", "--", floor::IN_GUEST])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .doing(|| format!("{} cannot be started", vfun.display()))?;
            guests.0.push(child);
        }
        Ok(guests)
    }

    /// What a guest said that has ended by itself.
    fn ended(&mut self, manager: &Manager) -> Option<String> {
        let n = self.0.iter_mut().position(|c| !matches!(c.try_wait(), Ok(None)))?;
        let log = manager.root().join(format!("guest-{}.log", VMS[n]));
        Some(std::fs::read_to_string(log).unwrap_or_default().trim().to_owned())
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All of it, with one VF.
struct TwoGuests {
    guests: Guests,
    manager: Manager,
}

impl TwoGuests {
    fn start(at: &Where, vfun: &Path) -> Result<Self> {
        let manager = at.manager_with_nics()?;
        let source = Source::Emulated { vfs: 1, model: "virtio-net-pci".into() };
        let pool = Pool {
            policy: Policy::None,
            interval_ms: 1_000,
            tenure_ms: 1_000,
            ..Pool::new(source)
        };
        tell(&manager, &Ask::AddPool { name: POOL.into(), pool })?;
        let guests = Guests::boot(vfun, &manager)?;
        Ok(TwoGuests { guests, manager })
    }

    /// Waits until something is so; what `vfun-nics` says then.
    fn until(&mut self, what: &str, is: impl Fn(&View) -> bool) -> Result<View> {
        let begin = Instant::now();
        loop {
            let view = view(&self.manager)?;
            if is(&view) {
                return Ok(view);
            }
            let why = match self.guests.ended(&self.manager) {
                Some(said) => format!("a guest ended: {said}"),
                None if begin.elapsed() >= PATIENCE => {
                    let why = view.vms.into_iter().flat_map(|vm| vm.why);
                    format!("{what} did not come to pass: {}", why.collect::<Vec<_>>().join("; "))
                }
                None => {
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            return Err(BenchError::Inside(why));
        }
    }

    /// Gives the VF to a VM, and says what that took.
    fn give(&mut self, vm: &str, from: &str) -> Result<MoveTimes> {
        let rule = |name: &str, rule| Ask::SetRule { name: VmName::new(name, name), rule };
        tell(&self.manager, &rule(from, Rule::None))?;
        tell(&self.manager, &rule(vm, Rule::Pinned))?;
        let held = |vf: &VfView| {
            vf.state == "held" && vf.owner.as_ref().is_some_and(|owner| owner.client == vm)
        };
        let view = self.until("the move", |view| vfs(view).any(held))?;
        let times = vfs(&view).find(|vf| held(vf)).map(|vf| vf.last_move);
        Ok(times.unwrap_or_default())
    }

    /// What plugging takes in a guest that no longer competes.
    fn floor(&mut self, times: u32) -> Result<PlugFloor> {
        let name = VmName::new(VMS[0], VMS[0]);
        tell(&self.manager, &Ask::SetRule { name: name.clone(), rule: Rule::Banned })?;
        let free = |view: &View| view.vms.iter().any(|vm| vm.vm == name && vm.vf.is_none());
        let view = self.until("a VM without VF", free)?;
        let vm = view.vms.into_iter().find(|vm| vm.vm == name);
        let vm = vm.ok_or_else(|| BenchError::Inside("the VM is gone".into()))?;
        // Its control socket takes one connection.
        tell(&self.manager, &Ask::RemoveVm { name: vm.vm })?;
        floor::measure(&vm.declared, times)
    }
}

fn vfs(view: &View) -> impl Iterator<Item = &VfView> {
    view.pools.iter().flat_map(|pool| &pool.vfs)
}

fn ask(manager: &Manager, ask: &Ask) -> Result<Answer> {
    let failed = |why: String| BenchError::Manager(format!("vfun-nics: {why}"));
    let (socket, begin) = (socket(manager.root()), Instant::now());
    loop {
        return match line::ask::<Answer>(&socket, ask) {
            Ok(Answer::Refused { sentence }) => Err(failed(sentence)),
            Ok(answer) => Ok(answer),
            // The manager starts it.
            Err(line::LineError::NotRunning(_)) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(LOOK);
                continue;
            }
            Err(e) => Err(failed(e.to_string())),
        };
    }
}

fn tell(manager: &Manager, order: &Ask) -> Result<()> {
    ask(manager, order).map(drop)
}

fn view(manager: &Manager) -> Result<View> {
    match ask(manager, &Ask::View)? {
        Answer::View(view) => Ok(view),
        other => Err(BenchError::Manager(format!("vfun-nics answered {other:?}"))),
    }
}

/// Why it cannot be measured here.
fn missing(vfun: &Path) -> Option<String> {
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").ok()?) == 0;
    let tun = Path::new("/dev/net/tun").exists();
    let guest = vfun.with_file_name("vfun-guest");
    match (root, tun, [vfun, &guest].into_iter().find(|p| !p.is_file())) {
        (false, ..) => Some("bridges and taps need root".into()),
        (_, false, _) => Some("there is no /dev/net/tun".into()),
        (.., Some(program)) => Some(format!("{} is not there", program.display())),
        _ => None,
    }
}

/// Measures it, in a network of its own. Where it cannot be measured, the report of several
/// experiments says why.
pub fn moves(at: &Where, plan: &NicsPlan, report: &mut NicsReport) -> Result<()> {
    let (program, programs) = at.program_and_folder();
    let vfun = programs.join("vfun");
    if std::env::var_os(INSIDE).is_some() {
        let (moved, floor) = measure(at, &vfun, plan.moves)?;
        report.rows.extend(rows(&moved, floor));
        return Ok(());
    }
    let measured = match missing(&vfun) {
        Some(why) => Err(BenchError::Inside(why)),
        None => in_own_network(&program, plan.short),
    };
    match measured {
        Ok(rows) => report.rows.extend(rows),
        // The other experiments' figures stand without it.
        Err(e) if plan.experiments.len() > 1 => {
            let settings = std::mem::take(&mut report.settings);
            report.settings = settings.with("moves", format!("not measured: {e}"));
        }
        Err(e) => return Err(e),
    }
    Ok(())
}

/// The rows that this program measures in a network of its own.
fn in_own_network(program: &Path, short: bool) -> Result<Vec<NicsRow>> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--", "sh", "-c", NETWORK, "sh"]).arg(program);
    command.args(["nics", "--experiment", "moves", "--json", "-"]);
    command.args(short.then_some("--short"));
    let done = command.env(INSIDE, "1").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.doing(|| "unshare cannot be run (it is in the package util-linux)".into())?;
    let report = serde_json::from_slice::<NicsReport>(&done.stdout);
    match report {
        Ok(report) if done.status.success() => Ok(report.rows),
        _ => Err(BenchError::Inside(format!(
            "moves in a network of their own ended with {}; what it said is above",
            done.status
        ))),
    }
}

fn measure(at: &Where, vfun: &Path, moves: u32) -> Result<(Vec<MoveTimes>, PlugFloor)> {
    let mut guests = TwoGuests::start(at, vfun)?;
    guests.until("an agent in each guest", |view| {
        view.vms.len() == VMS.len() && view.vms.iter().all(|vm| vm.has_agent)
    })?;
    // The first has no VM that it leaves.
    guests.give(VMS[0], VMS[1])?;
    let turn = |n: u32| [VMS[n as usize % 2], VMS[(n as usize + 1) % 2]];
    let moved: Result<_> = (0..moves).map(turn).map(|[from, to]| guests.give(to, from)).collect();
    Ok((moved?, guests.floor(moves)?))
}

/// A row for each step, for the sums that were published, and for what they cannot fall below.
fn rows(all: &[MoveTimes], floor_times: PlugFloor) -> Vec<NicsRow> {
    let sum = |of: [Option<u64>; 3]| of.iter().flatten().sum::<u64>();
    type Of = fn(&MoveTimes) -> [Option<u64>; 3];
    let steps: [(&str, Of); 7] = [
        ("agent leaves it, and pause for late packets", |t| [t.leaving_ms, None, None]),
        ("hot-unplug: until the guest let go of it", |t| [t.unplugging_ms, None, None]),
        ("host resets it", |t| [t.resetting_ms, None, None]),
        ("host makes it ready", |t| [t.preparing_ms, None, None]),
        ("hypervisor plugs it in", |t| [t.plugging_ms, None, None]),
        ("guest and agent take it into use", |t| [t.joining_ms, None, None]),
        ("hot-plug: the last three together", |t| [t.preparing_ms, t.plugging_ms, t.joining_ms]),
    ];
    let row = |step: &str, mut ns: Vec<u64>| {
        let row = NicsRow::new(NicsExperiment::Moves, Origin::Measured, step, (2, 1));
        row.with_times(&mut ns)
    };
    let step =
        |(step, of): (&str, Of)| row(step, all.iter().map(|t| sum(of(t)) * 1_000_000).collect());
    let mut rows: Vec<NicsRow> = steps.into_iter().map(step).collect();
    let mut floor = |of: &str, ns| rows.push(row(&format!("floor of {of}"), ns));
    floor("hot-unplug, the NIC in no bond: QEMU and the guest's kernel", floor_times.unplugs);
    floor(
        "hot-unplug, the NIC in a bond, not active: QEMU and the guest's kernel",
        floor_times.unplugs_from_bond,
    );
    floor("hot-plug: QEMU and the guest's kernel alone", floor_times.plugs);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_summed_up() {
        let times = MoveTimes {
            unplugging_ms: Some(60),
            preparing_ms: Some(5),
            plugging_ms: Some(40),
            joining_ms: Some(955),
            ..MoveTimes::default()
        };
        let floor = PlugFloor {
            plugs: vec![900_000_000],
            unplugs: vec![50_000_000],
            unplugs_from_bond: vec![70_000_000; 2],
        };
        let rows = rows(&[times, times], floor);
        let of = |word: &str| rows.iter().find(|r| r.case.starts_with(word)).unwrap().p50_ns;
        assert_eq!((of("hot-plug"), of("hot-unplug")), (Some(1e9), Some(60e6)));
        assert_eq!((of("floor of hot-plug"), of("floor of hot-unplug")), (Some(9e8), Some(5e7)));
        assert_eq!((rows[0].times, rows[8].times, rows[9].times), (Some(2), Some(2), Some(1)));
    }
}
