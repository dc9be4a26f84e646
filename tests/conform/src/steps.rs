//! The steps of the suite. Each leaves the place as it found it.

use crate::{End, LONG, Place, Said, WithoutHeader};
use std::time::Instant;
use vfun_tests_local::built::long;
use vfun_wire::limits::CONTROL_CELLS;

type Step = fn(&mut Place<'_>);

/// All steps, in order.
pub const ALL: [(&str, Step); 11] = [
    ("a session reports its path, and no feature that is not there", reports),
    ("calls of all sizes, in each mode of waiting", calls),
    ("memory that an app and a function write", buffers),
    ("many apps at once", many),
    ("a service that dies", service_dies),
    ("the manager is killed and comes back", manager_dies),
    ("a request that makes no sense", nonsense),
    ("a header that an app overwrote", header_overwritten),
    ("a window with a wrong header", wrong_header),
    ("a window that is truncated", truncated),
    ("apps that die without a word", apps_die),
];

/// Calls of an app that makes them until a file is there end with this, also where the
/// step fails: else nobody would say how.
struct Stop<'a> {
    end: &'a dyn End,
    file: &'a str,
}

impl<'a> Stop<'a> {
    fn new(end: &'a dyn End, file: &'a str) -> Self {
        end.shell(&format!("rm -f {file} {file}.made"));
        Stop { end, file }
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.end.app(&["stop", self.file]);
    }
}

/// A service's process, and how many calls of its channel had been answered.
#[derive(Default)]
struct Seen {
    pid: u32,
    calls: u64,
}

impl Place<'_> {
    fn ok(&self, words: &[&str]) -> String {
        let Said { status, text } = self.end.app(words);
        assert_eq!(status, 0, "{} {words:?}: {text}\n{}", self.transport, self.stand.log());
        text
    }

    /// Nobody has anything any more.
    fn clean(&self) {
        let client = &self.client;
        self.stand
            .until("everything is given back", |s| s.grants().iter().all(|g| &g.client != client));
    }

    /// A file at the other end: calls go on until it is there.
    fn stop(&self) -> String {
        format!("/tmp/vfun-conform-{}-{}", self.transport, std::process::id())
    }

    /// An app makes calls while `during` runs; what it said.
    fn while_calls_go_on(&mut self, during: impl FnOnce(&mut Self)) -> String {
        let end = self.end;
        let stop = self.stop();
        std::thread::scope(|scope| {
            let ends = Stop::new(end, &stop);
            let calls = scope.spawn(|| end.app(&["on", &stop]));
            self.more("calls are made");
            during(self);
            self.more("calls go on");
            drop(ends);
            let said = calls.join().expect("no panic");
            assert_eq!(said.status, 0, "{}: {}", self.transport, said.text);
            said.text
        })
    }

    /// Waits until an app has made more calls.
    fn more(&self, what: &str) {
        let said = self.end.app(&["more", &self.stop()]);
        assert_eq!(said.status, 0, "{what}: {}\n{}", said.text, self.stand.log());
    }

    /// Whether the process that serves this client has answered a call since it was first
    /// seen here, as `seen` says, and has another one to compute. One that was only just
    /// started may not have begun the call that waits for it: the next one would.
    fn computes(&self, stand: &vfun_tests_local::Stand, seen: &mut Seen) -> bool {
        let grants = stand.grants();
        let its = grants.iter().find(|g| g.client == self.client && g.state == "active");
        let Some((g, pid)) = its.and_then(|g| Some((g, g.pid?))) else { return false };
        if seen.pid != pid {
            *seen = Seen { pid, calls: g.counters.calls };
        }
        g.in_flight > 0 && g.counters.calls > seen.calls
    }

    /// Whether the window is one that the test can write to.
    fn memory(&self) -> Option<crate::Memory> {
        let rows = match self.stand.ask(&vfun_admin::Ask::Clients) {
            vfun_admin::Reply::Clients { clients } => clients,
            other => panic!("{other:?}"),
        };
        let row = rows.into_iter().find(|c| c.name == self.client).expect("it is declared");
        self.end.memory(&row)
    }
}

fn reports(p: &mut Place<'_>) {
    let said = p.ok(&["session"]);
    let (kind, wakes) = (p.reports.kind, p.reports.wakes);
    let right = said.contains(&format!("{kind} ("))
        && said.contains(wakes)
        && said.contains(&format!("client {}, 16 MiB shared", p.client));
    assert!(right, "{}: {kind}, {wakes}: {said}", p.transport);
    // Without a doorbell nobody says that there is one.
    if !p.transport.row().doorbell {
        assert!(said.contains("no doorbell"), "{said}");
    }
}

fn calls(p: &mut Place<'_>) {
    for mode in ["hybrid", "sleep", "spin"] {
        assert!(p.ok(&["calls", mode]).contains("made "));
    }
    p.clean();
}

fn buffers(p: &mut Place<'_>) {
    assert!(p.ok(&["buffer"]).contains("shared 1048576 bytes"));
    p.clean();
    // The session's own buffer ends with the session, which is after its grants.
    p.stand.until("every buffer is given back", |s| s.status().buffers == 0);
}

fn many(p: &mut Place<'_>) {
    let others = p.end;
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| others.app(&["many", "4"]));
        p.ok(&["many", "4"]);
        let said = beside.join().expect("no panic");
        assert_eq!(said.status, 0, "{}", said.text);
    });
    p.clean();
}

