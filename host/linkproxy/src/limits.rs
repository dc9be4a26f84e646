//! The limits of `vfun-links-proxy`, each with its reason.

use std::time::Duration;

/// Bytes that are read at once: a long message, or many short ones.
pub const READ_BYTES: usize = 64 << 10;
/// Connections of the switch at once: one for each controller that it knows, and some that have not
/// ended yet. Each has two threads.
pub const CONNECTIONS_MAX: usize = 64;
/// Requests of a controller for sums over rules that are under way on one connection. Each also
/// asks the switch for the rules; a controller asks a few times a minute.
pub const AGGREGATES_MAX: usize = 64;
/// Rules that one such request finds and past which frames went: as many as the manager knows
/// (`LINK_FLOWS_MAX`), with room.
pub const MATCHED_MAX: usize = 65_536;
/// Requests for rules of which it is known when they were made. Answers come in their order, and few
/// controllers have more than one under way.
pub const REQUESTS_MAX: usize = 256;
/// How long the manager may take for an answer. It takes a millisecond; what waits for it is a
/// controller.
pub const ANSWER: Duration = Duration::from_millis(1500);
/// How long it is not asked again for counts when it has not answered: messages of the switch wait for each
/// question. As often as it is told that this proxy is in the path.
pub const SILENT: Duration = ALIVE;
/// How long a change of rules is held until links have come back. They do so in some milliseconds;
/// one of a VM that does not answer is turned by force after 100 ms. Where the manager was told to
/// wait for longer (`--links-silence-ms`), the change passes first.
pub const HOLD_MAX: Duration = Duration::from_secs(1);
/// How long the manager makes no link after it was asked to hold them, ms. Half of it must be enough
/// until the process that watches the switch has heard of the change.
pub const HOLD_MS: u64 = 2_000;
/// How long after such an answer changes of rules pass without another question: a controller that
/// writes 10,000 rules would wait for each.
pub const HELD_FOR: Duration = Duration::from_millis(HOLD_MS / 2);
/// Between two questions whether links have come back.
pub const HOLD_LOOK: Duration = Duration::from_millis(2);
/// How long a word about the end of a rule is held, until its links have come back: then its counts
/// are the last ones.
pub const REMOVED_MAX: Duration = Duration::from_millis(250);
/// How late a word about the end of a rule may be, ms: the switch says it at once.
pub const REMOVED_LATE_MS: u64 = 2_000;
/// How late an answer may be of which it is not known when it was asked for, ms.
pub const ANSWER_LATE_MS: u64 = 2_000;
/// How far apart two words about when one rule was made may be, ms. As in `host/links`.
pub const BORN_SLACK_MS: u64 = 10;
/// How often the manager is told that this proxy is in the path: some times in the 5 s after which it
/// believes so no more.
pub const ALIVE: Duration = Duration::from_secs(1);
/// How long a connection to the controller, or a handshake of TLS, may take.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long one side may take nothing of what the other one sends. Open vSwitch gives a connection up
/// that was silent for 10 s.
pub const WRITE: Duration = Duration::from_secs(30);
/// How long a connection may be silent until its other end is asked whether it is there. Open vSwitch
/// asks so itself after 5 s; one that vanished with its machine would keep its place for ever.
pub const SILENCE_TO_ASK: Duration = Duration::from_secs(30);
