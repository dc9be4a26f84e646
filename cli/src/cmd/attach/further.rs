//! A further window into a VM that runs, and out of it.

use super::{AttachArgs, Done, Goes, Plugged, TIMEOUT_S, Target, libvirt, ms, qemu, show};
use crate::admin::Admin;
use crate::cmd::window::find;
use crate::fail::{Exit, Failure, Result};
use crate::out::Output;
use crate::vmm;
use std::time::{Duration, Instant};
use vfun_admin::{WindowPeer, WindowRow};
use vfun_qmp::plug;

/// A further window that is about to be plugged in.
struct Plug<'a> {
    window: &'a WindowRow,
    /// Until its guest says that it has it.
    waits: bool,
}

impl Goes for Plug<'_> {
    fn of_vmm(&self) -> Result<vmm::Window<'_>> {
        Ok(vmm::further(self.window))
    }

    fn is_free(&self) -> Result<()> {
        let w = self.window;
        let mut without = w.peers.iter().filter(|p| !p.here).peekable();
        if without.peek().is_none() {
            let (name, vms) = (&w.name, w.vms());
            let what = format!("window {name} is in VM {vms} already, and this is another one");
            return Err(Failure::new(Exit::Failed, what).advise(
                "`vfun detach` takes it out there; a window of another VM: `vfun window add`",
            ));
        }
        match self.waits && !without.any(|p| p.named) {
            true => Err(unnamed(w)),
            false => Ok(()),
        }
    }
}

pub fn attach(admin: &Admin, output: Output, args: &AttachArgs, name: &str) -> Result<()> {
    let (target, window) = (&args.target, find(admin, name)?);
    if window.is_made() {
        let what = format!("the manager made window {name} for direct links");
        return Err(Failure::new(Exit::Refused, what)
            .advise("it plugs it in by itself: `vfun links` says what is in the way"));
    }
    if let Some(why) = &window.trouble {
        return Err(Failure::new(Exit::Failed, format!("window {name} is not there: {why}")));
    }
    let plug = Plug { window: &window, waits: !args.no_wait };
    if plug.waits && !window.peers.iter().any(|p| p.named) {
        return Err(unnamed(&window));
    }
    let began = Instant::now();
    let plugged = match &target.qmp {
        Some(socket) => qemu::attach(socket, &plug, args.bus.as_deref())?,
        None => libvirt::attach(&target.domain(), &plug)?,
    };
    let mut done = Done {
        window: Some(name.to_owned()),
        client: window.vms(),
        device: window.device_id(),
        transport: "ivshmem-plain".into(),
        attached: true,
        already: plugged.already,
        pci: plugged.pci,
        port: plugged.port,
        took_ms: plugged.took.map(ms),
        ..Done::default()
    };
    if plug.waits {
        let Some(came) = comes(admin, &window, done.already, target)? else {
            return Err(late(&window, target, !done.already));
        };
        if let Some(vm) = whose(&window, &came, done.already) {
            done.client = vm;
            done.connected = Some(true);
            done.connected_ms = (!done.already).then(|| ms(began.elapsed()));
        }
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
        Some(socket) => Ok(plug::detach(socket, id, at_most)?),
        None => Ok(target.domain().detach(id, at_most)?),
    }
}

/// Why one is not plugged in that no guest would say it has.
fn unnamed(w: &WindowRow) -> Failure {
    let missing: Vec<&str> =
        w.peers.iter().filter(|p| !p.here && !p.named).map(|p| p.vm.as_str()).collect();
    let (vms, first) = (missing.join(" or "), missing.first().copied().unwrap_or_default());
    Failure::new(
        Exit::Failed,
        format!("window {} is of no use now: no control window of VM {vms} names it", w.name),
    )
    .advise(format!(
        "the VM's own window comes first: `vfun client show {first}` says how. If the VM has it, services still use what lay in {}: try again in a moment. --no-wait plugs it in all the same",
        w.name
    ))
}

/// Waits until a VM more than before has said that it has it; none if none does in time.
/// Where the device was there before, that may have been said.
fn comes(
    admin: &Admin,
    before: &WindowRow,
    already: bool,
    target: &Target,
) -> Result<Option<WindowRow>> {
    let until = Instant::now() + target.timeout();
    let due = if already { before.here().max(1) } else { before.here() + 1 };
    loop {
        let now = find(admin, &before.name)?;
        if now.here() >= due {
            return Ok(Some(now));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The VM that has said so; none where nobody can tell whether it is this one: of a link
/// that was plugged in before, the other VM may have said it.
fn whose(before: &WindowRow, now: &WindowRow, already: bool) -> Option<String> {
    let had = |p: &&WindowPeer| before.peers.iter().any(|b| b.vm == p.vm && b.here);
    let mut came = now.peers.iter().filter(|p| p.here && !had(p));
    match came.next() {
        Some(p) if now.peers.len() == 1 || !already => Some(p.vm.clone()),
        _ if now.here() == now.peers.len() => Some(now.vms()),
        _ => None,
    }
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
        w.vms().replace(" and ", " or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(peers: &[(&str, bool, bool)]) -> WindowRow {
        let peer = |&(vm, named, here): &(&str, bool, bool)| WindowPeer {
            vm: vm.into(),
            index: Some(1),
            named,
            here,
        };
        WindowRow {
            name: "pair".into(),
            role: "link".into(),
            bytes: 1 << 20,
            page: 4096,
            file: "/dev/shm/virtfun_pair".into(),
            peers: peers.iter().map(peer).collect(),
            buffers: 0,
            trouble: None,
        }
    }

    #[test]
    fn a_link_that_both_vms_have_or_the_other_one_cannot_use_is_not_plugged_in() {
        let refused = |peers: &[(&str, bool, bool)], waits| {
            let window = window(peers);
            Plug { window: &window, waits }.is_free().err().map(|e| e.text())
        };
        let both = refused(&[("a", true, true), ("b", true, true)], false).unwrap();
        assert!(both.contains("is in VM a and b already"), "{both}");
        let other = [("a", true, true), ("b", false, false)];
        let unnamed = refused(&other, true).unwrap();
        assert!(unnamed.contains("no control window of VM b names it"), "{unnamed}");
        assert_eq!(refused(&other, false), None);
        assert_eq!(refused(&[("a", true, true), ("b", true, false)], true), None);
    }

    #[test]
    fn whose_guest_said_it_is_told_only_where_it_is_known() {
        let [none, a, both] = [(false, false), (true, false), (true, true)]
            .map(|(a, b)| window(&[("a", true, a), ("b", true, b)]));
        assert_eq!(whose(&none, &a, false).as_deref(), Some("a"));
        assert_eq!(whose(&a, &both, false).as_deref(), Some("b"));
        // It was plugged in before: into which VM, nobody knows.
        assert_eq!(whose(&a, &a, true), None);
        assert_eq!(whose(&none, &a, true), None);
        assert_eq!(whose(&both, &both, true).as_deref(), Some("a and b"));
        let [out, within] = [false, true].map(|here| window(&[("a", true, here)]));
        assert_eq!(whose(&out, &within, true).as_deref(), Some("a"));
        assert_eq!(whose(&within, &within, true).as_deref(), Some("a"));
    }
}
