//! A QEMU, an agent's words and programs that behave badly keep nobody else up.

use crate::stand::{Stand, vm};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use vfun_nicd::ask::{Ask, socket};
use vfun_nicd::limits::{ADMIN_CONNECTIONS, ADMIN_LINE_BYTES};
use vfun_nics::declared::Rule;

#[test]
fn a_qemu_that_talks_without_end_is_disconnected_and_holds_nobody_up() {
    let mut stand = Stand::new(2);
    stand.start();
    stand.pool(1);
    stand.qemus[0].chat(true);
    stand.add(0);
    stand.add(1);
    stand.rule(1, Rule::Pinned);
    stand.until("it is disconnected", |s| {
        let view = s.try_view().unwrap();
        view.vms.iter().any(|r| r.vm == vm(0) && r.hypervisor.contains("without end"))
    });
    stand.qemus[0].chat(false);
    stand.until("vm1 holds the VF", |s| s.holds(1));
    stand.check_owners();
}

#[test]
fn nonsense_on_both_sockets_is_answered_or_left_out() {
    let mut stand = Stand::new(1);
    stand.start();
    for packet in
        [&b"{}"[..], b"\xff\xff", &[b'['; 8 << 10], b"{\"vm\":{\"client\":\"a\",\"vm\":\"b\"}}"]
    {
        stand.manager().say(packet);
    }
    let asked = |line: &[u8]| {
        let mut stream = UnixStream::connect(socket(&stand.root())).unwrap();
        let _ = stream.write_all(line);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    assert!(asked(b"hello\n").contains("not a request"));
    assert!(asked(&vec![b' '; ADMIN_LINE_BYTES + 10]).contains("at most"));
    assert!(asked(b"{\"ask\":\"view\",\"more\":1}\n").contains("answer"));
    assert!(stand.try_view().is_some());
}

#[test]
fn those_that_ask_and_say_nothing_are_bounded() {
    let mut stand = Stand::new(0);
    stand.start();
    let silent: Vec<UnixStream> = (0..ADMIN_CONNECTIONS)
        .map(|_| UnixStream::connect(socket(&stand.root())).unwrap())
        .collect();
    stand.until("one more is refused", |s| s.refused(&Ask::View).contains("ask again"));
    drop(silent);
    stand.until("it answers again", |s| s.try_view().is_some());
}

#[test]
fn an_ip_that_hangs_holds_up_its_pool_alone() {
    let mut stand = Stand::new(1);
    stand.host.program("ip", "sleep 600");
    stand.start();
    stand.pool(1);
    stand.add(0);
    stand.rule(0, Rule::Pinned);
    stand.until("the VF is made ready", |s| {
        s.try_view().unwrap().pools[0].vfs.iter().any(|vf| vf.state == "preparing")
    });
    stand.until("it is given up", |s| {
        let view = s.try_view().unwrap();
        let vms = format!("{:?}", view);
        vms.contains("did not end within")
    });
    assert!(stand.qemus[0].devices().is_empty());
}
