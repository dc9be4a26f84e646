//! What the kernel counted while a slice ran.

use rustix::thread::gettid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A tick of `/proc/stat` (USER_HZ is 100 on every Linux machine that this runs on).
const TICK: Duration = Duration::from_millis(10);
/// A slice is spoilt by what took more than this part of it: a hundredth is what the
/// narrowest question here asks for (1 %).
const PART: f64 = 0.01;
/// Where the kernel does not say how long a thread waited: a switch against its will in so long is nothing. Threads
/// of the kernel run now and then on the quietest machine, and a slice that lasts for seconds sees some of
/// them. Shorter slices see none.
const SWITCH_EVERY: Duration = Duration::from_millis(20);

/// What the kernel says of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Thread {
    /// It ran so long, ns.
    ran: u64,
    /// It could have run and had no processor for so long, ns.
    delayed: u64,
    /// It gave its processor up of its own will.
    voluntary: u64,
    /// It lost its processor.
    involuntary: u64,
    /// The processor that it ran on last.
    cpu: u64,
}

/// What the kernel has counted up to a moment.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Ticks that other machines took of the processors that count.
    stolen: u64,
    /// The threads that count, by their process.
    threads: Counted,
    /// What had been counted for threads that said so when all was ready ([`ready`]).
    ready: Counted,
}

/// What disturbed a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Ticks that other machines took of the processors that count.
    pub stolen: u64,
    /// Involuntary context switches of the threads that did the work and for which the kernel counts no times, without
    /// those that other watched threads caused. Where it does, the time counts that a switch took.
    pub switches: u64,
    /// How long they had to wait for a processor, but for the same.
    pub delayed: Duration,
}

impl Disturbance {
    /// Whether a slice that took so long is to be dropped. Known before it runs.
    pub fn spoils(&self, took: Duration) -> bool {
        let part = took.mul_f64(PART);
        let stolen = TICK * self.stolen.min(u64::from(u32::MAX)) as u32;
        let switches = (took.as_nanos() / SWITCH_EVERY.as_nanos()) as u64;
        stolen > part || self.switches > switches || self.delayed > part
    }
}

impl Marks {
    /// What was counted between two moments. On each processor the thread that ran most did the
    /// work. If another watched thread made it wait, that is part of what is measured: the two
    /// threads may be of one program, or of two that talk with each other.
    pub fn since(&self, before: &Marks) -> Disturbance {
        let mut processors: BTreeMap<u64, Vec<Thread>> = BTreeMap::new();
        for (id, now) in &self.threads {
            let was = self.ready.get(id).or_else(|| before.threads.get(id));
            let was = was.copied().unwrap_or_default();
            processors.entry(now.cpu).or_default().push(Thread {
                ran: now.ran.saturating_sub(was.ran),
                delayed: now.delayed.saturating_sub(was.delayed),
                voluntary: now.voluntary.saturating_sub(was.voluntary),
                involuntary: now.involuntary.saturating_sub(was.involuntary),
                cpu: now.cpu,
            });
        }
        let mut sum = Disturbance {
            stolen: self.stolen.saturating_sub(before.stolen),
            ..Disturbance::default()
        };
        for threads in processors.values() {
            let Some(busiest) = threads.iter().max_by_key(|t| (t.ran, t.involuntary)) else {
                continue;
            };
            let of_all = |f: fn(&Thread) -> u64| threads.iter().map(f).sum::<u64>();
            let siblings_ran = of_all(|t| t.ran) - busiest.ran;
            let siblings = |t: &Thread| t.voluntary + t.involuntary;
            let siblings_switched = of_all(siblings) - siblings(busiest);
            if busiest.ran == 0 && busiest.delayed == 0 {
                sum.switches += busiest.involuntary.saturating_sub(siblings_switched);
            }
            sum.delayed += Duration::from_nanos(busiest.delayed.saturating_sub(siblings_ran));
        }
        sum
    }
}

/// Processors and processes whose disturbances count.
#[derive(Clone, Debug)]
pub struct Watch {
    /// None: all of the machine.
    cpus: Vec<usize>,
    pids: Vec<u32>,
    /// Where threads of this process say what they have to say.
    said: &'static Said,
}

