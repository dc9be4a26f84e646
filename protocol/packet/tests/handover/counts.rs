//! What a host believes of the counts of a link.

use crate::handover::memory::{Process, Shared, ring};
use vfun_packet::{Breach, Claims, Ledger, Receiver, Sender};

fn claims(sent: u64, taken: u64) -> Claims {
    Claims { sent, sent_bytes: 60 * sent, taken, taken_bytes: 60 * taken, refused: 0 }
}

/// What honest ends say is believed to the frame, whenever it is looked at.
#[test]
fn counts_of_honest_ends_are_believed() {
    let (s, p) = (Shared::new(), Process::new());
    let mut tx = Sender::new(p.view(&s.link_a, &s.link_b), ring());
    let mut rx = Receiver::new(p.view(&s.link_b, &s.link_a), ring());
    let (of_sender, of_receiver) = (p.view(&s.link_b, &s.link_a), p.view(&s.link_a, &s.link_b));
    let mut ledger = Ledger::new(ring(), Claims::default());
    let mut to = [0; 64];
    for n in 1..=500u64 {
        tx.put(&[1; 60]).unwrap();
        tx.publish();
        if n % 7 == 0 {
            // One of them has no place.
            assert_eq!(rx.next(&mut to[..8]), Some(0));
            while rx.next(&mut to).is_some() {}
            rx.take();
        }
        let found = ledger.look(Claims::read(&of_sender, &of_receiver)).unwrap();
        assert_eq!((found.sent, found.under_way()), (n, n % 7));
    }
    assert_eq!(ledger.believed().refused, 500 / 7);
}

/// What cannot be is not believed, and the last claims stay.
#[test]
fn counts_that_cannot_be_are_not_believed() {
    let mut ledger = Ledger::new(ring(), Claims::default());
    ledger.look(claims(1000, 990)).unwrap();
    for (wrong, why) in [
        (claims(1000, 1001), Breach::UnderWay),
        (claims(1100, 1000), Breach::UnderWay),
        (claims(999, 990), Breach::Growth),
        (claims(1000, 989), Breach::Growth),
        (Claims { sent_bytes: 0, ..claims(1001, 1000) }, Breach::Growth),
        (Claims { taken_bytes: u64::MAX, ..claims(1001, 1000) }, Breach::Growth),
        (Claims { refused: 20, ..claims(1000, 990) }, Breach::UnderWay),
    ] {
        assert_eq!(ledger.look(wrong), Err(why), "{wrong:?}");
        assert_eq!(ledger.believed(), claims(1000, 990));
    }
    assert_eq!(ledger.look(claims(1064, 1000)), Ok(claims(1064, 1000)));
}
