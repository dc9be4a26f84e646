//! Bytes of a controller and of a switch, which are enemies, in turns through the proxy between them: no panic; nothing
//! is made up, lost or changed but the counts of rules, and the proxy's own question, which goes no further.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use vfun_admin::links::FlowRow;
use vfun_fuzz::Bytes;
use vfun_linkproxy::correct::{Sums, Tally, connection};
use vfun_linkproxy::message::{Kind, Message, Messages, Stats};

/// A manager with some rules, and the time. It answers four times of five.
struct Known(Vec<FlowRow>, u64);

impl Sums for Known {
    fn rows(&self) -> Option<Vec<FlowRow>> {
        (self.1 % 5 != 0).then(|| self.0.clone())
    }
    fn last_rows(&self) -> Option<Vec<FlowRow>> {
        self.rows()
    }
    fn now(&self) -> u64 {
        self.1
    }
}

fn row(b: &mut Bytes) -> FlowRow {
    let port = b.u8();
    FlowRow {
        bridge: "br0".to_owned(),
        table: b.u8() % 2,
        priority: b.u8().into(),
        cookie: (b.u8() % 4).into(),
        in_port: (port < 128).then_some(port.into()),
        made: (0, u64::from(b.u16())),
        frames: b.u64(),
        bytes: b.u64(),
        ports: vec![],
    }
}

/// What an honest end sends, whose numbers the bytes say; or any bytes.
fn sent(b: &mut Bytes, from_switch: bool) -> Vec<u8> {
    let len = usize::from(b.u16() % 300);
    let mut body: Vec<u8> = (0..len).map(|_| b.u8()).collect();
    let version = if b.u8() & 1 == 0 { 1 } else { 4 };
    let kinds: [u8; 6] = match (version, from_switch) {
        (1, true) => [17, 17, 17, 11, 1, 4],
        (_, true) => [19, 19, 19, 11, 1, 4],
        (1, false) => [16, 16, 16, 14, 18, 4],
        (_, false) => [18, 18, 18, 14, 15, 4],
    };
    let kind = kinds[usize::from(b.u8() % 6)];
    // Few numbers, so that answers meet their questions, and those of the proxy itself.
    let xid = [1, 2, 0xf1f1_0000, 0xf1f1_0001][usize::from(b.u8() % 4)];
    if let Some(stats) = body.get_mut(..2) {
        stats.copy_from_slice(&[0, b.u8() % 4]);
    }
    let mut all = vec![version, kind];
    all.extend((8 + body.len() as u16).to_be_bytes());
    all.extend(u32::to_be_bytes(xid));
    all.extend(body);
    if b.u8() == 0 {
        all.truncate(usize::from(b.u8()));
    }
    all
}

/// The same message but for what may be counts.
fn is_same(one: &Message, other: &Message) -> bool {
    let may_change = matches!(
        one.kind(),
        Kind::Reply { stats: Stats::Flow | Stats::Aggregate, .. } | Kind::FlowRemoved { .. }
    );
    one.0.len() == other.0.len() && one.0[..8] == other.0[..8] && (may_change || one == other)
}

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let rows = (0..b.u8() % 4).map(|_| row(&mut b)).collect();
    let mut sums = Known(rows, 1000);
    let tally = Arc::new(Tally::default());
    let (from_controller, mut from_switch) = connection(tally.clone());
    let (mut controller, mut switch) = (Messages::default(), Messages::default());
    while !b.is_empty() {
        sums.1 += u64::from(b.u8());
        let is_switch = b.u8() & 1 == 0;
        let bytes = sent(&mut b, is_switch);
        let stream = if is_switch { &mut switch } else { &mut controller };
        stream.push(&bytes);
        while let Ok(Some(message)) = stream.take() {
            match is_switch {
                true => {
                    if let Some(passed) = from_switch.pass(message.clone(), &sums) {
                        assert!(is_same(&message, &passed), "{message:?} became {passed:?}");
                    }
                }
                false => {
                    let passed = from_controller.pass(message.clone(), &sums);
                    assert_eq!(passed.last(), Some(&message), "a request passes as it is");
                    assert!(passed.len() <= 2, "one question of the proxy's own at most");
                }
            }
        }
    }
});
