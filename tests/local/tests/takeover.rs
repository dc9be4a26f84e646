//! A manager is killed at any moment; the one that takes its place goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use vfun::{Error, FunctionRequest};
use vfun_admin::{Ask, Reply};
use vfun_tests_local::vm::{device, pass_rings_on, qemu};
use vfun_tests_local::{Stand, Stop, number};

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

#[test]
fn calls_in_flight_and_sessions_outlive_many_managers() {
    let mut stand = Stand::start();
    let session = stand.connect("long");
    let slow = session.function("misbehave").unwrap();
    let echo = session.function("echo").unwrap();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                assert_eq!(number(&echo.call(&i.to_le_bytes()).unwrap()), i);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _end = Stop(&stop);
        for _ in 0..5 {
            // A call that is computed while the manager goes and comes.
            let call = slow.submit(&[6, 150, 0, 0, 0]).unwrap();
            stand.kill_vfund();
            stand.start_vfund();
            call.wait().unwrap();
            // And the grants are the same ones to the new manager.
            assert_eq!(stand.totals().2, 2);
            assert!(slow.stats().unwrap().calls > 0);
        }
    });
    assert!(calls.load(Ordering::Relaxed) > 100);
    slow.release().unwrap();
    echo.release().unwrap();
    session.close().unwrap();
    stand.until("all given back", |s| s.totals() == (s.totals().0, 0, 0, s.totals().3));
}

#[test]
fn what_is_asked_while_no_manager_is_there_is_answered_once() {
    let mut stand = Stand::start();
    let session = stand.connect("patient");
    stand.kill_vfund();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| session.function("echo").unwrap().call(b"late").unwrap());
        std::thread::sleep(Duration::from_millis(200));
        stand.start_vfund();
        assert_eq!(asked.join().unwrap(), b"late");
    });
    assert!(stand.totals().2 <= 1, "negotiated once: {:?}", stand.grants());
}

#[test]
fn activations_are_never_lost_whenever_the_manager_is_killed() {
    let mut stand = Stand::start();
    let session = stand.connect("unlucky");
    for delay in [0u64, 300, 700, 1_000, 1_500, 2_000, 3_000, 5_000] {
        std::thread::scope(|scope| {
            let active = scope.spawn(|| session.function("misbehave").unwrap());
            std::thread::sleep(Duration::from_micros(delay));
            stand.kill_vfund();
            stand.start_vfund();
            let f = active.join().unwrap();
            assert_eq!(f.call(&[0, 9]).unwrap(), [9], "killed after {delay} us");
            f.release().unwrap();
        });
    }
    stand.until("nothing is left over", |s| s.totals().2 == 0);
}

#[test]
fn a_service_that_dies_while_no_manager_is_there_is_found_dead() {
    let mut stand = Stand::start();
    let session = stand.connect("twice");
    let f = session.function("misbehave").unwrap();
    assert_eq!(f.call(&[0, 1]).unwrap(), [1]);
    let pid = stand.grants()[0].pid.expect("it runs");
    let call = f.submit(&[6, 255, 255, 0, 0]).unwrap();
    stand.until("busy", |_| call.state() == vfun::CellState::Busy);
    stand.kill_vfund();
    signal(pid, rustix::process::Signal::KILL);
    std::thread::sleep(Duration::from_millis(50));
    stand.start_vfund();
    // Failed, not computed a second time: it may have had effects.
    assert!(matches!(call.wait(), Err(Error::DriverCrashed)));
    assert_eq!(f.call(&[0, 2]).unwrap(), [2]);
    assert_ne!(stand.grants()[0].pid, Some(pid));
}

#[test]
fn an_app_that_ends_while_no_manager_is_there_is_cleaned_up() {
    let mut stand = Stand::start();
    let session = stand.connect("gone");
    let f = session.function("echo").unwrap();
    assert_eq!(f.call(b"x").unwrap(), b"x");
    stand.kill_vfund();
    drop((f, session));
    stand.start_vfund();
    stand.until("nothing is left", |s| s.totals() == (0, 0, 0, s.totals().3));
    let other = stand.connect("other");
    assert_eq!(other.function("echo").unwrap().call(b"y").unwrap(), b"y");
}

#[test]
fn a_hangup_starts_the_manager_anew_in_place() {
    let stand = Stand::start();
    let session = stand.connect("same");
    let echo = session.function("echo").unwrap();
    let status = || match stand.try_ask(&Ask::Status) {
        Ok(Reply::Status(s)) => Some(s),
        _ => None,
    };
    let before = status().expect("it serves");
    signal(before.pid, rustix::process::Signal::HUP);
    stand.until("anew", |_| status().is_some_and(|s| s.generation > before.generation));
    assert_eq!(status().expect("it serves").pid, before.pid, "the same process");
    assert_eq!(echo.call(b"on").unwrap(), b"on");
    echo.release().unwrap();
    assert_eq!(session.function("echo").unwrap().call(b"and on").unwrap(), b"and on");
}

