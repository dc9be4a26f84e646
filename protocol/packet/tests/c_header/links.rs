//! `include/vfun_link_ring.h`: the same operations meet the parties of a link in Rust and in
//! C. What each says and all bytes at the end must be equal.

use crate::common::plain::{Plain, Side, poke, zeroed};
use crate::common::{RING, frame, sum};
use crate::compile;
use crate::raced::Raced;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::cell::Cell;
use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vfun_packet::layout::{CONTROL_BYTES, header, line};
use vfun_packet::{
    Claims, Closer, Fence, Ledger, LinkPlace, LinkedReceiver, LinkedSender, Reading, Receiver,
    Ring, Rings, Sender,
};

/// An operation as the C program reads it: a letter and three numbers.
type LinkOp = (char, u64, u64, u64);

/// Sides by number: A's and its host's, B's and its host's, the link's two.
struct Parties {
    sides: Vec<Side>,
    halves: [Side; 2],
    tx: LinkedSender<Raced>,
    /// The link to which the host goes on between two loads of the sender.
    next: Rc<Cell<Option<u64>>>,
    rx: LinkedReceiver<Plain>,
    fence: Fence<Plain, Plain>,
    closer: Closer<Plain>,
    out: Sender<Plain>,
}

fn ring() -> Ring {
    Ring::new(RING).unwrap()
}

fn view(sides: &[Side], mine: usize, theirs: usize) -> Plain {
    Plain { mine: sides[mine].clone(), theirs: sides[theirs].clone() }
}

fn got(to: &[u8], found: Option<usize>) -> String {
    match found {
        None => "none".into(),
        Some(bytes) => format!("got {bytes} {}", sum(&to[..bytes])),
    }
}

fn bits(rings: Rings) -> String {
    (u8::from(rings.port) | u8::from(rings.link) << 1).to_string()
}

fn yes(is: bool) -> String {
    u8::from(is).to_string()
}

impl Parties {
    fn new() -> Self {
        let sides: Vec<Side> = (0..6).map(|_| zeroed(ring().side_bytes())).collect();
        let halves = [zeroed(line::WORDS as u64 * 8), zeroed(line::WORDS as u64 * 8)];
        let mut fence = Fence::new(view(&sides, 1, 0), ring());
        fence.line(view(&halves, 0, 1), 7, 0);
        let next: Rc<Cell<Option<u64>>> = Rc::default();
        Parties {
            tx: LinkedSender::new(Raced { plain: view(&sides, 0, 1), next: next.clone() }, ring()),
            next,
            rx: LinkedReceiver::new(view(&sides, 2, 3), ring()),
            closer: Closer::new(view(&halves, 1, 0), 7),
            out: Sender::new(view(&sides, 3, 2), ring()),
            fence,
            sides,
            halves,
        }
    }

    fn step(&mut self, op: LinkOp) -> String {
        match op.0 {
            's' | 'u' | 'r' | 'l' | 'A' | 'D' | 'g' | 't' | 'z' | 'B' | 'E' | 'H' => self.vm(op),
            _ => self.driver(op),
        }
    }

    fn vm(&mut self, (op, a, b, _): LinkOp) -> String {
        let (tx, rx) = (&mut self.tx, &mut self.rx);
        match op {
            's' => return put(tx.put(&frame(a as u32, b as u32)).is_ok()),
            'u' => return yes(tx.publish()),
            'r' => return bits(tx.must_ring()),
            'l' => return yes(tx.look()),
            'A' => {
                let link = Raced { plain: view(&self.sides, 4, 5), next: Rc::default() };
                return tx.attach(a, link, ring()).map_or("-1".into(), bits);
            }
            'g' => {
                let mut to = vec![0; a as usize];
                let found = rx.next(&mut to);
                return got(&to, found);
            }
            'z' => {
                rx.declare_sleep();
                return yes(rx.is_there());
            }
            'D' => return bits(tx.detach()),
            'H' => self.next.set(Some(a)),
            't' => rx.take(),
            'B' => rx.attach(a, view(&self.sides, 5, 4), ring()),
            _ => rx.detach(),
        }
        "-".into()
    }

