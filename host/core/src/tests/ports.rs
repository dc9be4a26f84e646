//! Who gets a VM's port: the VM's kernel module, once, as long as the port stays as it is.

use super::*;
use crate::grant::AtSwitch;
use crate::ports::{self, Mac, Port, PortWay};
use vfun_wire::kind::ChannelKind;
use vfun_wire::packets::PacketsShape;

const RING: u32 = 1 << 14;
const ALL: u64 = u64::MAX;

fn port(number: u16) -> Port {
    Port {
        name: format!("eth{number}"),
        number,
        mac: Mac([2, 0, 0, 0, 0, number as u8]),
        mtu: 1500,
        ring_bytes: RING,
        way: PortWay::Tap,
        tap: format!("tap{number}"),
        switch: None,
        offloads: true,
    }
}

/// Client 1 may use `add` alone, and its VM `vm1` has two ports, `b` none.
fn with_ports(all: &[Port]) -> Catalog {
    let mut c = catalog();
    let f = ports::built_in(9);
    c.functions.insert(f.name.clone(), f);
    let client = c.clients.get_mut(&1).unwrap();
    client.functions = vec!["add".into()];
    client.ports.insert("vm1".into(), all.to_vec());
    c
}

/// A window in each VM of client 1, and one of a program on the host.
fn offered() -> Bed {
    let mut b = Bed::new();
    for (window, vm) in [(3, Some("vm1")), (4, Some("b"))] {
        let (vm, bytes) = (vm.map(str::to_owned), MIB);
        let (doorbell, death_seen, proven) = (true, false, false);
        b.feed(Event::WindowUp { window, client: 1, vm, bytes, doorbell, death_seen, proven });
    }
    b.feed(Event::Catalog(with_ports(&[port(0), port(1)])));
    b
}

impl Bed {
    fn port(&mut self, window: u32, session: u64, ring: u32, number: u16) -> Result<Handle, Nack> {
        let mut n = want(ports::FUNCTION);
        n.kind = U16::new(ChannelKind::Packets.to_wire());
        n.shape = PacketsShape::new(ring, number).shape();
        self.negotiate(window, session, n).map(|ack| Handle(ack.grant.get()))
    }
}

#[test]
fn a_vm_gets_its_own_ports_and_each_once() {
    let mut b = offered();
    let module = b.app(3, "kernel", ALL);
    let first = b.port(3, module, RING, 0).unwrap();
    let told = b.core.catalog().port_of(b.core.grant(first).unwrap()).cloned();
    assert_eq!(told, Some(port(0)));
    let e = b.port(3, module, RING, 0).unwrap_err();
    assert!(e.code == NackCode::OverQuota && e.sentence.contains("eth0"), "{e}");
    b.port(3, module, RING, 1).unwrap();
    let e = b.port(3, module, RING, 2).unwrap_err();
    assert!(e.code == NackCode::UnknownFunction && e.sentence.contains("port 2"), "{e}");
    let e = b.port(3, module, 2 * RING, 1).unwrap_err();
    assert!(e.code == NackCode::BeyondLimit && e.sentence.contains("eth1"), "{e}");
    // Another VM of the client has none.
    let there = b.app(4, "kernel", ALL);
    assert_eq!(b.port(4, there, RING, 0).unwrap_err().code, NackCode::UnknownFunction);
    // Its end makes room.
    b.ask(3, Kind::Release, module, &first.0.to_le_bytes());
    b.port(3, module, RING, 0).unwrap();
}

#[test]
fn programs_without_the_right_over_the_network_get_none() {
    let mut b = offered();
    // Window 1 is of a program on the host, whatever that claims.
    for (window, features) in [(1, ALL), (3, ALL & !Features::NET_ADMIN.0)] {
        let session = b.app(window, "program", features);
        let e = b.port(window, session, RING, 0).unwrap_err();
        assert!([NackCode::Denied, NackCode::Unsupported].contains(&e.code), "{e}");
    }
}

#[test]
fn a_service_is_told_which_port_it_opens() {
    let mut b = offered();
    let module = b.app(3, "kernel", ALL);
    let grant = b.port(3, module, RING, 1).unwrap();
    let out = b.ask(3, Kind::Activate, module, &grant.0.to_le_bytes());
    let service = out.iter().find_map(|a| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    });
    let out = b.feed(Event::ServiceReady { service: service.unwrap() });
    let opened = out.iter().find_map(|a| match a {
        Action::OpenChannel { port, .. } => Some(port.clone()),
        _ => None,
    });
    assert_eq!(opened, Some(Some(port(1))));
}

fn switch() -> AtSwitch {
    AtSwitch { port: "tap1".into(), pid: 7, began: 8 }
}

