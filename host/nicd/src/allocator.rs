//! The main loop: what the threads heard goes into the state machine, and what that says is
//! done goes to the threads. It never waits for a program, a VM or a card.

mod answers;
mod manifests;
mod work;

use crate::declarations::{Declarations, VmEntry};
use crate::files::Files;
use crate::hands::{HandsWorker, SaidByVm, WorkerId};
use crate::heard::{Heard, Hearing};
use crate::limits::{HEARD_WAITING, SEND_AGAIN, TICK};
use crate::lines::Lines;
use crate::orders::Orders;
use crate::places::Places;
use crate::ports::{Port, Ports};
use crate::providers::ProviderWorker;
use crate::relay::Relay;
use crate::{admin, ask};
use manifests::Manifests;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use vfun_admin::VmName;
use vfun_nics::event::{Cause, HostCounts};
use vfun_nics::relay::{Packet, ToManager};
use vfun_nics::{Action, Event, Nics, Op, PoolName, VfId, VmFound};

/// The state machine with all that carries its will out.
pub struct Allocator {
    nics: Nics,
    files: Files,
    declared: Declarations,
    manifests: Manifests,
    places: Places,
    hearing: Hearing,
    relay: Relay,
    ports: Ports,
    orders: Orders,
    hands: BTreeMap<VmName, HandsWorker>,
    next_worker: WorkerId,
    pools: BTreeMap<PoolName, ProviderWorker>,
    /// Which pool each VF is of.
    pool_of: BTreeMap<VfId, PoolName>,
    /// Which VM each VF is plugged in, or was last told to be: whose its packets are.
    given_to: BTreeMap<VfId, VmName>,
    /// Packets at each VF that counts them.
    vf_packets: BTreeMap<VfId, u64>,
    /// VFs that each VM may have had when this process began.
    noted: BTreeMap<VmName, Vec<VfId>>,
    /// Lines that an operator or the host causes.
    lines: Lines,
    /// Lines that VMs can cause.
    vm_lines: Lines,
}

/// Milliseconds of a clock that only goes forward, and on when this program starts anew.
fn now_ms() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    t.tv_sec as u64 * 1000 + t.tv_nsec as u64 / 1_000_000
}

/// What the program was started with.
pub struct Settings {
    /// Root of the manager's tree.
    pub root: PathBuf,
    pub until_stdin_closes: bool,
    /// The kernel's tree of devices.
    pub sys: PathBuf,
    /// The settings of the kernel are in it.
    pub proc: PathBuf,
    /// The folder of VFIO's files is in it.
    pub dev: PathBuf,
}

/// Runs until the manager is gone, or until something is wrong that only people can mend: what,
/// in a sentence.
pub fn run(settings: Settings) -> Result<(), String> {
    let Settings { root, until_stdin_closes, sys, proc, dev } = settings;
    let files = Files::open(&root)?;
    let (notes, declared) = (files.notes()?, files.declared()?);
    let (sender, heard) = sync_channel(HEARD_WAITING);
    let hearing = Hearing(sender);
    let relay = Relay::of_stdin(hearing.clone())?;
    let places =
        Places { sys, proc, dev, own: files.folder().to_owned(), vhost: root.join("vhost") };
    let ports = Ports::default();
    let no_thread = |e: std::io::Error| format!("no thread can be started: {e}");
    ports.watch(places.clone(), hearing.clone()).map_err(no_thread)?;
    let mut noted: BTreeMap<VmName, Vec<VfId>> = BTreeMap::new();
    let mut given_to = BTreeMap::new();
    for (vf, note) in &notes.vfs {
        if let Some(owner) = &note.owner {
            noted.entry(owner.clone()).or_default().push(vf.clone());
            given_to.insert(vf.clone(), owner.clone());
        }
    }
    let mut allocator = Allocator {
        nics: Nics::new(now_ms(), notes),
        files,
        declared: Declarations::default(),
        manifests: Manifests::new(&declared),
        places,
        hearing: hearing.clone(),
        relay,
        ports,
        orders: Orders::new(unix_ms() / 1000),
        hands: BTreeMap::new(),
        next_worker: WorkerId(0),
        pools: BTreeMap::new(),
        pool_of: BTreeMap::new(),
        given_to,
        vf_packets: BTreeMap::new(),
        noted,
        lines: Lines::about("the host"),
        vm_lines: Lines::about("VMs"),
    };
    allocator.declare_all(declared)?;
    admin::listen(&ask::socket(&root), hearing)?;
    tracing::info!("vfun-nics runs: {} VMs are declared", allocator.declared.vms.len());
    allocator.run(&heard, until_stdin_closes)
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1000, |d| d.as_millis() as u64)
}

