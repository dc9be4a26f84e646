//! What the process `vfun-nics` takes: processor time and memory with a hundred VMs.
//!
//! The process is the real one. It is shown a tree of devices of our own, so that it needs
//! no bridge, no tap and no rights; its VMs are control sockets that answer. It counts all
//! taps each second, asks all VMs, reads all reports and decides. No VF moves.

use super::agents::{Agents, sockets};
use super::{NicsPlan, Where, qemus};
use crate::error::Doing;
use crate::lab::{children_time, cpu_time, resident_bytes};
use crate::report::published::NICS_VFS;
use crate::report::{NicsExperiment, NicsReport, NicsRow, Origin};
use crate::{BenchError, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::{VmName, line};
use vfun_leases::Policy;
use vfun_nicd::ask::{Answer, Ask, socket};
use vfun_nics::declared::{Hypervisor, Pool, Source, Vm};

const VMS: usize = 100;
const POOL: &str = "cards";
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the last VM was added: threads have connected, buffers have their size.
const SETTLE: Duration = Duration::from_secs(5);

/// The process, with its world. It ends when this is dropped.
struct Daemon {
    child: Child,
    agents: Agents,
    place: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .doing(|| format!("cannot write {}", path.display()))
}

fn vm(n: usize) -> (VmName, String) {
    let name = format!("vm{n}");
    (VmName::new(&name, &name), format!("52:54:00:00:00:{n:02x}"))
}

/// A bridge, and a tap for each VM.
fn devices(place: &Path, vms: usize) -> Result<()> {
    let net = place.join("sys/class/net");
    write(&net.join("br0/bridge/vlan_filtering"), "0\n")?;
    for n in 0..vms {
        let tap = net.join(format!("pv{n}"));
        write(&tap.join("tun_flags"), "0x1002\n")?;
        write(&tap.join("statistics/rx_packets"), "1000\n")?;
        write(&tap.join("statistics/tx_packets"), "1000\n")?;
        std::os::unix::fs::symlink("../br0", tap.join("master"))
            .doing(|| format!("cannot link {}", tap.display()))?;
    }
    Ok(())
}

impl Daemon {
    fn start(program: &Path, vms: usize) -> Result<Self> {
        let place = tempfile::tempdir().doing(|| "no folder can be made".into())?;
        devices(place.path(), vms)?;
        let (ours, theirs) = sockets()?;
        let of = |name: &str| place.path().join(name);
        let log = fs::File::create(of("log")).doing(|| "no log can be made".into())?;
        let mut command = Command::new(program);
        command.arg("--until-stdin-closes").stdin(Stdio::from(theirs));
        for (option, folder) in
            [("--root", "root"), ("--sys", "sys"), ("--proc", "proc"), ("--dev", "dev")]
        {
            command.arg(option).arg(of(folder));
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .doing(|| format!("{} cannot be started", program.display()))?;
        let agents = Agents::start(ours, (0..vms).map(vm).collect());
        let daemon = Daemon { child, agents, place };
        daemon.declare(vms)?;
        Ok(daemon)
    }

    fn ask(&self, ask: &Ask) -> Result<()> {
        let socket = socket(&self.place.path().join("root"));
        let begin = Instant::now();
        let failed = |why: String| {
            let log = fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
            Err(BenchError::Manager(format!("vfun-nics: {why}; its log: {}", log.trim())))
        };
        loop {
            match line::ask::<Answer>(&socket, ask) {
                Ok(Answer::Refused { sentence }) => return failed(sentence),
                Ok(_) => return Ok(()),
                Err(line::LineError::NotRunning(_)) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(e) => return failed(e.to_string()),
            }
        }
    }

    fn declare(&self, vms: usize) -> Result<()> {
        // Emulated VFs need taps; under this policy nobody holds one.
        let source = Source::Emulated { vfs: NICS_VFS, model: "igb".into() };
        let pool = Pool { policy: Policy::None, ..Pool::new(source) };
        self.ask(&Ask::AddPool { name: POOL.into(), pool })?;
        for n in 0..vms {
            let path = self.place.path().join(format!("qmp{n}"));
            qemus::listen(&path)?;
            let (name, mac) = vm(n);
            let vm = Vm {
                bypass_filters: true,
                ..Vm::new(POOL, Hypervisor::Qmp { socket: path }, mac, "br0", format!("pv{n}"))
            };
            self.ask(&Ask::AddVm { name, vm })?;
        }
        Ok(())
    }

    fn bytes(&self) -> Result<f64> {
        let gone = || BenchError::Manager("vfun-nics ended".into());
        resident_bytes(self.child.id()).map(|b| b as f64).ok_or_else(gone)
    }

    /// Processor time of it, and of the programs that it ran, as parts of one processor.
    fn shares(&self, over: Duration) -> Result<[f64; 2]> {
        let pid = self.child.id();
        let gone = || BenchError::Manager("vfun-nics ended".into());
        let read = || Some([cpu_time(pid)?, children_time(pid)?]);
        let before = read().ok_or_else(gone)?;
        let begin = Instant::now();
        std::thread::sleep(over);
        let took = begin.elapsed();
        let after = read().ok_or_else(gone)?;
        let share = |n: usize| (after[n] - before[n]).as_secs_f64() / took.as_secs_f64();
        Ok([share(0), share(1)])
    }
}

/// Where `vfun-nics` is.
pub fn program(at: &Where) -> Result<PathBuf> {
    let program = at.program_and_folder().1.join("vfun-nics");
    if program.is_file() { Ok(program) } else { Err(BenchError::NoProgram(program)) }
}

/// Measures it with all VMs, and with none for the memory of one.
pub fn daemon(program: &Path, plan: &NicsPlan, report: &mut NicsReport) -> Result<()> {
    let none = {
        let daemon = Daemon::start(program, 0)?;
        std::thread::sleep(SETTLE);
        daemon.bytes()?
    };
    let daemon = Daemon::start(program, VMS)?;
    std::thread::sleep(SETTLE);
    let before = daemon.agents.sent();
    let [own, programs] = daemon.shares(plan.daemon)?;
    if daemon.agents.sent() == before {
        return Err(BenchError::Manager("vfun-nics took no report".into()));
    }
    let bytes = (daemon.bytes()? - none) / VMS as f64;
    let row = |case: &str, share, vm_bytes| NicsRow {
        cpu_share: Some(share),
        vm_bytes,
        ..NicsRow::new(NicsExperiment::Daemon, Origin::Measured, case, (VMS as u32, NICS_VFS))
    };
    report.rows.push(row(
        "with the programs that it runs, no VF moves",
        own + programs,
        Some(bytes),
    ));
    report.rows.push(row("of that, the programs (tc, bridge, nft)", programs, None));
    Ok(())
}
