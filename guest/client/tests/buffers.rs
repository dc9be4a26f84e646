//! Buffers that both sides write, against a host that the tests play.

use crate::fake;

use fake::{Fake, Reply, Setup};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun::*;
use vfun_wire::channel::in_header;
use vfun_wire::header::WindowHeader;
use vfun_wire::message::*;
use vfun_wire::range::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

const BUFFER_GET: u16 = 16;
const HELLO: u16 = 1;

/// Reads and writes a buffer's first byte by its pointer, as C does.
fn peek(b: &Buffer) -> u8 {
    let mut byte = [0xff];
    memory().read_exact_at(&mut byte, b.as_ptr() as u64).unwrap();
    byte[0]
}

fn poke(b: &Buffer, byte: u8) {
    memory().write_all_at(&[byte], b.as_ptr() as u64).unwrap();
}

fn memory() -> File {
    File::options().read(true).write(true).open("/proc/self/mem").unwrap()
}

/// Where the last buffer lies in the window, in words.
fn place(fake: &Fake) -> usize {
    fake.host.buffers.lock().unwrap().last().unwrap().2.offset.get() as usize / 8
}

fn count(fake: &Fake) -> usize {
    fake.host.buffers.lock().unwrap().len()
}

#[test]
fn both_sides_write_the_same_bytes() {
    for setup in [Setup::default(), Setup { pci: true, ..Setup::default() }] {
        let fake = Fake::new(setup);
        let s = fake.connect();
        let f = s.function("echo").unwrap();
        let b = s.buffer(1 << 20).unwrap();
        assert_eq!((b.len(), b.is_empty()), (1 << 20, false));
        let mut bytes = vec![1; 1 << 20];
        b.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&x| x == 0));
        let words: Vec<u8> = (0..1u64 << 17).flat_map(u64::to_le_bytes).collect();
        b.write(0, &words).unwrap();
        let sum = (0..1u64 << 17).sum::<u64>().to_le_bytes();
        let ask = [b"!sum", b.handle().to_le_bytes().as_slice()].concat();
        assert_eq!(f.call(&ask).unwrap(), sum);
        b.read(0, &mut bytes).unwrap();
        assert!(bytes.chunks(8).all(|w| w == sum), "the host's words are here, uncopied");
        b.close().unwrap();
        assert_eq!(count(&fake), 0);
        assert!(matches!(f.call(&ask), Err(Error::Driver { code: 9, .. })));
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_limit() {
    let fake = Fake::honest();
    let s = fake.connect();
    let no = |r: BufferRequest| s.buffer(r).err().unwrap().to_string();
    assert!(no(BufferRequest::new(0)).contains("0 bytes is not possible"));
    assert!(no(BufferRequest::new(usize::MAX)).contains("not possible"));
    for align in [0, 1, 2048, 4097, 12288, 4 << 20] {
        let said = no(BufferRequest::new(1).align(align));
        assert!(said.contains("from 4096 to 2097152"), "{said}");
    }
    assert_eq!(fake.host.buffers_given.load(Ordering::SeqCst), 0, "nothing was sent");
    assert!(no(BufferRequest::new(3 << 20).contiguous(true)).contains("2 MiB at most"));
    assert!(no(BufferRequest::new(1 << 40)).contains("the window is full"));
    let b = s.buffer(BufferRequest::new(5000).align(2 << 20).contiguous(true)).unwrap();
    let asked = fake.host.buffers.lock().unwrap()[0].1;
    assert_eq!((asked.bytes.get(), asked.align.get(), asked.flags.get()), (5000, 2 << 20, 1));
    assert_eq!(asked.grant.get(), 0);
    let mut room = [0; 2];
    for off in [4999, 5000, usize::MAX] {
        let e = b.write(off, b"ab").unwrap_err();
        assert!(matches!(&e, Error::BadOption(what) if what.contains("a buffer of 5000")), "{e}");
        assert!(matches!(b.read(off, &mut room), Err(Error::BadOption(_))));
    }
    b.write(4998, b"ab").unwrap();
    b.read(4998, &mut room).unwrap();
    assert_eq!(&room, b"ab");
}

