//! Lines of the log that a client causes: no more of them than it deserves.

use super::Daemon;
use crate::fair::Say;
use std::fmt::Arguments;

impl Daemon {
    /// Whether a line about this client may be written now.
    pub(super) fn may_say(&mut self, name: &str) -> bool {
        let now = self.now();
        self.lines.say(now, name) == Say::Yes
    }

    /// A warning that a client caused.
    pub(super) fn warn_of(&mut self, client: u32, words: Arguments<'_>) {
        let name = self.client_words(client);
        if self.may_say(&name) {
            tracing::warn!("{name}: {words}");
        }
    }

    /// A client as the log names it.
    pub(super) fn client_words(&self, client: u32) -> String {
        match self.core.catalog().clients.get(&client) {
            Some(c) => format!("client {}", c.name),
            None => format!("client {client}"),
        }
    }

    /// Says how many lines were left out, from time to time.
    pub(super) fn say_what_was_left_out(&mut self) {
        for line in self.lines.summaries(self.now()) {
            tracing::warn!("{line}");
        }
    }
}
