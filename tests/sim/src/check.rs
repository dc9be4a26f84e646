//! What must be so after every step.

use crate::service::Temper;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfun_core::GrantState;
use vfun_wire::channel::Geometry;
use vfun_wire::header::HEAP_OFF;
use vfun_wire::limits::SESSIONS;

fn sides(g: &Geometry) -> [(u64, u64); 2] {
    let side = g.side_bytes.get();
    [g.dataout_off.get(), g.datain_off.get()].map(|off| (off, off + side))
}

fn overlap(a: &Geometry, b: &Geometry) -> bool {
    sides(a).iter().any(|(a0, a1)| sides(b).iter().any(|(b0, b1)| a0 < b1 && b0 < a1))
}

impl World {
    /// Panics if something is not as it must be.
    pub fn check(&self) {
        let Some(m) = &self.manager else { return };
        let core = &m.rim.core;
        let totals = core.totals();
        // A window's end may have been noted, and not that of its sessions yet.
        let fit = totals.sessions <= totals.windows * SESSIONS || !m.resumed();
        assert!(fit, "more sessions than lines");
        let windows: BTreeSet<u32> = core.window_ids().collect();
        // A line that nobody gives back is one app less in this window, for good.
        let held = windows.iter().find(|w| totals.sessions == 0 && core.has_sessions(**w));
        assert_eq!(held, None, "lines of sessions are held, and there is no session");
        let mut ranges: BTreeMap<u32, Vec<(u64, Geometry)>> = BTreeMap::new();
        let (mut held, mut hardware) = (BTreeMap::<u32, u32>::new(), BTreeMap::<&str, u32>::new());
        let mut vfs = BTreeSet::new();
        let mut bytes = 0;
        for (handle, g) in core.grants() {
            let owned = windows.contains(&g.window) && core.has_session(g.session);
            assert!(
                owned || g.state == GrantState::Closing || !m.resumed(),
                "grant {handle} is {} and nobody's",
                g.state.text()
            );
            if windows.contains(&g.window) {
                *held.entry(g.client_id).or_default() += 1;
            }
            if let Some(vf) = g.vf.filter(|_| g.leased) {
                let new = vfs.insert((&g.function, vf));
                assert!(new, "VF {vf} of '{}' is two grants'", g.function);
            }
            if g.location.is_hardware() {
                *hardware.entry(&g.function).or_default() += 1;
            }
            if let Some(service) = g.service
                && g.state != GrantState::Broken
            {
                assert!(
                    core.knows_service(service),
                    "grant {handle} is {} by service {service}, which is gone",
                    g.state.text()
                );
            }
            assert!(
                g.state != GrantState::Active || g.service.is_some(),
                "grant {handle} is active and nobody serves it"
            );
            let Some(geometry) = g.geometry else { continue };
            if let Some(memory) = m.memory(g.window) {
                geometry
                    .check(HEAP_OFF as u64, memory.bytes)
                    .unwrap_or_else(|e| panic!("grant {handle}: {e}"));
            }
            if windows.contains(&g.window) {
                bytes += 2 * geometry.side_bytes.get();
            }
            for (other, theirs) in ranges.entry(g.window).or_default().iter() {
                assert!(
                    !overlap(&geometry, theirs),
                    "grants {handle} and {other:x} share pages of window {}",
                    g.window
                );
            }
            ranges.entry(g.window).or_default().push((handle.0, geometry));
        }
        assert!(bytes <= totals.bytes, "{bytes} bytes are in use, {} counted", totals.bytes);
        let catalog = core.catalog();
        for (client, n) in held {
            // A lower limit takes nothing away.
            assert!(n <= 16, "client {client} holds {n} grants");
        }
        for (function, n) in hardware {
            let most = catalog.functions.get(function).and_then(|f| f.hardware.as_ref());
            assert!(most.is_none_or(|h| n <= h.instances), "'{function}' has {n} instances out");
        }
        self.check_maps(&ranges);
    }

    /// What services really have mapped is nobody else's.
    fn check_maps(&self, ranges: &BTreeMap<u32, Vec<(u64, Geometry)>>) {
        let m = self.manager.as_ref().expect("the caller looked");
        let mut maps = vec![];
        let mut on_vfs = BTreeMap::new();
        for (pid, p) in &self.processes {
            // One that lies about what it touches hurts its own client only.
            if p.temper != Temper::Lies {
                maps.extend(p.maps().map(|(h, memory, g, t)| (*pid, h, memory, g, t)));
                for vf in p.vfs() {
                    let other = on_vfs.insert((&p.function, vf), *pid);
                    assert_eq!(other, None, "a process beside {pid} is on VF {vf}");
                }
            }
        }
        for (i, (pid, channel, memory, g, touches)) in maps.iter().enumerate() {
            for (other, theirs_channel, theirs, theirs_g, they_touch) in &maps[..i] {
                // In a move two have it, and one of them uses it.
                let moves = channel == theirs_channel && !(*touches && *they_touch);
                assert!(
                    moves || !Rc::ptr_eq(memory, theirs) || !overlap(g, theirs_g),
                    "processes {other} and {pid} have the same pages (channels {theirs_channel:x}, {channel:x})"
                );
            }
            for (window, given) in ranges {
                if !m.memory(*window).is_some_and(|w| Rc::ptr_eq(w, memory)) {
                    continue;
                }
                for (grant, geometry) in given {
                    assert!(
                        grant == channel || !overlap(g, geometry),
                        "process {pid} has pages of channel {channel:x}, which are given to {grant:x}"
                    );
                }
            }
        }
    }
}
