//! A program for tests in guests: does one thing, says what came of it in one
//! line, and exits with 7 if a call or request failed.
//!
//!   vfun-vm-app loop FUNCTION HEX SECONDS   calls, one after the other
//!   vfun-vm-app storm FUNCTION HEX SECONDS  the same under a storm of SIGALRM
//!   vfun-vm-app reach                       what of the window it can map
//!   vfun-vm-app first                       from connecting to the first result, µs
//!   vfun-vm-app null CALLS                  a null call, median and others, ns
//!   vfun-vm-app buffer                      shares memory with the host until it is killed
//!   vfun-vm-app any ROUNDS                  waits for one of two calls by a descriptor
//!   vfun-vm-app queues                      has entries of queues sent back, and waits for
//!                                           the queues' end
//!   vfun-vm-app handles GRANT RESOURCE      what is answered to it without the library, in
//!                                           the window of this PCI device, for others' handles
//!   vfun-vm-app word RESOURCE OFFSET [HEX]  the word there in the window of this PCI device,
//!                                           and writes another one
//!   vfun-vm-app scribble RESOURCE SEED      writes anything into this memory of a PCI device
//!   vfun-vm-app bulk                        has the host's driver fill a buffer, says so,
//!                                           and waits for the buffer's end
//!   vfun-vm-app bond-agent BOND FILE        the agent's own steps, by the order in the file;
//!                                           prints its reports
//!   vfun-vm-app port NAME ADDRESS           has this port of the VM, and answers pings to it
//!   vfun-vm-app udp-echo PORT               sends each packet back
//!   vfun-vm-app udp-sink PORT FILE          hears numbers, and writes them into the file
//!   vfun-vm-app udp-heard FILE FROM TO      how many of these numbers did not come, and the
//!                                           longest time between two that did, ms
//!   vfun-vm-app udp-order FILE FROM TO      of these numbers: how many did not come, came again,
//!                                           and came behind a later one
//!   vfun-vm-app udp-gaps FILE FROM TO       times between these numbers, µs: the median, p99.9, and
//!                                           the longest
//!   vfun-vm-app udp-last FILE               the last number that came
//!   vfun-vm-app udp-source TO EVERY [COUNT] sends a number each so many µs
//!   vfun-vm-app udp-while TO EVERY FILE     the same as long as there is a file; prints how many
//!   vfun-vm-app fill HOW BYTES HEX          has the host's driver fill a buffer with each byte
//!                                           of HEX, all at once; HOW may be 'contiguous'

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vfun::{Buffer, BufferRequest, ConnectOptions, Error, Function, Result, Session, Waiter};
use vfun_tests_local::raw::Raw;
use vfun_tests_vm::oneway;
use vfun_window::{Access, Mapping};
use vfun_wire::limits::BUFFERS;
use vfun_wire::message::Kind;
use vfun_wire::{Handle, PAGE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["loop", function, hex, seconds] => calls(function, &bytes(hex), number(seconds)),
        ["storm", function, hex, seconds] => {
            storm::begin();
            calls(function, &bytes(hex), number(seconds))
        }
        ["reach"] => reach(),
        ["first"] => first(),
        ["null", calls] => null(number(calls)),
        ["buffer"] => buffer(),
        ["any", rounds] => any(number(rounds)),
        ["queues"] => vfun_tests_vm::queues::until_lost(),
        ["handles", grant, resource] => handles(grant, Path::new(resource)),
        ["word", resource, offset] => word(Path::new(resource), number(offset), None),
        ["word", resource, offset, hex] => {
            word(Path::new(resource), number(offset), Some(bytes(hex)))
        }
        ["scribble", resource, seed] => {
            vfun_tests_vm::scribble::without_end(Path::new(resource), number(seed))
        }
        ["bulk"] => bulk(),
        ["bond-agent", bond, file] => vfun_tests_vm::orders::agent(bond, file.into()),
        ["port", name, address] => {
            vfun_tests_vm::ownport::serve(name, address.parse().expect("an address"))
        }
        ["fill", how, size, hex] => {
            let request = BufferRequest::new(number(size) as usize);
            fill(request.contiguous(*how == "contiguous"), &bytes(hex))
        }
        other => datagrams(other),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let shown = format!("{e:?}");
            let name: String = shown.chars().take_while(char::is_ascii_alphanumeric).collect();
            println!("error {name}: {e}");
            ExitCode::from(7)
        }
    }
}

