//! A window that two VMs share goes into them by itself once their ports are to be linked, where
//! a manifest says how QEMU of a VM is reached. One that the manager made goes out of them again.

use super::made::MadeWindow;
use super::serve::MadeFor;
use crate::core::WindowId;
use crate::core::catalog::VmId;
use crate::limits::{LINK_OUT_AGAIN, LINK_REST, LINK_WINDOW_BYTES, LINK_WINDOWS_MAX};
use crate::rim::Daemon;
use crate::rim::verdicts::PlugOf;
use rustix::fs::FallocateFlags;
use std::collections::{BTreeMap, BTreeSet};
use vfun_admin::VmName;
use vfun_admin::window::{is_made, made_name};
use vfun_links::relay::{PlugOutcome, PlugWay};
use vfun_rim::further::{HostFurther, PeerNote};
use vfun_rim::methods::*;
use vfun_wire::PAGE;

/// What was asked for, by the window and the VM's place in it.
#[derive(Default)]
pub(super) struct LinkPlugs(BTreeMap<MadeFor, AskedPlug>);

/// A window that was to go into a VM.
struct AskedPlug {
    /// Until when it is not asked for again, ms.
    until: u64,
    /// The order is not answered: QEMU or libvirt may take the window's socket still.
    is_under_way: bool,
    /// What came of it, once that is known.
    outcome: Option<PlugOutcome>,
    /// The VM had it since.
    came: bool,
    /// The one before had its rest still.
    is_early: bool,
}

impl AskedPlug {
    /// Whether it is too early to ask again. Of a window that came and went it is not, once: a VM may say again
    /// and again that it has it and has it not.
    const fn rests(&self, now: u64) -> bool {
        now < self.until && (self.is_early || !self.came)
    }
}

/// Windows that the manager made for links, and what was in the way of others.
#[derive(Default)]
pub(super) struct MadeWindows {
    pub all: BTreeMap<WindowId, MadeWindow>,
    /// VMs for which none could be made: until when that is not tried again, ms, and why.
    failed: BTreeMap<[VmId; 2], (u64, String)>,
    /// VMs that have not let go of one, by their control windows, with that one's name: they have
    /// no links any more.
    pub stuck: BTreeMap<WindowId, String>,
}

impl LinkPlugs {
    #[cfg(test)]
    pub fn end_rests(&mut self) {
        self.0.values_mut().for_each(|asked| asked.until = 0);
    }

    /// Why a window is not in a VM yet, where somebody has tried.
    fn why(&self, of: MadeFor) -> Option<String> {
        Some(match &self.0.get(&of)?.outcome {
            None => "it is on its way".into(),
            Some(PlugOutcome::Done) => {
                "it was plugged in, and the VM's kernel module has not said yet that it has it: if this lasts, `dmesg` there says why".into()
            }
            Some(PlugOutcome::Already) => {
                "its QEMU has it, and the VM's kernel module does not take it: is the module loaded? `dmesg` there says more".into()
            }
            Some(
                PlugOutcome::Failed(why) | PlugOutcome::Unreachable(why) | PlugOutcome::Kept(why),
            ) => format!("{why}; it is tried again"),
        })
    }
}

impl Daemon {
    /// Has windows plugged into these VMs that share one.
    pub(super) fn plug_for_links(&mut self, apart: &BTreeSet<[VmId; 2]>) {
        let now = self.now();
        let missing = self.unplugged(apart);
        let mut plugs = std::mem::take(&mut self.links.plugs);
        plugs.0.retain(|of, asked| {
            let d = self.rim.further.get(&of.0);
            let waits = asked.is_under_way && d.is_some();
            asked.came |= d.is_some_and(|d| self.is_plugged(d, of.1));
            waits || now < asked.until || missing.iter().any(|m| m.0 == *of)
        });
        self.links.plugs = plugs;
        for (of, vm, window) in missing {
            let asked = self.links.plugs.0.get(&of);
            if asked.is_some_and(|asked| asked.is_under_way || asked.rests(now)) {
                continue;
            }
            let is_early = asked.is_some_and(|asked| now < asked.until);
            let was = asked.and_then(|asked| asked.outcome.clone());
            let until = now + LINK_REST.as_millis() as u64;
            let failed = self.plug_in(of, &vm, &window).err().map(PlugOutcome::Failed);
            if failed.is_some() {
                self.say_of_plug(&vm, &window, failed.as_ref(), was.as_ref());
            }
            // What is known holds until something else is.
            let is_under_way = failed.is_none();
            let outcome = failed.or(was);
            let asked = AskedPlug { until, is_under_way, outcome, came: false, is_early };
            self.links.plugs.0.insert(of, asked);
        }
    }

