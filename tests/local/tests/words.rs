//! What manager and services say to each other, where it is much or late.

use std::sync::atomic::Ordering;
use std::time::Duration;
use vfun::FunctionRequest;
use vfun_admin::Ask;
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::{Stand, repo};
use vfun_wire::channel::{Command, Word0, Word1, line_off};
use vfun_wire::kind::Calls;
use vfun_wire::message::Kind;
use vfun_wire::place::ChannelPlace;
use zerocopy::IntoBytes;

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// More channels than a service's socket has room for words about them: they
/// are all opened again, by the next service and for the next manager.
#[test]
fn channels_by_the_hundred_are_opened_again() {
    const CHANNELS: u64 = 450;
    let mut stand = Stand::start();
    let many = "name = \"many\"\nkind = \"host\"\nwindow = \"32 MiB\"\nmax_grants = 1000\n";
    stand.add_client(many).unwrap();
    let session = stand.options("many").client("many").connect().unwrap();
    let request = FunctionRequest::new("echo").depth(1).cell_bytes(64);
    let one = || session.negotiate(&request).unwrap().activate().unwrap();
    let channels: Vec<_> = (0..CHANNELS).map(|_| one()).collect();
    let pid = |stand: &Stand| stand.grants()[0].pid.expect("it runs");
    let all_serve = |when: &str| {
        for (i, channel) in channels.iter().enumerate() {
            let sent = (i as u64).to_le_bytes();
            let got = channel.call(&sent).unwrap_or_else(|e| panic!("channel {i}, {when}: {e}"));
            assert_eq!(got, sent, "channel {i}, {when}");
        }
    };
    all_serve("at first");
    let first = pid(&stand);
    kill(first);
    all_serve("by the next service");
    let second = pid(&stand);
    assert_ne!(first, second);
    // The next manager finds the service dead: it opens all of them itself.
    stand.kill_vfund();
    kill(second);
    stand.start_vfund();
    all_serve("for the next manager");
    assert_eq!(stand.grants().len() as u64, CHANNELS);
    // The last channel may serve before the manager hears that it is open.
    stand.until("all are active", |s| s.grants().iter().all(|g| g.state == "active"));
}

/// Once a window's file is whole again, so is what a service has mapped of it:
/// one that still computes there would write into what is another's by then.
#[test]
fn a_window_is_laid_out_anew_when_nobody_computes_in_the_one_before() {
    let stand = Stand::start();
    let file = repo().join("services/testdriver/function.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("= 2000\n", "= 60000\n");
    assert!(text.contains("60000"));
    stand.ask(&Ask::AddFunction { manifest: text, file });
    let manifest =
        "name = \"vm1\"\nkind = \"vm\"\nwindow = \"2 MiB\"\ntransport = \"ivshmem-plain\"\n";
    stand.add_client(manifest).unwrap();
    let window = stand.root().join("virtfun-vm1");
    let mut raw = Raw::of_file(&window);
    let session = raw.hello();
    let grant = raw.ask(Kind::Negotiate, session, negotiate("misbehave").as_bytes()).unwrap();
    let ack = raw.ask(Kind::Activate, session, &grant[..8]).unwrap();
    let place = Calls::of(&ChannelPlace::read(&ack).unwrap().1).unwrap();
    // Another channel of the same service, in another window: the service is
    // not idle when the first one goes.
    let other = stand.options("other").client("vm1").connect().unwrap();
    let beside = other.function("misbehave").unwrap();
    assert_eq!(beside.call(&[0, 1]).unwrap(), [1]);
    let pid = stand.grants()[0].pid.expect("it runs");
    assert!(stand.grants().iter().all(|g| g.pid == Some(pid)), "one service");
    // A call that sleeps for half a minute.
    let at = (place.dataout as usize + line_off(0)) / 8;
    let call = [6u8, 0x30, 0x75, 0, 0];
    raw.window.write(8 * at + 16, &call).unwrap();
    let len = Word1 { len: call.len() as u32, status: 0 };
    raw.window.store(at + 1, len.pack(), Ordering::Relaxed);
    let set = Word0 { seq: 1, op: Command::Set.to_wire(), flags: 0, reserved: 0 };
    raw.window.store(at, set.pack(), Ordering::Release);
    let current = place.datain as usize / 8 + vfun_wire::channel::in_header::CURRENT;
    stand.until("it computes", |_| raw.window.load(current, Ordering::Acquire) != 0);
    std::fs::File::options().write(true).open(&window).unwrap().set_len(0).unwrap();
    let whole = || std::fs::metadata(&window).unwrap().len() == 2 << 20;
    stand.until("it is laid out anew", |_| whole());
    let gone = !std::path::Path::new(&format!("/proc/{pid}")).exists()
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| s.contains(") Z "));
    assert!(gone, "the service that computed in the window before is there still");
    // Whoever shared it gets another one.
    let again = || beside.call(&[0, 2]);
    let mut answer = again();
    while answer.is_err() {
        std::thread::sleep(Duration::from_millis(20));
        answer = again();
    }
    assert_eq!(answer.unwrap(), [2]);
}
