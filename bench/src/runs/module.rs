//! The kernel module: the same guest with it and without it in turns, how soon it serves
//! once loaded, and how soon a window that is plugged in does.

use super::{Where, progress};
use crate::lab::{
    DEVICE, GUEST_CLIENT, GuestSpec, LabGuest, MODULE, Manager, Pinned, Plan, READY, Wiring,
};
use crate::measure::{Job, Outcome, Trip};
use crate::report::{Machine, Mode, ModuleFigure, ModuleReport, ModuleRow, Settings, machine};
use crate::{BenchError, Result};
use std::time::{Duration, Instant};
use vfun_testguest::Doorbell;

/// The client whose window is plugged in.
const ATTACHED: &str = "bench-attach";
/// Where it appears in the guest.
const ATTACHED_DEVICE: &str = "/dev/vfun1";
/// Most samples of a turn, and most time for them, ms.
const CALLS: (u32, u32) = (20_000, 250);
/// How long a guest may take to let go of a device.
const LETS_GO: Duration = Duration::from_secs(30);

/// How it is run.
#[derive(Clone, Debug)]
pub struct ModulePlan {
    /// How often each figure is taken.
    pub repeats: u32,
}

/// One figure for each repeat.
#[derive(Default)]
struct Figures {
    raw: Vec<(f64, f64)>,
    module: Vec<(f64, f64)>,
    ring: Vec<f64>,
    loaded: Vec<f64>,
    called: Vec<f64>,
    attached: Vec<f64>,
}

/// Runs it, in a guest of its own.
pub fn module(at: &Where, plan: &ModulePlan) -> Result<ModuleReport> {
    let machine = Machine::collect();
    let pins = Plan::new(at.pin);
    let _pinned = Pinned::to(pins.caller());
    progress("starting a manager");
    let services: Vec<_> = pins.service().into_iter().collect();
    let clients = [GUEST_CLIENT, ATTACHED];
    let manager = at.manager(&clients, Some(Wiring::Module), &services)?;
    let (program, _) = at.program_and_folder();
    progress("booting a guest");
    let spec = GuestSpec { ports: 1, bare: None, ..GuestSpec::new(Wiring::Module, &pins) };
    let guest = LabGuest::boot(&manager, &spec, &program)?;
    let mut all = Figures::default();
    let mut missed = None;
    for repeat in 0..plan.repeats {
        progress(format_args!("module: {} of {}", repeat + 1, plan.repeats));
        turn(&guest, &mut all)?;
        // The rest stands without it.
        if missed.is_none() {
            match attach(&manager, &guest) {
                Ok(took) => all.attached.push(took),
                Err(e) => {
                    progress(format_args!("attach: {e}"));
                    missed = Some(format!("attach: {e}"));
                }
            }
        }
    }
    let machine = machine.with_qemu(machine::qemu_version(&guest.qemu()), guest.accel());
    let pinning = pins.words();
    let mut settings =
        Settings { scale: 1.0, repeats: plan.repeats, pinning, ..Settings::default() };
    if let Some(why) = missed {
        settings = settings.with("not_measured", why);
    }
    Ok(ModuleReport { machine, settings, rows: rows(&all) })
}

fn rows(all: &Figures) -> Vec<ModuleRow> {
    let (raw, raw_p99): (Vec<_>, Vec<_>) = all.raw.iter().copied().unzip();
    let (calls, p99): (Vec<_>, Vec<_>) = all.module.iter().copied().unzip();
    let one = |kind, times: &[f64]| ModuleRow::new(kind, "module", times, &[]);
    let rows = [
        ModuleRow::new(ModuleFigure::NullCall, "raw", &raw, &raw_p99),
        ModuleRow::new(ModuleFigure::NullCall, "module", &calls, &p99).over_raw(&calls, &raw),
        one(ModuleFigure::Ring, &all.ring),
        one(ModuleFigure::Load, &all.loaded),
        one(ModuleFigure::LoadToFirstCall, &all.called),
        one(ModuleFigure::AttachToFirstCall, &all.attached),
    ];
    rows.into_iter().filter(|r| r.repeats > 0).collect()
}

fn strange() -> BenchError {
    BenchError::Inside("its answer is to another question".into())
}

/// A null call in hybrid mode: p50 and p99.
fn null_call(guest: &LabGuest, wiring: Wiring) -> Result<(f64, f64)> {
    let job = Job::Trips { of: Trip::Mode(Mode::Hybrid), samples: CALLS.0, millis: CALLS.1 };
    match guest.run_at(wiring.endpoint(), None, &job, Duration::ZERO)? {
        Outcome::Trips(p) => Ok((p.p50 as f64, p.p99 as f64)),
        _ => Err(strange()),
    }
}

/// Without the module, loading it, and with it.
fn turn(guest: &LabGuest, all: &mut Figures) -> Result<()> {
    guest.script("rmmod vfun")?;
    let raw = null_call(guest, Wiring::Raw)?;
    let load = Job::LoadModule { module: MODULE.to_owned(), device: DEVICE.to_owned() };
    let (loaded, called) = match guest.run(false, &load, Duration::ZERO)? {
        Outcome::FirstCall { loaded, called } => (loaded, called),
        _ => return Err(strange()),
    };
    all.loaded.push(loaded);
    all.called.push(called);
    all.raw.push(raw);
    all.module.push(null_call(guest, Wiring::Module)?);
    match guest.run(false, &Job::Rings { device: DEVICE.to_owned() }, Duration::ZERO)? {
        Outcome::NsPerCall(ns) => all.ring.push(ns),
        _ => return Err(strange()),
    }
    Ok(())
}

/// From QEMU's command to the end of the guest's program that has called: its end and
/// the way of its answer to the host are in it.
fn attach(manager: &Manager, guest: &LabGuest) -> Result<f64> {
    let clients = manager.clients()?;
    let socket = clients.iter().find(|c| c.name == ATTACHED).and_then(|c| c.socket.clone());
    let socket = socket.ok_or_else(|| BenchError::Manager(format!("no socket of {ATTACHED}")))?;
    guest.script(&format!("rm -f {READY}"))?;
    let took = std::thread::scope(|scope| {
        let job = Job::AwaitDevice { device: ATTACHED_DEVICE.to_owned() };
        let called =
            scope.spawn(move || guest.run(false, &job, Duration::ZERO).map(|_| Instant::now()));
        guest.script(&format!("until [ -e {READY} ]; do usleep 20000; done"))?;
        let start = Instant::now();
        guest.guest().plug_doorbell(0, "attached", &Doorbell::new(socket))?;
        let died = || BenchError::Inside("the thread that waits for it died".into());
        let end = called.join().unwrap_or_else(|_| Err(died()))?;
        Ok::<_, BenchError>(end - start)
    })?;
    guest.guest().unplug_doorbell("attached", LETS_GO)?;
    Ok(took.as_nanos() as f64)
}
