//! The attacks, by name. Each is bounded in time and replays from its seed.

mod calls;
mod control;
mod files;
mod race;
mod scribble;
mod strangers;

use crate::random::Random;
use crate::window::{Place, Window};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an attacker does.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub what: &'static str,
    /// Whether it can be done from inside a guest.
    pub in_guests: bool,
    run: fn(&mut Field),
}

/// What needs a plain window's file, and so a client of its own.
pub const ON_FILES: &str = "truncate";

/// All of them.
pub const ATTACKS: &[Attack] = &[
    attack("random", "random words everywhere, bells between", scribble::random),
    attack("fields", "each field of each line, each edge value", scribble::fields),
    attack("bodies", "each field of each request's body, each edge value", scribble::bodies),
    attack("race-calls", "right calls, their lines flipped meanwhile", race::calls),
    attack("race-control", "right requests, their cells flipped meanwhile", race::control),
    attack("control-flood", "negotiate, activate, release without a pause", control::flood),
    attack("hello-flood", "hellos under ever new names", control::hellos),
    attack("full-cells", "all control cells always full", control::full),
    attack("bells", "all bells, all vectors, nothing to say", control::bells),
    attack("drop", "releases and ends in the middle of calls", calls::drop_in_the_middle),
    attack("hang", "calls that never end", calls::hang),
    attack("spin", "calls that use all the processor they get", calls::spin),
    attack("crash", "calls that crash the driver", calls::crash),
    attack("giant", "the largest channels, arguments and results", calls::giant),
    attack("uncollected", "results that nobody ever takes", calls::uncollected),
    Attack { in_guests: false, ..attack("connect", "connection floods", strangers::connect) },
    Attack { in_guests: false, ..attack(ON_FILES, "the window's file cut short", files::truncate) },
];

const fn attack(name: &'static str, what: &'static str, run: fn(&mut Field)) -> Attack {
    Attack { name, what, in_guests: true, run }
}

impl Attack {
    /// By its name.
    pub fn named(name: &str) -> Option<&'static Attack> {
        ATTACKS.iter().find(|a| a.name == name)
    }

    /// Attacks until the time is up: what came of it.
    pub fn run(&self, place: &Place, others: &Others, seed: u64, time: Duration) -> Report {
        let mut field = Field {
            place: place.clone(),
            others: others.clone(),
            random: Random::new(seed),
            until: Instant::now() + time,
            report: Report::default(),
        };
        while field.on() {
            (self.run)(&mut field);
            field.report.rounds += 1;
        }
        field.report
    }
}

/// Other doors an attacker may knock at.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// The gateway.
    pub tcp: Option<String>,
    /// The socket at which a VM's QEMU connects.
    pub vm_socket: Option<PathBuf>,
}

/// What an attack did, so that one that did nothing is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Times it began anew.
    pub rounds: u64,
    /// Words written, requests posted, calls made, bells rung: whatever it does.
    pub deeds: u64,
    /// Windows it got.
    pub windows: u64,
    /// Times the host refused something or did not answer.
    pub refused: u64,
}

/// An attack under way.
pub struct Field {
    place: Place,
    others: Others,
    random: Random,
    until: Instant,
    report: Report,
}

impl Field {
    fn on(&self) -> bool {
        Instant::now() < self.until
    }

    /// A window, or `None` after a pause if the host gives none now.
    fn window(&mut self) -> Option<Arc<Window>> {
        match Window::attach(&self.place) {
            Ok(w) => {
                self.report.windows += 1;
                Some(w)
            }
            Err(_) => {
                self.report.refused += 1;
                std::thread::sleep(Duration::from_millis(2));
                None
            }
        }
    }

    /// What was got, if anything was.
    fn got<T>(&mut self, got: crate::app::Got<T>) -> Option<T> {
        self.report.deeds += 1;
        match got {
            Some(Ok(t)) => Some(t),
            _ => {
                self.report.refused += 1;
                None
            }
        }
    }

    /// A name that no app had before.
    fn name(&mut self) -> String {
        format!("evil-{:x}", self.random.word())
    }

    /// A window with a session in it.
    fn app(&mut self, cell: usize) -> Option<(Arc<Window>, crate::app::App)> {
        let w = self.window()?;
        let name = format!("evil-{}", cell);
        let app = crate::app::App::hello(&w, cell, &name);
        self.got(app).map(|app| (w, app))
    }

    /// The part of the time until the end that one round may take.
    fn round(&self, ms: u64) -> Instant {
        self.until.min(Instant::now() + Duration::from_millis(ms))
    }
}
