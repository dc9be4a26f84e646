//! What the manager and the process that watches switches (`vfun-links`) say to each other,
//! over a `SOCK_SEQPACKET` socket that is that process's standard input. Each packet is one
//! JSON object, and says all that there is to say of one port, so that a packet which was
//! overtaken by another need not be sent.

use crate::passed::Passed;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest packet, bytes: two paths as long as Linux has them, and some words.
pub const PACKET_BYTES: usize = 16 << 10;

/// What the manager says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToLinks {
    /// A port comes, is another one, or goes.
    Port(WatchNews),
    /// Plug a window into a VM that runs, or take it out.
    Plug(PlugOrder),
}

/// A further window and a VM, which runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlugOrder {
    /// Of this order: the answer bears it.
    pub order: u64,
    /// How the VM's QEMU is reached.
    pub vmm: PlugAt,
    /// What the window is called in QEMU and libvirt.
    pub id: String,
    pub way: PlugWay,
}

/// How a VM's QEMU is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlugAt {
    /// By this control socket (QMP).
    Qmp(PathBuf),
    /// By libvirt: this domain.
    Libvirt(String),
}

/// Which way a window goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlugWay {
    /// Into the VM: the window's file and its size.
    File {
        file: PathBuf,
        bytes: u64,
    },
    /// Into the VM: the manager hands the window over at this socket.
    Served {
        socket: PathBuf,
    },
    Out,
}

/// What the manager declares of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchNews {
    /// Its name on the host: that of its interface in the switch.
    pub port: String,
    /// Nothing: it is not to be watched any more.
    pub declared: Option<WatchedPort>,
}

/// A port that is to be watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchedPort {
    /// Of this declaration. Verdicts bear it, so that none is taken for one of a later declaration.
    pub number: u64,
    pub switch: SwitchBridge,
    /// The type that its interface is to have.
    pub kind: String,
    /// DPDK's name of its device.
    pub devargs: Option<String>,
    /// The MTU in the VM.
    pub mtu: u32,
}

/// A bridge of an Open vSwitch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchBridge {
    /// The folder of the switch's sockets.
    pub run: PathBuf,
    /// The socket of its database.
    pub database: PathBuf,
    /// The bridge's name.
    pub bridge: String,
}

/// What the process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromLinks {
    /// What holds for frames of a port, from now on.
    Verdict(VerdictNews),
    /// What became of an order to plug a window in, or to take it out.
    Plugged(PlugAnswer),
    /// It is there, and hears what it is told.
    Alive,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlugAnswer {
    pub order: u64,
    pub outcome: PlugOutcome,
}

/// The same, without the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlugOutcome {
    Done,
    /// It was so before.
    Already,
    /// It was not done, and why.
    Failed(String),
    /// The QEMU could not be asked, and why.
    Unreachable(String),
    /// The VM has not let go of the window in time.
    Kept(String),
}

/// The newest verdict about a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictNews {
    /// The port that sends the frames.
    pub from: String,
    /// That of the port's declaration.
    pub number: u64,
    #[serde(flatten)]
    pub verdict: SaidVerdict,
    /// Of a port that is joined: the rules that its frames pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passed>,
}

/// What is said of frames of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaidVerdict {
    /// All go unchanged to this port, and nowhere else.
    JoinedTo(String),
    /// They go through the switch, for this reason.
    Why(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packets_are_as_they_are_written_down() {
        let switch = SwitchBridge {
            run: "/run/openvswitch".into(),
            database: "/run/openvswitch/db.sock".into(),
            bridge: "br0".into(),
        };
        let declared = WatchedPort {
            number: 3,
            switch,
            kind: "dpdk".into(),
            devargs: Some("net_vfun_p1,port=p1".into()),
            mtu: 1500,
        };
        let news = |declared| ToLinks::Port(WatchNews { port: "p1".into(), declared });
        let said = |verdict| {
            FromLinks::Verdict(VerdictNews { from: "p1".into(), number: 3, verdict, passed: None })
        };
        let whole = json!({"port": {"port": "p1", "declared": {
            "number": 3, "kind": "dpdk", "devargs": "net_vfun_p1,port=p1", "mtu": 1500,
            "switch": {"run": "/run/openvswitch", "database": "/run/openvswitch/db.sock", "bridge": "br0"}}}});
        assert_eq!(serde_json::to_value(news(Some(declared.clone()))).unwrap(), whole);
        assert_eq!(serde_json::from_value::<ToLinks>(whole).unwrap(), news(Some(declared)));
        let gone = json!({"port": {"port": "p1", "declared": null}});
        assert_eq!(serde_json::from_value::<ToLinks>(gone).unwrap(), news(None));
        for (packet, verdict) in [
            (
                json!({"from": "p1", "number": 3, "joined_to": "p2"}),
                SaidVerdict::JoinedTo("p2".into()),
            ),
            (json!({"from": "p1", "number": 3, "why": "no"}), SaidVerdict::Why("no".into())),
        ] {
            let packet = json!({"verdict": packet});
            assert_eq!(serde_json::to_value(said(verdict.clone())).unwrap(), packet);
            assert_eq!(serde_json::from_value::<FromLinks>(packet).unwrap(), said(verdict));
        }
    }

    #[test]
    fn what_says_too_little_is_refused() {
        for packet in [
            json!({"verdict": {"from": "p1", "number": 3}}),
            json!({"verdict": {"from": "p1", "joined_to": "p2"}}),
            json!({"verdict": {"from": "p1", "number": 3, "joined": "p2"}}),
            json!({"other": {}}),
        ] {
            assert!(serde_json::from_value::<FromLinks>(packet.clone()).is_err(), "{packet}");
        }
        assert!(serde_json::from_value::<ToLinks>(json!({"port": {"declared": null}})).is_err());
    }
}
