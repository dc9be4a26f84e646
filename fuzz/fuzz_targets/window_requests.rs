//! A window full of a guest's bytes, as the manager reads it: requests,
//! heartbeats, a channel's counters, and what it does for a dead service.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use vfun_fuzz::Bytes;
use vfun_rim::window::HostWindow;
use vfun_window::{Access, Mapping, WriteSpan, memfd};
use vfun_wire::channel::side_bytes;
use vfun_wire::control::{REQUEST_BODY, request_off};
use vfun_wire::header::{HEAP_OFF, POSTED_OFF};
use vfun_wire::kind::{Calls, ChannelKind};
use vfun_wire::limits::{CONTROL_CELLS, SESSIONS};
use vfun_wire::status::BreakReason;
use vfun_wire::{LINE, Status};

const BYTES: u64 = 1 << 20;

static WINDOW: OnceLock<(std::os::fd::OwnedFd, WriteSpan)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let (fd, span) = WINDOW.get_or_init(|| {
        let fd = memfd("fuzz", BYTES).expect("memory");
        let map = Mapping::new(&fd, 0, BYTES as usize, Access::ReadWrite).expect("mapped");
        (fd, map.write().expect("for writing"))
    });
    let again = fd.try_clone().expect("a descriptor");
    let mut window = HostWindow::lay_out(again, BYTES, 1, 1, "vm1", None).expect("a window");
    let side = side_bytes(4, 64).expect("possible");
    let dataout = HEAP_OFF as u64;
    let at = Calls { dataout, datain: dataout + side, side_bytes: side, depth: 4, cell_bytes: 64 };
    let g = at.place(ChannelKind::Calls, (1, 1)).expect("possible");
    window.zero(&g);
    let mut b = Bytes(data);
    let mut taken = [0u32; CONTROL_CELLS];
    while !b.is_empty() {
        match b.u8() % 8 {
            0..=3 => {
                let cell = usize::from(b.u8()) % CONTROL_CELLS;
                let at = request_off(cell) / 8;
                let seq = b.or(taken[cell].wrapping_add(1), Bytes::u32);
                let word =
                    u64::from(seq) | u64::from(b.u16() % 24) << 32 | u64::from(b.u16()) << 48;
                span.store(at + 1, word, std::sync::atomic::Ordering::Release);
                span.store(POSTED_OFF / 8, b.u64(), std::sync::atomic::Ordering::Release);
            }
            4 => {
                let word = usize::from(b.u16()) % (BYTES as usize / 8);
                span.store(word, b.u64(), std::sync::atomic::Ordering::Release);
            }
            5 => {
                let word = (HEAP_OFF + side as usize) / 8 + usize::from(b.u16() % 1024);
                span.store(word, b.u64(), std::sync::atomic::Ordering::Release);
                window.fail_current(&g, Status::DriverCrashed);
                window.counters(&g);
            }
            6 => window.break_channel(&g, BreakReason::NoService),
            _ => {
                window.anything_posted();
                for r in window.requests() {
                    assert!(r.cell < CONTROL_CELLS);
                    assert_ne!(r.seq, taken[r.cell], "read twice");
                    taken[r.cell] = r.seq;
                    if let Ok(body) = &r.body {
                        assert!(body.len() <= REQUEST_BODY);
                    }
                    window.answer(r.cell, r.seq, &Ok(vec![0; LINE]));
                }
                assert!(window.requests().is_empty(), "each is read once");
                assert_eq!(window.heartbeats().len(), SESSIONS);
            }
        }
    }
});
