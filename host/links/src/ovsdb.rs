//! What the switch's database says of one bridge: rows of JSON in, facts out.
//!
//! Only columns are asked for that a condition needs, so that a change is one of a fact.

use crate::limits::{FACTS_MAX, ROWS_BYTES_MAX, TEXT_BYTES_MAX};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vfun_hostnet::switch::typed;

/// A mirror of the bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Its name.
    pub name: String,
    /// It copies all frames.
    pub all: bool,
    /// It copies frames of these ports, from them or to them.
    pub ports: Vec<String>,
}

/// A port of the bridge. Fields that are missing have their column's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFacts {
    /// It has a QoS.
    pub qos: bool,
    /// It speaks LACP.
    pub lacp: bool,
    /// Its interfaces; a bond has several.
    pub interfaces: Vec<InterfaceFacts>,
}

/// An interface of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// Its type, such as `dpdk`.
    pub kind: String,
    /// DPDK's name of its device.
    pub devargs: Option<String>,
    /// Its number in OpenFlow, once the switch has opened it.
    pub number: Option<u32>,
    /// Its MTU, once the switch has opened it.
    pub mtu: Option<u32>,
    /// What it receives is limited.
    pub policed: bool,
    /// It speaks BFD.
    pub bfd: bool,
    /// It speaks CFM.
    pub cfm: bool,
    /// It speaks LLDP.
    pub lldp: bool,
}

/// What holds for the whole bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeFacts {
    /// It speaks STP.
    pub stp: bool,
    /// It speaks RSTP.
    pub rstp: bool,
    /// It samples for sFlow.
    pub sflow: bool,
    /// It reports to a NetFlow collector.
    pub netflow: bool,
    /// It samples for IPFIX.
    pub ipfix: bool,
    /// Its mirrors.
    pub mirrors: Vec<Mirror>,
    /// It begins to forward by itself when its controller is gone.
    pub fails_open: bool,
    /// It keeps rules of its own for a controller that is reached through it.
    pub in_band: bool,
    /// It throws rules away when a table is full.
    pub evicts: bool,
    /// The whole switch forwards nothing until its rules have been restored.
    pub restoring: bool,
}

/// All that is known of the bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The whole.
    pub bridge: BridgeFacts,
    /// Its ports, by name.
    pub ports: BTreeMap<String, PortFacts>,
}

impl Facts {
    /// The port that has an interface.
    pub fn port_of(&self, interface: &str) -> Option<&PortFacts> {
        // Most ports have the name of their interface.
        let named = self.ports.get(interface).filter(|p| p.has(interface));
        named.or_else(|| self.ports.values().find(|p| p.has(interface)))
    }
}

impl Facts {
    /// Ports and mirrors, each with what it names.
    fn parts(&self) -> usize {
        let ports = self.ports.values().map(|p| 1 + p.interfaces.len());
        let mirrors = self.bridge.mirrors.iter().map(|m| 1 + m.ports.len());
        ports.chain(mirrors).sum()
    }
}

impl PortFacts {
    fn has(&self, interface: &str) -> bool {
        self.interfaces.iter().any(|i| i.name == interface)
    }

    /// One of its interfaces.
    pub fn interface(&self, name: &str) -> Option<&InterfaceFacts> {
        self.interfaces.iter().find(|i| i.name == name)
    }
}

/// Tables and columns that are read.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("Open_vSwitch", &["other_config"]),
    ("Flow_Table", &["overflow_policy"]),
    (
        "Bridge",
        &[
            "name",
            "ports",
            "mirrors",
            "sflow",
            "netflow",
            "ipfix",
            "stp_enable",
            "rstp_enable",
            "fail_mode",
            "controller",
            "other_config",
            "flow_tables",
        ],
    ),
    ("Port", &["name", "interfaces", "qos", "lacp"]),
    (
        "Interface",
        &[
            "name",
            "type",
            "options",
            "ofport",
            "mtu",
            "ingress_policing_rate",
            "ingress_policing_kpkts_rate",
            "bfd",
            "cfm_mpid",
            "lldp",
        ],
    ),
    ("Mirror", &["name", "select_all", "select_src_port", "select_dst_port"]),
    ("Controller", &["target", "connection_mode"]),
];

/// The parameters of the request `monitor`.
pub fn monitor() -> Value {
    let tables: Map<String, Value> = COLUMNS
        .iter()
        .map(|(table, columns)| (table.to_string(), json!({ "columns": columns })))
        .collect();
    json!(["Open_vSwitch", null, tables])
}

/// The database has something else than its schema says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the switch's database sent rows that are not those of its schema: {0}")]
pub struct NotItsSchema(String);

fn wrong(what: impl Into<String>) -> NotItsSchema {
    NotItsSchema(what.into())
}