/// What begins with `udp-`.
fn datagrams(words: &[&str]) -> Result<()> {
    match words {
        ["udp-echo", port] => udp_echo(number(port) as u16),
        ["udp-sink", port, file] => oneway::sink(number(port) as u16, Path::new(file)),
        ["udp-heard", file, from, to] => {
            let (lost, ms) = oneway::heard(Path::new(file), number(from)..number(to));
            println!("{lost} {ms}");
            Ok(())
        }
        ["udp-order", file, from, to] => {
            let oneway::Order { lost, repeated, late } =
                oneway::order(Path::new(file), number(from)..number(to));
            println!("{lost} {repeated} {late}");
            Ok(())
        }
        ["udp-gaps", file, from, to] => {
            let gaps = oneway::gaps(Path::new(file), number(from)..number(to));
            let at = |share: f64| gaps[((gaps.len() - 1) as f64 * share) as usize];
            println!("{} {} {}", at(0.5), at(0.999), at(1.0));
            Ok(())
        }
        ["udp-last", file] => {
            println!("{}", oneway::last(Path::new(file)).expect("a number came"));
            Ok(())
        }
        ["udp-source", to, every, count] => {
            let to = to.parse().expect("an address and a port");
            oneway::sends(to, Duration::from_micros(number(every)), number(count));
            Ok(())
        }
        ["udp-while", to, every, file] => udp_while(to, number(every), Path::new(file)),
        ["udp-source", to, every] => {
            let to = to.parse().expect("an address and a port");
            oneway::source(to, Duration::from_micros(number(every)))
        }
        other => panic!("no such thing to do: {other:?}"),
    }
}

fn udp_while(to: &str, every: u64, file: &Path) -> Result<()> {
    let to = to.parse().expect("an address and a port");
    println!("{}", oneway::sends_while(to, Duration::from_micros(every), file));
    Ok(())
}

fn udp_echo(port: u16) -> Result<()> {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", port)).expect("the port is free");
    let mut bytes = [0; 2048];
    loop {
        if let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..n], from);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn connect() -> Result<Session> {
    let session = ConnectOptions::new("vm-app").connect()?;
    eprintln!("{}", session.describe());
    Ok(session)
}

/// A buffer that the test driver fills, read until it is over: the error of that. Calls
/// of the same session go on, and it may have as many buffers as before.
fn bulk() -> Result<()> {
    const BYTES: u64 = 3 * PAGE as u64;
    let session = connect()?;
    let (driver, echo) = (session.function("misbehave")?, session.function("echo")?);
    let buffer = session.buffer(BYTES as usize)?;
    let fill = filling(&buffer, 0x5a);
    driver.call(&fill)?;
    // At this one nobody looks before its function is released.
    let _of_function = echo.buffer(PAGE)?;
    println!("filled {}", count(&buffer, 0x5a)?);
    let over = loop {
        echo.call(b"hello")?;
        if let Err(e) = buffer.check() {
            break e;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    echo.call(b"hello")?;
    let refused = driver.call(&fill).map(drop);
    println!("over {over}; the driver: {}", refused.is_err());
    for function in [driver, echo] {
        function.release()?;
    }
    let all: Vec<Buffer> = (0..BUFFERS).map(|_| session.buffer(PAGE)).collect::<Result<_>>()?;
    all.iter().try_for_each(Buffer::check)
}

/// What asks the test driver, in its mode for buffers, to set each byte of one.
fn filling(buffer: &Buffer, byte: u8) -> Vec<u8> {
    let words = [buffer.handle(), 0, buffer.len() as u64].map(u64::to_le_bytes).concat();
    [&[26, 1, byte, 0, 0, 0, 0, 0], words.as_slice()].concat()
}

/// How many bytes of it are this one.
fn count(buffer: &Buffer, byte: u8) -> Result<usize> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes)?;
    Ok(bytes.iter().filter(|b| **b == byte).count())
}

