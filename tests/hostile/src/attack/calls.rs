//! Calls, and services, at their worst.

use super::Field;
use crate::app::{App, Channel};
use crate::window::Window;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_wire::message::Kind;

/// What the test's driver does on its first argument byte.
mod mode {
    pub const CRASH: u8 = 1;
    pub const HANG: u8 = 2;
    pub const SLEEP: u8 = 6;
    pub const FILL: u8 = 8;
    pub const FAULT: u8 = 9;
    pub const SPIN: u8 = 11;
}

fn with_ms(mode: u8, ms: u32) -> Vec<u8> {
    [&[mode][..], &ms.to_le_bytes()].concat()
}

fn open(f: &mut Field, depth: u16, bytes: u32) -> Option<(Arc<Window>, App, Channel)> {
    let (w, app) = f.app(0)?;
    let got = app.function(&w, "misbehave", depth, bytes);
    let channel = f.got(got)?;
    Some((w, app, channel))
}

fn broken(w: &Window, channel: &Channel) -> bool {
    w.span.load(channel.inn(), Ordering::Acquire) != 0
}

/// Calls under way while their grant is released, their session ends, or the
/// whole window goes.
pub(super) fn drop_in_the_middle(f: &mut Field) {
    let Some((w, app, mut channel)) = open(f, 8, 256) else { return };
    for cell in 0..channel.depth() {
        let ms = f.random.below(30) as u32;
        channel.call(&w, cell, &with_ms(mode::SLEEP, ms));
        f.report.deeds += 1;
    }
    let pause = f.random.below(3_000);
    std::thread::sleep(Duration::from_micros(pause));
    match f.random.below(4) {
        0 => {
            let _ = f.got(app.release(&w, channel.grant));
        }
        // Twice, and used after.
        1 => {
            crate::app::post(
                &w,
                1,
                Kind::Release.to_wire(),
                app.session,
                &channel.grant.to_le_bytes(),
            );
            crate::app::post(
                &w,
                2,
                Kind::Release.to_wire(),
                app.session,
                &channel.grant.to_le_bytes(),
            );
            for cell in 0..channel.depth() {
                channel.call(&w, cell, &[0, 1]);
            }
        }
        2 => {
            crate::app::post(&w, 1, Kind::Goodbye.to_wire(), app.session, &[0; 8]);
            crate::app::post(
                &w,
                2,
                Kind::Activate.to_wire(),
                app.session,
                &channel.grant.to_le_bytes(),
            );
        }
        // On the host the socket goes with it.
        _ => return,
    }
    let _ = f.got(app.goodbye(&w));
}

/// Calls in a loop on one channel after the other, until each is broken.
fn again_and_again(f: &mut Field, args: impl Fn(&mut Field) -> Vec<u8>) {
    let Some((w, app, mut channel)) = open(f, 4, 256) else { return };
    let until = f.round(3_000);
    while Instant::now() < until && !broken(&w, &channel) {
        for cell in 0..channel.depth() {
            if channel.free(&w, cell) {
                let args = args(f);
                channel.call(&w, cell, &args);
                f.report.deeds += 1;
            }
        }
        app.beat(&w);
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = f.got(app.goodbye(&w));
}

pub(super) fn hang(f: &mut Field) {
    again_and_again(f, |_| vec![mode::HANG]);
}

pub(super) fn spin(f: &mut Field) {
    again_and_again(f, |_| with_ms(mode::SPIN, 400));
}

pub(super) fn crash(f: &mut Field) {
    again_and_again(f, |f| vec![f.random.of(&[mode::CRASH, mode::FAULT])]);
}

/// As much as there is to have, and lies about how much it is.
pub(super) fn giant(f: &mut Field) {
    let Some((w, app)) = f.app(0) else { return };
    let until = f.round(2_000);
    while Instant::now() < until {
        let depth = f.random.of(&[1, 2, 64, 1024, u16::MAX]);
        let bytes = f.random.of(&[64, 4096, 1 << 16, 1 << 20, 1 << 22, 1 << 30, u32::MAX]);
        let got = app.function(&w, "misbehave", depth, bytes);
        let Some(mut channel) = f.got(got) else { continue };
        let room = channel.at.cell_bytes;
        for cell in 0..channel.depth().min(16) {
            let fill = with_ms(mode::FILL, f.random.of(&[room, room + 1, 1 << 20, u32::MAX]));
            match f.random.below(2) {
                0 => channel.call(&w, cell, &fill),
                _ => channel.call(&w, cell, &vec![0; (room as usize).min(1 << 20)]),
            }
            f.report.deeds += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
        let _ = f.got(app.release(&w, channel.grant));
    }
    let _ = f.got(app.goodbye(&w));
}

/// Every cell full of results, and the next calls posted over them.
pub(super) fn uncollected(f: &mut Field) {
    let Some((w, app, mut channel)) = open(f, 64, 4096) else { return };
    let until = f.round(2_000);
    while Instant::now() < until && !broken(&w, &channel) {
        for cell in 0..channel.depth() {
            channel.call(&w, cell, &with_ms(mode::FILL, 4096));
            f.report.deeds += 1;
        }
        app.beat(&w);
        // Often enough two laps ahead, which breaks the channel: then the next one.
        let pause = f.random.below(200);
        std::thread::sleep(Duration::from_micros(pause));
    }
    let _ = f.got(app.goodbye(&w));
}
