//! A port whose memory a switch has: the service tells what stands there, and writes nothing.

use crate::common::Guest;
use std::sync::atomic::Ordering;
use vfun_packet::layout::header::{
    BAD, FULL, LONG, REFUSED, SENT, SENT_BYTES, STATE, TAKEN, TAKEN_BYTES,
};
use vfun_ports::Ports;
use vfun_sdk::Config;
use vfun_sdk::service::{Engine, Port};
use vfun_wire::packets::SIDE_OFF;

#[test]
fn what_a_switch_counts_is_told_and_its_side_is_left_alone() {
    let guest = Guest::new(1, 1 << 16);
    let ports = Ports::new().unwrap();
    let port = Port { tap: None, ring_bytes: 1 << 16, mtu: 1500, name: "eth1".into() };
    let held = ports.open_packets(&Config::default(), guest.channel(), port).unwrap();
    assert_eq!(held.counts().unwrap().facts, [0; 8]);
    let words = [SENT, SENT_BYTES, TAKEN, TAKEN_BYTES, FULL, REFUSED, BAD, LONG, STATE]
        .into_iter()
        .zip(1..);
    for (word, value) in words.clone() {
        guest.host.store(SIDE_OFF / 8 + word, value, Ordering::Relaxed);
    }
    let counts = held.counts().unwrap();
    assert_eq!(counts.facts, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((counts.done, counts.bytes, counts.failed), (1 + 3, 2 + 4, 5 + 6 + 8));
    held.end();
    for (word, value) in words {
        assert_eq!(guest.host.load(SIDE_OFF / 8 + word, Ordering::Relaxed), value, "{word}");
    }
}