    fn plug_in(&mut self, of: MadeFor, vm: &VmName, window: &str) -> Result<(), String> {
        if is_made(window) {
            let socket = self.serve_made(of)?;
            let ordered = self.order_plug(vm, window, PlugWay::Served { socket });
            return ordered.inspect_err(|_| self.links.served.end(of));
        }
        let row = self.further_rows().into_iter().find(|row| row.name == window);
        let row = row.ok_or("it is gone")?;
        if let Some(why) = row.trouble {
            return Err(format!("it is not there: {why}"));
        }
        if row.file.to_str().is_none() {
            return Err(format!("{}: this path is no text", row.file.display()));
        }
        self.order_plug(vm, window, PlugWay::File { file: row.file, bytes: row.bytes })
    }

    /// Windows of these VMs that one of them has not, though its QEMU can be reached.
    fn unplugged(&self, apart: &BTreeSet<[VmId; 2]>) -> Vec<(MadeFor, VmName, String)> {
        let mut found = vec![];
        let may_go_in = |id: &WindowId| {
            let leaves = self.links.made.all.get(id).is_some_and(MadeWindow::leaves);
            !leaves && !self.links.bars.contains_key(id)
        };
        for (id, d) in self.rim.further.iter().filter(|(id, _)| may_go_in(id)) {
            let note = d.note();
            if !vms_of(d).is_some_and(|vms| apart.contains(&vms)) {
                continue;
            }
            for (at, peer) in note.peers.iter().enumerate() {
                let client = self.rim.core.catalog().clients.get(&peer.client);
                let reached = client.filter(|c| c.vmms.contains_key(&peer.vm));
                if let Some(client) =
                    reached.filter(|_| peer.of.is_some() && !self.is_plugged(d, at))
                {
                    let vm = VmName::new(&client.name, &peer.vm);
                    found.push(((*id, at), vm, note.name.clone()));
                }
            }
        }
        found
    }

    /// Says it once, however often the same comes of it.
    fn say_of_plug(
        &self,
        vm: &VmName,
        window: &str,
        outcome: Option<&PlugOutcome>,
        was: Option<&PlugOutcome>,
    ) {
        match outcome {
            _ if outcome == was => {}
            None => {}
            Some(PlugOutcome::Done) => tracing::info!("window {window} went into VM {vm}"),
            Some(PlugOutcome::Already) => tracing::warn!(
                "window {window} is in the QEMU of VM {vm}, and the VM's kernel module has not said that it has it"
            ),
            Some(
                PlugOutcome::Failed(why) | PlugOutcome::Unreachable(why) | PlugOutcome::Kept(why),
            ) => tracing::warn!("window {window} did not go into VM {vm}: {why}"),
        }
    }

    /// What came of an order to plug a window into a VM, or to take it out.
    pub(in crate::rim) fn window_plugged(&mut self, of: PlugOf, outcome: PlugOutcome) {
        let PlugOf { vm, window, goes_in } = of;
        let Some((id, d)) = self.laid_out(&window) else { return };
        let mut peers = d.note().peers.iter();
        let is_it = |p: &PeerNote| self.vm_words(p.client, &p.vm) == vm.to_string();
        let Some(at) = peers.position(is_it) else { return };
        let of = (id, at);
        if !goes_in {
            return self.went_out(of, &vm, outcome);
        }
        self.links.served.end(of);
        let was = self.links.plugs.0.get(&of).and_then(|asked| asked.outcome.clone());
        self.say_of_plug(&vm, &window, Some(&outcome), was.as_ref());
        if let Some(asked) = self.links.plugs.0.get_mut(&of) {
            (asked.is_under_way, asked.outcome) = (false, Some(outcome));
        }
        self.links.changed = true;
    }

    /// Why a window is not in one of its VMs.
    pub(super) fn why_not_plugged(&self, of: MadeFor, d: &HostFurther) -> String {
        let (name, peer) = (&d.note().name, &d.note().peers[of.1]);
        let vm = self.vm_words(peer.client, &peer.vm);
        let why = self.links.plugs.why(of).unwrap_or_else(|| match is_made(name) {
            true => "it is on its way".into(),
            false => "`vfun window list` shows how to plug it in".into(),
        });
        format!("window {name} is not in VM {vm}: {why}")
    }

