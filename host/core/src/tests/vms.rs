//! Two VMs of one client: policy is the client's, and nothing of one VM's window can be
//! named in the other's.

use super::*;
use vfun_wire::message;

/// Client 1 with its VM "b" in window 3, besides the first one in window 1.
fn two() -> Bed {
    let mut b = Bed::new();
    b.up(3, 1, "b");
    b
}

impl Bed {
    fn up(&mut self, window: u32, client: u32, vm: &str) {
        let vm = Some(vm.to_owned());
        let (doorbell, death_seen, proven) = (true, false, false);
        self.feed(Event::WindowUp { window, client, vm, bytes: MIB, doorbell, death_seen, proven });
    }

    fn state_of(&self, grant: Handle) -> Option<GrantState> {
        self.core.grants().find(|(h, _)| *h == grant).map(|(_, g)| g.state())
    }
}

#[test]
fn whatever_takes_a_handle_refuses_that_of_another_vm_of_the_client() {
    let mut b = two();
    let s1 = b.hello(1, b"").unwrap().session.get();
    let (g1, _) = b.active(1, s1, "add");
    let waits = b.negotiate(1, s1, want("mul")).unwrap().grant.get();
    let s3 = b.hello(3, b"").unwrap().session.get();
    let before = b.core.totals();
    for row in message::TABLE
        .iter()
        .filter(|r| !matches!(r.kind, Kind::Hello | Kind::Reset | Kind::Window))
    {
        // With its own session it names the other VM's grants, those that wait included.
        for grant in [g1.0, waits] {
            if row.request_bytes != size_of::<OfGrant>() || row.kind == Kind::KeepAlive {
                continue;
            }
            if matches!(row.kind, Kind::Activate | Kind::Release | Kind::Stats) {
                let e = answer(&b.ask(3, row.kind, s3, &grant.to_le_bytes())).unwrap_err();
                assert_eq!(e.code, NackCode::BadHandle, "{} {e}", row.kind);
            }
        }
        // Nor does the other VM's session get it anything.
        let e = answer(&b.ask(3, row.kind, s1, &vec![0; row.request_bytes])).unwrap_err();
        assert_eq!(e.code, NackCode::BadHandle, "{} {e}", row.kind);
    }
    assert_eq!((b.core.totals(), b.state_of(g1)), (before, Some(GrantState::Active)));
    // What ended in one window is told to nobody in the other.
    b.ask(1, Kind::Goodbye, s1, &[0; 8]);
    let e = answer(&b.ask(3, Kind::KeepAlive, s1, &[0; 8])).unwrap_err();
    assert!(!e.sentence.contains("goodbye"), "{e}");
}

#[test]
fn a_reset_and_the_end_of_one_vm_leave_the_other_alone() {
    let mut b = two();
    let (s1, s3) = (b.hello(1, b"").unwrap(), b.hello(3, b"").unwrap());
    // An app of one name is one application of its client, in both.
    assert_eq!(s1.app_id, s3.app_id);
    let (g1, service) = b.active(1, s1.session.get(), "add");
    let (g3, same) = b.active(3, s3.session.get(), "add");
    assert_eq!(service, same, "one service serves a client's channels of a function");
    b.ask(3, Kind::Reset, 0, &[0; 8]);
    b.feed(Event::ChannelClosed { service, channel: g3 });
    assert_eq!((b.state_of(g1), b.state_of(g3)), (Some(GrantState::Active), None));
    assert!(b.core.has_sessions(1) && !b.core.has_sessions(3));
    let (g3, _) = {
        let s3 = b.hello(3, b"").unwrap().session.get();
        b.active(3, s3, "add")
    };
    b.feed(Event::WindowDown { window: 1 });
    b.feed(Event::ChannelClosed { service, channel: g1 });
    assert_eq!((b.state_of(g1), b.state_of(g3)), (None, Some(GrantState::Active)));
    // Heartbeats of one are not looked for in the other.
    b.up(1, 1, "vm1");
    let s1 = b.hello(1, b"").unwrap();
    for i in 0..40 {
        b.now += 1000;
        b.feed(Event::Heartbeats { window: 1, values: vec![(s1.session_line.get(), 5)] });
        b.feed(Event::Heartbeats { window: 3, values: vec![(0, i)] });
    }
    assert!(!b.core.has_sessions(1) && b.core.has_sessions(3));
}

#[test]
fn a_request_is_answered_again_in_the_window_alone_that_it_came_through() {
    let mut b = two();
    let s1 = b.hello(1, b"").unwrap().session.get();
    b.seq -= 1;
    let s3 = b.hello(3, b"").unwrap().session.get();
    assert_ne!(s1, s3, "the same cell and number, another window");
    let g1 = b.negotiate(1, s1, want("add")).unwrap().grant.get();
    b.seq -= 1;
    let g3 = b.negotiate(3, s3, want("add")).unwrap().grant.get();
    assert_ne!(g1, g3);
    b.ask(1, Kind::Release, s1, &g1.to_le_bytes());
    b.seq -= 1;
    let e = answer(&b.ask(3, Kind::Release, s3, &g1.to_le_bytes())).unwrap_err();
    assert_eq!(e.code, NackCode::Stale);
    assert_eq!(b.state_of(Handle(g3)), Some(GrantState::Granted));
}

#[test]
fn records_name_the_vm_and_another_manager_knows_it() {
    let mut b = two();
    let s3 = b.hello(3, b"").unwrap().session.get();
    let (_, _) = b.active(3, s3, "add");
    b.take_over(|_| true);
    let g = b.negotiate(3, s3, want("mul")).unwrap().grant.get();
    let vms: BTreeSet<_> = b.core.grant_records().into_iter().map(|r| r.vm).collect();
    assert_eq!(vms, [Some("b".to_owned())].into(), "{g}");
    let denied = b.negotiate(3, s3, want("nothing"));
    assert!(denied.is_err());
    let refused = b.log.iter().rev().find_map(|a| match a {
        Action::Refused(r) => Some((r.client.as_str(), r.vm.as_deref())),
        _ => None,
    });
    assert_eq!(refused, Some(("vm1", Some("b"))));
    // A manager of clients with one VM noted no name; one that no VM can have is refused.
    let name = "core/window/3";
    let of = |b: &Bed, with: &str| {
        let note = b.notes[name].replace("\"vm\":\"b\",", with);
        let mut notes = b.notes.clone();
        notes.insert(name.into(), note);
        let notes: Vec<_> = notes.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        Core::restore(b.now, 8, catalog(), notes).map(drop)
    };
    assert_eq!(of(&b, ""), Ok(()));
    assert!(of(&b, "\"vm\":\"../b\",").is_err());
}

#[test]
fn a_service_is_told_which_vm_calls_and_what_address_the_manifest_gives_it() {
    let mut b = two();
    let mut with_address = catalog();
    let given = "10.0.0.6".parse().unwrap();
    with_address.clients.get_mut(&1).unwrap().addresses.insert("b".into(), given);
    b.feed(Event::Catalog(with_address));
    // Window 1 has a VM without a name here.
    for (window, vm, address) in [(1, None, None), (3, Some("b"), Some(given))] {
        let s = b.hello(window, b"").unwrap().session.get();
        b.active(window, s, "add");
        let told = b.log.iter().rev().find_map(|a| match a {
            Action::OpenChannel { vm, address, .. } => Some((vm.as_deref(), *address)),
            _ => None,
        });
        assert_eq!(told, Some((vm, address)));
    }
}
