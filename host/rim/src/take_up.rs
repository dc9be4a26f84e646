//! What an earlier manager left, and how this one goes on with it.

use crate::act::Act;
use crate::further::{FURTHER, FurtherWindows};
use crate::keep::{Keep, OWN, OwnNote, SERVICE, WINDOW, WindowNote};
use crate::requests::Requests;
use crate::system::KeptThing;
use crate::tell::{ServiceMessage, Tell};
use crate::{Attached, System, windows};
use std::collections::BTreeMap;
use vfun_core::catalog::ClientKind;
use vfun_core::kept::PREFIX;
use vfun_core::{Event, ServiceId, WindowId};
use vfun_supervise::ToService;
use vfun_wire::header::LAYOUT;

/// What an earlier manager left, sorted.
pub struct EarlierManager<K> {
    /// The core's notes, by name.
    pub core: Vec<(String, String)>,
    /// Windows: number, note, and what was kept of each.
    pub windows: Vec<(WindowId, String, K)>,
    /// Further windows, as well.
    pub further: Vec<(WindowId, String, K)>,
    /// Services, as well.
    pub services: Vec<(ServiceId, String, K)>,
    /// Locks of windows in files, by the VM's name in these.
    pub owned: Vec<(String, K)>,
    /// Notes of direct links, by what their names have behind [`LINK`].
    pub links: Vec<(String, String)>,
    own: Option<OwnNote>,
}

/// What the names of windows' locks at the keeper begin with.
pub const OWNED: &str = "rim/owned/";
/// What the names of notes of direct links at the keeper begin with.
pub const LINK: &str = "rim/link/";

impl<K> EarlierManager<K> {
    /// Sorts it, of name, note and what was kept. Things of no known name are dropped.
    pub fn of(kept: impl IntoIterator<Item = (String, String, K)>) -> Self {
        let (windows, further, services) = (vec![], vec![], vec![]);
        let mut left = EarlierManager {
            core: vec![],
            windows,
            further,
            services,
            owned: vec![],
            links: vec![],
            own: None,
        };
        for (name, note, held) in kept {
            let number = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse().ok());
            if let Some(id) = number(WINDOW) {
                left.windows.push((id, note, held));
            } else if let Some(id) = number(FURTHER) {
                left.further.push((id, note, held));
            } else if let Some(id) = number(SERVICE) {
                left.services.push((id, note, held));
            } else if let Some(client) = name.strip_prefix(OWNED) {
                left.owned.push((client.to_owned(), held));
            } else if let Some(link) = name.strip_prefix(LINK) {
                left.links.push((link.to_owned(), note));
            } else if name == OWN {
                left.own = serde_json::from_str(&note).ok();
            } else if name.starts_with(PREFIX) {
                left.core.push((name, note));
            }
        }
        left
    }

    /// Fails if its windows are of another layout, which this manager cannot go on with.
    /// Managers of layout 1 noted none, and each later one notes it before all else.
    pub fn check_layout(&self) -> Result<(), String> {
        let unnoted = if self.is_empty() { LAYOUT } else { 1 };
        match self.own.map_or(unnoted, |own| own.layout) {
            LAYOUT => Ok(()),
            other => Err(format!(
                "its windows have layout {other} and this manager lays out layout {LAYOUT}; apps connect again, and VMs with a doorbell are turned off and on"
            )),
        }
    }

    /// Whether there is nothing to go on with.
    pub fn is_empty(&self) -> bool {
        self.core.is_empty()
            && self.windows.is_empty()
            && self.further.is_empty()
            && self.services.is_empty()
            && self.owned.is_empty()
    }

    /// Names of all of it, to be forgotten.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let windows = self.windows.iter().map(|(id, ..)| format!("{WINDOW}{id}"));
        let services = self.services.iter().map(|(id, ..)| format!("{SERVICE}{id}"));
        let further = self.further.iter().map(|(id, ..)| format!("{FURTHER}{id}"));
        self.core
            .iter()
            .map(|(name, _)| name.clone())
            .chain(windows)
            .chain(further)
            .chain(services)
            .chain(self.owned.iter().map(|(client, _)| format!("{OWNED}{client}")))
            .chain(self.links.iter().map(|(link, _)| format!("{LINK}{link}")))
    }
}