    /// Makes windows for these VMs, whose ports should be linked. Why there is none for some.
    pub(super) fn make_windows(
        &mut self,
        lacking: &BTreeSet<[VmId; 2]>,
    ) -> BTreeMap<[VmId; 2], String> {
        let now = self.now();
        self.links.made.failed.retain(|_, (until, _)| now < *until);
        for vms in lacking {
            if self.links.made.failed.contains_key(vms) {
                continue;
            }
            if let Err(why) = self.make_window(vms) {
                tracing::warn!("no window for a direct link: {why}");
                let until = now + LINK_REST.as_millis() as u64;
                self.links.made.failed.insert(vms.clone(), (until, why));
            }
        }
        let failed = self.links.made.failed.iter();
        failed.map(|(vms, (_, why))| (vms.clone(), why.clone())).collect()
    }

    fn make_window(&mut self, vms: &[VmId; 2]) -> Result<(), String> {
        if self.made_windows().count() >= LINK_WINDOWS_MAX {
            return Err(format!(
                "the manager has made {LINK_WINDOWS_MAX} windows for links, which is the most: `vfun window add` declares one more"
            ));
        }
        let numbered = vms.each_ref().map(|vm| {
            let name = self.rim.core.catalog().vm(vm).map(|vm| vm.name());
            self.numbered(vm.clone(), &name.ok_or("a VM of it is gone")?)
        });
        let [a, b] = numbered;
        let name = made_name(self.next_window_generation());
        let failed = |e: std::io::Error| {
            format!("there is no memory for a window of {LINK_WINDOW_BYTES} bytes: {e}")
        };
        let file = vfun_window::memfd(&name, LINK_WINDOW_BYTES).map_err(failed)?;
        // All of it now: memory that runs out later would end whoever touches the next page.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, LINK_WINDOW_BYTES)
            .map_err(|e| failed(e.into()))?;
        let size = (LINK_WINDOW_BYTES, PAGE as u64);
        let window = HostFurther::new(&name, file, vec![a?, b?], size)
            .map_err(|e| format!("window {name}: {e}"))?;
        self.further_up(window);
        let [a, b] = vms.each_ref().map(|vm| self.vm_words(vm.client, &vm.vm));
        tracing::info!(window = name, "a window for direct links between VMs {a} and {b} is there");
        self.links.changed = true;
        Ok(())
    }

    /// Has windows that the manager made taken out of VMs that have had no link in them for some
    /// time. `needed` says which are needed.
    pub(super) fn mind_made_windows(&mut self, needed: &BTreeSet<WindowId>) {
        let (now, keep) = (self.now(), self.config.link_settings.idle_ms);
        let there: BTreeSet<WindowId> = self.made_windows().map(|(id, _)| id).collect();
        let all = self.links.made.all.keys();
        let gone: Vec<WindowId> = all.filter(|id| !there.contains(id)).copied().collect();
        for id in gone {
            self.links.made.all.remove(&id);
            self.links.served.forget(id);
        }
        for id in &there {
            let made = self.links.made.all.entry(*id).or_default();
            made.look(now, needed.contains(id), keep);
            // A VM was silent: nobody uses it again.
            if self.links.bars.contains_key(id) {
                made.leave(now);
            }
        }
    }

    /// Asks VMs to let go of windows, and lets those go of which they have.
    pub(super) fn take_made_windows_out(&mut self) {
        let now = self.now();
        let windows = &self.rim.windows;
        let over: Vec<WindowId> =
            self.links.made.stuck.keys().filter(|id| !windows.contains_key(id)).copied().collect();
        for id in over {
            self.links.made.stuck.remove(&id);
            self.links.changed = true;
            self.let_stuck_go(id);
        }
        let all = self.links.made.all.iter();
        let due: Vec<MadeFor> =
            all.flat_map(|(id, made)| made.due(now).into_iter().map(|vm| (*id, vm))).collect();
        due.into_iter().for_each(|of| self.ask_out(of));
        let all = self.links.made.all.iter();
        let out: Vec<WindowId> = all.filter(|(_, m)| m.is_out()).map(|(id, _)| *id).collect();
        for id in out {
            self.links.made.all.remove(&id);
            self.links.served.forget(id);
            if let Some(d) = self.rim.further.get(&id) {
                tracing::info!(window = d.note().name, "a window for direct links is gone");
                self.further_down(id);
            }
            self.links.changed = true;
        }
    }