/// What the command line named is gone: who is served needs a manager all the same.
#[test]
fn a_manager_goes_on_where_a_folder_of_functions_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let functions = folder.path().join("functions");
    std::fs::create_dir(&functions).unwrap();
    let named = functions.to_str().unwrap();
    let mut stand = Stand::with(&["--functions", named]);
    let session = stand.connect("served");
    let echo = session.function("echo").unwrap();
    let says = |s: &Stand| s.status().troubles.iter().any(|t| t.contains(named));
    let anew = |s: &Stand| {
        let before = s.status().generation;
        signal(s.pid(), rustix::process::Signal::HUP);
        s.until("anew", |s| {
            s.try_ask(&Ask::Status)
                .is_ok_and(|r| matches!(r, Reply::Status(s) if s.generation > before))
        });
    };
    assert!(!says(&stand));
    std::fs::remove_dir(&functions).unwrap();
    stand.kill_vfund();
    stand.start_vfund();
    assert!(says(&stand), "{:?}", stand.status().troubles);
    assert_eq!(echo.call(b"after a kill").unwrap(), b"after a kill");
    anew(&stand);
    assert!(says(&stand), "{:?}", stand.status().troubles);
    assert_eq!(echo.call(b"after a hangup").unwrap(), b"after a hangup");
    std::fs::create_dir(&functions).unwrap();
    anew(&stand);
    assert!(!says(&stand), "{:?}", stand.status().troubles);
    assert_eq!(echo.call(b"as before").unwrap(), b"as before");
}

#[test]
fn a_keeper_that_is_killed_is_replaced_and_knows_everything() {
    let mut stand = Stand::start();
    let session = stand.connect("kept");
    let echo = session.function("echo").unwrap();
    let first = stand.keeper();
    signal(first, rustix::process::Signal::KILL);
    stand.until("another keeper", |s| s.log().contains("started again") && s.keeper() != first);
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(echo.call(b"kept").unwrap(), b"kept");
    assert_eq!(stand.totals().2, 1);
    echo.release().unwrap();
}

#[test]
fn windows_of_another_layout_are_laid_out_anew_and_the_log_says_so() {
    let mut stand = Stand::start();
    let session = stand.connect("older");
    let echo = session.function("echo").unwrap();
    assert_eq!(echo.call(b"before").unwrap(), b"before");
    stand.kill_vfund();
    // What a manager of layout 1 leaves: it noted no layout.
    let socket = stand.root().join("admin/keeper.sock");
    let (keeper, kept) = vfun_keeper::Keeper::connect(&socket).unwrap();
    let own = kept.iter().find(|k| k.name == "rim/self").expect("its own numbers are kept");
    let mut note: serde_json::Value = serde_json::from_str(&own.note).unwrap();
    let noted = note.as_object_mut().unwrap().remove("layout");
    assert_eq!(noted, Some(vfun_wire::header::LAYOUT.into()));
    let change = vfun_keeper::Change { name: own.name.clone(), note: Some(note.to_string()) };
    keeper.change(vec![change]).unwrap();
    drop((keeper, kept));
    stand.start_vfund();
    assert!(stand.log().contains("its windows have layout 1"), "{}", stand.log());
    assert_eq!(stand.totals().2, 0, "no grant of before");
    assert!(echo.call(b"after").is_err());
    let again = stand.connect("newer").function("echo").unwrap();
    assert_eq!(again.call(b"after").unwrap(), b"after");
}

#[test]
fn a_revoked_grant_stays_revoked_and_old_handles_stay_stale() {
    let mut stand = Stand::start();
    let session = stand.connect("old");
    let f = session.function("echo").unwrap();
    let grant = stand.grants()[0].grant.clone();
    stand.ask(&Ask::Revoke { grant });
    stand.until("revoked", |s| s.totals().2 == 0);
    stand.kill_vfund();
    stand.start_vfund();
    let e = f.release().unwrap_err();
    assert!(matches!(&e, Error::Refused(n) if n.code == vfun::NackCode::Stale), "{e}");
    let again = session.negotiate(&FunctionRequest::new("echo")).unwrap();
    drop(again);
}

const VM: &str = "name = \"vm\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-doorbell\"\n";

