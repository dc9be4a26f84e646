//! Who is killed at which step, and how that ends for the caller. The tests go
//! through this table row by row; docs/reliability.md shows it, and a test
//! compares them.

/// A process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// `vfund`, by a point of its own, or from outside while a call is at a step.
    Manager,
    /// `vfun-service`.
    Service,
    /// `vfun-keeper`.
    Keeper,
    /// `vfun-gateway`.
    Gateway,
    /// An app on the host.
    App,
    /// QEMU.
    Guest,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Who.
    pub who: Who,
    /// At which step.
    pub step: &'static str,
    /// How it ends for the caller: what is done, or the error by its name.
    pub end: &'static str,
}

/// All is done as if nothing had been.
pub const DONE: &str = "all is done";

const fn row(who: Who, step: &'static str, end: &'static str) -> Row {
    Row { who, step, end }
}

use Who::*;

/// The table. Apps and guests that die have no caller: what they had is given back.
pub const ROWS: &[Row] = &[
    row(Manager, "handling window-up", DONE),
    row(Manager, "noted window-up", DONE),
    row(Manager, "handling hello", DONE),
    row(Manager, "noted hello", DONE),
    row(Manager, "done hello", DONE),
    row(Manager, "handling negotiate", DONE),
    row(Manager, "noted negotiate", DONE),
    row(Manager, "done negotiate", DONE),
    row(Manager, "handling activate", DONE),
    row(Manager, "noted activate", DONE),
    row(Manager, "done activate", DONE),
    row(Manager, "handling service-ready", DONE),
    row(Manager, "noted service-ready", DONE),
    row(Manager, "done service-ready", DONE),
    row(Manager, "handling channel-opened", DONE),
    row(Manager, "noted channel-opened", DONE),
    row(Manager, "done channel-opened", DONE),
    row(Manager, "call posted", DONE),
    row(Manager, "call computing", DONE),
    row(Manager, "result written", DONE),
    row(Manager, "handling release", DONE),
    row(Manager, "noted release", DONE),
    row(Manager, "done release", DONE),
    row(Manager, "handling channel-closed", DONE),
    row(Manager, "noted channel-closed", DONE),
    row(Manager, "done channel-closed", DONE),
    row(Manager, "handling goodbye", DONE),
    row(Manager, "noted goodbye", DONE),
    row(Manager, "done goodbye", DONE),
    row(Service, "started", "activate ends with Refused(ServiceFailed)"),
    row(Service, "loaded", "activate ends with Refused(ServiceFailed)"),
    row(Service, "opening", "activate ends with Refused(ServiceFailed)"),
    row(Service, "call posted", DONE),
    row(Service, "call taken", DONE),
    row(Service, "call begun", "call ends with DriverCrashed"),
    row(Service, "call computing", "call ends with DriverCrashed"),
    row(Service, "call computed", "call ends with DriverCrashed"),
    row(Service, "call answered", DONE),
    row(Service, "result written", DONE),
    row(Service, "closing", DONE),
    row(Keeper, "hello posted", DONE),
    row(Keeper, "negotiate posted", DONE),
    row(Keeper, "activate posted", DONE),
    row(Keeper, "call posted", DONE),
    row(Keeper, "call computing", DONE),
    row(Keeper, "result written", DONE),
    row(Keeper, "release posted", DONE),
    row(Keeper, "goodbye posted", DONE),
    row(Gateway, "session open", "negotiate ends with ConnectionLost"),
    row(Gateway, "granted", "activate ends with ConnectionLost"),
    row(Gateway, "active", "call ends with ConnectionLost"),
    row(Gateway, "call computing", "call ends with ConnectionLost"),
    row(Gateway, "released", "goodbye ends with ConnectionLost"),
];

/// Rows of one.
pub fn rows(who: Who) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |r| r.who == who)
}

/// How a row ends for an app or a guest.
pub const GIVEN_BACK: &str = "all it had is given back, the neighbour sees nothing";

/// The table as docs/reliability.md shows it.
pub fn table() -> String {
    use std::fmt::Write;
    let mut text = String::from("| killed | at | the caller |\n|---|---|---|\n");
    for r in ROWS {
        let _ = writeln!(text, "| {:?} | {} | {} |", r.who, r.step, r.end);
    }
    for who in [App, Guest] {
        for step in crate::steps::STEPS {
            let _ = writeln!(text, "| {who:?} | {} | {GIVEN_BACK} |", step.name());
        }
    }
    text
}