    fn driver(&mut self, (op, a, b, c): LinkOp) -> String {
        let (fence, closer, out) = (&mut self.fence, &mut self.closer, &mut self.out);
        match op {
            'f' => {
                let mut to = vec![0; a as usize];
                let found = fence.next(&mut to);
                return format!("{} {}", fence.stamp(), got(&to, found));
            }
            'W' => return yes(fence.allow(a)),
            'O' => return yes(fence.is_over(a)),
            'q' => return put(closer.put(out, &frame(a as u32, b as u32), c).is_ok()),
            'c' => return put(out.put(&frame(a as u32, b as u32)).is_ok()),
            'n' => return yes(closer.run(out)),
            'e' => return yes(closer.expire(out)),
            'i' => return yes(closer.is_due()),
            'b' => return format!("{} {}", closer.late(), closer.behind()),
            'p' => return yes(out.publish()),
            'k' => fence.take(),
            'L' => {
                self.halves.iter().for_each(|h| (0..line::WORDS).for_each(|w| poke(h, w, 0)));
                fence.line(view(&self.halves, 0, 1), a, b);
                *closer = Closer::new(view(&self.halves, 1, 0), a);
            }
            // The half at A's port is made anew, and the other one goes on.
            'R' => {
                *fence = Fence::new(view(&self.sides, 1, 0), ring());
                fence.line(view(&self.halves, 0, 1), a, b);
            }
            'V' => drop(fence.unline()),
            'N' => fence.renew(view(&self.sides, 1, 0), ring()),
            'F' => fence.force(a),
            'w' => closer.renew(),
            'T' => self.take_up(a),
            _ => poke(&self.sides[(a % 6) as usize], (b % (4096 + RING) / 8) as usize, c),
        }
        "-".into()
    }

    fn take_up(&mut self, who: u64) {
        match who % 6 {
            // Ends that know no links.
            4 => drop(Sender::new(view(&self.sides, 0, 1), ring())),
            5 => drop(Receiver::new(view(&self.sides, 2, 3), ring())),
            0 => {
                let plain = view(&self.sides, 0, 1);
                self.tx = LinkedSender::new(Raced { plain, next: self.next.clone() }, ring());
            }
            1 => self.rx = LinkedReceiver::new(view(&self.sides, 2, 3), ring()),
            2 => self.fence = Fence::new(view(&self.sides, 1, 0), ring()),
            _ => self.out = Sender::new(view(&self.sides, 3, 2), ring()),
        }
    }

    fn memory(&self) -> Vec<u8> {
        let words = self.sides.iter().chain(&self.halves).flat_map(|side| side.iter());
        words.flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect()
    }
}

fn put(is: bool) -> String {
    if is { "put".into() } else { "no".into() }
}

/// Bytes of what the C program writes at its end.
const BYTES: usize = 6 * (4096 + RING as usize) + 2 * 8 * line::WORDS;

fn in_c(exe: &std::path::Path, ops: &[LinkOp]) -> (Vec<String>, Vec<u8>) {
    let mut child = Command::new(exe).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text: String = ops.iter().map(|(op, a, b, c)| format!("{op} {a} {b} {c}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let mut out = child.wait_with_output().unwrap().stdout;
    let memory = out.split_off(out.len() - BYTES);
    (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), memory)
}

/// Words that mean something to a link, by their bytes.
fn place() -> impl Strategy<Value = u64> {
    let named = prop::sample::select(vec![
        header::HEAD,
        header::TAIL,
        header::WAKE,
        header::OUT,
        header::ACK,
        header::MAKING,
        header::IN,
        header::OPEN,
        header::LINK_OUT,
        header::TURN,
        header::LINK_IN,
        header::FENCED_LINK,
        header::FENCED,
    ]);
    prop_oneof![3 => named.prop_map(|w| w as u64 * 8), 1 => 4096u64..8192]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..12,
        2 => (0u64..64).prop_map(|n| n * 64),
        2 => (0u64..6).prop_map(|kind| kind << 32 | CONTROL_BYTES),
        1 => any::<u64>(),
    ]
}

