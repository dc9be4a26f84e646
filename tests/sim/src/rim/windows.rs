//! Windows: given, looked at, gone.

use super::{Attached, Done, WINDOW};
use crate::memory::Memory;
use crate::world::{Conn, World};
use vfun_core::{Action, ControlRequest, Event, ReplyTo, WindowId};
use vfun_rim::window::HostWindow;

impl World {
    /// A window for a guest that wants one; VMs are told when it is kept,
    /// programs before.
    pub(super) fn attach(&mut self, guest: usize) -> Done {
        let (client, host, bytes) = {
            let g = &self.guests[guest];
            (g.client, g.host, g.bytes)
        };
        let Some(name) = self.m().core.catalog().clients.get(&client).map(|c| c.name.clone())
        else {
            return Ok(());
        };
        let memory = Memory::new(guest, bytes);
        self.m().window_generation += 1;
        self.m().next_id += 1;
        let (generation, id) = (self.m().window_generation, self.m().next_id);
        let window = HostWindow::lay_out(memory.file(), bytes, generation, client, &name, None);
        let window = window.expect("a window");
        let conn = Conn { window: id, memory: memory.clone() };
        if host {
            self.guests[guest].conn = Some(conn.clone());
            self.point("the app has its window, the keeper has not")?;
        }
        let attached =
            Attached { window, client, heartbeats: !host, handing: !host, guest, memory };
        self.m().windows.insert(id, attached);
        self.hold_window(id);
        self.point("a window is kept, not noted")?;
        if !host {
            self.guests[guest].conn = Some(conn);
            self.point("a VM has its window and counts as not told")?;
            self.m().windows.get_mut(&id).expect("just put there").handing = false;
            self.hold_window(id);
            self.point("a VM's window is kept, not noted")?;
        }
        self.push(Event::WindowUp {
            window: id,
            client,
            bytes,
            doorbell: false,
            death_seen: host,
            proven: false,
        });
        self.settle()
    }

    pub(super) fn window_gone(&mut self, id: WindowId) -> Done {
        if self.m().windows.contains_key(&id) {
            self.forget(format!("{WINDOW}{id}"));
            self.point("a window is let go, not noted")?;
            self.push(Event::WindowDown { window: id });
            self.settle()?;
            if let Some(a) = self.m().windows.remove(&id) {
                self.hung_up(a.guest, id);
            }
        }
        Ok(())
    }

    pub(super) fn look(&mut self, id: WindowId) -> Done {
        let Some(a) = self.m().windows.get_mut(&id) else { return Ok(()) };
        a.window.beat();
        if !a.window.anything_posted() {
            return Ok(());
        }
        let requests = a.window.requests();
        for r in requests {
            let to = ReplyTo { window: id, cell: r.cell, seq: r.seq };
            match r.body {
                Ok(body) => self.push(Event::Request(ControlRequest {
                    to,
                    kind: r.kind,
                    session: r.session,
                    body,
                })),
                Err(nack) => self.act(Action::Answer { to, result: Err(nack) })?,
            }
        }
        Ok(())
    }
}
