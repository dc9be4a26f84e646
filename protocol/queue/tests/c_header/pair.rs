//! The same operations on two windows: one with two Rust ends, one where one of
//! the ends is C.

use super::common::memory::{at, entry};
use super::compile;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use vfun_queue::layout::{header, stamp};
use vfun_queue::{Broken, Consumer, End, Entry, Producer, Shape, WindowMemory};
use vfun_window::{Access, Mapping, WriteSpan, memfd};

/// One step, done in both windows.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Produce {
        count: u32,
        seed: u64,
    },
    Consume {
        most: u32,
    },
    Room {
        wanted: u32,
    },
    Ready,
    Sleep {
        producer: bool,
    },
    Close {
        producer: bool,
    },
    TakeUp {
        producer: bool,
    },
    Poke {
        producer: bool,
        index: u32,
        value: u64,
    },
    /// The producer was killed: so many entries were not noted, and so many of a
    /// batch were written but for its first. The next one takes the queue up.
    Killed {
        unnoted: u32,
        torn: u32,
    },
}

/// Which end of the second window is C's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CSide {
    Producer,
    Consumer,
}

/// The program, compiled once, and the folder that it lies in.
static PEER: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("peer");
    compile::compile("cc", &["-x", "c", "-std=c99", "-O2"], include_str!("peer.c"), &program);
    (dir, program)
});