type Row = Map<String, Value>;

/// Rows of the tables that are read.
#[derive(Default)]
pub struct Rows {
    tables: BTreeMap<String, BTreeMap<String, Row>>,
    /// Bytes of all of them.
    bytes: usize,
}

impl Rows {
    /// Takes in the answer to `monitor`, or what an `update` says.
    pub fn apply(&mut self, tables: &Value) -> Result<(), NotItsSchema> {
        let tables = tables.as_object().ok_or_else(|| wrong("no tables"))?;
        for (table, rows) in tables {
            if !COLUMNS.iter().any(|(known, _)| known == table) {
                return Err(wrong("a table that was not asked for"));
            }
            let rows = rows.as_object().ok_or_else(|| wrong("no rows"))?;
            let kept = self.tables.entry(table.clone()).or_default();
            for (uuid, change) in rows {
                let (old, bytes) = match change.get("new") {
                    Some(Value::Object(new)) => {
                        (kept.insert(uuid.clone(), new.clone()), row_weight(uuid, new))
                    }
                    None | Some(Value::Null) => (kept.remove(uuid), 0),
                    Some(_) => return Err(wrong("a row that is none")),
                };
                self.bytes += bytes;
                self.bytes -= old.map_or(0, |old| row_weight(uuid, &old));
                if self.bytes > ROWS_BYTES_MAX {
                    return Err(wrong(format!("more than {ROWS_BYTES_MAX} bytes of them")));
                }
            }
        }
        Ok(())
    }

    /// The facts of a bridge, if it is there.
    pub fn facts(&self, bridge: &str) -> Result<Option<Facts>, NotItsSchema> {
        let bridges = self.tables.get("Bridge").into_iter().flat_map(BTreeMap::values);
        let Some(row) = bridges.into_iter().find(|r| text(r, "name") == Some(bridge)) else {
            return Ok(None);
        };
        let mut ports = BTreeMap::new();
        for port in self.rows("Port", row, "ports")? {
            ports.insert(name(port)?, self.port(port)?);
        }
        let facts = Facts { bridge: self.bridge(row)?, ports };
        match facts.parts() > FACTS_MAX {
            true => Err(wrong(format!("a bridge with more than {FACTS_MAX} ports and mirrors"))),
            false => Ok(Some(facts)),
        }
    }

    /// The rows of a table that a column refers to.
    fn rows<'a>(
        &'a self,
        table: &str,
        row: &'a Row,
        column: &str,
    ) -> Result<impl Iterator<Item = &'a Row>, NotItsSchema> {
        let mut seen = BTreeSet::new();
        let mut rows = vec![];
        for uuid in set(row, column)? {
            if !seen.insert(uuid.get(1).and_then(Value::as_str)) {
                return Err(wrong("a set with a member twice"));
            }
            rows.push(self.row(table, uuid)?);
        }
        Ok(rows.into_iter())
    }

    /// The row with a UUID. A table without rows is not sent.
    fn row(&self, table: &str, uuid: &Value) -> Result<&Row, NotItsSchema> {
        let uuid = uuid.as_array().and_then(|pair| pair.get(1)).and_then(Value::as_str);
        let row = uuid.and_then(|uuid| self.tables.get(table).and_then(|all| all.get(uuid)));
        row.ok_or_else(|| wrong("a row is missing"))
    }

    fn bridge(&self, row: &Row) -> Result<BridgeFacts, NotItsSchema> {
        let mut mirrors = vec![];
        for mirror in self.rows("Mirror", row, "mirrors")? {
            let mut ports = vec![];
            for column in ["select_src_port", "select_dst_port"] {
                for port in self.rows("Port", mirror, column)? {
                    ports.push(name(port)?);
                }
            }
            mirrors.push(Mirror { name: name(mirror)?, all: flag(mirror, "select_all")?, ports });
        }
        let controllers: Vec<&Row> = self.rows("Controller", row, "controller")?.collect();
        let remote = |c: &&Row| {
            let target = text(c, "target").unwrap_or_default();
            target.starts_with("tcp:") || target.starts_with("ssl:")
        };
        let in_band =
            |c: &&Row| remote(c) && one(c, "connection_mode") != Some(&json!("out-of-band"));
        let disabled = option(row, "other_config", "disable-in-band")? == Some("true");
        let tables = map(row, "flow_tables")?.iter().filter_map(|pair| pair.get(1));
        let mut evicts = false;
        for table in tables {
            let policy = self.row("Flow_Table", table)?;
            evicts |= one(policy, "overflow_policy") == Some(&json!("evict"));
        }
        let mut restoring = false;
        for whole in self.tables.get("Open_vSwitch").into_iter().flat_map(BTreeMap::values) {
            restoring |= option(whole, "other_config", "flow-restore-wait")? == Some("true");
        }
        Ok(BridgeFacts {
            stp: flag(row, "stp_enable")?,
            rstp: flag(row, "rstp_enable")?,
            sflow: !set(row, "sflow")?.is_empty(),
            netflow: !set(row, "netflow")?.is_empty(),
            ipfix: !set(row, "ipfix")?.is_empty(),
            mirrors,
            fails_open: !controllers.is_empty() && one(row, "fail_mode") != Some(&json!("secure")),
            in_band: !disabled && controllers.iter().any(in_band),
            evicts,
            restoring,
        })
    }

    fn port(&self, row: &Row) -> Result<PortFacts, NotItsSchema> {
        let interfaces = self.rows("Interface", row, "interfaces")?.map(interface);
        Ok(PortFacts {
            qos: !set(row, "qos")?.is_empty(),
            lacp: one(row, "lacp").is_some_and(|v| v != "off"),
            interfaces: interfaces.collect::<Result<_, _>>()?,
        })
    }
}

