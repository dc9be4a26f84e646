//! What the system does, not the manager: processes begin and die.

use super::{SERVICE, WINDOW};
use crate::plan::Chance;
use crate::service::{Process, Temper};
use crate::world::World;
use vfun_core::Exit;

impl World {
    /// Its process is gone: what nobody else holds is closed.
    pub fn manager_dies(&mut self) {
        let Some(m) = self.manager.take() else { return };
        self.kills += 1;
        self.say(|| "the manager is killed".into());
        let keeper = self.keeper.take();
        let keeper = if m.keeper { keeper } else { None };
        let holds = |name: String| keeper.as_ref().is_some_and(|k| k.holds(&name));
        for (id, s) in &m.services {
            if !holds(format!("{SERVICE}{id}"))
                && let Some(p) = self.processes.get_mut(&s.pid)
            {
                p.unlink();
            }
        }
        let lost: Vec<_> = self
            .guests
            .iter()
            .enumerate()
            .filter_map(|(i, g)| Some((i, g.conn.as_ref()?.window)))
            .filter(|(_, w)| !holds(format!("{WINDOW}{w}")))
            .collect();
        self.keeper = keeper;
        for (guest, window) in lost {
            self.hung_up(guest, window);
        }
    }

    /// The keeper is killed.
    pub fn keeper_dies(&mut self) {
        self.say(|| "the keeper is killed".into());
        self.keeper = None;
        match &mut self.manager {
            Some(m) => m.keeper = false,
            // What it held was held by nobody else.
            None => {
                self.processes.values_mut().for_each(Process::unlink);
                for guest in 0..self.guests.len() {
                    if let Some(c) = &self.guests[guest].conn {
                        let window = c.window;
                        self.hung_up(guest, window);
                    }
                }
            }
        }
    }

    pub(super) fn spawn(&mut self, client: &str, function: &str) -> u32 {
        self.next_pid += 1;
        let starts = self.starts.entry((client.into(), function.into())).or_insert(0);
        *starts += 1;
        let mut rng = self.plan.stream(&format!("process {client} {function} {starts}"));
        let temper = self.temper(client, &mut rng);
        let process = Process::new(function, temper, rng, self.now);
        self.say(|| format!("{temper:?} process for {client} {function}"));
        self.processes.insert(self.next_pid, process);
        self.next_pid
    }

    pub(super) fn temper(&self, client: &str, rng: &mut fastrand::Rng) -> Temper {
        let roll = rng.u32(0..20);
        let trusted = !self.guests.iter().any(|g| g.hostile.is_some() && g.name == client);
        if self.finishing {
            return Temper::Good;
        }
        if !trusted && self.plan.may(Chance::ServicesLie) && roll >= 10 {
            return Temper::Lies;
        }
        match roll {
            _ if !self.plan.may(Chance::ServicesDie) => Temper::Good,
            0..=3 => Temper::Crashes,
            4 | 5 => Temper::Hangs,
            6 => Temper::CannotLoad,
            7 => Temper::DiesLoading,
            8 => Temper::LoadsForEver,
            9 => Temper::Refuses,
            _ => Temper::Good,
        }
    }

    pub(super) fn kill_process(&mut self, pid: u32, exit: Exit) {
        if let Some(p) = self.processes.get_mut(&pid) {
            p.die(exit);
        }
    }
}
