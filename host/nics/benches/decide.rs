//! How long one decision takes with 10,000 VMs and 128 VFs, and one report of an agent:
//! `cargo bench -p vfun-nics`.

use std::time::{Duration, Instant};
use vfun_admin::VmName;
use vfun_bond::{Mode, Path, Report};
use vfun_nics::declared::{Hypervisor, Pool, Rule, Source, Vm};
use vfun_nics::event::HostCounts;
use vfun_nics::notes::Notes;
use vfun_nics::{Action, AgentId, Event, Nics, Op, VfFound, VfId, VmFound};

const VMS: u64 = 10_000;
const VFS: usize = 128;
const POOL: &str = "eth2";

fn name(n: u64) -> VmName {
    let name = format!("vm{n}");
    VmName::new(&name, &name)
}

fn declared(n: u64) -> Vm {
    Vm {
        pool: POOL.into(),
        hypervisor: Hypervisor::External,
        mac: format!("02:00:00:00:{:02x}:{:02x}", n >> 8, n & 255),
        bridge: "br0".into(),
        tap: format!("tap{n}"),
        bus: None,
        vlan: None,
        rate_mbit: None,
        rule: Rule::None,
        reserve_percent: 0,
        cap_percent: 100,
        bypass_filters: true,
    }
}

/// The world does all at once, and each agent does what it is told.
struct Bench {
    nics: Nics,
    now: u64,
    packets: Vec<u64>,
    orders: Vec<(u64, Path)>,
}

impl Bench {
    fn report(&self, n: u64) -> Event {
        let (order, path) = self.orders[n as usize];
        let report = Report {
            order,
            agent: "0.1.0".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: declared(n).mac,
            path: Some(path),
            vf: None,
            packets: self.packets[n as usize],
            latency_us: None,
            trouble: None,
        };
        Event::Agent(name(n), Some((AgentId(n + 1), Some(report))))
    }

    fn hear(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.nics.hear(self.now, event) {
                match action {
                    Action::Do(_, Op::Inspect { vm }) => {
                        events.push(Event::VmFound(vm, VmFound::Runs { plugged: vec![] }));
                    }
                    Action::Do(op, what) => {
                        events.push(Event::Done(op, Ok(())));
                        if let Op::Unplug { vf, vm } = what {
                            events.push(Event::Deleted(vm, vf));
                        }
                    }
                    Action::Order(vm, _, order) => {
                        let n: u64 = vm.vm[2..].parse().expect("vmN");
                        self.orders[n as usize] = (order.number, order.path);
                        events.push(self.report(n));
                    }
                    Action::Note(_) | Action::Audit(..) => {}
                }
            }
        }
    }
}

fn median(times: &mut [Duration]) -> (u128, u128) {
    times.sort_unstable();
    (times[times.len() / 2].as_micros(), times[times.len() - 1].as_micros())
}

fn main() {
    let mut b = Bench {
        nics: Nics::new(0, Notes::default()),
        now: 0,
        packets: vec![0; VMS as usize],
        orders: vec![(0, Path::Paravirtual); VMS as usize],
    };
    let pool = Pool::new(Source::Sriov { pf: POOL.into() });
    b.hear(Event::PoolDeclared(POOL.into(), pool));
    let found = |n| VfFound { vf: VfId(format!("vf{n}")), unusable: None, clean: true };
    b.hear(Event::Vfs(POOL.into(), (0..VFS).map(found).collect()));
    for n in 0..VMS {
        b.hear(Event::VmDeclared(name(n), declared(n)));
        let report = b.report(n);
        b.hear(report);
    }
    let (mut decisions, mut reports) = (vec![], vec![]);
    for step in 1..=60u64 {
        b.now = step * 10_000 - 1;
        for n in 0..VMS {
            b.packets[n as usize] += (n * 2_654_435_761 + step / 8 * 40_503) % 100_000;
            let paravirtual = b.packets[n as usize];
            b.hear(Event::Counted(name(n), HostCounts { paravirtual, vf: None }));
            let report = b.report(n);
            let begin = Instant::now();
            b.hear(report);
            reports.push(begin.elapsed());
        }
        b.now = step * 10_000;
        let begin = Instant::now();
        let actions = b.nics.hear(b.now, Event::Tick);
        decisions.push(begin.elapsed());
        // What was decided is carried out by the next step.
        for action in actions {
            if let Action::Do(op, what) = action {
                b.hear(Event::Done(op, Ok(())));
                if let Op::Unplug { vf, vm } = what {
                    b.hear(Event::Deleted(vm, vf));
                }
            } else if let Action::Order(vm, _, order) = action {
                let n: u64 = vm.vm[2..].parse().expect("vmN");
                b.orders[n as usize] = (order.number, order.path);
                let report = b.report(n);
                b.hear(report);
            }
        }
    }
    let (p50, max) = median(&mut decisions);
    println!("a decision, {VMS} VMs, {VFS} VFs: p50 {p50} us, most {max} us");
    let (p50, max) = median(&mut reports);
    println!("a report: p50 {p50} us, most {max} us");
}
