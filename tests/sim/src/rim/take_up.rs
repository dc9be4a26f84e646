//! A manager's start, and what it takes up of the one before.

use super::{Attached, Done, Manager, OWN, SERVICE, Service, WINDOW};
use crate::keeper::{Held, Keeper};
use crate::service::Told;
use crate::world::World;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use vfun_core::kept::PREFIX;
use vfun_core::{Core, Event, Exit, WindowId};
use vfun_rim::window::HostWindow;

impl World {
    /// Takes over from the manager that was killed, or begins.
    pub fn start(&mut self) -> Done {
        self.generation += 1;
        let generation = self.generation;
        let found = self.keeper.is_some();
        let kept = self.keeper.get_or_insert_with(Keeper::default).things.clone();
        if !found || !kept.keys().any(|name| name.starts_with(PREFIX)) {
            self.lost();
        }
        let core_notes: Vec<(&str, &str)> = kept
            .iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .map(|(name, t)| (name.as_str(), t.note.as_str()))
            .collect();
        let mut core = Core::restore(self.now, generation, self.catalog.clone(), core_notes)
            .unwrap_or_else(|e| panic!("notes of a manager cannot be read: {e}"));
        // VFs move as often as they can.
        let leases = vfun_leases::Settings {
            policy: vfun_leases::Policy::Random,
            interval_ms: 20,
            min_hold_ms: 0,
            seed: generation.into(),
            ..Default::default()
        };
        core.set_leases(leases).expect("settings that make sense");
        self.say(|| format!("manager {generation} starts; the keeper has {} things", kept.len()));
        self.manager = Some(Manager {
            core,
            windows: BTreeMap::new(),
            services: BTreeMap::new(),
            reports: BTreeMap::new(),
            batons: BTreeMap::new(),
            events: VecDeque::new(),
            next_id: 0,
            window_generation: u64::from(generation) << 32,
            noted: None,
            keeper: true,
            last_heartbeats: self.now,
            last_tick: self.now,
        });
        self.point("restored, nothing taken up")?;
        if kept.is_empty() {
            self.end_left_services()?;
        } else {
            self.take_up(kept)?;
        }
        self.settle()
    }

    pub(super) fn end_left_services(&mut self) -> Done {
        let left: Vec<u32> = self.records.iter().copied().collect();
        for pid in left {
            if !self.m().services.values().any(|s| s.pid == pid) {
                self.kill_process(pid, Exit::Signal(9));
                self.records.remove(&pid);
                self.point("ended what another manager left")?;
            }
        }
        Ok(())
    }

    pub(super) fn take_up(&mut self, kept: BTreeMap<String, crate::keeper::Thing>) -> Done {
        if let Some(own) = kept.get(OWN) {
            let (next_id, generation): (u32, u64) =
                serde_json::from_str(&own.note).expect("its own note");
            let m = self.m();
            m.next_id = m.next_id.max(next_id);
            m.window_generation = m.window_generation.max(generation);
        }
        let mut known: BTreeMap<WindowId, bool> =
            self.m().core.window_ids().map(|id| (id, false)).collect();
        let number = |name: &str, prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        for (name, thing) in &kept {
            let Some(id) = number(name, WINDOW) else { continue };
            match self.take_up_window(thing) {
                Some((attached, up)) => {
                    let m = self.m();
                    m.next_id = m.next_id.max(id);
                    m.windows.insert(id, attached);
                    if known.insert(id, true).is_none() {
                        let Event::WindowUp { client, bytes, doorbell, death_seen, proven, .. } =
                            up
                        else {
                            unreachable!("that is what it gives")
                        };
                        let up = Event::WindowUp {
                            window: id,
                            client,
                            bytes,
                            doorbell,
                            death_seen,
                            proven,
                        };
                        self.push(up);
                    }
                }
                None => {
                    self.forget(format!("{WINDOW}{id}"));
                    self.hang_up_window(id);
                }
            }
            self.point("took a window up")?;
        }
        for (id, _) in known.iter().filter(|(_, there)| !**there) {
            self.push(Event::WindowDown { window: *id });
            self.forget(format!("{WINDOW}{id}"));
        }
        let mut alive = vec![];
        for (name, thing) in &kept {
            let Some(id) = number(name, SERVICE) else { continue };
            match thing.held {
                Held::Service(pid) => {
                    self.m().services.insert(id, Service { pid, child: false });
                    alive.push(id);
                }
                _ => self.forget(format!("{SERVICE}{id}")),
            }
        }
        let unknown: Vec<u32> = {
            let m = self.m();
            let unknown = m.services.iter().filter(|(id, _)| !m.core.knows_service(**id));
            unknown.map(|(_, s)| s.pid).collect()
        };
        for pid in unknown {
            self.kill_process(pid, Exit::Signal(9));
        }
        self.end_left_services()?;
        self.point("taken up, not resumed")?;
        self.push(Event::Resume { alive: alive.clone() });
        self.settle()?;
        let by = self.generation;
        for id in alive {
            let Some(pid) = self.m().services.get(&id).map(|s| s.pid) else { continue };
            match self.processes.get_mut(&pid) {
                Some(p) if p.lives() => p.inbox.push_back(Told::Report(by)),
                _ => {}
            }
            self.say(|| format!("tell service {id}: report"));
            self.point("asked a service what it serves")?;
        }
        Ok(())
    }

    pub(super) fn take_up_window(
        &mut self,
        thing: &crate::keeper::Thing,
    ) -> Option<(Attached, Event)> {
        let note: Value = serde_json::from_str(&thing.note).expect("its own note");
        let Held::Window(memory) = &thing.held else { return None };
        if note["handing"].as_bool()? {
            return None;
        }
        let (client, guest) = (note["client"].as_u64()? as u32, note["guest"].as_u64()? as usize);
        let (bytes, generation) = (note["bytes"].as_u64()?, note["generation"].as_u64()?);
        let heartbeats = note["heartbeats"].as_bool()?;
        let window = HostWindow::take_up(memory.file(), bytes, generation, None).ok()?;
        let up = Event::WindowUp {
            window: 0,
            client,
            bytes,
            doorbell: false,
            death_seen: !heartbeats,
            proven: false,
        };
        let memory = memory.clone();
        Some((Attached { window, client, heartbeats, handing: false, guest, memory }, up))
    }
}
