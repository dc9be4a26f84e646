//! Lines of the log that a client causes: no more of them than it deserves.

use crate::System;
use crate::system::Line;
use std::fmt::Arguments;
use vfun_core::fair;

/// Writes lines about clients into the log, so many a second at most.
pub trait Say: System {
    /// Whether a line about this client may be written now.
    fn may_say(&mut self, name: &str) -> bool {
        let now = self.now();
        self.rim_mut().lines.say(now, name) == fair::Say::Yes
    }

    /// A warning that a client caused.
    fn warn_of(&mut self, client: u32, words: Arguments<'_>) {
        let name = self.client_words(client);
        if self.may_say(&name) {
            self.log(Line::Warn, format_args!("{name}: {words}"));
        }
    }

    /// A client as the log names it.
    fn client_words(&self, client: u32) -> String {
        match self.rim().core.catalog().clients.get(&client) {
            Some(c) => format!("client {}", c.name),
            None => format!("client {client}"),
        }
    }

    /// Says how many lines were left out, from time to time.
    fn say_what_was_left_out(&mut self) {
        let now = self.now();
        for line in self.rim_mut().lines.summaries(now) {
            self.log(Line::Warn, format_args!("{line}"));
        }
    }
}

impl<S: System> Say for S {}
