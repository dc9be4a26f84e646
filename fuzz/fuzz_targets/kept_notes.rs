//! Notes that no manager wrote, or a broken keeper mixed up: they are refused,
//! or a state comes of them in which no page has two owners and which goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use vfun_core::Core;
use vfun_wire::kind::{CallsShape, Shape};

fn shape(depth: u16, cell_bytes: u32) -> Shape {
    CallsShape::new(depth, cell_bytes).shape()
}
use vfun_fuzz::Bytes;
use vfun_fuzz::core::{Bed, catalog};

fuzz_target!(|data: &[u8]| {
    let mut b = Bytes(data);
    let mut notes: Vec<(String, String)> = vec![];
    let states = ["Granted", "Activating", "Active", "Recovering", "Broken", "Closing", "Released"];
    while !b.is_empty() && notes.len() < 40 {
        let n = u64::from(b.u8() % 4);
        let id = b.or(n as u32, Bytes::u32);
        let reply = json!([b.u8() % 3, b.u8() % 16, b.u8()]);
        let note = match b.u8() % 7 {
            0 => (
                format!("core/window/{id}"),
                json!({"client": b.u8() % 3, "bytes": b.or(1 << 20, Bytes::u64), "doorbell": false, "death_seen": false,
                    "held": b.or(json!([]), |b| json!([[b.or(1_500, Bytes::u64), 90112 + 4096 * u64::from(b.u8()), b.or(4096, Bytes::u64)]]))}),
            ),
            1 => (
                format!("core/session/{id}"),
                json!({"generation": b.u8(), "thing": {"window": b.u8() % 3, "line": b.or(n as u16, Bytes::u16), "app": "a", "app_id": 1,
                    "features": b.u64(), "version": 1, "asked": reply}}),
            ),
            2 | 3 => {
                let place = b.or(true, |b| b.u8() & 1 != 0).then(|| {
                    let page = u64::from(b.u8() % 32) * 4096;
                    let bytes = b.or(8192 + 4096, Bytes::u64);
                    json!({"kind": 1, "shape": shape(4, 64), "vectors": [1, b.or(1, Bytes::u16)], "ranges": [
                        [0, b.or(1, Bytes::u8), b.or(90112 + page, Bytes::u64), bytes],
                        [b.or(0, Bytes::u16), 2, b.or(90112 + (40 << 12) + page, Bytes::u64), bytes]]})
                });
                let service = (b.u8() & 1 != 0).then(|| b.u8() % 3);
                let waiting = (b.u8() & 1 != 0).then(|| reply.clone());
                let (window, state) = (b.u8() % 3, states[usize::from(b.u8()) % 7]);
                (
                    format!("core/grant/{id}"),
                    json!({"generation": b.u8(), "thing": {"session": u64::from(b.u8() % 4) | u64::from(b.u8()) << 32, "window": window,
                        "client_id": 1, "client": "vm1", "app_id": 1, "app": "a", "function": "add", "location": b.u8() % 4, "kind": 1,
                        "shape": shape(b.or(4, Bytes::u16), b.or(64, Bytes::u32)), "deadline_ms": 1000, "wait": 0, "state": state,
                        "place": place, "service": service, "waiting": waiting, "since_ms": b.or(0, Bytes::u64), "closing_ms": 0,
                        "restarts": b.or(0, Bytes::u32), "asked": reply, "activated": null}}),
                )
            }
            4 => (
                format!("core/service/{id}"),
                json!({"client": b.u8() % 3, "function": "add", "location": b.u8() % 4,
                    "state": if b.u8() & 1 == 0 { json!("Ready") } else { json!({"Backoff": b.u64()}) }, "ever_ready": true, "overran": null}),
            ),
            5 => (
                format!("core/breaker/{n}"),
                json!({"client": b.u8() % 3, "function": "add", "location": b.u8() % 4, "breaker":
                    {"crashes": [b.or(900, Bytes::u64)], "open_until": b.or(2_000, Bytes::u64), "opened": b.or(1, Bytes::u32),
                    "trial": (b.u8() & 1 != 0).then(|| b.u64())}}),
            ),
            _ => (
                "core/self".into(),
                json!({"next_service": b.or(9, Bytes::u32), "next_app": b.u32(), "draining": false}),
            ),
        };
        notes.push((note.0, note.1.to_string()));
    }
    let text = notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    if let Ok(core) = Core::restore(1_000, 9, catalog(), text) {
        core.check();
        let mut bed = Bed::of(core);
        bed.take_up();
        for _ in 0..3 {
            bed.time(5_000);
        }
    }
});
