//! Rows are those of Open vSwitch 3.1.0, as its database sent them: p1 and p3 are mirrored, p2 has
//! BFD, CFM, LACP and a limit, and the bridge has a controller.

use super::*;
use proptest::prelude::*;

fn captured() -> Value {
    serde_json::from_str(include_str!("tests/rows.json")).unwrap()
}

fn facts(tables: &Value) -> Facts {
    let mut rows = Rows::default();
    rows.apply(tables).unwrap();
    rows.facts("br0").unwrap().expect("the bridge is there")
}

/// The captured rows, with a column of all rows of a table set.
fn with(table: &str, column: &str, value: Value) -> Facts {
    let mut tables = captured();
    for row in tables[table].as_object_mut().unwrap().values_mut() {
        row["new"][column] = value.clone();
    }
    facts(&tables)
}

#[test]
fn rows_of_the_switch_are_read() {
    let facts = facts(&captured());
    let names: Vec<&str> = facts.ports.keys().map(String::as_str).collect();
    assert_eq!(names, ["br0", "p1", "p2", "p3"]);
    let mirror = &facts.bridge.mirrors[..];
    let expected =
        Mirror { name: "m1".to_owned(), all: false, ports: vec!["p1".to_owned(), "p3".to_owned()] };
    assert_eq!(mirror, [expected]);
    assert!(facts.bridge.in_band && !facts.bridge.fails_open);
    assert!(!facts.bridge.evicts && !facts.bridge.restoring);
    let plain = |name: &str, number| InterfaceFacts {
        name: name.to_owned(),
        kind: "dummy".to_owned(),
        number: Some(number),
        mtu: Some(1500),
        ..InterfaceFacts::default()
    };
    let one = PortFacts { interfaces: vec![plain("p1", 1)], ..PortFacts::default() };
    assert_eq!(facts.port_of("p1"), Some(&one));
    let busy = InterfaceFacts { policed: true, bfd: true, cfm: true, ..plain("p2", 2) };
    let two = PortFacts { lacp: true, interfaces: vec![busy], ..PortFacts::default() };
    assert_eq!(facts.port_of("p2"), Some(&two));
    let device = InterfaceFacts { devargs: Some("dev".to_owned()), ..plain("p3", 3) };
    assert_eq!(facts.port_of("p3").and_then(|p| p.interface("p3")), Some(&device));
    assert_eq!(facts.port_of("p4"), None);
}

fn error(rows: &mut Rows, tables: &Value) -> String {
    rows.apply(tables).and_then(|()| rows.facts("br0")).unwrap_err().to_string()
}

/// An update of one row of interfaces.
fn update(uuid: usize, text: &str) -> Value {
    json!({ "Interface": { uuid.to_string(): { "new": { "options": text } } } })
}

#[test]
fn rows_have_a_limit_for_all_of_them() {
    let (mut rows, text) = (Rows::default(), "x".repeat(ROWS_BYTES_MAX / 8));
    // One in the place of another one takes no more.
    (0..16).for_each(|_| rows.apply(&update(0, &text)).unwrap());
    rows.apply(&json!({ "Interface": { "0": { "new": null } } })).unwrap();
    (1..8).for_each(|n| rows.apply(&update(n, &text)).unwrap());
    assert!(rows.apply(&update(8, &text)).unwrap_err().to_string().contains("more than"));
}

#[test]
fn facts_have_limits() {
    let mut tables = captured();
    let bridge = tables["Bridge"].as_object().unwrap().keys().next().unwrap().clone();
    let ports = tables["Bridge"][&bridge]["new"]["ports"].clone();
    let twice = [ports[1].as_array().unwrap().clone(), vec![ports[1][0].clone()]].concat();
    tables["Bridge"][&bridge]["new"]["ports"] = json!(["set", twice]);
    assert!(error(&mut Rows::default(), &tables).contains("twice"));
    let mut tables = captured();
    let mut many = vec![];
    for n in 0..FACTS_MAX {
        let row = json!({ "name": format!("x{n}"), "interfaces": ["set", []], "qos": ["set", []], "lacp": ["set", []] });
        tables["Port"][format!("u{n}")] = json!({ "new": row });
        many.push(json!(["uuid", format!("u{n}")]));
    }
    tables["Bridge"][&bridge]["new"]["mirrors"] = json!(["set", []]);
    tables["Bridge"][&bridge]["new"]["ports"] = json!(["set", many]);
    assert_eq!(facts(&tables).ports.len(), FACTS_MAX);
    let ports = [many, ports[1].as_array().unwrap()[..1].to_vec()].concat();
    tables["Bridge"][&bridge]["new"]["ports"] = json!(["set", ports]);
    assert!(error(&mut Rows::default(), &tables).contains("more than"));
    for (table, column) in [("Interface", "name"), ("Interface", "type"), ("Port", "name")] {
        let mut tables = captured();
        for row in tables[table].as_object_mut().unwrap().values_mut() {
            row["new"][column] = json!("x".repeat(TEXT_BYTES_MAX + 1));
        }
        assert!(error(&mut Rows::default(), &tables).contains("more than"), "{table} {column}");
    }
}

