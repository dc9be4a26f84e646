//! Bytes of a switch: its messages of OpenFlow, whose rules go into the detector of links; rows of
//! its database; texts of its traces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vfun_links::openflow::Messages;
use vfun_links::ovsdb::Rows;
use vfun_links::{Action, Detector, Event, OurPort, Peer, trace};

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    match which % 3 {
        0 => messages(data),
        1 => rows(data),
        _ => drop(trace::fate(&String::from_utf8_lossy(data))),
    }
});

/// What is asked can always be written, whatever was heard.
fn messages(data: &[u8]) {
    let mut bytes = Messages::default();
    bytes.push(data);
    let mut detector = Detector::default();
    let port = |name: &str| OurPort {
        interface: name.to_owned(),
        kind: "dpdk".to_owned(),
        devargs: None,
        mtu: 1500,
    };
    detector.handle(0, Event::Ours(vec![port("a"), port("b")]));
    detector.handle(0, Event::Connected(Peer::OpenFlow));
    let mut now = 0;
    while let Ok(Some(message)) = bytes.take() {
        now += 7;
        for action in detector.handle(now, Event::OpenFlow(message)) {
            if let Action::Ask(request) = action {
                let written = request.bytes();
                assert_eq!(written.len(), usize::from(u16::from_be_bytes([written[2], written[3]])));
            }
        }
    }
}

fn rows(data: &[u8]) {
    let Ok(value) = serde_json::from_slice(data) else { return };
    let mut rows = Rows::default();
    if rows.apply(&value).is_ok() {
        let _ = rows.facts("br0");
    }
}