impl Watch {
    /// These processors (none: all), and this process with these others, that run the
    /// variants.
    pub fn new(cpus: &[usize], others: impl IntoIterator<Item = u32>) -> Self {
        let mut pids = vec![std::process::id()];
        pids.extend(others);
        pids.sort_unstable();
        pids.dedup();
        Watch { cpus: cpus.to_vec(), pids, said: &SAID }
    }

    /// For tests: sees nothing.
    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Watch { cpus: vec![usize::MAX], pids: Vec::new(), said: &SAID }
    }

    /// What was counted so far. What cannot be read (a process that has ended, a kernel that
    /// does not count) counts as nothing.
    pub fn marks(&self) -> Marks {
        let stolen = fs::read_to_string("/proc/stat").map(|text| stolen(&text, &self.cpus));
        let own = self.pids.contains(&std::process::id());
        let (mut threads, ready) = if own { self.said.take() } else { Default::default() };
        for &pid in &self.pids {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                let Some(tid) = task.file_name().to_str().and_then(|n| n.parse().ok()) else {
                    continue;
                };
                if let Some(counted) = counted(&task.path()) {
                    threads.insert((pid, tid), counted);
                }
            }
        }
        Marks { stolen: stolen.unwrap_or_default(), threads, ready }
    }
}

/// What was counted for threads, by their process.
type Counted = BTreeMap<(u32, u32), Thread>;

/// What threads of this process say of themselves; who looks takes it.
#[derive(Debug)]
struct Said {
    /// Those that took part in a slice and ended with it.
    ended: Mutex<Counted>,
    /// What had been counted when a slice was ready.
    ready: Mutex<Counted>,
}

static SAID: Said = Said::new();

impl Said {
    const fn new() -> Self {
        Said { ended: Mutex::new(BTreeMap::new()), ready: Mutex::new(BTreeMap::new()) }
    }

    /// Who ended, and what had been counted when all was ready.
    fn take(&self) -> (Counted, Counted) {
        let taken = |from: &Mutex<Counted>| {
            from.lock().map(|mut said| std::mem::take(&mut *said)).unwrap_or_default()
        };
        (taken(&self.ended), taken(&self.ready))
    }
}

/// Notes what is counted for this thread.
fn note(to: &Mutex<Counted>) {
    let own = (std::process::id(), gettid().as_raw_nonzero().get() as u32);
    if let (Some(counted), Ok(mut to)) = (counted(Path::new("/proc/thread-self")), to.lock()) {
        to.insert(own, counted);
    }
}

/// A thread that ends with its slice says so last of all: what was counted for it would be lost.
pub fn farewell() {
    note(&SAID.ended);
}

/// A thread says that all is ready for what is measured in its slice: what the kernel counted for it before, while
/// threads were made and moved to their processors, disturbed nothing.
pub fn ready() {
    note(&SAID.ready);
}

/// What is counted for the thread of this folder of `/proc`.
fn counted(folder: &Path) -> Option<Thread> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // Not each kernel has the times: switches count there.
    Some(thread(&read("schedstat").unwrap_or_default(), &read("status")?, &read("stat")?))
}

/// From `schedstat`, `status` and `stat` of a thread.
fn thread(schedstat: &str, status: &str, stat: &str) -> Thread {
    let mut times = schedstat.split_whitespace().map(|n| n.parse().unwrap_or(0));
    let count = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    };
    Thread {
        ran: times.next().unwrap_or(0),
        delayed: times.next().unwrap_or(0),
        voluntary: count("voluntary_ctxt_switches:"),
        involuntary: count("nonvoluntary_ctxt_switches:"),
        // After "pid (name)", whose name may hold anything, it is the 37th.
        cpu: stat
            .rsplit_once(')')
            .and_then(|s| s.1.split_whitespace().nth(36)?.parse().ok())
            .unwrap_or(0),
    }
}