#[test]
fn each_column_is_a_fact() {
    let bridge = |column, value| with("Bridge", column, value).bridge;
    let some = || json!(["uuid", "4711"]);
    assert!(bridge("stp_enable", json!(true)).stp);
    assert!(bridge("rstp_enable", json!(true)).rstp);
    assert!(bridge("sflow", some()).sflow);
    assert!(bridge("netflow", some()).netflow);
    assert!(bridge("ipfix", some()).ipfix);
    assert!(bridge("fail_mode", json!(["set", []])).fails_open);
    assert!(bridge("fail_mode", json!("standalone")).fails_open);
    let disabled = json!(["map", [["disable-in-band", "true"]]]);
    assert!(!bridge("other_config", disabled).in_band);
    assert!(with("Flow_Table", "overflow_policy", json!("evict")).bridge.evicts);
    let restoring = json!(["map", [["flow-restore-wait", "true"]]]);
    assert!(with("Open_vSwitch", "other_config", restoring).bridge.restoring);
    let controller = |column, value| with("Controller", column, value).bridge.in_band;
    assert!(!controller("connection_mode", json!("out-of-band")));
    assert!(controller("connection_mode", json!("in-band")));
    assert!(!controller("target", json!("punix:/run/x")) && controller("target", json!("ssl:h:1")));
    assert!(with("Mirror", "select_all", json!(true)).bridge.mirrors[0].all);
    let port = |column, value| with("Port", column, value).ports["p1"].clone();
    assert!(port("qos", some()).qos && port("lacp", json!("passive")).lacp);
    assert!(!port("lacp", json!("off")).lacp);
    let interface =
        |column, value| with("Interface", column, value).ports["p1"].interfaces[0].clone();
    let on = || json!(["map", [["enable", "true"]]]);
    assert!(interface("bfd", on()).bfd && interface("lldp", on()).lldp);
    assert!(!interface("bfd", json!(["map", [["enable", "false"]]])).bfd);
    assert!(interface("cfm_mpid", json!(7)).cfm);
    assert!(interface("ingress_policing_rate", json!(1)).policed);
    assert!(interface("ingress_policing_kpkts_rate", json!(1)).policed);
    assert_eq!(interface("ofport", json!(-1)).number, None);
    assert_eq!(interface("mtu", json!(["set", []])).mtu, None);
}

#[test]
fn rows_change_and_go() {
    let mut rows = Rows::default();
    rows.apply(&captured()).unwrap();
    let (uuid, row) = captured()["Bridge"]
        .as_object()
        .map(|b| b.iter().next().unwrap())
        .map(|(u, r)| (u.clone(), r.clone()))
        .unwrap();
    let mut new = row["new"].clone();
    new["stp_enable"] = json!(true);
    let update =
        json!({ "Bridge": { uuid.clone(): { "old": { "stp_enable": false }, "new": new } } });
    rows.apply(&update).unwrap();
    assert!(rows.facts("br0").unwrap().unwrap().bridge.stp);
    rows.apply(&json!({ "Bridge": { uuid: { "old": new } } })).unwrap();
    assert_eq!(rows.facts("br0"), Ok(None));
}

#[test]
fn rows_that_do_not_fit_are_an_error() {
    for tables in [
        json!(1),
        json!({ "Manager": {} }),
        json!({ "Port": 1 }),
        json!({ "Port": { "u": { "new": 1 } } }),
    ] {
        assert!(Rows::default().apply(&tables).is_err(), "{tables}");
    }
    for column in ["ports", "sflow", "stp_enable", "other_config", "flow_tables"] {
        let mut tables = captured();
        for row in tables["Bridge"].as_object_mut().unwrap().values_mut() {
            row["new"].as_object_mut().unwrap().remove(column);
        }
        let mut rows = Rows::default();
        rows.apply(&tables).unwrap();
        assert!(rows.facts("br0").is_err(), "{column}");
    }
    let mut tables = captured();
    tables["Interface"] = json!({});
    let mut rows = Rows::default();
    rows.apply(&tables).unwrap();
    assert!(rows.facts("br0").is_err(), "a row is missing");
}

/// Any JSON.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            "[a-z]{0,6}",
            Just("set".to_owned()),
            Just("map".to_owned()),
            Just("uuid".to_owned())
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    /// A column that has anything is an error or a fact.
    #[test]
    fn hostile_rows_never_panic(table in 0usize..7, column in 0usize..11, value in value()) {
        let (table, columns) = COLUMNS[table];
        let column = columns[column % columns.len()];
        let mut tables = captured();
        for row in tables[table].as_object_mut().unwrap().values_mut() {
            row["new"][column] = value.clone();
        }
        let mut rows = Rows::default();
        rows.apply(&tables).unwrap();
        let _ = rows.facts("br0");
    }
}