/// Gets a buffer for each of some bytes, has the driver fill each with its byte, and says
/// how much of each was zero before and is that byte now.
fn fill(request: BufferRequest, with: &[u8]) -> Result<()> {
    let session = connect()?;
    let driver = session.function("misbehave")?;
    let mut held = vec![];
    for &byte in with {
        let buffer = session.buffer(request)?;
        let zero = count(&buffer, 0)?;
        driver.call(&filling(&buffer, byte))?;
        println!("zero {zero} filled {}", count(&buffer, byte)?);
        held.push(buffer);
    }
    held.into_iter().try_for_each(Buffer::close)
}

/// Crashes of a service are one call's error and no reason to end.
fn goes_on(e: &Error) -> bool {
    matches!(e, Error::DriverCrashed | Error::ServiceLost)
}

fn calls(function: &str, args: &[u8], seconds: u64) -> Result<()> {
    let session = connect()?;
    let f = session.function(function)?;
    let (start, mut made, mut failed) = (Instant::now(), 0u64, 0u64);
    println!("begun");
    while start.elapsed() < Duration::from_secs(seconds) {
        match f.call(args) {
            Ok(results) => {
                assert!(function != "echo" || results == args, "somebody else's results");
                made += 1;
            }
            Err(e) if goes_on(&e) => failed += 1,
            Err(e) => return Err(e),
        }
    }
    println!("made {made} failed {failed} signals {}", storm::count());
    f.release()?;
    session.close()
}

/// Tries to map every page of the window, through a file of its own, while
/// other programs have channels in it.
fn reach() -> Result<()> {
    let session = connect()?;
    let pages = session.info().window_bytes as usize / PAGE;
    let open = |write| std::fs::File::options().read(true).write(write).open("/dev/vfun0").unwrap();
    let file = open(true);
    let can =
        |page: usize, len, access| Mapping::new(&file, (page * PAGE) as u64, len, access).is_ok();
    let count = |access| (0..pages).filter(|&page| can(page, PAGE, access)).collect::<Vec<_>>();
    println!("read {:?} write {:?}", count(Access::Read), count(Access::ReadWrite));
    println!(
        "whole {} {} beyond {} {}",
        can(0, pages * PAGE, Access::Read),
        can(0, 2 * PAGE, Access::Read),
        can(pages, PAGE, Access::Read),
        can(usize::MAX / PAGE / 2, PAGE, Access::Read),
    );
    session.close()
}

fn first() -> Result<()> {
    let start = Instant::now();
    let session = ConnectOptions::new("vm-app").connect()?;
    let f = session.function("null")?;
    f.call(&[])?;
    println!("{}", start.elapsed().as_micros());
    f.release()?;
    session.close()
}

fn null(calls: u64) -> Result<()> {
    let session = connect()?;
    let f = session.function("null")?;
    let mut times: Vec<u64> = (0..calls).map(|_| one(&f)).collect::<Result<_>>()?;
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("p10 {} p50 {} p90 {} p99 {}", at(0.1), at(0.5), at(0.9), at(0.99));
    f.release()?;
    session.close()
}

/// The host writes a buffer and this program reads it, then the other way round. Nothing
/// of it is in a call's arguments or results.
fn buffer() -> Result<()> {
    const BYTES: usize = 1 << 20;
    const FILL: u8 = 1;
    const SUM: u8 = 0;
    let session = connect()?;
    let f = session.function("misbehave")?;
    let b = session.buffer(BufferRequest::new(BYTES).align(2 << 20))?;
    let ask = |op: u8, value: u8| {
        let words = [b.handle(), 0, BYTES as u64].map(u64::to_le_bytes).concat();
        [&[26, op, value, 0, 0, 0, 0, 0], words.as_slice()].concat()
    };
    let mut bytes = vec![0; BYTES];
    f.call(&ask(FILL, 0x5a))?;
    b.read(0, &mut bytes)?;
    assert!(bytes.iter().all(|&byte| byte == 0x5a), "the host's bytes");
    let mine: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    b.write(0, &mine)?;
    let sum: u64 = mine.iter().map(|&byte| u64::from(byte)).sum();
    assert_eq!(f.call(&ask(SUM, 0))?, sum.to_le_bytes());
    println!("shared {BYTES} bytes, sum {sum}");
    loop {
        std::thread::park();
    }
}

