//! Who may open the function `bond`: a program with the right over its VM's network, one
//! at a time.

use super::*;
use crate::bond;

/// Client 1 with a window in each of its VMs and one of a program on the host, and `bond`.
fn offered() -> Bed {
    let mut b = Bed::new();
    for (window, vm) in [(3, Some("vm1")), (4, Some("b"))] {
        let (vm, bytes) = (vm.map(str::to_owned), MIB);
        let (doorbell, death_seen, proven) = (true, false, false);
        b.feed(Event::WindowUp { window, client: 1, vm, bytes, doorbell, death_seen, proven });
    }
    let mut c = catalog();
    let f = bond::built_in(9);
    c.functions.insert(f.name.clone(), f);
    b.feed(Event::Catalog(c));
    b
}

impl Bed {
    /// A session of an app that claims these features.
    pub(super) fn app(&mut self, window: u32, app: &str, features: u64) -> u64 {
        let h = Hello {
            version_min: U16::new(2),
            version_max: U16::new(9),
            pid: U32::new(1),
            features: U64::new(features),
            app: names::encode(app).unwrap(),
            credential_len: U16::new(0),
            reserved: [0; 6],
            credential: [0; CREDENTIAL_BYTES],
        };
        let out = self.ask(window, Kind::Hello, 0, h.as_bytes());
        HelloAck::read_from_bytes(&answer(&out).unwrap()).unwrap().session.get()
    }

    fn bond(&mut self, window: u32, session: u64) -> Result<NegotiateAck, Nack> {
        self.negotiate(window, session, want("bond"))
    }

    /// Lines of the log about the client since the last look.
    fn said(&mut self) -> Vec<String> {
        let text = |a| match a {
            Action::LogOf { client: 1, text, .. } => Some(text),
            _ => None,
        };
        std::mem::take(&mut self.log).into_iter().filter_map(text).collect()
    }
}

const ALL: u64 = u64::MAX;

#[test]
fn only_an_app_with_the_right_in_a_vm_opens_it() {
    let mut b = offered();
    // Of windows 1 and 3 the first is of a program on the host, whatever that claims.
    for (window, features) in [(1, ALL), (3, ALL & !Features::NET_ADMIN.0)] {
        let session = b.app(window, "agent", features);
        let e = b.bond(window, session).unwrap_err();
        assert_eq!(e.code, NackCode::Denied, "{e}");
        assert!(e.sentence.contains("only a program with CAP_NET_ADMIN"), "{e}");
        let noted = |a: &Action| matches!(a, Action::Refused(r) if r.function == "bond");
        assert!(b.log.iter().any(noted), "the audit shows it");
        assert!(b.negotiate(window, session, want("add")).is_ok(), "other functions need none");
    }
    let session = b.app(3, "agent", ALL);
    b.bond(3, session).unwrap();
}

#[test]
fn one_app_of_a_vm_at_a_time_has_it_and_a_second_is_shown() {
    let mut b = offered();
    let (first, second) = (b.app(3, "agent", ALL), b.app(3, "other", ALL));
    let (channel, service) = b.active(3, first, "bond");
    b.said();
    let e = b.bond(3, second).unwrap_err();
    assert_eq!(e.code, NackCode::OverQuota, "{e}");
    assert!(e.sentence.contains("'agent' of this VM has it"), "{e}");
    let said = b.said();
    assert!(said.len() == 1 && said[0].contains("'other' in VM vm1"), "{said:?}");
    // The client's other VM has an agent of its own.
    let there = b.app(4, "agent", ALL);
    b.active(4, there, "bond");
    let vms: Vec<_> = b.core.agents().map(|(_, agent)| agent.vm.to_string()).collect();
    assert_eq!(vms.len(), 2, "{vms:?}");
    // Its end makes room, though the service has not let go of it yet.
    b.ask(3, Kind::Release, first, &channel.0.to_le_bytes());
    assert_eq!(b.core.agent(channel), None);
    b.bond(3, second).unwrap();
    b.feed(Event::ChannelClosed { service, channel });
}

#[test]
fn an_agent_has_no_service_while_that_is_started_anew() {
    let mut b = offered();
    let session = b.app(3, "agent", ALL);
    let (channel, service) = b.active(3, session, "bond");
    assert_eq!(b.core.agent(channel).unwrap().service, Some(service));
    b.feed(Event::ServiceExited { service, exit: Exit::Unknown });
    assert_eq!(b.core.agent(channel).unwrap().service, None);
    // A function of the same name that a manifest declares is no agent's.
    let mut c = catalog();
    c.functions.insert("bond".into(), function(9, "bond"));
    b.feed(Event::Catalog(c));
    assert_eq!(b.core.agents().count(), 0);
}
