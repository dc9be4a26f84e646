//! In a guest: what is in a window, however it is reached.

use super::check::Check;
use crate::out;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_window::ReadSpan;
use vfun_wire::header::{HOST_BEAT_OFF, HOST_STATE_OFF, MAGIC, Role, WindowHeader, host_state};
use vfun_wire::names;
use vfun_wire::version::Features;
use zerocopy::FromBytes;

/// How long the manager has to show that it looks: it does so every 5 ms.
const BEAT: Duration = Duration::from_millis(500);

/// A window's header, and whether its manager lives.
pub fn look(span: &ReadSpan, bytes: u64) -> Vec<Check> {
    let magic = span.load(0, Ordering::Acquire);
    if magic != MAGIC {
        return vec![Check::missing("window", format!("the device holds no VirtFun window (magic {magic:#018x})"))
            .mend("start vfund on the host; then see that the VM's device is on the file that `vfun client show NAME` names")];
    }
    let mut raw = [0; size_of::<WindowHeader>()];
    if span.read(0, &mut raw).is_err() {
        return vec![Check::missing("window", "the window is shorter than its header")];
    }
    let Ok(header) = WindowHeader::read_from_bytes(&raw) else { return vec![] };
    let client = names::decode(&header.client).unwrap_or("(unreadable)");
    let mut checks = vec![];
    if let Err(e) = header.check(bytes, Role::Control) {
        let mend = "use the same version of VirtFun on both sides, for this VM's device";
        checks.push(Check::missing("window", e.to_string()).mend(mend));
        return checks;
    }
    checks.push(Check::ok(
        "window",
        format!(
            "of client {client} (id {}), generation {:#x}, protocol {} to {}, {}",
            header.client_id,
            header.generation,
            header.version_min,
            header.version_max,
            if header.vectors.get() == 0 {
                "no doorbell: sleepers look by the clock"
            } else {
                "with doorbell"
            },
        ),
    ));
    let beats = !Features(header.features.get()).has(Features::DOORBELL);
    checks.push(manager(span, beats));
    checks
}

/// `beats`: it looks by the clock and shows that it does; otherwise it sleeps
/// until it is rung, and only an answer (below) shows that it lives.
fn manager(span: &ReadSpan, beats: bool) -> Check {
    let load = |off: usize| span.load(off / 8, Ordering::Acquire);
    let state = load(HOST_STATE_OFF) as u32;
    let (before, start) = (load(HOST_BEAT_OFF), Instant::now());
    while beats && load(HOST_BEAT_OFF) == before && start.elapsed() < BEAT {
        std::thread::sleep(Duration::from_millis(1));
    }
    let moved = !beats || load(HOST_BEAT_OFF) != before;
    match (state, moved) {
        (host_state::ENDED, _) => {
            Check::missing("manager", "it has ended").mend("start vfund on the host")
        }
        (_, false) => Check::missing(
            "manager",
            format!("its beat has stood still for {}: it is gone", out::duration(BEAT)),
        )
        .mend("start vfund on the host; see its log for why it ended"),
        (host_state::DRAINING, true) => {
            Check::note("manager", "alive, but draining: it grants nothing new")
        }
        (_, true) if beats => Check::ok("manager", "alive: its beat moves"),
        (_, true) => Check::ok("manager", "serving, asleep until it is rung"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_window::{Access, Mapping};
    use vfun_wire::PAGE;

    #[test]
    fn a_window_that_nobody_laid_out_is_no_window() {
        let fd = vfun_window::memfd("doctor", 1 << 20).unwrap();
        let mapping = Mapping::new(&fd, 0, PAGE, Access::ReadWrite).unwrap();
        let checks = look(&mapping.read(), 1 << 20);
        assert!(checks[0].found.contains("no VirtFun window") && checks[0].mend.is_some());
        // With a beat that stands still the manager is gone.
        mapping.write().unwrap().store(HOST_STATE_OFF / 8, 1, Ordering::Release);
        assert!(manager(&mapping.read(), true).found.contains("stood still"));
        assert!(manager(&mapping.read(), false).found.contains("until it is rung"));
        mapping.write().unwrap().store(HOST_STATE_OFF / 8, 3, Ordering::Release);
        assert!(manager(&mapping.read(), true).found.contains("has ended"));
    }
}