#[test]
fn a_vm_keeps_its_window_and_its_place() {
    let mut stand = Stand::start();
    stand.add_client(VM).unwrap();
    let vm = qemu(&stand, "vm");
    assert_eq!((vm.first, vm.fds.len()), (0, 17));
    let windows = stand.totals().0;
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(stand.totals().0, windows);
    assert_eq!(qemu(&stand, "vm").first, -2, "there is one VM of this client already");
    // Nor does the next window get this one's number.
    let session = stand.connect("beside");
    assert_eq!(stand.totals().0, windows + 1);
    assert_eq!(session.function("echo").unwrap().call(b"x").unwrap(), b"x");
    drop(vm.socket);
    stand.until("it is gone", |s| s.totals().0 == windows);
}

/// No socket tells an app in a VM that nobody is left: the manager's beat does.
#[test]
fn calls_in_a_vm_end_when_manager_keeper_and_service_die_at_once() {
    use rustix::process::Signal;
    let mut stand = Stand::start();
    stand.add_client(VM).unwrap();
    let plain =
        "name = \"plain\"\nkind = \"vm\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";
    stand.add_client(plain).unwrap();
    let vm = qemu(&stand, "vm");
    let (with_bells, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rings = device(with_bells.path(), &vm.memory());
    device(without.path(), &stand.root().join("virtfun-plain"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| pass_rings_on(&rings, &vm.fds[1..9], &stop));
        let sessions = [with_bells.path(), without.path()].map(|folder| {
            let options = vfun::ConnectOptions::new("app").endpoint(vfun::Endpoint::Ivshmem(None));
            options.pci_devices(folder).connect().unwrap()
        });
        let functions = sessions.each_ref().map(|s| {
            let small = FunctionRequest::new("echo").depth(2).cell_bytes(4096);
            s.negotiate(&small).unwrap().activate().unwrap()
        });
        for f in &functions {
            assert_eq!(f.call(b"x").unwrap(), b"x");
            assert!(f.info().deadline > Duration::from_secs(60), "later than what is waited for");
        }
        let beat = || {
            let mut word = [0; 8];
            let at = vfun_wire::header::HOST_BEAT_OFF as u64;
            rustix::io::pread(&vm.fds[0], &mut word, at).unwrap();
            u64::from_le_bytes(word)
        };
        let first = beat();
        assert_ne!(first, 0, "an app can tell whether it moves");
        stand.until("the manager's beat moves with doorbells too", |_| beat() != first);
        let mut all: Vec<u32> = stand.grants().iter().map(|g| g.pid.unwrap()).collect();
        assert_eq!(all.len(), 2);
        all.push(stand.keeper());
        // Stopped first: none of them sees that another one dies.
        all.iter().for_each(|pid| signal(*pid, Signal::STOP));
        stand.kill_vfund();
        all.iter().for_each(|pid| signal(*pid, Signal::KILL));
        let ends = functions
            .map(|f| scope.spawn(move || f.call_for(b"y", Duration::from_secs(60)).unwrap_err()));
        for end in ends {
            let end = end.join().unwrap();
            assert!(matches!(end, Error::HostGone(_)), "{end}");
        }
    });
}

/// Whoever has a bell's descriptor can make ringing it hang: the threads that
/// hang are few, and nobody else notices.
#[test]
fn a_qemu_that_lets_ringers_hang_gets_no_more_windows() {
    use vfun_wire::control::{Posted, WORD_POSTED, request_off};
    let stand = Stand::start();
    stand.add_client(VM).unwrap();
    let refused = (0..20).any(|_| {
        let vm = qemu(&stand, "vm");
        if vm.first == -2 {
            return true;
        }
        let bell = &vm.fds[9];
        let flags = rustix::fs::fcntl_getfl(bell).unwrap();
        rustix::io::write(bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        rustix::fs::fcntl_setfl(bell, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
        let post = Posted { seq: 1, kind: 99, len: 0 }.pack();
        let at = request_off(0) + WORD_POSTED * 8;
        rustix::io::pwrite(&vm.fds[0], &post.to_le_bytes(), at as u64).unwrap();
        let posted = vfun_wire::header::POSTED_OFF as u64;
        rustix::io::pwrite(&vm.fds[0], &1u64.to_le_bytes(), posted).unwrap();
        rustix::io::write(&vm.fds[1], &1u64.to_ne_bytes()).unwrap();
        let answered =
            (vfun_wire::control::answer_off(0) + vfun_wire::control::WORD_ANSWERED * 8) as u64;
        stand.until("an answer", |_| {
            let mut word = [0; 8];
            rustix::io::pread(&vm.fds[0], &mut word, answered).unwrap();
            word != [0; 8]
        });
        // The descriptor stays open where the bell hangs.
        std::mem::forget(vm.fds);
        drop(vm.socket);
        stand.until("it is noticed", |s| s.totals().0 == 0);
        false
    });
    assert!(refused);
    assert_eq!(stand.connect("x").function("echo").unwrap().call(b"x").unwrap(), b"x");
}
