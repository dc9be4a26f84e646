//! What outlives this manager: everything that must not be lost is with the
//! keeper before anybody sees its effect, and a manager that starts anew goes
//! on from there. See [`vfun_keeper`].

use crate::System;
use crate::further::FurtherWindows;
use crate::say::Say;
use crate::system::{KeptThing, Line};
use serde::{Deserialize, Serialize};
use std::io;
use vfun_admin::Transport;
use vfun_core::limits::BUFFERS_MAX;
use vfun_core::{ServiceId, WindowId};
use vfun_keeper::{Change, NOTE_BYTES, THINGS_MAX, TooLong};
use vfun_wire::header::{LAYOUT, host_state};

/// What the names of things at the keeper begin with.
pub(crate) const WINDOW: &str = "rim/window/";
pub(crate) const SERVICE: &str = "rim/service/";
pub(crate) const OWN: &str = "rim/self";

// Buffers leave most of the keeper's room to everything else that is noted.
const _: () = assert!(4 * BUFFERS_MAX <= THINGS_MAX);

/// What the next manager is to know of a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowNote {
    pub client: u32,
    /// The VM that it is in, if it is in one; managers of clients with one VM noted none.
    #[serde(default)]
    pub vm: Option<String>,
    pub bytes: u64,
    /// Which laying-out it is.
    pub generation: u64,
    /// How it got to its other end.
    pub transport: Transport,
    /// Each app in it must show who it is.
    #[serde(default)]
    pub proven: bool,
    /// Whether it has bells.
    pub bells: bool,
    /// Its VM has not been told everything yet.
    #[serde(default)]
    pub handing: bool,
}

/// A manager's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnNote {
    /// The number given last.
    pub next_id: u32,
    /// Generation of the window laid out last.
    pub window_generation: u64,
    /// How its windows are laid out ([`vfun_wire::header::LAYOUT`]); managers of layout 1
    /// noted none.
    #[serde(default = "first_layout")]
    pub layout: u16,
}

fn first_layout() -> u16 {
    1
}

/// What is given to the keeper.
pub trait Keep: System {
    /// Notes what changed in the core, before it is acted upon.
    fn note_changes(&mut self) {
        let rim = self.rim_mut();
        let mut changes = rim.core.changes();
        let own = OwnNote {
            next_id: rim.next_id,
            window_generation: rim.window_generation,
            layout: LAYOUT,
        };
        if rim.noted != Some(own) {
            rim.noted = Some(own);
            // Before the rest: what has no such note beside it is of a manager of layout 1.
            changes.insert(0, Change { name: OWN.into(), note: Some(text(&own)) });
        }
        if !changes.is_empty() {
            self.tell_keeper(changes);
        }
    }

    /// Tells the keeper what changed; one that takes nothing more is replaced.
    fn tell_keeper(&mut self, changes: Vec<Change>) {
        match self.keep(changes) {
            Ok(too_long) => self.say_too_long(&too_long),
            Err(e) => {
                self.log(Line::Error, format_args!("the keeper takes nothing more: {e}"));
                self.keeper_gone();
            }
        }
    }

    /// The keeper ended: another one is given everything.
    fn keeper_gone(&mut self) {
        let started = self.start_keeper().and_then(|()| {
            self.point("a new keeper has nothing yet");
            self.give_all()
        });
        let lives = started.is_ok();
        self.keeper_started(started);
        if !lives {
            return;
        }
        self.point("a new keeper has the notes");
        let windows: Vec<_> = self.rim().windows.keys().copied().collect();
        for id in windows {
            self.hold_window(id);
            self.point("a new keeper has a window");
        }
        let further: Vec<_> = self.rim().further.keys().copied().collect();
        further.into_iter().for_each(|id| self.hold_further(id));
        let services: Vec<_> = self.rim().services.keys().copied().collect();
        for id in services {
            self.hold_service(id);
            self.point("a new keeper has a service");
        }
        // One that lost the connection, not its life, has written its will.
        let state = self.serving_state();
        self.rim().windows.values().for_each(|a| a.window.set_state(state));
    }

    /// Tells a new keeper all that is noted.
    fn give_all(&mut self) -> io::Result<()> {
        let rim = self.rim_mut();
        // What changed and was not noted yet is noted by this.
        drop(rim.core.changes());
        // Its own numbers first: without them the next manager would give a
        // window the number of one that services still let go of.
        let own = OwnNote {
            next_id: rim.next_id,
            window_generation: rim.window_generation,
            layout: LAYOUT,
        };
        rim.noted = Some(own);
        let mut notes = vec![Change { name: OWN.into(), note: Some(text(&own)) }];
        notes.extend(rim.core.all_notes());
        let too_long = self.keep(notes)?;
        self.say_too_long(&too_long);
        Ok(())
    }

    /// What windows say of the manager.
    fn serving_state(&self) -> u32 {
        match self.rim().core.draining() {
            true => host_state::DRAINING,
            false => host_state::SERVING,
        }
    }

    /// Gives the keeper a window.
    fn hold_window(&mut self, id: WindowId) {
        let Some(a) = self.rim().windows.get(&id) else { return };
        let note = text(&WindowNote {
            client: a.client,
            vm: a.vm.clone(),
            bytes: a.window.bytes(),
            generation: a.window.generation(),
            transport: a.transport,
            proven: a.proven,
            bells: a.window.bells().is_some(),
            handing: a.handing,
        });
        if let Err(e) = self.hold(&format!("{WINDOW}{id}"), &note, KeptThing::Window(id)) {
            self.log(Line::Error, format_args!("a window cannot be kept: {e}"));
        }
    }

    /// Gives the keeper a service.
    fn hold_service(&mut self, id: ServiceId) {
        if !self.rim().services.contains_key(&id) {
            return;
        }
        let note = self.service_note(id);
        if let Err(e) = self.hold(&format!("{SERVICE}{id}"), &note, KeptThing::Service(id)) {
            self.log(Line::Error, format_args!("a service cannot be kept: {e}"));
        }
    }

    /// The keeper lets go of a window.
    fn let_window_go(&mut self, id: WindowId) {
        self.forget(format!("{WINDOW}{id}"));
    }

    /// The keeper lets go of a service.
    fn let_service_go(&mut self, id: ServiceId) {
        self.forget(format!("{SERVICE}{id}"));
    }

    /// The keeper forgets something.
    fn forget(&mut self, name: String) {
        self.tell_keeper(vec![Change { name, note: None }]);
    }

    /// Notes that were not kept as they are: the next manager begins anew then.
    fn say_too_long(&mut self, notes: &[TooLong]) {
        for TooLong { name, bytes } in notes {
            // Not each time that it changes.
            if self.may_say(name) {
                self.log(Line::Error, format_args!(
                    "the note {name} has {bytes} bytes, and {NOTE_BYTES} at most are kept: if this manager is killed now, the next one starts with nothing"
                ));
            }
        }
    }
}

impl<S: System> Keep for S {}

fn text(note: &impl Serialize) -> String {
    serde_json::to_string(note).expect("plain data")
}