/// How often a descriptor told of the first of two answers before its own timer did.
fn any(rounds: u64) -> Result<()> {
    let session = connect()?;
    let (slow, fast) = (session.function("misbehave")?, session.function("misbehave")?);
    let takes = |ms: u32| [&[6][..], &ms.to_le_bytes()].concat();
    let (mut waiter, mut told) = (Waiter::new()?, 0);
    for _ in 0..rounds {
        let calls = [slow.submit(&takes(300))?, fast.submit(&takes(40))?];
        let mut late = false;
        let first = loop {
            if let Some(first) = waiter.arm(&calls)?.first() {
                break *first;
            }
            // Its timer is of 1 ms at first, then of a second.
            late |= !readable(&waiter, Duration::from_millis(900));
        };
        assert!(late || first == 1, "the slow one is not the first");
        told += u64::from(!late);
        calls.into_iter().try_for_each(|call| call.wait().map(drop))?;
    }
    println!("told {told} of {rounds}");
    slow.release()?;
    fast.release()?;
    session.close()
}

fn readable(waiter: &Waiter, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(waiter, PollFlags::IN)], Some(&limit)).is_ok_and(|n| n > 0)
}

/// Asks with a grant's handle that is not this VM's, and with each session's that there
/// may be, and prints what came of it: sessions of this VM alone are known here.
fn handles(grant: &str, resource: &Path) -> Result<()> {
    let (index, generation) = grant.split_once('.').expect("as vfun ps shows it");
    let grant = Handle::new(number(index) as u32, number(generation) as u32);
    let mut raw = Raw::of_file(resource);
    let own = raw.hello();
    for kind in [Kind::Activate, Kind::Stats, Kind::Release] {
        let got = raw.ask(kind, own, &grant.0.to_le_bytes());
        println!("{kind} {}", got.map_or_else(|n| format!("{:?}", n.code), |_| "done".into()));
    }
    let generation = Handle(own).generation();
    let all = (0..16).flat_map(|i| (1..=generation).map(move |g| Handle::new(i, g).0));
    let granted = all.filter(|s| *s != own && raw.ask(Kind::KeepAlive, *s, &[0; 8]).is_ok());
    println!("other sessions {}", granted.count());
    println!("own {}", raw.ask(Kind::Goodbye, own, &[0; 8]).is_ok());
    Ok(())
}

/// The word at an offset of a device's window, its first byte first.
fn word(resource: &Path, offset: u64, write: Option<Vec<u8>>) -> Result<()> {
    let raw = Raw::of_file(resource);
    let mut word = [0; 8];
    raw.window.read(offset as usize, &mut word).expect("inside");
    println!("{}", word.map(|b| format!("{b:02x}")).concat());
    if let Some(bytes) = write {
        raw.window.write(offset as usize, &bytes).expect("inside");
    }
    Ok(())
}

/// A batch, so that the clock's own time does not count.
fn one(f: &Function) -> Result<u64> {
    const BATCH: u64 = 64;
    let start = Instant::now();
    for _ in 0..BATCH {
        f.call_into(&[], &mut [])?;
    }
    Ok(start.elapsed().as_nanos() as u64 / BATCH)
}

/// SIGALRM every millisecond, with a handler that does not restart system calls.
mod storm {
    #![allow(unsafe_code)]
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicU64, Ordering};

    static SIGNALS: AtomicU64 = AtomicU64::new(0);

    pub fn count() -> u64 {
        SIGNALS.load(Ordering::Relaxed)
    }

    extern "C" fn handler(_: c_int) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    #[repr(C)]
    struct Timer {
        interval: [i64; 2],
        first: [i64; 2],
    }

    unsafe extern "C" {
        fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
        fn siginterrupt(number: c_int, on: c_int) -> c_int;
        fn setitimer(which: c_int, new: *const Timer, old: *mut Timer) -> c_int;
    }

    pub fn begin() {
        const SIGALRM: c_int = 14;
        const ITIMER_REAL: c_int = 0;
        let timer = Timer { interval: [0, 1000], first: [0, 1000] };
        // SAFETY: the handler only adds to an atomic; the timer is laid out as
        // the system's two pairs of 64-bit seconds and microseconds.
        let done = unsafe {
            signal(SIGALRM, handler);
            siginterrupt(SIGALRM, 1) | setitimer(ITIMER_REAL, &timer, std::ptr::null_mut())
        };
        assert_eq!(done, 0);
    }
}
