//! What must be so after every step.

use crate::service::Temper;
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfun_wire::place::ChannelPlace;

fn overlap(a: &ChannelPlace, b: &ChannelPlace) -> bool {
    a.ranges().iter().any(|a| b.ranges().iter().any(|b| a.meets(b)))
}

impl World {
    /// Panics if something is not as it must be: of the core ([`vfun_core::Core::check`]),
    /// of what its catalog allows, and of what services have mapped.
    pub fn check(&self) {
        let Some(m) = &self.manager else { return };
        let core = &m.rim.core;
        core.check();
        let mut ranges: BTreeMap<u32, Vec<(u64, ChannelPlace)>> = BTreeMap::new();
        let (mut held, mut hardware) = (BTreeMap::<u32, u32>::new(), BTreeMap::<&str, u32>::new());
        for (handle, g) in core.grants() {
            *held.entry(g.holder.window).or_default() += 1;
            if g.subject.location.is_hardware() {
                *hardware.entry(&g.subject.function).or_default() += 1;
            }
            let Some(place) = g.channel() else { continue };
            if let Some(memory) = m.memory(g.holder.window) {
                place.check(&[memory.heap()]).unwrap_or_else(|e| panic!("grant {handle}: {e}"));
            }
            ranges.entry(g.holder.window).or_default().push((handle.0, place));
        }
        for (window, n) in held {
            // A lower limit takes nothing away.
            assert!(n <= 16, "window {window} has {n} grants");
        }
        for (function, n) in hardware {
            let f = core.catalog().functions.get(function);
            let most = f.and_then(|f| f.hardware.as_ref());
            assert!(most.is_none_or(|h| n <= h.instances), "'{function}' has {n} instances out");
        }
        self.check_maps(&ranges);
        self.check_buffers();
    }

    /// What services have mapped of buffers is nobody else's, and their own client's.
    fn check_buffers(&self) {
        let m = self.manager.as_ref().expect("the caller looked");
        let honest = self.processes.iter().filter(|(_, p)| p.temper != Temper::Lies);
        let mapped =
            honest.flat_map(|(pid, p)| p.buffers().map(move |(h, mem, r)| (*pid, h, mem, r)));
        for (pid, buffer, memory, range) in mapped {
            let of_window = |window| m.memory(window).is_some_and(|w| Rc::ptr_eq(w, memory));
            for (handle, b) in m.rim.core.buffers().filter(|(_, b)| of_window(b.holder.window)) {
                assert!(
                    handle.0 == buffer || !b.range().meets(range),
                    "process {pid} has pages of buffer {buffer:x}, which are given to {handle}"
                );
            }
            for (handle, g) in m.rim.core.grants().filter(|(_, g)| of_window(g.holder.window)) {
                let meets = g.channel().is_some_and(|c| c.ranges().iter().any(|r| r.meets(range)));
                assert!(
                    !meets,
                    "process {pid} has pages of buffer {buffer:x}, which are channel {handle}'s"
                );
            }
        }
    }

    /// What services really have mapped is nobody else's.
    fn check_maps(&self, ranges: &BTreeMap<u32, Vec<(u64, ChannelPlace)>>) {
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
                for (grant, theirs) in given {
                    assert!(
                        grant == channel || !overlap(g, theirs),
                        "process {pid} has pages of channel {channel:x}, which are given to {grant:x}"
                    );
                }
            }
        }
    }
}