#[test]
fn a_buffer_ends_with_its_function_its_session_and_itself() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let (of_f, of_s) = (f.buffer(4096).unwrap(), s.buffer(4096).unwrap());
    assert_eq!(fake.host.buffers.lock().unwrap()[0].1.grant.get(), f.info().grant);
    of_f.write(0, b"mine").unwrap();
    of_s.write(0, b"mine").unwrap();
    let at = place(&fake);
    drop(s.buffer(4096).unwrap());
    assert_eq!(count(&fake), 2, "dropped, so given back");

    f.release().unwrap();
    assert!(matches!(of_f.check(), Err(Error::Released)));
    // The next one has its pages, and nothing of the old one reaches them.
    let next = s.buffer(4096).unwrap();
    poke(&of_f, 9);
    assert!(matches!(of_f.write(0, b"late"), Err(Error::Released)));
    let mut got = [1; 4];
    next.read(0, &mut got).unwrap();
    assert_eq!(got, [0; 4]);
    of_f.close().unwrap();

    s.close().unwrap();
    for b in [&of_s, &next] {
        assert!(matches!(b.write(0, b"late"), Err(Error::Closed)));
        assert!(matches!(b.read(0, &mut got), Err(Error::Closed)));
        poke(b, 9);
    }
    assert_eq!(fake.host.window.load(at, Ordering::Relaxed) as u8, b'm', "let go of before");
    of_s.close().unwrap();
}

/// Its pages may be another's: nobody may map them in the place of memory.
#[test]
fn a_buffer_that_is_over_has_no_place_in_a_file() {
    for (pci, kind) in [(false, FileKind::Memory), (true, FileKind::Mapped)] {
        let fake = Fake::new(Setup { pci, ..Setup::default() });
        let s = fake.connect();
        let (b, other) = (s.buffer(4096).unwrap(), s.buffer(4096).unwrap());
        b.write(0, b"mine").unwrap();
        let read = |b: &Buffer| {
            b.in_file(|at| {
                let mut bytes = [0; 4];
                let file = File::from(at.file.try_clone_to_owned().unwrap());
                file.read_exact_at(&mut bytes, at.begin).unwrap();
                (at.kind, bytes)
            })
        };
        assert_eq!(read(&b), Ok((kind, *b"mine")));
        s.close().unwrap();
        assert_eq!(read(&b), Err(Unmovable::BufferOver));
        // Nobody had looked at this one since.
        let s = fake.connect();
        let b = s.buffer(4096).unwrap();
        let generation = std::mem::offset_of!(WindowHeader, generation) / 8;
        fake.host.window.store(generation, fake::GENERATION + 1, Ordering::Release);
        assert_eq!(read(&b), Err(Unmovable::BufferOver));
        drop(other);
    }
}

#[test]
fn a_grant_that_the_host_ends_takes_its_buffers_along() {
    let fake = Fake::honest();
    let s = fake.connect();
    let f = s.function("echo").unwrap();
    let (of_f, of_s) = (f.buffer(4096).unwrap(), s.buffer(4096).unwrap());
    of_f.write(0, b"mine").unwrap();
    let place = fake.host.places.lock().unwrap()[0].1;
    let head = place.head().offset.get() as usize / 8 + in_header::BROKEN;
    let released = u64::from(BreakReason::Released.to_wire());
    fake.host.window.store(head, released, Ordering::Release);
    assert!(matches!(of_f.read(0, &mut [0; 4]), Err(Error::Released)));
    assert_eq!(peek(&of_f), 0, "the window is let go of");
    of_s.check().unwrap();
    // This host's service goes on. A call that has to wait for it finds out, and one has to
    // once the service sleeps.
    let ends = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        f.call(b"x").err()
    });
    assert!(matches!(ends, Some(Error::Released)), "{ends:?}");
    assert!(matches!(f.buffer(1), Err(Error::Released)), "the function has no more");
}

#[test]
fn a_window_that_is_laid_out_anew_ends_buffers() {
    let fake = Fake::honest();
    let s = fake.connect();
    let b = s.buffer(4096).unwrap();
    b.write(0, b"mine").unwrap();
    let at = place(&fake);
    let generation = std::mem::offset_of!(WindowHeader, generation) / 8;
    fake.host.window.store(generation, fake::GENERATION + 1, Ordering::Release);
    assert!(matches!(b.write(0, b"late"), Err(Error::StaleGeneration { .. })));
    poke(&b, b'x');
    assert_eq!(fake.host.window.load(at, Ordering::Relaxed) as u8, b'm');
    assert!(matches!(b.check(), Err(Error::StaleGeneration { .. })), "it says so again");
}