/// Ticks stolen from these processors, or from all, from `/proc/stat`.
fn stolen(stat: &str, cpus: &[usize]) -> u64 {
    let of = |name: &str| {
        let line = stat.lines().find(|l| l.split_whitespace().next() == Some(name))?;
        line.split_whitespace().nth(8)?.parse::<u64>().ok()
    };
    match cpus {
        [] => of("cpu").unwrap_or(0),
        some => some.iter().filter_map(|cpu| of(&format!("cpu{cpu}"))).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::pin;
    use std::time::Instant;

    const STAT: &str = "cpu  10 0 5 900 1 0 2 30 0 0\ncpu0 5 0 2 450 0 0 1 10 0 0\n\
        cpu1 5 0 3 450 1 0 1 20 0 0\ncpu10 1 1 1 1 1 1 1 99 0 0\nintr 7\n";

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(stolen(STAT, &[]), 30);
        assert_eq!((stolen(STAT, &[1]), stolen(STAT, &[0, 1])), (20, 30));
        assert_eq!((stolen(STAT, &[7]), stolen("", &[0])), (0, 0));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let stat = format!("7 (a) b) {} 1 99 5", ["0"; 36].join(" "));
        let read = thread("161320 268920 2\n", status, &stat);
        let right =
            Thread { ran: 161_320, delayed: 268_920, voluntary: 150, involuntary: 545, cpu: 1 };
        assert_eq!((read, thread("", "", "")), (right, Thread::default()));
    }

    fn marks(stolen: u64, threads: &[((u32, u32), [u64; 4])]) -> Marks {
        let thread = |&(id, [ran, delayed, voluntary, involuntary]): &((u32, u32), [u64; 4])| {
            (
                id,
                Thread {
                    ran,
                    delayed,
                    voluntary,
                    involuntary,
                    cpu: u64::from(id.1 == 8 || id.0 == 2),
                },
            )
        };
        Marks { stolen, threads: threads.iter().map(thread).collect(), ready: BTreeMap::new() }
    }

    #[test]
    fn what_other_programs_did_is_told_from_what_siblings_did() {
        let before = marks(3, &[((1, 1), [100, 7, 1, 5]), ((2, 2), [0, 0, 0, 0])]);
        let same = before.since(&before);
        assert_eq!(same, Disturbance::default());
        // Its own helper ran for 400 ns and had the processor twice.
        let helper = ((1, 9), [400, 90, 1, 1]);
        let after = marks(3, &[((1, 1), [5_100, 407, 1, 7]), helper, ((2, 2), [0, 0, 0, 0])]);
        assert_eq!(after.since(&before), Disturbance::default());
        // Somebody else's program had it once more, for 200 ns.
        let after = marks(4, &[((1, 1), [5_100, 607, 1, 8]), helper, ((2, 2), [0, 0, 0, 0])]);
        let right = Disturbance { stolen: 1, switches: 0, delayed: Duration::from_nanos(200) };
        assert_eq!(after.since(&before), right);
        // A thread on another processor explains nothing.
        let other = ((1, 8), [400, 90, 1, 1]);
        let after = marks(3, &[((1, 1), [5_100, 107, 1, 6]), other]);
        let right = Disturbance { stolen: 0, switches: 0, delayed: Duration::from_nanos(190) };
        assert_eq!(after.since(&before), right);
        // Another processor's work counts besides; one that has ended does not.
        let after = marks(3, &[((2, 2), [900, 50, 9, 2])]);
        let right = Disturbance { stolen: 0, switches: 0, delayed: Duration::from_nanos(50) };
        assert_eq!(after.since(&before), right);
        // Where the kernel counts no times, switches are all that is known.
        let after = marks(3, &[((2, 2), [0, 0, 9, 2])]);
        let right = Disturbance { stolen: 0, switches: 2, delayed: Duration::ZERO };
        assert_eq!(after.since(&before), right);
    }

    #[test]
    fn what_came_before_a_slice_was_ready_does_not_count() {
        let before = marks(3, &[((1, 1), [100, 7, 1, 5])]);
        // A helper waited for a processor until it was in its place, and so did the thread that made it.
        let (own, helper) = (((1, 1), [900, 300, 2, 6]), ((1, 8), [60, 5_000, 1, 1]));
        let ready = marks(3, &[own, helper]).threads;
        let at_the_end = [((1, 1), [5_100, 320, 2, 6]), ((1, 8), [4_000, 5_030, 1, 1])];
        let mut after = marks(3, &at_the_end);
        let of = Duration::from_nanos;
        assert_eq!(after.since(&before).delayed, of(313 + 5_030));
        after.ready = ready;
        assert_eq!(after.since(&before).delayed, of(20 + 30));
    }

    /// A kernel without `schedstat` (no CONFIG_SCHED_INFO) counts switches all the same.
    #[test]
    fn a_thread_without_times_is_watched_by_its_switches() {
        let folder = tempfile::tempdir().expect("a folder");
        let stat = format!("7 (a) {} 1 99 5", ["0"; 36].join(" "));
        let say = |involuntary: u32| {
            let status = format!(
                "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t{involuntary}\n"
            );
            std::fs::write(folder.path().join("status"), status).expect("room");
            std::fs::write(folder.path().join("stat"), &stat).expect("room");
            let thread = counted(folder.path()).expect("the thread is there");
            Marks { threads: BTreeMap::from([((1, 1), thread)]), ..Marks::default() }
        };
        let before = say(5);
        let found = say(7).since(&before);
        assert_eq!(found, Disturbance { switches: 2, ..Disturbance::default() });
        assert!(found.spoils(Duration::from_millis(4)));
        std::fs::remove_file(folder.path().join("stat")).expect("it was there");
        assert_eq!(counted(folder.path()), None, "a thread that has ended");
    }

    /// Another program wants the processor of the thread that works.
    #[test]
    fn a_busy_loop_on_the_same_processor_is_a_disturbance() {
        let cpu = pin::allowed()[0];
        let _pinned = pin::Pinned::to(Some(cpu));
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        let watch = Watch::new(&[cpu], []);
        let (limit, slice) = (Instant::now() + Duration::from_secs(30), Duration::from_millis(20));
        let disturbed = std::iter::repeat_with(|| {
            let (before, start) = (watch.marks(), Instant::now());
            while start.elapsed() < slice {}
            // Other machines may take ticks as well: that is not what is asked for here.
            let found = Disturbance { stolen: 0, ..watch.marks().since(&before) };
            found.spoils(start.elapsed())
        });
        let noticed = disturbed.take_while(|_| Instant::now() < limit).any(|spoilt| spoilt);
        busy.kill().and_then(|()| busy.wait()).expect("it ends");
        assert!(noticed, "no slice was dropped");
    }

    #[test]
    fn the_rules_are_fixed() {
        let (short, long) = (Duration::from_millis(4), Duration::from_millis(1_500));
        let quiet = Disturbance::default();
        assert!(!quiet.spoils(short) && !quiet.spoils(Duration::ZERO));
        let stolen = |ticks| Disturbance { stolen: ticks, ..quiet };
        assert!(stolen(1).spoils(short));
        assert!(!stolen(1).spoils(long) && stolen(2).spoils(long));
        let switched = |switches| Disturbance { switches, ..quiet };
        assert!(switched(1).spoils(short));
        assert!(!switched(75).spoils(long) && switched(76).spoils(long));
        let delayed = |micros| Disturbance { delayed: Duration::from_micros(micros), ..quiet };
        assert!(!delayed(40).spoils(short) && delayed(41).spoils(short));
        assert!(!delayed(41).spoils(long));
    }

    #[test]
    fn this_thread_is_seen() {
        // Other tests look as well, and would take what is said here.
        static HERE: Said = Said::new();
        let watch = Watch { said: &HERE, ..Watch::new(&[], [std::process::id()]) };
        assert_eq!(watch.pids.len(), 1);
        let own = (std::process::id(), gettid().as_raw_nonzero().get() as u32);
        let before = watch.marks().threads[&own];
        let ended = std::thread::spawn(|| {
            note(&HERE.ready);
            note(&HERE.ended);
            gettid().as_raw_nonzero().get() as u32
        });
        let ended = (own.0, ended.join().unwrap());
        let marks = watch.marks();
        assert!(marks.threads.contains_key(&ended) && marks.ready.contains_key(&ended));
        assert!(!watch.marks().ready.contains_key(&ended), "it is said of one slice");
        // A sleep is a switch of one's own will.
        std::thread::sleep(Duration::from_millis(1));
        assert!(watch.marks().threads[&own].voluntary > before.voluntary);
        assert!(Watch::nothing().marks().threads.is_empty());
    }
}