fn service_dies(p: &mut Place<'_>) {
    p.ok(&["crash"]);
    // Killed from outside, in the middle of a call; between two calls no app notices.
    let end = p.end;
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| end.app(&["end", "300"]));
        let mut seen = Seen::default();
        while !calls.is_finished() {
            p.stand.until("a call begins", |s| calls.is_finished() || p.computes(s, &mut seen));
            let pid = rustix::process::Pid::from_raw(seen.pid as i32);
            if let Some(pid) = pid.filter(|_| !calls.is_finished()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                // Its grant may show it for a moment still.
                seen.calls = u64::MAX;
            }
        }
        let said = calls.join().expect("no panic").text;
        let named = ["DriverCrashed", "ServiceLost"].iter().any(|e| said.contains(e));
        assert!(named, "{said}");
    });
    p.ok(&["calls", "hybrid"]);
    p.clean();
}

fn manager_dies(p: &mut Place<'_>) {
    p.while_calls_go_on(|p| {
        p.stand.kill_vfund();
        p.more("calls go on without a manager");
        let said = p.end.app(&["session"]);
        assert!(said.status == 7 && said.text.contains("manager"), "{}", said.text);
        p.stand.start_vfund();
    });
    p.ok(&["calls", "hybrid"]);
    p.clean();
}

fn nonsense(p: &mut Place<'_>) {
    let Some(memory) = p.memory() else { return };
    let cell = CONTROL_CELLS - 1;
    p.while_calls_go_on(|p| {
        memory.post_nonsense(cell);
        // Its bell is rung by the next app, where there is one.
        let until = Instant::now() + LONG;
        while !memory.is_answered(cell) {
            p.ok(&["session"]);
            assert!(Instant::now() < until, "nobody answers");
        }
    });
    p.ok(&["calls", "hybrid"]);
}

fn header_overwritten(p: &mut Place<'_>) {
    let Some(memory) = p.memory() else { return };
    let overwrite = || memory.write(0, &[0x5a; 8]);
    let mended = |p: &Place<'_>| {
        p.stand.until("its header is whole again", |_| {
            let mut magic = [0; 8];
            memory.read(0, &mut magic);
            magic == vfun_wire::header::MAGIC.to_le_bytes()
        });
    };
    let end = p.end;
    match end.without_header(p.transport) {
        WithoutHeader::End => {
            // What is seen to make calls is this app, and none of before.
            p.clean();
            std::thread::scope(|scope| {
                let calls = scope.spawn(|| end.app(&["end", "2"]));
                p.stand.until("calls", |s| s.grants().iter().any(|g| g.counters.calls > 5));
                overwrite();
                let said = calls.join().expect("no panic").text;
                assert!(said.contains("ended "), "{said}");
            });
            mended(p);
        }
        WithoutHeader::GoOn => {
            p.while_calls_go_on(|p| {
                overwrite();
                mended(p);
            });
        }
        WithoutHeader::Either => {
            let stop = p.stop();
            std::thread::scope(|scope| {
                let ends = Stop::new(end, &stop);
                let calls = scope.spawn(|| end.app(&["on", &stop]));
                p.more("calls are made");
                overwrite();
                mended(p);
                drop(ends);
                let said = calls.join().expect("no panic");
                assert!(said.status == 0 || said.text.contains("error "), "{}", said.text);
            });
        }
    }
    p.ok(&["calls", "hybrid"]);
    p.clean();
}

fn wrong_header(p: &mut Place<'_>) {
    let Some(memory) = p.memory() else { return };
    let mut header = vec![0; 64];
    memory.read(0, &mut header);
    // Nobody is there who would mend it.
    p.stand.kill_vfund();
    let says = |at: usize, byte: u8, words: &str| {
        let mut wrong = header.clone();
        wrong[at] = byte;
        memory.write(0, &wrong);
        let said = p.end.app(&["session"]);
        assert!(said.status == 7 && said.text.contains(words), "{at}: {}", said.text);
    };
    says(0, 0, "no VirtFun window");
    says(8, 99, "layout 99");
    memory.write(0, &header);
    p.stand.start_vfund();
    p.ok(&["calls", "hybrid"]);
    p.clean();
}

fn truncated(p: &mut Place<'_>) {
    if !p.end.survives_truncation() {
        return;
    }
    let memory = p.memory().expect("it is a file");
    let end = p.end;
    let before = std::thread::scope(|scope| {
        let calls = scope.spawn(|| end.app(&["end", "2"]));
        p.stand.until("calls", |s| s.grants().iter().any(|g| g.counters.calls > 5));
        let before = memory.truncate(4096);
        let said = calls.join().expect("no panic");
        assert!(said.status == 0 && said.text.contains("ended "), "{}", said.text);
        before
    });
    let named = format!("window of client {}", p.client);
    p.stand.until("it is named", |s| s.status().troubles.iter().any(|t| t.contains(&named)));
    memory.truncate(before);
    p.stand.until("it is laid out anew", |s| s.status().troubles.is_empty());
    p.ok(&["calls", "hybrid"]);
    p.clean();
}

fn apps_die(p: &mut Place<'_>) {
    let end = p.end;
    std::thread::scope(|scope| {
        scope.spawn(|| end.app(&["end", "2"]));
        p.stand.until("calls", |s| s.grants().iter().any(|g| g.counters.calls > 5));
        end.die();
    });
    // At once where the manager sees it, else after its heartbeat's time. That is half a
    // minute, of which the next manager waits a part only: a build with fault points does
    // as it is told here. Nobody else is there whose heartbeat could be late.
    let shorter = long(true, false) && end.is_missed_by_heartbeat(p.transport);
    if shorter {
        p.stand.kill_vfund();
        p.stand.start_with(&[("VFUN_HEARTBEAT_DEAD_MS", "2000")]);
    }
    p.clean();
    p.stand.until("no session is left", |s| s.totals().1 == 0);
    if shorter {
        p.stand.kill_vfund();
        p.stand.start_vfund();
    }
    p.ok(&["calls", "hybrid"]);
}
