//! Requests and rings, more than anybody needs.

use super::Field;
use crate::app::{self, App};
use std::sync::atomic::Ordering;
use std::time::Instant;
use vfun_wire::control::Posted;
use vfun_wire::limits::{CONTROL_CELLS, VECTORS};
use vfun_wire::message::{Kind, TABLE};
use zerocopy::IntoBytes;

/// Negotiate, activate, release, in several control cells at once.
pub(super) fn flood(f: &mut Field) {
    let Some(w) = f.window() else { return };
    let mut apps = vec![];
    for cell in 0..4 {
        let app = App::hello(&w, cell, "evil-flood");
        apps.extend(f.got(app));
    }
    let until = f.round(2_000);
    while Instant::now() < until && !apps.is_empty() {
        for &app in &apps {
            let got = app.function(&w, "echo", 2, 64);
            if let Some(channel) = f.got(got) {
                let _ = f.got(app.release(&w, channel.grant));
            }
        }
    }
    for app in apps {
        let _ = f.got(app.goodbye(&w));
    }
}

/// Hellos under ever new names; each goes as it came.
pub(super) fn hellos(f: &mut Field) {
    let Some(w) = f.window() else { return };
    let until = f.round(1_000);
    let mut seqs = [0; CONTROL_CELLS];
    while Instant::now() < until {
        for (cell, seq) in seqs.iter_mut().enumerate() {
            let name = f.name();
            *seq = app::post(&w, cell, Kind::Hello.to_wire(), 0, app::hello_body(&name).as_bytes());
            f.report.deeds += 1;
        }
        for (cell, seq) in seqs.iter_mut().enumerate() {
            let patience = Instant::now() + app::PATIENCE;
            let session = loop {
                match app::answer(&w, cell, *seq) {
                    Some(Ok(ack)) => break ack.get(16..24).map_or(0, le),
                    Some(Err(_)) => break 0,
                    None if Instant::now() > patience => break 0,
                    None => std::thread::yield_now(),
                }
            };
            if session == 0 {
                f.report.refused += 1;
            } else {
                *seq = app::post(&w, cell, Kind::Goodbye.to_wire(), session, &[0; 8]);
            }
        }
        // A hello posted over a goodbye leaves a session behind: now and then.
        let patience = Instant::now() + app::PATIENCE;
        while f.random.below(16) > 0
            && Instant::now() < patience
            && (0..CONTROL_CELLS).any(|cell| app::answer(&w, cell, seqs[cell]).is_none())
        {
            std::thread::yield_now();
        }
    }
}

fn le(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// All control cells always full, of anything.
pub(super) fn full(f: &mut Field) {
    let Some((w, app)) = f.app(0) else { return };
    let until = f.round(1_000);
    while Instant::now() < until {
        for cell in 0..CONTROL_CELLS {
            let row = f.random.of(TABLE);
            let mut body = vec![0; row.request_bytes];
            if f.random.below(2) == 0 {
                body.fill_with(|| f.random.word() as u8);
            }
            let seq = w.seqs[cell].fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let posted = Posted { seq, kind: row.kind.to_wire(), len: body.len() as u16 };
            app::post_as(&w, cell, posted, app.session, &body);
            f.report.deeds += 1;
        }
    }
    let _ = f.got(app.goodbye(&w));
}

/// All bells there are, also such that nobody waits on.
pub(super) fn bells(f: &mut Field) {
    let Some((w, app)) = f.app(0) else { return };
    let got = app.function(&w, "echo", 2, 64);
    let channel = f.got(got);
    let until = f.round(1_000);
    while Instant::now() < until {
        for vector in 0..VECTORS {
            for _ in 0..32 {
                w.ring(vector);
            }
        }
        // The counter moves although nothing was posted.
        w.posted();
        let wild = f.random.lie();
        w.ring_wild(wild);
        f.report.deeds += u64::from(VECTORS) * 32 + 2;
    }
    if let Some(channel) = channel {
        let _ = f.got(app.release(&w, channel.grant));
    }
    let _ = f.got(app.goodbye(&w));
}
