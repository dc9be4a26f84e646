//! What goes wrong by itself.

use super::{POOL, World, vf, vm_name};
use vfun_nics::declared::Rule;
use vfun_nics::{Event, VmFound};

/// How often something goes wrong, times in a hundred thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub on: bool,
    /// The process dies before an action.
    pub crash: u64,
    /// An op fails, or its answer is an error though it worked.
    pub fail: u64,
    pub lose_report: u64,
    pub lose_event: u64,
    /// Something else in a step: see [`World::make_trouble`].
    pub trouble: u64,
}

impl Faults {
    pub fn many() -> Faults {
        Faults {
            on: true,
            crash: 300,
            fail: 5_000,
            lose_report: 10_000,
            lose_event: 20_000,
            trouble: 8_000,
        }
    }
}

impl World {
    pub fn make_trouble(&mut self) {
        if !self.unlucky(self.faults.trouble) {
            return;
        }
        let n = self.draw(self.guests.len() as u64) as usize;
        let card = vf(self.draw(self.cards.len() as u64) as usize);
        let name = vm_name(n);
        match self.draw(18) {
            0 => self.end_vm(n),
            1 | 2 => self.start_vm(n),
            3 => {
                self.guest(n).lose_agent();
                self.tell_agent(&name);
            }
            4 | 5 => {
                let g = self.guest(n);
                if g.runs {
                    g.start_agent();
                }
                self.tell_agent(&name);
            }
            6 => self.guest(n).answers ^= true,
            7 => self.guest(n).answers = true,
            8 => self.guest(n).ignores_unplug ^= true,
            9 => self.guest(n).lazy ^= true,
            10 => {
                let gone = !self.cards[&card].gone;
                self.cards.get_mut(&card).unwrap().gone = gone;
                self.scan();
            }
            11 => self.hear(Event::MigrationBegins(name)),
            12 => self.hear(Event::MigrationEnded(name)),
            13 => {
                if self.declared.remove(&name) {
                    self.hear(Event::VmRemoved(name));
                } else {
                    self.declare(n, |_| {});
                }
            }
            14 => {
                let vlan = self.draw(3) as u16;
                if self.declared.contains(&name) {
                    self.declare(n, |vm| vm.vlan = Some(vlan));
                }
            }
            15 => match self.pools.remove(POOL) {
                Some(_) => self.hear(Event::PoolRemoved(POOL.into())),
                None => self.declare_pool(),
            },
            16 => {
                let rule = [Rule::None, Rule::Pinned, Rule::Banned][self.draw(3) as usize];
                if self.declared.contains(&name) {
                    self.declare(n, |vm| vm.rule = rule);
                }
            }
            _ => {
                let rate = self.draw(5_000);
                self.guest(n).reconnects_ms = [0, 0, 2_000][self.draw(3) as usize];
                self.guest(n).rate = rate;
            }
        }
    }

    pub fn declare_pool(&mut self) {
        self.pools.insert(POOL.into(), World::pool());
        self.hear(Event::PoolDeclared(POOL.into(), World::pool()));
        self.scan();
    }

    pub fn end_vm(&mut self, n: usize) {
        self.guest(n).end();
        self.tell_agent(&vm_name(n));
        // Sometimes nobody tells of it.
        if self.guests[&vm_name(n)].answers && !self.unlucky(self.faults.lose_event) {
            let found = VmFound::Ended;
            self.hear_of_vm(n, found);
        }
    }

    pub fn start_vm(&mut self, n: usize) {
        if self.guest(n).runs {
            return;
        }
        self.guest(n).runs = true;
        self.guest(n).start_agent();
        self.tell_agent(&vm_name(n));
    }

    /// By the VM's worker, so after all that it said before.
    fn hear_of_vm(&mut self, n: usize, found: VmFound) {
        self.worker_says(&vm_name(n), Event::VmFound(vm_name(n), found));
    }

    /// All is well again, and everybody behaves.
    pub fn heal(&mut self) {
        self.faults.on = false;
        for n in 0..self.guests.len() {
            let g = self.guest(n);
            (g.answers, g.ignores_unplug, g.lazy, g.reconnects_ms) = (true, false, false, 0);
            g.declared.rule = Rule::None;
            if g.agent.is_none() && g.runs {
                g.start_agent();
            }
            self.tell_agent(&vm_name(n));
            self.start_vm(n);
            self.declare(n, |_| {});
            self.hear(Event::MigrationEnded(vm_name(n)));
        }
        for card in self.cards.values_mut() {
            (card.gone, card.resets_fail, card.unusable) = (false, false, false);
        }
        self.declare_pool();
    }
}
