//! Bytes where they do not belong.

use super::Field;
use crate::app::{App, Channel, post_as};
use crate::random::EDGES;
use crate::window::Window;
use std::time::{Duration, Instant};
use vfun_wire::LINE_WORDS;
use vfun_wire::channel::{in_header, out_header};
use vfun_wire::control::{
    Posted, REQUEST_BODY, WORD_BEAT, WORD_CLAIM, WORD_POSTED, WORD_SESSION, answer_off, request_off,
};
use vfun_wire::header::*;
use vfun_wire::limits::*;
use vfun_wire::message::TABLE;

/// A window in which a session has a channel of the driver that misbehaves.
fn active(f: &mut Field) -> Option<(std::sync::Arc<Window>, App, Channel)> {
    let (w, app) = f.app(0)?;
    let channel = app.function(&w, "misbehave", 8, 256);
    let channel = f.got(channel)?;
    Some((w, app, channel))
}

/// Leaves the window in a state in which it can be asked again: a guest cannot
/// get another one.
fn leave(f: &mut Field, w: &Window, app: App) {
    let _ = f.got(app.goodbye(w));
}

/// Random words everywhere, where the host looks more often than elsewhere.
pub(super) fn random(f: &mut Field) {
    let Some((w, app, channel)) = active(f) else { return };
    let until = f.round(400);
    let heap = HEAP_OFF as u64 / 8;
    let (out, inn, side) =
        (channel.out() as u64, channel.inn() as u64, channel.side_words() as u64);
    while Instant::now() < until {
        for i in 0..256u64 {
            let at = match i % 4 {
                0 => f.random.below(heap),
                1 => out + f.random.below(side),
                2 => inn + f.random.below(side),
                _ => f.random.below(w.words()),
            };
            let value = f.random.lie();
            w.store(at, value);
        }
        f.report.deeds += 256;
        w.posted();
        w.ring(channel.vector_out);
    }
    leave(f, &w, app);
}

/// A field: the word it is in, its first bit and its bits.
type Part = (u64, u32, u32);

/// All fields of all lines that either side reads.
fn all_fields(channel: &Channel) -> Vec<Part> {
    let mut fields: Vec<Part> = vec![];
    // The window's header, the host's own: as 16-bit fields, whatever they are.
    for word in 0..(size_of::<WindowHeader>() / 8) as u64 {
        fields.extend((0..4).map(|q| (word, 16 * q, 16)));
    }
    for off in [HOST_BEAT_OFF, HOST_STATE_OFF, HOST_SLEEPS_OFF, POSTED_OFF, GUEST_SLEEPS_OFF] {
        fields.push((off as u64 / 8, 0, 64));
    }
    for line in [0, 1, SESSIONS / 2, SESSIONS - 1] {
        let at = (SESSIONS_OFF / 8 + line * LINE_WORDS) as u64;
        fields.extend((0..LINE_WORDS as u64).map(|w| (at + w, 0, 64)));
    }
    // Control cells: sequence number, kind and length of the posted word apart.
    for cell in [0, 1, CONTROL_CELLS - 1] {
        for off in [request_off(cell), answer_off(cell)] {
            let at = off / 8;
            for word in [WORD_CLAIM, WORD_SESSION, WORD_BEAT, 4, 5, 6, 7] {
                fields.push(((at + word) as u64, 0, 64));
            }
            let posted = (at + WORD_POSTED) as u64;
            fields.extend([(posted, 0, 32), (posted, 32, 16), (posted, 48, 16)]);
        }
    }
    let (out, inn) = (channel.out() as u64, channel.inn() as u64);
    for word in [out_header::SLEEPERS, out_header::END] {
        fields.push((out + word as u64, 0, 64));
    }
    for word in [
        in_header::BROKEN,
        in_header::SLEEPS,
        in_header::CALLS,
        in_header::ERRORS,
        in_header::BYTES_IN,
        in_header::BYTES_OUT,
        in_header::SLEPT,
        in_header::RANG,
        in_header::BUSY_NS,
        in_header::TIMES,
        in_header::TIMES + 127,
    ] {
        fields.push((inn + word as u64, 0, 64));
    }
    // The call under way: sequence number, cell.
    let current = inn + in_header::CURRENT as u64;
    fields.extend([(current, 0, 32), (current, 32, 32), (current, 0, 64)]);
    for cell in [0, channel.depth() - 1] {
        for line in [channel.out_line(cell), channel.in_line(cell)] {
            let at = line as u64;
            // Sequence number, command or state, flags, reserved; length, status; in line.
            fields.extend([(at, 0, 32), (at, 32, 8), (at, 40, 8), (at, 48, 16)]);
            fields.extend([(at + 1, 0, 32), (at + 1, 32, 32), (at + 2, 0, 64), (at + 7, 0, 64)]);
        }
    }
    fields
}

