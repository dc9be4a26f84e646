//! What every transport must do, by one suite: [`run`]. A test makes a [`Place`], that
//! is a manager with a client of the transport and the other end of its window, and
//! runs it. See docs/transports.md.

#![forbid(unsafe_code)]

pub mod here;
mod memory;
mod steps;

pub use memory::Memory;

use std::time::Duration;
use vfun_admin::{ClientRow, Reply, Transport};
use vfun_tests_local::Stand;

/// A limit for what the other end does, on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// What an app said.
pub struct Said {
    /// How it ended.
    pub status: i32,
    /// Its output and errors.
    pub text: String,
}

/// The other end of a window: where apps run.
pub trait End: Sync {
    /// Runs `vfun-conform` with these words.
    fn app(&self, words: &[&str]) -> Said;
    /// Runs a command of the shell.
    fn shell(&self, script: &str);
    /// Ends all apps at once, without a word: kills them, or resets their machine.
    fn die(&self);
    /// The window's memory, where the test can reach it.
    fn memory(&self, place: &ClientRow) -> Option<Memory>;
    /// What becomes of apps in a window whose header is overwritten.
    fn without_header(&self, transport: Transport) -> WithoutHeader {
        match transport.in_file() {
            true => WithoutHeader::End,
            false => WithoutHeader::GoOn,
        }
    }
    /// The manager misses an app that died by its heartbeat alone.
    fn is_missed_by_heartbeat(&self, transport: Transport) -> bool {
        !transport.row().sees_app_end
    }
    /// An app survives that the window's file is truncated.
    fn survives_truncation(&self) -> bool {
        false
    }
}

/// What becomes of apps in a window whose header is overwritten.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WithoutHeader {
    /// They end: the manager lays a window in a file out anew.
    End,
    /// They go on: the manager writes the header again.
    GoOn,
    /// One or the other: a driver may look while the header is wrong.
    Either,
}

/// What a session of this transport reports.
#[derive(Clone, Copy)]
pub struct Reports {
    /// The transport's name, as apps know it.
    pub kind: &'static str,
    /// Whether and how the two sides wake each other, in its words.
    pub wakes: &'static str,
}

/// A manager with a client, and the other end of its window.
pub struct Place<'a> {
    /// The manager.
    pub stand: &'a mut Stand,
    /// The client.
    pub client: String,
    /// How its window gets to it.
    pub transport: Transport,
    /// Where its apps run.
    pub end: &'a dyn End,
    /// What its sessions report.
    pub reports: Reports,
}

/// Declares a client over a transport.
pub fn declare(stand: &Stand, name: &str, transport: Transport) -> ClientRow {
    let kind = transport.row().serves.name();
    let manifest = format!(
        "name = \"{name}\"\nkind = \"{kind}\"\nwindow = \"16 MiB\"\ntransport = \"{transport}\"\n"
    );
    match stand.add_client(&manifest) {
        Ok(Reply::ClientAdded(row)) => row,
        other => panic!("{other:?}"),
    }
}

/// Runs the whole suite.
pub fn run(mut place: Place<'_>) {
    for (name, step) in steps::ALL {
        let began = std::time::Instant::now();
        step(&mut place);
        println!("{}: {name}: {:.1} s", place.transport, began.elapsed().as_secs_f64());
    }
}
