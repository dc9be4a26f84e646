//! Points at which a test lets the manager die, exactly there: between what it
//! heard, what it noted of it, and what it did about it. Nothing of this is in a
//! manager that is built without the feature `fault-points`.
//!
//! `VFUN_DIE_AT=STEP:WHAT` names the point: `handling` (heard, nothing decided),
//! `noted` (decided and kept, nothing done yet) or `done`; WHAT is a request by
//! its name, or `window-up`, `service-ready`, `channel-opened`, `channel-closed`,
//! `buffer-here`, `buffer-left`.
//!
//! `VFUN_HEARTBEAT_DEAD_MS=MS` lets such a manager take an app for gone whose heartbeat
//! stands still for so long, at most the 30 s of every other manager.

use crate::core::Event;

/// How far the manager is with an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Handling,
    Noted,
    Done,
}

/// How long a heartbeat may stand still, ms, if a test says so.
pub(crate) fn heartbeat_dead_ms() -> Option<u64> {
    match cfg!(feature = "fault-points") {
        true => std::env::var("VFUN_HEARTBEAT_DEAD_MS").ok()?.parse().ok(),
        false => None,
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug)]
pub struct What(#[cfg(feature = "fault-points")] &'static str);

#[cfg(not(feature = "fault-points"))]
impl What {
    #[inline(always)]
    pub(crate) fn of(_: &Event) -> Self {
        What()
    }
    #[inline(always)]
    pub(crate) fn at(self, _: Step) {}
}

#[cfg(feature = "fault-points")]
impl What {
    pub(crate) fn of(event: &Event) -> Self {
        use vfun_wire::message::Kind;
        What(match event {
            Event::Request(r) => Kind::from_wire(r.kind).map_or("unknown", Kind::text),
            Event::WindowUp { .. } => "window-up",
            Event::ServiceReady { .. } => "service-ready",
            Event::ChannelOpened { .. } => "channel-opened",
            Event::ChannelClosed { .. } => "channel-closed",
            Event::BufferHere { .. } => "buffer-here",
            Event::BufferLeft { .. } => "buffer-left",
            _ => "other",
        })
    }

    /// Dies here if the environment says so: at once, as by a kill.
    pub(crate) fn at(self, step: Step) {
        static POINT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let point = POINT.get_or_init(|| std::env::var("VFUN_DIE_AT").unwrap_or_default());
        let step = match step {
            Step::Handling => "handling",
            Step::Noted => "noted",
            Step::Done => "done",
        };
        if point.split_once(':') == Some((step, self.0)) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}
