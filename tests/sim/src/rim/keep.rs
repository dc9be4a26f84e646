//! What is given to the keeper, and a keeper that was lost.

use super::{Done, OWN, SERVICE, WINDOW};
use crate::keeper::{Held, Keeper};
use crate::world::World;
use serde_json::json;
use vfun_core::{ServiceId, WindowId};
use vfun_keeper::{BATCH_BYTES, Change};

impl World {
    pub(super) fn tell_keeper(&mut self, tell: impl FnOnce(&mut Keeper)) {
        // One that was killed takes nothing, and is noticed later.
        if self.m().keeper
            && let Some(k) = &mut self.keeper
        {
            tell(k);
        }
    }

    pub(super) fn note_changes(&mut self, batch: usize) -> Done {
        let m = self.m();
        let mut changes = m.core.changes();
        let own = (m.next_id, m.window_generation);
        if m.noted != Some(own) {
            m.noted = Some(own);
            changes.push(Change { name: OWN.into(), note: Some(json!(own).to_string()) });
        }
        self.change(changes, batch)
    }

    /// As `Keeper::change` of the real one cuts it.
    pub(super) fn change(&mut self, changes: Vec<Change>, batch: usize) -> Done {
        let size = |c: &Change| c.name.len() + c.note.as_ref().map_or(0, |n| n.len() * 2) + 64;
        let (mut part, mut bytes) = (vec![], 0);
        for c in changes {
            if bytes + size(&c) > batch && !part.is_empty() {
                let sent = std::mem::take(&mut part);
                self.tell_keeper(|k| k.change(&sent));
                self.point("between two packets of notes")?;
                bytes = 0;
            }
            bytes += size(&c);
            part.push(c);
        }
        if !part.is_empty() {
            self.tell_keeper(|k| k.change(&part));
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, name: String) {
        self.tell_keeper(|k| k.change(&[Change { name, note: None }]));
    }

    pub(super) fn hold_window(&mut self, id: WindowId) {
        let Some(a) = self.m().windows.get(&id) else { return };
        let note = json!({
            "client": a.client, "bytes": a.window.bytes(), "generation": a.window.generation(),
            "heartbeats": a.heartbeats, "handing": a.handing, "guest": a.guest,
        });
        let held = Held::Window(a.memory.clone());
        self.tell_keeper(|k| k.hold(format!("{WINDOW}{id}"), note.to_string(), held));
    }

    pub(super) fn hold_service(&mut self, id: ServiceId) {
        let Some(s) = self.m().services.get(&id) else { return };
        let pid = s.pid;
        let note = json!(pid).to_string();
        self.tell_keeper(|k| k.hold(format!("{SERVICE}{id}"), note, Held::Service(pid)));
    }

    /// The keeper ended: another one is given everything.
    pub(super) fn keeper_gone(&mut self) -> Done {
        self.keeper = Some(Keeper::default());
        self.m().keeper = true;
        self.point("a new keeper has nothing yet")?;
        self.m().noted = None;
        self.note_changes(BATCH_BYTES)?;
        self.point("a new keeper has the manager's numbers")?;
        let notes = self.m().core.all_notes();
        self.change(notes, BATCH_BYTES)?;
        self.point("a new keeper has the notes")?;
        let ids: Vec<_> = self.m().windows.keys().copied().collect();
        for id in ids {
            self.hold_window(id);
            self.point("a new keeper has a window")?;
        }
        let ids: Vec<_> = self.m().services.keys().copied().collect();
        for id in ids {
            self.hold_service(id);
            self.point("a new keeper has a service")?;
        }
        Ok(())
    }
}