/// Each field of each line in turn, each edge value; calls and requests between,
/// so that the host has reason to look.
pub(super) fn fields(f: &mut Field) {
    let Some((mut w, mut app, mut channel)) = active(f) else { return };
    let fields = all_fields(&channel);
    // Where it begins is the seed's: a short run does not always see the same ones.
    let first = f.random.below(fields.len() as u64) as usize;
    for i in 0..fields.len() {
        let (word, shift, bits) = fields[(first + i) % fields.len()];
        let mask = if bits == 64 { u64::MAX } else { ((1 << bits) - 1) << shift };
        for &edge in EDGES {
            let was = w.span.load(word as usize, std::sync::atomic::Ordering::Relaxed);
            w.store(word, was & !mask | (edge << shift) & mask);
            f.report.deeds += 1;
            w.posted();
            let cell = f.random.below(channel.depth() as u64) as usize;
            channel.call(&w, cell, &[0, edge as u8]);
            if !f.on() {
                break;
            }
            if edge % 3 == 0 {
                w.store(word, was);
            }
        }
        if !f.on() {
            break;
        }
        // A channel that broke is of no more use; another one.
        if w.span.load(channel.inn(), std::sync::atomic::Ordering::Relaxed) != 0 || i % 16 == 15 {
            leave(f, &w, app);
            drop(w);
            match active(f) {
                Some(again) => (w, app, channel) = again,
                None => return,
            }
        }
    }
    leave(f, &w, app);
}

/// Each 16-bit field of each request's body, and each length.
pub(super) fn bodies(f: &mut Field) {
    let Some((w, app)) = f.app(0) else { return };
    let until = f.round(1_500);
    let next = |f: &mut Field, kind: u16, len: u16, session: u64, body: &[u8]| {
        let seq = w.seqs[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed).wrapping_add(1);
        post_as(&w, 0, Posted { seq, kind, len }, session, body);
        f.report.deeds += 1;
        // The host copies what it sees when it looks; most of these it sees.
        let patience = Instant::now() + Duration::from_micros(300);
        while crate::app::answer(&w, 0, seq).is_none() && Instant::now() < patience {
            std::hint::spin_loop();
        }
    };
    while Instant::now() < until {
        let row = f.random.of(TABLE);
        let mut body = vec![0u8; row.request_bytes];
        let fields = (row.request_bytes / 2).max(1) as u64;
        for _ in 0..8 {
            let at = f.random.below(fields) as usize * 2;
            let lie = f.random.lie().to_le_bytes();
            let n = lie.len().min(body.len() - at);
            body[at..at + n].copy_from_slice(&lie[..n]);
            let session = if f.random.below(8) == 0 { f.random.lie() } else { app.session };
            next(f, row.kind.to_wire(), body.len() as u16, session, &body);
        }
        let long = vec![0x5a; REQUEST_BODY];
        for len in [0, 1, body.len() as u16 - 1, body.len() as u16 + 1, 1024, u16::MAX] {
            next(f, row.kind.to_wire(), len, app.session, &long);
        }
        let kind = f.random.word() as u16;
        next(f, kind, body.len() as u16, app.session, &body);
    }
    leave(f, &w, app);
}