/// An end in another process, in C.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(window: &Window) -> Peer {
        let file = format!("/proc/{}/fd/{}", std::process::id(), window.fd.as_raw_fd());
        let mut child = Command::new(&PEER.1)
            .args([file, window.bytes().to_string(), window.shape.producer_bytes().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Peer { child, to, from: BufReader::new(from) }
    }

    /// The answer, its end's position, and why it is broken (0: it is not).
    fn ask(&mut self, command: char, a: u64, b: u32) -> (String, u64, u64) {
        writeln!(self.to, "{command} {a} {b}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        let mut words = line.trim().rsplitn(3, ' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (broken, position) = (number(), number());
        (words.next().unwrap().trim().to_owned(), position, broken)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Window {
    shape: Shape,
    fd: OwnedFd,
    producer: WriteSpan,
    consumer: WriteSpan,
}

impl Window {
    fn new(shape: Shape) -> Window {
        let (p, c) = (shape.producer_bytes() as usize, shape.consumer_bytes() as usize);
        let fd = memfd("queue", (p + c) as u64).unwrap();
        let map = Mapping::new(&fd, 0, p + c, Access::ReadWrite).unwrap().write().unwrap();
        Window { shape, fd, producer: map.part(0, p).unwrap(), consumer: map.part(p, c).unwrap() }
    }
    fn bytes(&self) -> u64 {
        self.shape.producer_bytes() + self.shape.consumer_bytes()
    }
    fn side(&self, producer: bool) -> &WriteSpan {
        if producer { &self.producer } else { &self.consumer }
    }
    fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes() as usize];
        let (p, c) = bytes.split_at_mut(self.producer.len());
        self.producer.read(0, p).unwrap();
        self.consumer.read(0, c).unwrap();
        bytes
    }
    fn producer<const N: usize>(&self) -> Producer<WindowMemory, N> {
        let depth = self.shape.depth();
        Producer::over(self.producer.clone(), self.consumer.reader(), depth).unwrap()
    }
    fn consumer<const N: usize>(&self) -> Consumer<WindowMemory, N> {
        let depth = self.shape.depth();
        Consumer::over(self.consumer.clone(), self.producer.reader(), depth).unwrap()
    }
}

/// One queue with both ends in Rust.
struct Ends<const N: usize> {
    producer: Producer<WindowMemory, N>,
    consumer: Consumer<WindowMemory, N>,
}

fn number<T: Into<i64>>(found: Result<T, Broken>) -> String {
    found.map_or(-1, Into::into).to_string()
}

impl<const N: usize> Ends<N> {
    /// What C answers to the same.
    fn step(&mut self, window: &Window, op: Op) -> String {
        match op {
            Op::Produce { count, seed } => {
                let batch: Vec<_> = (0..u64::from(count)).map(|i| entry::<N>(seed ^ i)).collect();
                number(self.producer.produce(&batch).map(|n| n as u32))
            }
            Op::Consume { most } => {
                let mut got = vec![Entry::default(); most as usize];
                let count = self.consumer.consume(&mut got);
                let shown = &got[..count.unwrap_or(0)];
                let hex = |e: &Entry<N>| {
                    let bytes = [0; 4].iter().chain(e.payload()).map(|b| format!("{b:02x}"));
                    bytes.collect::<String>()
                };
                let hex: String = shown.iter().map(hex).collect();
                format!("{} {hex}", number(count.map(|n| n as u32))).trim().to_owned()
            }
            Op::Room { wanted } => number(self.producer.room(wanted.into()).map(|n| n as u32)),
            Op::Ready => number(self.consumer.ready(false).map(u32::from)),
            Op::Sleep { producer: true } => {
                self.producer.declare_sleep();
                u8::from(self.producer.must_ring()).to_string()
            }
            Op::Sleep { producer: false } => {
                self.consumer.declare_sleep();
                u8::from(self.consumer.must_ring()).to_string()
            }
            Op::Close { producer: true } => {
                self.producer.close();
                "0".to_owned()
            }
            Op::Close { producer: false } => {
                self.consumer.close();
                "0".to_owned()
            }
            Op::TakeUp { producer: true } => {
                self.producer = window.producer();
                "0".to_owned()
            }
            Op::TakeUp { producer: false } => {
                self.consumer = window.consumer();
                "0".to_owned()
            }
            Op::Killed { .. } => unreachable!("it is made of other steps"),
            Op::Poke { producer, index, value } => {
                let side = window.side(producer);
                side.store(index as usize % (side.len() / 8), value, Ordering::Relaxed);
                String::new()
            }
        }
    }
}

/// The command for C, if its end does this.
fn command<const N: usize>(op: Op, depth: u32, in_c: CSide) -> Option<(char, u64, u32)> {
    let (producer, command) = match op {
        Op::Produce { count, seed } => (true, ('p', seed, count)),
        Op::Consume { most } => (false, ('c', 0, most)),
        Op::Room { wanted } => (true, ('r', 0, wanted)),
        Op::Ready => (false, ('t', 0, 0)),
        Op::Sleep { producer } => (producer, ('s', 0, 0)),
        Op::Close { producer } => (producer, ('x', 0, 0)),
        Op::TakeUp { producer } => (producer, (if producer { 'P' } else { 'C' }, N as u64, depth)),
        Op::Poke { .. } | Op::Killed { .. } => return None,
    };
    (producer == (in_c == CSide::Producer)).then_some(command)
}

/// What [`Op::Killed`] is made of, its last step first.
fn killed<const N: usize>(produced: u64, depth: u32, unnoted: u32, torn: u32) -> Vec<Op> {
    let poke = |index: usize, value| Op::Poke { producer: true, index: index as u32, value };
    let batch = (1..=u64::from(torn)).map(|i| produced.wrapping_add(i));
    let noted = produced.saturating_sub(unnoted.into());
    let last = [Op::TakeUp { producer: true }, poke(header::POSITION, noted)];
    last.into_iter().chain(batch.map(|p| poke(at::<N>(p, depth), stamp(p).into()))).collect()
}

/// Does the operations in both windows. After each, results and all bytes agree.
pub fn run<const N: usize>(depth: u32, in_c: CSide, ops: &[Op]) {
    let shape = Shape::new(N as u32, depth).unwrap();
    let (ours, mixed) = (Window::new(shape), Window::new(shape));
    let mut rust = Ends::<N> { producer: ours.producer(), consumer: ours.consumer() };
    let mut beside = Ends::<N> { producer: mixed.producer(), consumer: mixed.consumer() };
    let mut peer = Peer::start(&mixed);
    let (init, other) = match in_c {
        CSide::Producer => ('P', "the producer"),
        CSide::Consumer => ('C', "the consumer"),
    };
    assert_eq!(peer.ask(init, N as u64, depth), ("0".to_owned(), 0, 0));
    let mut todo: Vec<Op> = ops.iter().rev().copied().collect();
    while let Some(op) = todo.pop() {
        if let Op::Killed { unnoted, torn } = op {
            todo.extend(killed::<N>(rust.producer.produced(), depth, unnoted, torn));
            continue;
        }
        let expected = rust.step(&ours, op);
        let found = match command::<N>(op, depth, in_c) {
            Some((what, a, b)) => {
                let (found, position, _) = peer.ask(what, a, b);
                let expected = match in_c {
                    CSide::Producer => rust.producer.produced(),
                    CSide::Consumer => rust.consumer.consumed(),
                };
                assert_eq!(position, expected, "{other} in C counts otherwise, after {op:?}");
                found
            }
            None => beside.step(&mixed, op),
        };
        assert_eq!(found, expected, "{other} in C, {op:?}");
        let (a, b) = (ours.contents(), mixed.contents());
        let differs = (0..a.len()).find(|&i| a[i] != b[i]);
        assert_eq!(differs, None, "{other} in C: the first byte that differs, after {op:?}");
    }
}

/// Sides that are too short for their queue, and one that is just long enough.
pub fn short_sides() {
    let shape = Shape::new(64, 128).unwrap();
    let (out, into) = (shape.producer_bytes(), shape.consumer_bytes());
    let window = Window::new(shape);
    let mut peer = Peer::start(&window);
    // What an end does at first shows in its header: that it is awake.
    window.producer.store(header::SLEEPS, 1, Ordering::Relaxed);
    window.consumer.store(header::SLEEPS, 1, Ordering::Relaxed);
    let before = window.contents();
    for end in ['P', 'C'] {
        for (a, b) in [(out - 1, into), (out - 4096, into), (0, into), (out, into - 1), (out, 0)] {
            peer.ask('o', a, 0);
            peer.ask('i', b, 0);
            assert_eq!(peer.ask(end, 64, 128).0, "-1", "{end}: {a} and {b} bytes");
            assert_eq!(peer.ask(end, 63, 128).0, "-1", "no such shape");
            assert!(window.contents() == before, "{end}: {a} and {b} bytes were touched");
        }
    }
    peer.ask('o', out, 0);
    peer.ask('i', into, 0);
    assert_eq!((peer.ask('P', 64, 128).0, peer.ask('C', 64, 128).0), ("0".into(), "0".into()));
    assert!(window.contents() != before);
}