fn interface(row: &Row) -> Result<InterfaceFacts, NotItsSchema> {
    let number = |column| one(row, column).and_then(Value::as_u64).and_then(|n| n.try_into().ok());
    let limited = |column| number(column).is_none_or(|rate: u32| rate != 0);
    Ok(InterfaceFacts {
        name: name(row)?,
        kind: short(text(row, "type").ok_or_else(|| wrong("an interface without a type"))?)?,
        devargs: option(row, "options", "dpdk-devargs")?.map(short).transpose()?,
        // A negative number says that it could not be opened.
        number: number("ofport"),
        mtu: number("mtu"),
        policed: limited("ingress_policing_rate") || limited("ingress_policing_kpkts_rate"),
        bfd: option(row, "bfd", "enable")? == Some("true"),
        cfm: one(row, "cfm_mpid").is_some(),
        lldp: option(row, "lldp", "enable")? == Some("true"),
    })
}

/// Bytes that a row takes, about.
fn row_weight(uuid: &str, row: &Row) -> usize {
    let columns =
        row.iter().map(|(name, value)| size_of::<(String, Value)>() + name.len() + weight(value));
    size_of::<(String, Row)>() + uuid.len() + columns.sum::<usize>()
}

/// Bytes that a value takes outside of itself. Messages are not nested deeply.
fn weight(value: &Value) -> usize {
    let members = |inside: usize| size_of::<(String, Value)>() + inside;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(|v| members(weight(v))).sum(),
        Value::Object(all) => all.iter().map(|(k, v)| members(k.len() + weight(v))).sum(),
    }
}

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column).and_then(Value::as_str)
}

fn name(row: &Row) -> Result<String, NotItsSchema> {
    short(text(row, "name").ok_or_else(|| wrong("a row without a name"))?)
}

/// A text that is kept.
fn short(text: &str) -> Result<String, NotItsSchema> {
    match text.len() > TEXT_BYTES_MAX {
        true => Err(wrong(format!("a name or type of more than {TEXT_BYTES_MAX} bytes"))),
        false => Ok(text.to_owned()),
    }
}

fn flag(row: &Row, column: &str) -> Result<bool, NotItsSchema> {
    row.get(column).and_then(Value::as_bool).ok_or_else(|| wrong("a flag is missing"))
}

/// The members of a column: a set of one stands without its brackets.
fn set<'a>(row: &'a Row, column: &str) -> Result<&'a [Value], NotItsSchema> {
    let value = row.get(column).ok_or_else(|| wrong("a column is missing"))?;
    let members = typed(value, "set").and_then(Value::as_array);
    Ok(members.map_or(std::slice::from_ref(value), Vec::as_slice))
}

/// The one member of a column that has none or one.
fn one<'a>(row: &'a Row, column: &str) -> Option<&'a Value> {
    set(row, column).ok().and_then(<[Value]>::first)
}

/// A column of names and values, each pair a list.
fn map<'a>(row: &'a Row, column: &str) -> Result<&'a [Value], NotItsSchema> {
    let value = row.get(column).ok_or_else(|| wrong("a column is missing"))?;
    let pairs = typed(value, "map").and_then(Value::as_array);
    let pairs = pairs.ok_or_else(|| wrong("a map is missing"))?;
    let right = |pair: &Value| pair.as_array().is_some_and(|pair| pair.len() == 2);
    if pairs.iter().all(right) { Ok(pairs) } else { Err(wrong("a pair is none")) }
}

/// What such a column has for a name.
fn option<'a>(row: &'a Row, column: &str, key: &str) -> Result<Option<&'a str>, NotItsSchema> {
    let found = map(row, column)?.iter().find(|pair| pair[0] == key);
    Ok(found.and_then(|pair| pair[1].as_str()))
}

#[cfg(test)]
mod tests;