    fn ask_out(&mut self, of: MadeFor) {
        // Links in it end first: without their window they would end by force.
        if self.links.links.values().any(|link| link.window == of.0) {
            return;
        }
        let Some(d) = self.rim.further.get(&of.0) else { return };
        let (window, peer) = (d.note().name.clone(), &d.note().peers[of.1]);
        let client = self.rim.core.catalog().clients.get(&peer.client);
        let Some(vm) = client.map(|c| VmName::new(&c.name, &peer.vm)) else { return };
        let ordered = self.order_plug(&vm, &window, PlugWay::Out);
        let Some(made) = self.links.made.all.get_mut(&of.0) else { return };
        match ordered {
            Ok(()) => made.asked(of.1),
            Err(why) => {
                if made.refused(of.1, clock_after(LINK_REST), why.clone()) {
                    tracing::warn!("window {window} cannot be taken out of VM {vm} now: {why}");
                }
            }
        }
    }

    /// A VM has let go of a window, or not.
    fn went_out(&mut self, of: MadeFor, vm: &VmName, outcome: PlugOutcome) {
        let Some(d) = self.rim.further.get(&of.0) else { return };
        let (window, control) = (d.note().name.clone(), d.note().peers[of.1].of);
        let control = control.filter(|id| self.rim.windows.contains_key(id));
        let Some(made) = self.links.made.all.get_mut(&of.0) else { return };
        match outcome {
            PlugOutcome::Done | PlugOutcome::Already => {
                made.has_left(of.1);
                tracing::info!("window {window} is out of VM {vm}");
            }
            // Nobody is there who could have it.
            PlugOutcome::Unreachable(_) if control.is_none() => made.has_left(of.1),
            PlugOutcome::Failed(why) | PlugOutcome::Unreachable(why) => {
                if made.refused(of.1, clock_after(LINK_REST), why.clone()) {
                    tracing::warn!("window {window} could not be taken out of VM {vm}: {why}");
                }
            }
            PlugOutcome::Kept(why) => {
                made.stays(of.1, clock_after(LINK_OUT_AGAIN));
                if let Some(control) = control {
                    self.vm_keeps(control, vm, &window, &why);
                }
            }
        }
        self.links.changed = true;
    }

    /// A VM does not let go of a window. What becomes of the VM is its operator's to say.
    fn vm_keeps(&mut self, control: WindowId, vm: &VmName, window: &str, why: &str) {
        if self.links.made.stuck.insert(control, window.to_owned()).is_none() {
            tracing::warn!(
                "VM {vm} keeps window {window}, and has no direct links until it is started again: {why}"
            );
            self.hold_stuck(control, window);
        }
    }

    /// VMs that keep a window, and windows that cannot be taken out of some, for people.
    pub(in crate::rim) fn stuck_troubles(&self) -> Vec<String> {
        let said = |(control, window): (&WindowId, &String)| {
            let a = self.rim.windows.get(control)?;
            let vm = self.vm_words(a.client, a.vm.as_deref()?);
            Some(keeps(&vm, window))
        };
        let stays = self.links.made.all.iter().flat_map(|(id, made)| {
            made.troubles().filter_map(|(at, why)| {
                let note = self.rim.further.get(id)?.note();
                let vm = self.vm_words(note.peers[at].client, &note.peers[at].vm);
                Some(format!(
                    "window {} is still in VM {vm}, and could not be taken out: {why}; it is tried again",
                    note.name
                ))
            })
        });
        self.links.made.stuck.iter().filter_map(said).chain(stays).collect()
    }
}

/// What is said of a VM that keeps a window.
pub(super) fn keeps(vm: &str, window: &str) -> String {
    format!(
        "VM {vm} has not let go of window {window}, which another VM has, too: it has no direct links until it is started again"
    )
}

fn clock_after(rest: std::time::Duration) -> u64 {
    crate::rim::clock() + rest.as_millis() as u64
}

/// The two VMs that share a window, in their order.
pub(super) fn vms_of(d: &HostFurther) -> Option<[VmId; 2]> {
    let mut vms: Vec<VmId> = d.note().peers.iter().map(PeerNote::vm_id).collect();
    vms.sort();
    vms.try_into().ok()
}
