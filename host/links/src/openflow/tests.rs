mod captured;

use super::*;
use crate::limits::STEPS_MAX;
use captured::*;
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn read(hex: &str) -> Message {
    message(&bytes(hex)).unwrap()
}

fn updates(hex: &str) -> Vec<Update> {
    match read(hex) {
        Message::Updates(updates) => updates,
        other => panic!("{other:?}"),
    }
}

fn flows(hex: &str) -> Vec<Flow> {
    match read(hex) {
        Message::Flows { flows, .. } => flows,
        other => panic!("{other:?}"),
    }
}

fn does(hex: &str) -> Instructions {
    match &updates(hex)[..] {
        [Update::Is(flow)] => flow.does.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_switch_says_of_itself_and_its_ports_is_read() {
    assert_eq!(read(HELLO), Message::Hello);
    assert_eq!(read(FEATURES), Message::Features);
    assert_eq!(read(CONFIG), Message::Config { xid: 5, flags: 0 });
    assert_eq!(read(REFUSED), Message::Error { xid: 0, class: 0xb0c2, code: 0 });
    assert_eq!(read("0502000a000000070102"), Message::EchoRequest { xid: 7, data: vec![1, 2] });
    let Message::Ports { ports, more: false } = read(PORTS) else { panic!() };
    let names: Vec<_> = ports.iter().map(|p| (p.number, &*p.name, p.config, p.state)).collect();
    assert_eq!(
        names,
        [(0xffff_fffe, "br0", 0, 4), (1, "p1", 0, 4), (2, "p2", 0, 4), (3, "p3", 0, 4)]
    );
    let Message::Port(PortNews::Is(port)) = read(PORT_DOWN) else { panic!() };
    assert_eq!((port.number, port.config, port.state), (3, OfPort::DOWN, 0));
    let gone = PORT_DOWN.replacen("050c0058000000000200", "050c0058000000000100", 1);
    assert_eq!(read(&gone), Message::Port(PortNews::Gone(port)));
    assert_eq!(read(TABLES), Message::Tables { xid: 9, evicting: vec![0], more: false });
}

#[test]
fn rules_are_read_with_what_they_match_and_do() {
    let sends = |port| Instructions::Sends(vec![Step::Output(port)]);
    let [Update::Is(one), Update::Is(two)] = &updates(INITIAL)[..] else { panic!() };
    assert_eq!(one.key, FlowKey { table: 0, priority: 0x8000, fields: bytes("8000000400000001") });
    assert_eq!((one.matches.in_port, &one.does), (Some(1), &sends(2)));
    assert_eq!((two.matches.in_port, &two.does), (Some(2), &sends(1)));
    let [Update::Is(added)] = &updates(ADDED)[..] else { panic!() };
    let expected = Match { in_port: Some(3), dl_type: Some(0x0800), other: false };
    assert_eq!((&added.matches, added.key.priority, added.cookie), (&expected, 4321, 0x1234));
    assert_eq!((added.idle_timeout, added.hard_timeout, added.flags), (5, 0, None));
    assert_eq!(updates(GONE), [Update::Gone(added.clone())]);
    assert_eq!(updates(PAUSED), [Update::Paused]);
    assert_eq!(updates(RESUMED), [Update::Resumed]);
    assert_eq!(does(DROPS), Instructions::Sends(vec![]));
    let [Update::Is(drops)] = &updates(DROPS)[..] else { panic!() };
    assert_eq!(drops.matches, Match { in_port: None, dl_type: Some(0x0800), other: true });
    let fault = |name| Instructions::Else(ActionFault::Named(name));
    assert_eq!(does(METER), fault("meter"));
    assert_eq!(does(GROUP), fault("group"));
    assert_eq!(does(CONNTRACK), fault("ct"));
}

#[test]
fn flags_and_timeouts_are_read() {
    let flows = flows(FLOWS);
    // Bit 2: reset_counts, which does no harm.
    let flags: Vec<_> = flows.iter().map(|f| (f.key.table, f.flags)).collect();
    let expected = [(0, 4), (0, 4), (0, 4), (5, 4), (6, 1), (7, 0), (8, 4)];
    assert_eq!(flags, expected.map(|(table, flags)| (table, Some(flags))));
    assert_eq!(flows[2].idle_timeout, 5);
    assert_eq!(flows[4].does, Instructions::Else(ActionFault::Named("meter")));
    // The same rule has the same key in an answer and in an event.
    let [Update::Is(added)] = &updates(ADDED)[..] else { panic!() };
    assert_eq!(flows[2].key, added.key);
}

/// A rule with these actions.
fn with_actions(actions: &str) -> Instructions {
    let actions = bytes(actions);
    let length = u16::try_from(actions.len()).unwrap();
    let mut all = vec![0, 0, 0, 0];
    all.splice(..2, 4u16.to_be_bytes());
    all.splice(2..4, (8 + length).to_be_bytes());
    all.extend([0; 4]);
    all.extend(&actions);
    let mut rule = bytes("0000 0001 00000000 00000000 00000000 0000000000000000 00010004 00000000");
    rule.extend(all);
    let length = u16::try_from(rule.len()).unwrap();
    rule.splice(..2, length.to_be_bytes());
    let mut message = bytes("0513 0000 00000000 0010 0000 00000000");
    message.extend(rule);
    let length = u16::try_from(message.len()).unwrap();
    message.splice(2..4, length.to_be_bytes());
    match super::message(&message).unwrap() {
        Message::Updates(updates) => match &updates[..] {
            [Update::Is(flow)] => flow.does.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

const OUTPUT_2: &str = "0000 0010 00000002 0000 000000000000";

#[test]
fn each_action_is_a_step_or_is_named() {
    let resubmit =
        |port: &str, table: &str| format!("ffff 0010 00002320 000e {port} {table} 000000");
    let output = |port: &str| format!("0000 0010 {port} ffff 000000000000");
    assert_eq!(with_actions(OUTPUT_2), Instructions::Sends(vec![Step::Output(2)]));
    let to_7 = with_actions(&resubmit("fff8", "07"));
    assert_eq!(to_7, Instructions::Sends(vec![Step::Table(7)]));
    let note = format!("ffff 0010 00002320 0008 000000000000 {OUTPUT_2}");
    assert_eq!(with_actions(&note), Instructions::Sends(vec![Step::Output(2)]));
    let named = [
        (resubmit("0004", "07"), "resubmit with another port or into the same table"),
        (resubmit("fff8", "ff"), "resubmit with another port or into the same table"),
        (output("fffffff8"), "output to in_port"),
        (output("fffffffa"), "NORMAL"),
        (output("fffffffb"), "FLOOD"),
        (output("fffffffc"), "ALL"),
        (output("fffffffd"), "controller"),
        (output("fffffffe"), "output to LOCAL"),
        ("0015 0008 00000001".to_owned(), "set_queue"),
        ("0018 0008 00000000".to_owned(), "dec_ttl"),
        ("0016 0008 00000001".to_owned(), "group"),
        ("ffff 0018 00002320 0025 000000000000 0000000000000000".to_owned(), "controller"),
    ];
    for (action, name) in named {
        let both = format!("{OUTPUT_2} {action}");
        assert_eq!(with_actions(&both), Instructions::Else(ActionFault::Named(name)), "{name}");
    }
    let strange = with_actions("ffff 0010 00001234 0001 000000000000");
    assert_eq!(strange, Instructions::Else(ActionFault::Vendor(0x1234, 1)));
    let strange = with_actions("002a 0008 00000000");
    assert_eq!(strange, Instructions::Else(ActionFault::Standard(42)));
}

#[test]
fn a_rule_has_a_limit_of_its_steps() {
    let many = |n: usize| with_actions(&OUTPUT_2.repeat(n));
    assert_eq!(many(STEPS_MAX), Instructions::Sends(vec![Step::Output(2); STEPS_MAX]));
    let Instructions::Else(fault) = many(STEPS_MAX + 1) else { panic!("it is kept") };
    assert!(fault.to_string().contains("outputs and tables"), "{fault}");
}

#[test]
fn what_we_say_is_what_the_switch_took() {
    let hex =
        |request: Request| request.bytes().iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(Request::Hello), "05000010000000000001000800000020");
    // As ovs-ofctl asks, but for its flag that hides changes of others.
    let monitor = "05120030000000000010000000000000";
    let all = "00000001ffffffffffffffff001eff000001000400000000";
    assert_eq!(hex(Request::Monitor), format!("{}{all}", monitor.replace("0030", "0028")));
    let [Update::Is(added)] = &updates(ADDED)[..] else { panic!() };
    let one = hex(Request::OneFlow { xid: 9, key: added.key.clone() });
    let fields = "00010012800000040000000380000a020800000000000000";
    let expected = format!(
        "05120048000000090001000000000000{}ffffffffffffffff{}{fields}",
        "00000000",
        "0".repeat(40)
    );
    assert_eq!(one, expected);
    assert_eq!(hex(Request::EchoReply { xid: 7, data: vec![1, 2] }), "0503000a000000070102");
}

#[test]
fn messages_are_taken_from_whatever_pieces_they_come_in() {
    let all = [HELLO, FEATURES, PORTS, INITIAL, ADDED, FLOWS].map(bytes);
    let expected: Vec<Message> = all.iter().map(|m| message(m).unwrap()).collect();
    let stream = all.concat();
    for piece in [1, 7, 8, 100, stream.len()] {
        let (mut messages, mut got) = (Messages::default(), vec![]);
        for part in stream.chunks(piece) {
            messages.push(part);
            while let Some(message) = messages.take().unwrap() {
                got.push(message);
            }
        }
        assert_eq!(got, expected, "in pieces of {piece}");
    }
}

#[test]
fn what_is_not_openflow_1_4_is_an_error() {
    let wrong = |hex: &str| message(&bytes(hex)).unwrap_err();
    assert_eq!(wrong("0406000800000000"), Malformed::Version(4));
    assert!(wrong("0406000800000000").to_string().contains("OpenFlow14"));
    let mut messages = Messages::default();
    messages.push(&[5, 0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(messages.take(), Err(Malformed::Wrong("length")));
}

proptest! {
    /// A byte that is changed, or an end too early, is an error or another message.
    #[test]
    fn hostile_bytes_never_panic(which in 0usize..9, at in any::<prop::sample::Index>(),
                                 value in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let all = [PORTS, PORT_DOWN, INITIAL, ADDED, METER, CONNTRACK, FLOWS, TABLES, REFUSED];
        let mut bytes = bytes(all[which]);
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = message(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        if let [_, _, high, low, ..] = &mut bytes[..] {
            [*high, *low] = u16::to_be_bytes(0);
        }
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        if bytes.len() >= 4 {
            bytes[2..4].copy_from_slice(&length);
        }
        if let Ok(Message::Flows { flows, .. }) = message(&bytes) {
            for flow in flows {
                let asked = Request::OneFlow { xid: 1, key: flow.key }.bytes();
                prop_assert!(asked.len() < 65_536);
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut messages = Messages::default();
        messages.push(&bytes);
        while let Ok(Some(_)) = messages.take() {}
        let mut framed = vec![5, 19, 0, 0, 0, 0, 0, 0];
        framed.extend(&bytes);
        let length = u16::try_from(framed.len()).unwrap().to_be_bytes();
        framed[2..4].copy_from_slice(&length);
        let _ = message(&framed);
    }
}