/// An active grant of port 1, which a switch with DPDK is to have; its service.
fn at_switch(b: &mut Bed) -> (Handle, ServiceId, u64) {
    b.feed(Event::Catalog(with_ports(&[Port { way: PortWay::Dpdk, ..port(1) }])));
    let module = b.app(3, "kernel", ALL);
    let grant = b.port(3, module, RING, 1).unwrap();
    assert!(!b.core.may_go_to_switch(grant), "nobody counts for it yet");
    let out = b.ask(3, Kind::Activate, module, &grant.0.to_le_bytes());
    let service = out.iter().find_map(|a| match a {
        Action::StartService { service, .. } => Some(*service),
        _ => None,
    });
    let service = service.unwrap();
    b.feed(Event::ServiceReady { service });
    b.feed(Event::ChannelOpened { service, channel: grant });
    assert!(b.core.may_go_to_switch(grant));
    b.feed(Event::SwitchTakes { channel: grant, switch: switch() });
    assert_eq!(b.core.grant(grant).unwrap().at_switch, Some(switch()));
    (grant, service, module)
}

#[test]
fn pages_that_a_switch_has_are_nobody_elses() {
    // The pages are free once both have let go, in whichever order.
    for switch_first in [true, false] {
        let mut b = offered();
        let (grant, service, module) = at_switch(&mut b);
        b.ask(3, Kind::Release, module, &grant.0.to_le_bytes());
        assert!(!b.core.may_go_to_switch(grant), "it is over");
        let closed = Event::ChannelClosed { service, channel: grant };
        let let_go = Event::SwitchLetGo { channel: grant };
        let (first, last) = if switch_first { (let_go, closed) } else { (closed, let_go) };
        b.feed(first);
        assert_eq!(b.core.grant(grant).unwrap().state(), GrantState::Closing);
        // The VM has the port again meanwhile, elsewhere.
        let next = b.port(3, module, RING, 1).unwrap();
        b.feed(last);
        assert!(b.core.grant(grant).is_none() && b.core.grant(next).is_some());
    }
}

/// The next manager, with other manifests.
fn next_manager(b: &mut Bed, catalog: Catalog) {
    let notes = b.notes.iter().map(|(name, note)| (name.as_str(), note.as_str()));
    b.core = Core::restore(b.now, 8, catalog, notes).expect("it can be read");
    let alive = b.core.services.keys().copied().collect();
    b.feed(Event::Resume { alive });
}

#[test]
fn a_port_that_changed_while_no_manager_was_there_is_taken_away() {
    let dpdk = Port { way: PortWay::Dpdk, ..port(1) };
    let mut b = offered();
    let (grant, ..) = at_switch(&mut b);
    next_manager(&mut b, with_ports(std::slice::from_ref(&dpdk)));
    assert_eq!(b.core.grant(grant).unwrap().state(), GrantState::Active, "as it was");
    assert_eq!(b.core.grant(grant).unwrap().at_switch, Some(switch()), "it is known where it is");
    // A service would relay beside the switch.
    next_manager(&mut b, with_ports(&[port(1)]));
    assert_eq!(b.core.grant(grant).unwrap().state(), GrantState::Closing);
    assert!(!b.core.may_go_to_switch(grant));
}

#[test]
fn a_window_that_ends_and_a_service_that_dies_leave_a_switch_its_pages() {
    let mut b = offered();
    let (grant, service, _) = at_switch(&mut b);
    b.feed(Event::ServiceExited { service, exit: Exit::Signal(9) });
    assert!(b.core.may_go_to_switch(grant), "another service counts for it");
    b.feed(Event::WindowDown { window: 3 });
    assert_eq!(b.core.grant(grant).unwrap().state(), GrantState::Closing);
    b.feed(Event::SwitchLetGo { channel: grant });
    b.feed(Event::SwitchLetGo { channel: grant });
    assert!(b.core.grant(grant).is_none());
}

#[test]
fn a_port_that_changes_or_goes_is_taken_away_and_others_stay() {
    let mut b = offered();
    let module = b.app(3, "kernel", ALL);
    let [first, second] = [0, 1].map(|n| b.port(3, module, RING, n).unwrap());
    let there = |b: &Bed| [first, second].map(|h| b.core.grant(h).is_some());
    // The same again is no change.
    b.feed(Event::Catalog(with_ports(&[port(0), port(1)])));
    assert_eq!(there(&b), [true, true]);
    let moved = Port { tap: "other".into(), ..port(1) };
    b.feed(Event::Catalog(with_ports(&[port(0), moved])));
    assert_eq!(there(&b), [true, false]);
    b.feed(Event::Catalog(with_ports(&[])));
    assert_eq!(there(&b), [false, false]);
}
