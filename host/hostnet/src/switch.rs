//! A stock Open vSwitch, asked and changed by its own programs.

use crate::child;
use crate::limits::{OVS_CHANGE, OVS_LOOK, OVS_MARGIN};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All versions of OpenFlow that `ovs-ofctl` speaks: a bridge may speak only some.
const OPENFLOW: &str = "OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15";

/// An Open vSwitch, by the folder of its sockets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch {
    folder: PathBuf,
}

/// A row of a table of its database, by column.
pub struct Row(BTreeMap<String, Value>);

impl Row {
    /// One that a test makes up.
    #[doc(hidden)]
    pub fn new(columns: serde_json::Map<String, Value>) -> Self {
        Row(columns.into_iter().collect())
    }

    /// A column's only value, as text; empty if it has none.
    pub fn text(&self, column: &str) -> String {
        match self.members(column).as_slice() {
            [Value::String(text)] => text.clone(),
            [value @ (Value::Number(_) | Value::Bool(_))] => value.to_string(),
            _ => String::new(),
        }
    }

    /// A column's values. The database writes a set of one as its member.
    pub fn members(&self, column: &str) -> Vec<&Value> {
        match self.0.get(column) {
            None => vec![],
            Some(value) => match typed(value, "set") {
                Some(members) => members.as_array().map_or(vec![], |m| m.iter().collect()),
                None => vec![value],
            },
        }
    }

    /// What a column with a map has under this key.
    pub fn entry(&self, column: &str, key: &str) -> Option<&str> {
        let pairs = typed(self.0.get(column)?, "map")?.as_array()?;
        pairs.iter().find(|pair| pair[0] == key)?[1].as_str()
    }

    /// Whether a column refers to the row with this identity, which is another's `_uuid`.
    pub fn refers_to(&self, column: &str, row: &Row) -> bool {
        row.0.get("_uuid").is_some_and(|id| self.members(column).contains(&id))
    }
}

/// The inside of `["set", [...]]` and the like, as the database and `ovs-vsctl` write them.
pub fn typed<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    match value.as_array()?.as_slice() {
        [of, inside] if of == kind => Some(inside),
        _ => None,
    }
}

fn rows(text: &str) -> Result<Vec<Row>, String> {
    let no_table = || "`ovs-vsctl` does not speak its JSON".to_owned();
    let table: Value = serde_json::from_str(text).map_err(|_| no_table())?;
    let headings = table["headings"].as_array().ok_or_else(no_table)?;
    let names: Vec<&str> = headings.iter().filter_map(Value::as_str).collect();
    let data = table["data"].as_array().ok_or_else(no_table)?;
    let row = |values: &Value| {
        let values = values.as_array()?.iter().cloned();
        Some(Row(names.iter().map(|&n| n.to_owned()).zip(values).collect()))
    };
    data.iter().map(|values| row(values).ok_or_else(no_table)).collect()
}

impl Switch {
    pub fn new(folder: PathBuf) -> Self {
        Switch { folder }
    }

    /// The one of this host: where its programs look for it.
    pub fn of_host() -> Self {
        let folder =
            std::env::var_os("OVS_RUNDIR").unwrap_or_else(|| "/var/run/openvswitch".into());
        Switch::new(folder.into())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The rows of a table: all, or those of this name.
    pub fn table(
        &self,
        table: &str,
        columns: &[&str],
        name: Option<&str>,
    ) -> Result<Vec<Row>, String> {
        let columns = format!("--columns={}", columns.join(","));
        let mut words = vec!["--format=json", "--if-exists", &columns, "list", table];
        words.extend(name);
        rows(&self.vsctl(&words, OVS_LOOK)?)
    }

    /// Asks something that changes nothing: what `ovs-vsctl` prints.
    pub fn ask(&self, words: &[&str]) -> Result<String, String> {
        self.vsctl(words, OVS_LOOK)
    }

    /// Changes the database, and waits until the switch has followed.
    pub fn change(&self, words: &[&str]) -> Result<(), String> {
        self.vsctl(words, OVS_CHANGE).map(drop)
    }

    fn vsctl(&self, words: &[&str], at_most: Duration) -> Result<String, String> {
        let socket = self.folder.join("db.sock");
        if !socket.exists() {
            return Err(format!(
                "no Open vSwitch runs with its sockets in {}: start it, or say which folder has its db.sock (pools of network VFs: --switch; ports: OVS_RUNDIR)",
                self.folder.display()
            ));
        }
        let db = format!("--db=unix:{}", socket.display());
        // It ends by itself, with a sentence.
        let time = format!("--timeout={}", at_most.as_secs());
        let words: Vec<&str> = [&*db, &*time].into_iter().chain(words.iter().copied()).collect();
        child::must("ovs-vsctl", &words, "", at_most + OVS_MARGIN)
    }

    /// What the bridge says to a question in OpenFlow. Ports are named.
    pub fn ofctl(&self, question: &str, bridge: &str) -> Result<String, String> {
        let bridge = format!("unix:{}", self.folder.join(format!("{bridge}.mgmt")).display());
        let words = ["--names", "-O", OPENFLOW, question, &bridge];
        child::must("ovs-ofctl", &words, "", OVS_LOOK)
    }

    /// What the running switch itself says. It wrote the number of its process, which is in
    /// the name of its socket, into a file.
    pub fn appctl(&self, words: &[&str]) -> Result<String, String> {
        let file = self.folder.join("ovs-vswitchd.pid");
        let pid = std::fs::read_to_string(&file).ok().and_then(|t| t.trim().parse::<u32>().ok());
        let pid = pid.ok_or_else(|| {
            format!(
                "no {} says which process is the switch: start ovs-vswitchd with --pidfile",
                file.display()
            )
        })?;
        let socket = self.folder.join(format!("ovs-vswitchd.{pid}.ctl")).display().to_string();
        child::must("ovs-appctl", &[&["-t", &*socket], words].concat(), "", OVS_LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = r#"{"data":[["vt-p-0",["map",[["vfun-nics","p-0"]]],["set",[]],7,["uuid","u"]]],
            "headings":["name","external_ids","tag","port","_uuid"]}"#;
        let rows = rows(text).unwrap();
        let row = &rows[0];
        assert_eq!(
            (&*row.text("name"), &*row.text("tag"), &*row.text("port")),
            ("vt-p-0", "", "7")
        );
        assert_eq!(row.entry("external_ids", "vfun-nics"), Some("p-0"));
        assert_eq!(row.entry("external_ids", "other"), None);
        assert_eq!(row.entry("name", "other"), None);
        let of_bridge = r#"{"data":[[["uuid","u"]],[["set",[["uuid","v"],["uuid","u"]]]],[["set",[]]]],
            "headings":["ports"]}"#;
        let refers: Vec<bool> =
            super::rows(of_bridge).unwrap().iter().map(|b| b.refers_to("ports", row)).collect();
        assert_eq!(refers, [true, true, false]);
        assert!(super::rows("no").is_err());
    }

    #[test]
    fn a_switch_that_does_not_run_is_said_so() {
        let why = Switch::new("/nowhere".into()).change(&[]).unwrap_err();
        assert!(why.contains("/nowhere") && why.contains("--switch"), "{why}");
    }
}