/// Numbers of frames that are far from others.
fn stamp() -> impl Strategy<Value = u64> {
    prop_oneof![20u64..200, (0u64..3, 0u64..9).prop_map(|(round, n)| round << 48 | n), any::<u64>()]
}

/// Mostly what honest parties do; a manager that turns at will, and pokes of anybody.
fn op() -> impl Strategy<Value = LinkOp> {
    let bytes = prop_oneof![6 => 1u64..200, 2 => 200u64..2100, 1 => Just(0u64)];
    let room = prop_oneof![6 => Just(4096u64), 1 => 0u64..200];
    let plain = |letters: &'static str| {
        let letters: Vec<char> = letters.chars().collect();
        prop::sample::select(letters).prop_map(|op| (op, 0, 0, 0))
    };
    let manager = prop::sample::select(vec![
        (header::TURN, 2),
        (header::TURN, 2),
        (header::TURN, 2),
        (header::TURN, 3),
        (header::TURN, 4),
        (header::TURN, 5),
        (header::LINK_OUT, 7),
    ]);
    prop_oneof![
        12 => (bytes.clone(), 0u64..1000).prop_map(|(a, b)| ('s', a, b, 0)),
        12 => plain("uurllt"),
        10 => room.clone().prop_map(|a| ('g', a, 0, 0)),
        12 => room.prop_map(|a| ('f', a, 0, 0)),
        10 => plain("kkknnppetzib"),
        6 => (bytes.clone(), 0u64..1000, 0u64..20).prop_map(|(a, b, c)| ('q', a, b, c)),
        1 => (bytes, 0u64..1000, stamp()).prop_map(|(a, b, c)| ('q', a, b, c)),
        2 => (1u64..200, 0u64..9).prop_map(|(a, b)| ('c', a, b, 0)),
        3 => manager.prop_map(|(word, turn)| ('P', 1, word as u64 * 8, turn)),
        1 => prop::sample::select(vec![7, 7, 0]).prop_map(|n| ('P', 3, header::LINK_IN as u64 * 8, n)),
        1 => prop::sample::select(vec![7u64, 8, 0]).prop_map(|n| ('H', n, 0, 0)),
        3 => (0u64..4).prop_map(|e| ('W', e, 0, 0)),
        1 => (0u64..4).prop_map(|e| ('F', e, 0, 0)),
        1 => (0u64..4).prop_map(|e| ('O', e, 0, 0)),
        1 => prop_oneof![9 => Just(7u64), 1 => 0u64..9].prop_map(|n| ('A', n, 0, 0)),
        1 => prop_oneof![9 => Just(7u64), 1 => 0u64..9].prop_map(|n| ('B', n, 0, 0)),
        1 => plain("DEVNwnnnnkkkkeeee"),
        1 => prop_oneof![9 => Just(7u64), 1 => 6u64..9]
            .prop_flat_map(|link| (0u64..4).prop_map(move |e| ('L', link, e, 0))),
        1 => (0u64..4).prop_map(|e| ('R', 7, e, 0)),
        1 => (0u64..6).prop_map(|who| ('T', who, 0, 0)),
        1 => (0u64..6, place(), value()).prop_map(|(s, b, c)| ('P', s, b, c)),
    ]
}

/// Both VMs have the link, and the manager lets them use it.
fn begin() -> Vec<LinkOp> {
    let word = |word: usize| word as u64 * 8;
    vec![
        ('P', 1, word(header::LINK_OUT), 7),
        ('P', 3, word(header::LINK_IN), 7),
        ('A', 7, 0, 0),
        ('B', 7, 0, 0),
        ('W', 1, 0, 0),
    ]
}