/// Taking up, in two steps: between them the [`System`] ends services that an
/// earlier manager left and nobody kept.
pub trait TakeUp: System {
    /// Takes up what an earlier manager left. Whatever cannot be taken up counts
    /// as gone. Which services live is for [`TakeUp::resume`].
    fn take_up(&mut self, left: EarlierManager<Self::Kept>) -> Vec<ServiceId> {
        if let Some(own) = left.own {
            let rim = self.rim_mut();
            rim.next_id = rim.next_id.max(own.next_id);
            rim.window_generation = rim.window_generation.max(own.window_generation);
        }
        self.take_up_windows(left.windows);
        for (id, note, kept) in left.further {
            if let Err(e) = self.take_up_further(id, &note, kept) {
                self.lost(KeptThing::Further(id), &e);
                self.forget(format!("{FURTHER}{id}"));
            }
        }
        self.unname_what_is_gone();
        let mut alive = vec![];
        for (id, note, kept) in left.services {
            match self.regain_service(id, &note, kept) {
                Ok(process) => {
                    self.rim_mut().services.insert(id, process);
                    alive.push(id);
                }
                Err(e) => {
                    self.lost(KeptThing::Service(id), &e);
                    self.let_service_go(id);
                }
            }
        }
        let rim = self.rim();
        let known = |id: &&ServiceId| !rim.core.knows_service(**id);
        let unknown: Vec<_> = rim.services.keys().filter(known).copied().collect();
        unknown.into_iter().for_each(|id| self.kill(id));
        alive
    }

    /// Takes windows up; those that the core knows and that are not there are down.
    fn take_up_windows(&mut self, left: Vec<(WindowId, String, Self::Kept)>) {
        let ids = self.rim().core.window_ids();
        let mut known: BTreeMap<WindowId, bool> = ids.map(|id| (id, false)).collect();
        for (id, note, kept) in left {
            match self.take_up_window(id, &note, kept) {
                Ok(up) => {
                    // Its number may not have been noted before it was kept.
                    let rim = self.rim_mut();
                    rim.next_id = rim.next_id.max(id);
                    if known.insert(id, true).is_none() {
                        // It was made, and its manager killed before it was noted.
                        self.push(up);
                    }
                }
                Err(e) => {
                    self.lost(KeptThing::Window(id), &e);
                    self.let_window_go(id);
                }
            }
            self.point("took a window up");
        }
        for (id, _) in known.iter().filter(|(_, there)| !**there) {
            self.push(Event::WindowDown { window: *id });
            self.let_window_go(*id);
        }
    }

    /// Takes a window up. What the core is to be told if it does not know it.
    fn take_up_window(
        &mut self,
        id: WindowId,
        note: &str,
        kept: Self::Kept,
    ) -> Result<Event, String> {
        let mut note: WindowNote = serde_json::from_str(note).map_err(|e| e.to_string())?;
        if note.vm.is_none() && note.transport.row().serves == ClientKind::Vm {
            // That of a client's one VM, which has the client's name.
            let client = self.rim().core.catalog().clients.get(&note.client);
            note.vm = client.map(|c| c.name.clone());
        }
        let (window, peer) = self.regain_window(id, &note, kept)?;
        window.set_state(self.serving_state());
        let attached = Attached {
            window,
            client: note.client,
            vm: note.vm,
            transport: note.transport,
            peer,
            proven: note.proven,
            handing: false,
            intake: self.intake(note.client),
        };
        let up = windows::up(id, &attached);
        self.rim_mut().windows.insert(id, attached);
        Ok(up)
    }

    /// Lets the core say what is to be put right, and asks those services that
    /// live what they serve.
    fn resume(&mut self, alive: Vec<ServiceId>) {
        self.point("taken up, not resumed");
        self.push(Event::Resume { alive: alive.clone() });
        self.settle();
        // Without its answer nothing can be opened or given back there. It comes
        // behind what else it is told, as its report is read.
        let by = self.rim().generation;
        for id in alive {
            self.tell(id, ServiceMessage::Plain(ToService::Report { by }));
            self.point("asked a service what it serves");
        }
    }
}

impl<S: System> TakeUp for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_manager_of_layout_1_left_is_refused_by_name() {
        let left = |note: &str| EarlierManager::of([(OWN.to_owned(), note.to_owned(), ())]);
        let of_layout_1 = r#"{"next_id":3,"window_generation":7}"#;
        let e = left(of_layout_1).check_layout().unwrap_err();
        assert!(e.starts_with("its windows have layout 1"), "{e}");
        let own = OwnNote { next_id: 3, window_generation: 7, layout: LAYOUT };
        let now = serde_json::to_string(&own).unwrap();
        assert_eq!(left(&now).check_layout(), Ok(()));
        assert_eq!(EarlierManager::<()>::of([]).check_layout(), Ok(()));
        // Things without the manager's own note are of no manager of this layout.
        for name in ["core/session/1", "rim/window/3", "rim/service/4", "rim/owned/vm1"] {
            let left = EarlierManager::of([(name.to_owned(), "{}".to_owned(), ())]);
            assert!(!left.is_empty(), "{name}");
            let e = left.check_layout().unwrap_err();
            assert!(e.starts_with("its windows have layout 1"), "{name}: {e}");
        }
    }
}