#[test]
fn threads_use_a_buffer_while_it_ends() {
    let fake = Fake::honest();
    let s = fake.connect();
    let b = s.buffer(64 << 10).unwrap();
    std::thread::scope(|scope| {
        for n in 0..3usize {
            let b = &b;
            scope.spawn(move || {
                let mut room = [0; 1000];
                while b.write(n * 1000, &[n as u8; 1000]).is_ok()
                    && b.read(n * 1000, &mut room).is_ok()
                {
                    assert!(
                        room.iter().all(|&x| x == n as u8),
                        "what was read, and not an end's zeros"
                    );
                }
            });
        }
        for _ in 0..200 {
            s.buffer(4096).unwrap();
        }
        s.close().unwrap();
    });
    assert!(matches!(b.check(), Err(Error::Closed)));
}

#[test]
fn a_host_that_is_too_old_is_named() {
    let fake = Fake::spoiled(|r| {
        if r.request == HELLO {
            let mut ack = HelloAck::read_from_bytes(&r.body).unwrap();
            ack.features = U64::new(ack.features.get() & !Features::BUFFERS.0);
            r.body = ack.as_bytes().to_vec();
        }
    });
    let e = fake.connect().buffer(1).unwrap_err();
    assert!(matches!(e, Error::Unsupported(what) if what.contains("too old")), "{e}");
    let gateway = fake::Gateway::new(None);
    let endpoint = format!("tcp:{}", gateway.address).parse().unwrap();
    let s = ConnectOptions::new("test").endpoint(endpoint).connect().unwrap();
    let e = s.buffer(1).unwrap_err();
    assert!(matches!(e, Error::Unsupported(what) if what.contains("TCP")), "{e}");
}

#[test]
fn nonsense_about_a_buffer_is_named_and_the_buffer_given_back() {
    type Bend = (&'static str, fn(&mut BufferAck));
    let bends: &[Bend] = &[
        ("who writes a range is unknown", |a| a.range.access = 9),
        ("is not for both sides", |a| a.range.access = 1),
        ("reserved", |a| a.range.reserved1 = U32::new(1)),
        ("has 4096 bytes where 8192 were due", |a| a.range.bytes = U64::new(4096)),
        ("has 12288 bytes where 8192 were due", |a| a.range.bytes = U64::new(12288)),
        ("outside the window's heap", |a| a.range.offset = U64::new(4096)),
        ("outside the window's heap", |a| a.range.bytes = U64::new(1 << 30)),
        ("whole pages", |a| a.range.offset += 8),
        ("which is not mapped here", |a| a.range.window = U16::new(3)),
        ("no multiple of 8192", |a| a.range.offset += 4096),
    ];
    for (what, bend) in bends {
        let bend = *bend;
        let fake = bent(bend);
        let s = fake.connect();
        let e = s.buffer(BufferRequest::new(8192).align(8192)).unwrap_err();
        assert!(matches!(&e, Error::HostNonsense(said) if said.contains(what)), "{what}: {e}");
        assert_eq!(
            (count(&fake), fake.host.buffers_given.load(Ordering::SeqCst)),
            (0, 1),
            "{what}"
        );
    }
    let e = bent(|a| a.buffer = U64::ZERO).connect().buffer(1).unwrap_err();
    assert!(matches!(&e, Error::HostNonsense(said) if said.contains("no handle")), "{e}");
    let none = bent(|a| a.range = Range::NONE).connect().buffer(1).unwrap_err();
    assert!(matches!(none, Error::HostNonsense(_)), "{none}");
}

/// A host whose answers to buffer-get are bent.
fn bent(bend: fn(&mut BufferAck)) -> Fake {
    let spoil = move |r: &mut Reply| {
        if r.request == BUFFER_GET {
            let mut ack = BufferAck::read_from_bytes(&r.body).unwrap();
            bend(&mut ack);
            r.body = ack.as_bytes().to_vec();
        }
    };
    Fake::new(Setup { spoil: Some(Arc::new(spoil)), ..Setup::default() })
}