impl Allocator {
    fn run(&mut self, heard: &Receiver<Heard>, until_stdin_closes: bool) -> Result<(), String> {
        loop {
            match heard.recv_timeout(self.patience()) {
                Ok(Heard::ManagerGone) if until_stdin_closes => return Ok(()),
                Ok(heard) => self.take(heard)?,
                Err(RecvTimeoutError::Timeout) => self.hear(Event::Tick)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.relay.flush();
        }
    }

    /// How long to wait for something to hear.
    fn patience(&self) -> Duration {
        let due = self.nics.due_ms().map(|at| Duration::from_millis(at.saturating_sub(now_ms())));
        let again = self.relay.waits().then_some(SEND_AGAIN);
        due.into_iter().chain(again).fold(TICK, Duration::min)
    }

    fn take(&mut self, heard: Heard) -> Result<(), String> {
        match heard {
            Heard::Event(event) => self.hear(event),
            Heard::Vm(worker, vm, said) => match self.hands.get(&vm) {
                Some(hands) if hands.id() == worker => self.hear(match said {
                    SaidByVm::Deleted(vf) => Event::Deleted(vm, vf),
                    SaidByVm::Found(found) => Event::VmFound(vm, found),
                }),
                // That VM was removed; one that is declared now under its name is another.
                _ => Ok(()),
            },
            Heard::Vfs(pool, found) => {
                self.pool_of.retain(|_, of| *of != pool);
                self.pool_of.extend(found.iter().map(|f| (f.vf.clone(), pool.clone())));
                self.vf_packets.retain(|vf, _| self.pool_of.contains_key(vf));
                self.hear(Event::Vfs(pool, found))
            }
            Heard::VfPackets(packets) => {
                self.vf_packets.extend(packets);
                Ok(())
            }
            Heard::TapPackets(packets) => self.count(packets),
            Heard::FromManager(Packet::AllTold(_)) => self.manifests_are_told(),
            Heard::FromManager(Packet::Vm(word)) => {
                self.manifest_says(&word)?;
                let agent = word.agent.map(|a| (a.id, a.report));
                self.hear(Event::Agent(word.vm, agent))
            }
            // The agents are with another manager, which has another socket; none are here.
            Heard::ManagerGone => Ok(()),
            Heard::Asked(ask, to) => {
                let answer = self.answer(ask)?;
                // Whoever asked may be gone.
                let _ = to.try_send(answer);
                Ok(())
            }
        }
    }

    fn count(&mut self, taps: BTreeMap<VmName, u64>) -> Result<(), String> {
        for (vm, paravirtual) in taps {
            let vf = self.given_to.iter().find(|(_, to)| **to == vm).map(|(vf, _)| vf);
            let vf = vf.and_then(|vf| self.vf_packets.get(vf)).copied();
            self.hear(Event::Counted(vm, HostCounts { paravirtual, vf }))?;
        }
        self.drop_those_that_left()
    }

    /// Tells the state machine, and does what it says, in order.
    fn hear(&mut self, event: Event) -> Result<(), String> {
        let mut todo = VecDeque::from([event]);
        while let Some(event) = todo.pop_front() {
            self.remember(&event);
            for action in self.nics.hear(now_ms(), event) {
                todo.extend(self.act(action)?);
            }
        }
        Ok(())
    }

    /// What the hypervisors say of who has what.
    fn remember(&mut self, event: &Event) {
        match event {
            Event::VmFound(vm, VmFound::Runs { plugged }) => {
                self.given_to.retain(|vf, to| to != vm || plugged.contains(vf));
                for vf in plugged {
                    self.given_to.insert(vf.clone(), vm.clone());
                }
            }
            Event::VmFound(vm, VmFound::Ended) => self.given_to.retain(|_, to| to != vm),
            Event::Deleted(vm, vf) if self.given_to.get(vf) == Some(vm) => {
                self.given_to.remove(vf);
            }
            _ => {}
        }
    }

    /// Does one thing; what follows at once.
    fn act(&mut self, action: Action) -> Result<Vec<Event>, String> {
        match action {
            Action::Note(notes) => {
                self.files.write_notes(&notes).map_err(|why| {
                    format!("{why}. Without notes no VF may be moved: make room on the disk; the manager starts vfun-nics again")
                })?;
                Ok(vec![])
            }
            Action::Do(op, what) => {
                if let Op::Plug { vf, vm } = &what {
                    self.given_to.insert(vf.clone(), vm.clone());
                }
                Ok(self.begin(op, what))
            }
            Action::Order(vm, agent, order) => {
                self.relay.tell(ToManager { vm, agent, order });
                Ok(vec![])
            }
            Action::Audit(cause, line) => {
                match cause {
                    Cause::Vm => self.vm_lines.info(&line),
                    Cause::Host => self.lines.info(&line),
                }
                Ok(vec![])
            }
        }
    }

    /// The ports that are watched are those of the VMs that are declared.
    fn watch_ports(&self) {
        let port = |v: &VmEntry| {
            let pool = self.declared.pools.get(&v.vm.pool);
            Port::new(&v.name, &v.vm, pool.map(|entry| &entry.pool.source))
        };
        self.ports.set(self.declared.vms.iter().map(port).collect());
    }
}