#[test]
fn links_in_c_do_what_those_in_rust_do() {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("links");
    let flags = ["-x", "c", "-std=c11", "-O2", "-D_POSIX_C_SOURCE=200809L"];
    compile::compile("cc", &flags, include_str!("links.c"), &exe);
    let (over_link, there) = (Cell::new(0), Cell::new(0));
    proptest!(ProptestConfig::with_cases(256), |(ops in prop::collection::vec(op(), 1..800))| {
        let ops: Vec<LinkOp> = begin().into_iter().chain(ops).collect();
        let mut parties = Parties::new();
        let said: Vec<String> = ops.iter().map(|op| parties.step(*op)).collect();
        let (c_said, memory) = in_c(&exe, &ops);
        for (n, (rust, c)) in said.iter().zip(&c_said).enumerate() {
            prop_assert_eq!(rust, c, "{} {:?}", n, &ops[..=n]);
        }
        prop_assert_eq!(said.len(), c_said.len());
        prop_assert!(parties.memory() == memory, "the memory differs");
        let came = parties.rx.link().map_or(0, |link| link.counts().frames);
        over_link.set(over_link.get() + came);
        there.set(there.get() + u64::from(came > 0));
    });
    let (over_link, there) = (over_link.get(), there.get());
    println!("{over_link} frames over the link, in {there} runs");
    // Some twenty or thirty runs are usual.
    assert!(over_link > 10 && there > 5, "links were hardly used: {over_link} in {there} runs");
}

#[test]
fn thousands_of_handovers_between_threads_in_c() {
    const FLIPS: u64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("threads");
    let flags = ["-x", "c", "-std=c11", "-O2", "-pthread"];
    compile::compile("cc", &flags, include_str!("threads.c"), &exe);
    let done = Command::new(&exe).arg(FLIPS.to_string()).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}");
    let counts: Vec<u64> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [sent, got, over_link, dropped] = counts[..] else { panic!("{said}") };
    println!(
        "{FLIPS} flips: {sent} sent, {got} came, {over_link} of them over the link, {dropped} dropped by the switch"
    );
    assert_eq!(got + dropped, sent);
    assert!(over_link >= 8 * FLIPS && over_link < got);
}

/// Prints what C reads in each word of its arguments.
const PLACES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include "vfun_link_ring.h"
int main(int count, char **words)
{
	struct vfun_link_place p;
	int n;

	for (n = 1; n < count; n++) {
		if (vfun_link_place_read(&p, strtoull(words[n], NULL, 10)))
			printf("%u %llu %llu %llu %llu\n", p.window, (unsigned long long)p.ring,
			       (unsigned long long)p.mine, (unsigned long long)p.theirs,
			       (unsigned long long)p.end);
		else
			printf("none\n");
	}
	return 0;
}
"#;

#[test]
fn a_place_is_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("places");
    compile::compile("cc", &["-x", "c", "-std=c11"], PLACES, &exe);
    let place = LinkPlace { window: 5, ring: 1 << 20, is_second: true };
    let mut words = vec![0, u64::MAX, place.word(), place.word() & !1, place.word() | 2];
    words.extend((0..64).map(|bit| place.word() ^ 1 << bit));
    let out = std::process::Command::new(&exe).args(words.iter().map(u64::to_string)).output();
    let said = String::from_utf8(out.unwrap().stdout).unwrap();
    let rust = |word: &u64| match LinkPlace::of(*word) {
        None => "none".into(),
        Some(p) => {
            let (mine, theirs) = p.sides();
            format!("{} {} {mine} {theirs} {}", p.window, p.ring, p.end())
        }
    };
    let wanted: Vec<String> = words.iter().map(rust).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted);
    assert!(wanted.iter().filter(|w| *w != "none").count() > 10);
}

/// Reads what a host believed, a ring's bytes and a reading, and says whether it is credible.
const LEDGER: &str = r#"
#include <stdio.h>
#include <inttypes.h>
#include "vfun_link_ledger.h"
static int claims(struct vfun_claims *c)
{
	return scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		     &c->sent, &c->sent_bytes, &c->full, &c->too_long, &c->taken, &c->taken_bytes,
		     &c->refused) == 7;
}
int main(void)
{
	struct vfun_claims believed;
	struct vfun_reading r;
	uint64_t ring;

	while (claims(&believed) && scanf("%" SCNu64, &ring) == 1 && claims(&r.claims) &&
	       scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &r.sent_later, &r.taken_later,
		     &r.refused_later, &r.starts) == 4)
		printf("%d\n", vfun_claims_are_credible(&believed, ring, &r));
	return 0;
}
"#;

