//! A port whose memory a switch with DPDK has: the switch moves the frames, and this service
//! only tells what both ends count in the window.

use crate::facts::{AWAY, BAD, BYTES_IN, BYTES_OUT, FRAMES_IN, FRAMES_OUT, FULL, REFUSED};
use crate::tally::Shown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfun_packet::layout::header;
use vfun_sdk::service::{QueuesChannel, QueuesCounts, QueuesHeld};
use vfun_wire::packets::SIDE_OFF;

/// The channel, as long as it is open. It writes nothing into the window.
pub(crate) struct CountedPort {
    channel: QueuesChannel,
    shown: Arc<Shown>,
}

impl CountedPort {
    pub fn new(channel: QueuesChannel) -> Self {
        CountedPort { channel, shown: Arc::default() }
    }
}

impl QueuesHeld for CountedPort {
    /// The manager asks the switch by itself to let go.
    fn end(self: Box<Self>) {}

    fn counts(&self) -> Option<QueuesCounts> {
        for (fact, word) in [
            (FRAMES_IN, header::SENT),
            (BYTES_IN, header::SENT_BYTES),
            (FRAMES_OUT, header::TAKEN),
            (BYTES_OUT, header::TAKEN_BYTES),
            (FULL, header::FULL),
            (REFUSED, header::REFUSED),
            (BAD, header::BAD),
            (AWAY, header::LONG),
        ] {
            let counted = self.channel.host().load(SIDE_OFF / 8 + word, Ordering::Relaxed);
            self.shown.set(fact, counted);
        }
        Some(self.shown.counts())
    }
}
