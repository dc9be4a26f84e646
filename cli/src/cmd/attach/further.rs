//! A further window into a VM that runs, and out of it.

use super::{AttachArgs, Done, Goes, Plugged, TIMEOUT_S, Target, ms, qemu, show};
use crate::admin::Admin;
use crate::cmd::window::find;
use crate::fail::{Exit, Failure, Result};
use crate::out::Output;
use crate::vmm;
use std::time::{Duration, Instant};
use vfun_admin::WindowRow;

impl Goes for WindowRow {
    fn of_vmm(&self) -> Result<vmm::Window<'_>> {
        Ok(vmm::further(self))
    }

    fn is_free(&self) -> Result<()> {
        match self.here {
            false => Ok(()),
            true => Err(Failure::new(
                Exit::Failed,
                format!(
                    "window {} is in VM {} already, and this is another one",
                    self.name, self.vm
                ),
            )
            .advise("`vfun detach` takes it out there; a window of another VM: `vfun window add`")),
        }
    }
}

/// Plugs it in.
pub fn attach(admin: &Admin, output: Output, args: &AttachArgs, name: &str) -> Result<()> {
    let (target, window) = (&args.target, find(admin, name)?);
    if let Some(why) = &window.trouble {
        return Err(Failure::new(Exit::Failed, format!("window {name} is not there: {why}")));
    }
    if !args.no_wait && !window.named {
        return Err(unnamed(&window));
    }
    let began = Instant::now();
    let plugged = match &target.qmp {
        Some(socket) => qemu::attach(socket, &window, args.bus.as_deref())?,
        None => target.domain().attach(&window)?,
    };
    let mut done = Done {
        window: Some(name.to_owned()),
        client: window.vm.clone(),
        device: window.device_id(),
        transport: "ivshmem-plain".into(),
        attached: true,
        already: plugged.already,
        pci: plugged.pci,
        port: plugged.port,
        took_ms: plugged.took.map(ms),
        ..Done::default()
    };
    if !args.no_wait {
        if !comes(admin, name, target)? {
            return Err(late(&find(admin, name)?, target, !done.already));
        }
        done.connected = Some(true);
        done.connected_ms = (!done.already).then(|| ms(began.elapsed()));
    }
    show(output, target, &done)
}

/// Takes it out. A window that is declared no more must not stay in a VM, so the manager
/// is not asked.
pub fn detach(output: Output, target: &Target, name: &str) -> Result<()> {
    let id = vfun_admin::window::device_id(name);
    let unplugged = unplug(target, &id, target.timeout())?;
    let done = Done {
        window: Some(name.to_owned()),
        device: id,
        already: unplugged.already,
        pci: unplugged.pci,
        took_ms: unplugged.took.map(ms),
        ..Done::default()
    };
    show(output, target, &done)
}

fn unplug(target: &Target, id: &str, at_most: Duration) -> Result<Plugged> {
    match &target.qmp {
        Some(socket) => qemu::detach(socket, id, at_most),
        None => target.domain().detach(id, at_most),
    }
}

/// Why one is not plugged in that no guest would say it has.
fn unnamed(w: &WindowRow) -> Failure {
    Failure::new(
        Exit::Failed,
        format!("window {} is of no use now: no control window of VM {} names it", w.name, w.vm),
    )
    .advise(format!(
        "the VM's own window comes first: `vfun client show {}` says how. If the VM has it, services still use what lay in {}: try again in a moment. --no-wait plugs it in all the same",
        w.vm, w.name
    ))
}

/// Waits until the guest has said that it has it; false if it does not in time.
fn comes(admin: &Admin, name: &str, target: &Target) -> Result<bool> {
    let until = Instant::now() + target.timeout();
    while !find(admin, name)?.here {
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// No guest has said in time that it has it. What this call plugged in is taken out
/// again: it may be in a VM that it is not for.
fn late(w: &WindowRow, target: &Target, ours: bool) -> Failure {
    // A short wait for the guest is no reason to leave the device in it.
    let at_most = target.timeout().max(Duration::from_secs(TIMEOUT_S));
    let device = match ours.then(|| unplug(target, &w.device_id(), at_most)) {
        None => format!("the device, which was there before, stays in {}", target.place()),
        Some(Ok(_)) => format!("the device was taken out of {} again", target.place()),
        Some(Err(e)) => format!(
            "the device is in {} still (`vfun detach --window {}` takes it out): {}",
            target.place(),
            w.name,
            e.what
        ),
    };
    let what = format!(
        "no guest has said within {} s that it has window {}: {device}",
        target.timeout, w.name
    );
    Failure::new(Exit::Unreachable, what).advise(format!(
        "is it VM {}, whose window it is? It needs the kernel module: `lsmod` and `dmesg` there tell of vfun",
        w.vm
    ))
}
