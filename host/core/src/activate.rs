//! Activations: a grant gets its channel.

use super::catalog::Function;
use super::grants::GrantState;
use super::{Action, ControlRequest, Core, WindowId};
use vfun_wire::channel::{Geometry, side_bytes};
use vfun_wire::limits::VECTORS;
use vfun_wire::message::{ActivateAck, Kind};
use vfun_wire::{Handle, Nack, NackCode};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

impl Core {
    pub(super) fn activate(
        &mut self,
        now: u64,
        session: Handle,
        r: &ControlRequest,
        out: &mut Vec<Action>,
    ) -> Result<(), Nack> {
        let handle = self.own_grant(session, &r.body, Kind::Activate)?;
        let g = self.grants.get(handle).expect("just found");
        // Read again by a manager that took over before it was answered, or asked
        // again by an app that was told that it takes its time.
        if g.state == GrantState::Activating && g.waiting.is_none_or(|to| to == r.to) {
            self.grants.get_mut(handle).expect("just found").waiting = Some(r.to);
            return Ok(());
        }
        let untold = g.activated.is_none();
        if untold && g.state == GrantState::Broken {
            return Err(Nack::new(
                NackCode::ServiceFailed,
                format!(
                    "the service of '{}' was lost before anybody was told that it serves grant {handle}: release that, and negotiate again",
                    g.function
                ),
            ));
        }
        let late = untold && matches!(g.state, GrantState::Active | GrantState::Recovering);
        if (late || g.activated == Some(r.to))
            && let Some(geometry) = g.geometry
        {
            self.grants.get_mut(handle).expect("just found").activated = Some(r.to);
            let ack = ActivateAck { channel: U64::new(handle.0), geometry };
            out.push(Action::Answer { to: r.to, result: Ok(ack.as_bytes().to_vec()) });
            return Ok(());
        }
        if g.state != GrantState::Granted {
            return Err(Nack::new(
                NackCode::WrongState,
                format!("grant {handle} is {} already", g.state.text()),
            ));
        }
        let own = self.catalog.function(g.client_id, &g.function).and_then(Function::own_print);
        if g.of.is_some() && g.of != own {
            return Err(Nack::new(
                NackCode::UnknownFunction,
                format!(
                    "the module of '{}' was replaced or removed since it was granted: negotiate it again",
                    g.function
                ),
            ));
        }
        self.check_breaker(now, g.client_id, &g.function, g.location)?;
        self.check_starts(g)?;
        let (window, depth, cell_bytes, kind) = (g.window, g.depth, g.cell_bytes, g.kind);
        let side = side_bytes(depth, cell_bytes).expect("checked when negotiated");
        let vector = self.least_used_vector(window);
        let w = self.windows.get_mut(&window).expect("a session's window is up");
        let full = |free: u64, longest: u64| {
            Nack::new(
                NackCode::NoCapacity,
                format!(
                    "the window has no room for two sides of {side} bytes ({free} free, {longest} in one piece): release another grant, or give the client a larger window"
                ),
            )
        };
        if w.shut.is_some_and(|until| now < until) {
            return Err(Nack::new(
                NackCode::NoCapacity,
                "very many channels of the window were taken away a moment ago: try again in a second",
            ));
        }
        let Some(dataout) = w.heap.take(side) else {
            return Err(full(w.heap.free_bytes(), w.heap.longest()));
        };
        let Some(datain) = w.heap.take(side) else {
            w.heap.give(dataout, side);
            return Err(full(w.heap.free_bytes(), w.heap.longest()));
        };
        let geometry = Geometry {
            dataout_off: U64::new(dataout),
            datain_off: U64::new(datain),
            side_bytes: U64::new(side),
            cell_bytes: U32::new(cell_bytes),
            depth: U16::new(depth),
            kind: U16::new(kind.to_wire()),
            vector_out: U16::new(vector),
            vector_in: U16::new(vector),
            reserved: U32::new(0),
        };
        let g = self.grants.get_mut(handle).expect("just found");
        g.geometry = Some(geometry);
        g.state = GrantState::Activating;
        g.waiting = Some(r.to);
        self.serve(now, handle, out);
        Ok(())
    }

    /// The channels' vector that fewest channels of a window share.
    pub(super) fn least_used_vector(&self, window: WindowId) -> u16 {
        let mut used = [0u32; VECTORS as usize];
        for (_, g) in self.grants.iter().filter(|(_, g)| g.window == window) {
            if let Some(geometry) = g.geometry
                && let Some(n) = used.get_mut(usize::from(geometry.vector_out.get()))
            {
                *n += 1;
            }
        }
        (1..VECTORS).min_by_key(|v| used[usize::from(*v)]).expect("there is more than one")
    }
}
