//! Bytes that change between the host's check and its use.

use super::Field;
use crate::app::App;
use crate::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use vfun_wire::control::{WORD_POSTED, WORD_SESSION, request_off};
use vfun_wire::{LINE, LINE_WORDS};

/// One thread makes right calls, another flips their lines.
pub(super) fn calls(f: &mut Field) {
    let Some((w, app)) = f.app(0) else { return };
    let got = app.function(&w, "misbehave", 8, 256);
    let Some(mut channel) = f.got(got) else { return };
    let until = f.round(500);
    let (end, flips) = (AtomicBool::new(false), AtomicU64::new(0));
    let seed = f.random.word();
    std::thread::scope(|scope| {
        let (w, lines) = (&w, channel.clone());
        let (end, flips) = (&end, &flips);
        scope.spawn(move || {
            let mut random = Random::new(seed);
            while !end.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    let cell = random.below(lines.depth() as u64) as usize;
                    let line = if random.below(4) == 0 {
                        lines.in_line(cell)
                    } else {
                        lines.out_line(cell)
                    };
                    // Mostly what comes with the sequence number: that alone ends the channel.
                    let word = random.of(&[1, 1, 1, 2, 2, 3, 7]);
                    let value = random.lie();
                    w.span.store(line + word, value, Ordering::Relaxed);
                    let spot = line + random.below(LINE_WORDS as u64) as usize;
                    if random.below(1 << 12) == 0 {
                        w.span.store(spot, value, Ordering::Relaxed);
                    }
                    flips.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut random = Random::new(seed ^ 1);
        while Instant::now() < until && w.span.load(channel.inn(), Ordering::Relaxed) == 0 {
            for cell in 0..channel.depth() {
                // Echo, in line and in the data space.
                let args = vec![0; random.of(&[1, 2, 48, 49, 200])];
                channel.call(w, cell, &args);
                f.report.deeds += 1;
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    f.report.deeds += flips.into_inner();
    let _ = f.got(app.goodbye(&w));
}

/// One thread asks what is right, another flips the cell's bytes.
pub(super) fn control(f: &mut Field) {
    let Some((w, mut app)) = f.app(0) else { return };
    let until = f.round(800);
    let (end, flips) = (AtomicBool::new(false), AtomicU64::new(0));
    let seed = f.random.word();
    std::thread::scope(|scope| {
        let (w, end, flips) = (&w, &end, &flips);
        scope.spawn(move || {
            let mut random = Random::new(seed);
            let line = request_off(0) / 8;
            while !end.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    let value = random.lie();
                    let word = match random.below(16) {
                        0 => line + WORD_POSTED,
                        1 => line + WORD_SESSION,
                        _ => line + LINE / 8 + random.below(20) as usize,
                    };
                    w.span.store(word, value, Ordering::Relaxed);
                    flips.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        while Instant::now() < until {
            let got = app.function(w, "echo", 2, 64);
            if let Some(channel) = f.got(got) {
                let _ = f.got(app.release(w, channel.grant));
            } else if let Some(again) = {
                let hello = App::hello(w, 0, "evil-race");
                f.got(hello)
            } {
                let _ = f.got(app.goodbye(w));
                app = again;
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    f.report.deeds += flips.into_inner();
    let _ = f.got(app.goodbye(&w));
}