/// Claims that honest ends could make, of rings of so many records, in the order of Claims.
fn some_claims() -> impl Strategy<Value = [u64; 7]> {
    let few = || prop_oneof![6 => 0u64..40, 2 => 0u64..3000];
    (few(), 1u64..130, 0u64..9, 0u64..9, few(), 0u64..130, 0u64..9).prop_map(
        |(sent, each, full, long, taken, per, refused)| {
            [sent, sent * each, full, long, taken.min(sent), taken.min(sent) * per, refused]
        },
    )
}

fn claims_of([sent, sent_bytes, full, too_long, taken, taken_bytes, refused]: [u64; 7]) -> Claims {
    Claims { sent, sent_bytes, full, too_long, taken, taken_bytes, refused }
}

/// A case: what is believed, by how much each count is more now, the looks after it, and one word that
/// is anything.
type Case = ([u64; 7], [u64; 7], [u64; 3], u64, Option<(usize, u64)>);

fn case() -> impl Strategy<Value = Case> {
    let more = prop::array::uniform3(prop_oneof![8 => 0u64..3, 1 => 0u64..90]);
    let edge = prop_oneof![
        2 => any::<u64>(),
        2 => (0u64..3).prop_map(|n| (1 << 40) + n - 1),
        1 => (0u64..3).prop_map(|n| u64::MAX - n),
    ];
    let wild = prop::option::weighted(0.3, (0usize..11, edge));
    (some_claims(), some_claims(), more, 0u64..22, wild)
}

/// What is believed, and what is read.
fn reading((believed, grown, more, starts, wild): Case) -> (Claims, Reading) {
    let mut now: [u64; 7] = std::array::from_fn(|n| believed[n].wrapping_add(grown[n]));
    let mut later =
        [now[0].wrapping_add(more[0]), now[4].wrapping_add(more[1]), now[6].wrapping_add(more[2])];
    let mut starts = starts;
    match wild {
        Some((n @ 0..=6, value)) => now[n] = value,
        Some((n @ 7..=9, value)) => later[n - 7] = value,
        Some((_, value)) => starts = value,
        None => {}
    }
    let [sent_later, taken_later, refused_later] = later;
    let reading =
        Reading { claims: claims_of(now), sent_later, taken_later, refused_later, starts };
    (claims_of(believed), reading)
}

#[test]
fn a_ledger_believes_alike() {
    let dir = tempfile::tempdir().unwrap();
    let exe = dir.path().join("ledger");
    compile::compile("cc", &["-x", "c", "-std=c11"], LEDGER, &exe);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rings = [4096, 8192, 1 << 21];
    let cases: Vec<(Claims, u64, Reading)> = (0..20_000)
        .map(|n| {
            let (believed, read) = reading(case().new_tree(&mut runner).unwrap().current());
            (believed, rings[n % rings.len()], read)
        })
        .collect();
    let words = |c: &Claims| {
        [c.sent, c.sent_bytes, c.full, c.too_long, c.taken, c.taken_bytes, c.refused]
            .map(|n| n.to_string())
            .join(" ")
    };
    let text: String = cases
        .iter()
        .map(|(believed, ring, r)| {
            let later = [r.sent_later, r.taken_later, r.refused_later, r.starts];
            let later = later.map(|n| n.to_string()).join(" ");
            format!("{} {ring} {} {later}\n", words(believed), words(&r.claims))
        })
        .collect();
    let mut child =
        Command::new(&exe).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || to.write_all(text.as_bytes()).unwrap());
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    writer.join().unwrap();
    let mut credible = 0;
    assert_eq!(said.lines().count(), cases.len());
    for ((believed, ring, read), c) in cases.iter().zip(said.lines()) {
        let mut ledger = Ledger::new(Ring::new(*ring).unwrap(), *believed);
        let is = ledger.look(*read).is_ok();
        assert_eq!(yes(is), c, "{believed:?} {ring} {read:?}");
        credible += u32::from(is);
    }
    // Both are tried, and neither seldom.
    assert!((2000..18_000).contains(&credible), "{credible} of 20000 are credible");
}
