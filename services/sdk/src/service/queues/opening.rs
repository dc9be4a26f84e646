//! Opens a channel of queues or of packets, and ends it.

use super::super::channel::{Event, OrderBells, OrderDescriptors, Teller, map_side};
use super::super::idle::End;
use super::{QueuesChannel, QueuesHeld};
use crate::{Config, DriverError};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use vfun_supervise::Open;
use vfun_window::{Access, Mapping, WriteSpan};
use vfun_wire::channel::in_header;
use vfun_wire::queues::{Queues, host_head};

/// The main thread's hold on a channel of queues.
pub struct RunningQueues {
    /// Until the engine was told that it ends.
    held: Option<Box<dyn QueuesHeld>>,
    /// The two sides, for as long as the engine has anything of them.
    sides: [Weak<Mapping>; 2],
    teller: Teller,
    /// The main thread was told that it ended.
    told: bool,
}

/// Opens a channel of queues or of packets: maps its sides and gives it to the engine.
pub fn open(
    engine: impl FnOnce(QueuesChannel) -> Result<Box<dyn QueuesHeld>, DriverError>,
    config: &Config,
    at: &Queues,
    open: &Open,
    came: OrderDescriptors,
    teller: Teller,
) -> Result<RunningQueues, String> {
    let map = |fd, (from, bytes), access| map_side(open, fd, from, bytes, access);
    let program = map(&came.reading, (at.program, at.program_bytes), Access::Read)
        .map_err(|e| format!("the program's side: {e}"))?;
    let host = map(&came.window, (at.host, at.host_bytes), Access::ReadWrite)
        .map_err(|e| format!("the host's side: {e}"))?;
    let (rung, app) = came.bells.map(|OrderBells { mine, app }| (mine, app)).unzip();
    let mut channel = QueuesChannel::over(open.channel, (&program, &host), (rung, app))?;
    channel.client.clone_from(&config.client);
    channel.app.clone_from(&config.app);
    channel.vm.clone_from(&open.vm);
    channel.address = open.address;
    channel.which = (open.bell != 0).then_some((open.bell, open.place.vectors.0));
    let sides = [&program, &host].map(Arc::downgrade);
    drop((program, host));
    let held = engine(channel).map_err(|e| format!("the driver cannot open it: {e}"))?;
    let running = RunningQueues { held: Some(held), sides, teller, told: false };
    running.beat_life();
    running.teller.tell(Event::Opened);
    Ok(running)
}

impl RunningQueues {
    /// Tells the engine, once, that the channel ends.
    pub fn stop(&mut self) {
        if let Some(held) = self.held.take() {
            held.end();
        }
    }

    /// Whether the engine was told, and has something of the channel still.
    pub fn is_leaving(&self) -> bool {
        self.held.is_none() && !self.told
    }

    /// Tells the main thread, once, that the engine has let go, asked or not.
    pub fn look(&mut self) {
        if !self.told && self.sides.iter().all(|side| side.strong_count() == 0) {
            self.told = true;
            self.stop();
            self.teller.tell(Event::Ended(End::Stopped));
        }
    }

    fn host(&self) -> Option<WriteSpan> {
        self.sides[1].upgrade().and_then(|host| host.write())
    }

    fn count(&self, word: usize) {
        if let Some(host) = self.host() {
            host.fetch_add(word, 1, Ordering::Relaxed);
        }
    }

    /// Shows the app that the service lives, and people what was done.
    pub fn beat_life(&self) {
        self.count(host_head::LIFE);
        let counts = self.held.as_ref().and_then(|held| held.counts());
        if let (Some(counts), Some(host)) = (counts, self.host()) {
            let own = [counts.done, counts.failed, counts.bytes];
            let at = [host_head::DONE, host_head::FAILED, host_head::BYTES];
            let facts = (host_head::FACTS..).zip(counts.facts);
            at.into_iter().zip(own).chain(facts).for_each(|(word, value)| {
                host.store(word, value, Ordering::Relaxed);
            });
        }
    }

    /// Shows the app that this service lives, which no manager would tell it.
    pub fn beat_alone(&self) {
        self.count(in_header::ALONE);
    }
}
