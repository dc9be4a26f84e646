//! A further window into a VM that runs, and out of it.

use super::{AttachArgs, Done, Goes, Target, ms, qemu, show};
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
        here(admin, name, target)?;
        done.connected = Some(true);
        done.connected_ms = (!done.already).then(|| ms(began.elapsed()));
    }
    show(output, target, &done)
}

/// Takes it out. A window that is declared no more must not stay in a VM, so the manager
/// is not asked.
pub fn detach(output: Output, target: &Target, name: &str) -> Result<()> {
    let id = vfun_admin::window::device_id(name);
    let unplugged = match &target.qmp {
        Some(socket) => qemu::detach(socket, &id, target.timeout())?,
        None => target.domain().detach(&id, target.timeout())?,
    };
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

/// Waits until the guest has said that it has it.
fn here(admin: &Admin, name: &str, target: &Target) -> Result<()> {
    let until = Instant::now() + target.timeout();
    loop {
        let window = find(admin, name)?;
        if window.here {
            return Ok(());
        }
        if Instant::now() >= until {
            let what = format!(
                "the device is in {}, but no guest has said within {} s that it has window {name}",
                target.place(),
                target.timeout
            );
            let advice = match window.named {
                true => format!(
                    "is it VM {}, whose window it is? It needs the kernel module: `lsmod` and `dmesg` there tell of vfun",
                    window.vm
                ),
                false => {
                    format!("VM {} has no control window now: `vfun attach` that first", window.vm)
                }
            };
            return Err(Failure::new(Exit::Unreachable, what).advise(advice));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
