//! What the agent in a VM and its host say to each other about the VM's bond: the
//! arguments and results of the function `bond`. The control path alone goes here; no
//! packet does.
//!
//! A *bond* joins the VM's paravirtual NIC and, while the VM holds one, a virtual function
//! (VF) of a network card. The host gives orders; the agent carries them out and reports.
//! Both sides say what **is**, not what changed: an order names the path that the host
//! wants, a report the path that the bond uses. A message that is lost, repeated or late
//! does no harm, and each side may start anew at any time.
//!
//! A call's arguments are one JSON object, [`Call`], of at most [`MESSAGE_BYTES`]:
//!
//! - [`Call::Next`] is answered when the host's order is not the one that the agent has;
//!   until then the call stays open. The answer is an [`Order`].
//! - [`Call::Tell`] carries a [`Report`] and is answered at once, with no bytes.
//!
//! A newer side may send fields that an older one does not know: they are ignored.
//! Neither side believes the other: texts are bounded, and the host shows them as the
//! VM's own words.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The function's name.
pub const FUNCTION: &str = "bond";
/// Its version, major and minor.
pub const VERSION: (u16, u16) = (1, 0);
/// Longest message either way, bytes.
pub const MESSAGE_BYTES: usize = 1024;
/// Longest text in a message (an interface's name, a sentence), bytes.
pub const TEXT_BYTES: usize = 240;
/// Least time between two reports that only repeat a path, ms. A report of another path
/// goes at once.
pub const REPORT_MS_MIN: u32 = 100;
/// Reports that a host takes of one agent in a second; it ignores more.
pub const REPORTS_PER_S: u32 = 10;

/// A way that packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// The paravirtual NIC, which each VM keeps.
    Paravirtual,
    /// The VF.
    Vf,
}

/// What holds the two NICs together in the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A bond (active-backup): the agent moves it before a VF goes, so that no packet is
    /// lost.
    Bond,
    /// The kernel's net_failover: it moves by itself when the VF is gone; packets may be
    /// lost.
    NetFailover,
}

/// What a call of `bond` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Call {
    /// Answer with the order as soon as its number is not `have`.
    Next {
        /// The number of the order that the agent has; 0 for none.
        have: u64,
    },
    /// How things are.
    Tell(Report),
}

/// What the host wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Never 0; another order has another number. Numbers do not grow.
    pub number: u64,
    /// The path that the bond should use. [`Path::Vf`] may come before the VF does: the
    /// agent takes it when it appears.
    pub path: Path,
    /// How often to report while nothing changes, ms; at least [`REPORT_MS_MIN`].
    pub report_ms: u32,
}

/// How things are in the VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The number of the last order that the agent has read; 0 for none.
    pub order: u64,
    /// The agent's version, for people.
    pub agent: String,
    /// The bond's name in the VM.
    pub bond: String,
    pub mode: Mode,
    /// The bond's MAC address, as `02:00:00:00:00:01`. The VF must have the same.
    pub mac: String,
    /// The path that packets take now; none while the bond has no carrier.
    pub path: Option<Path>,
    /// The VF's interface in the VM, while there is one.
    pub vf: Option<String>,
    /// Packets of the bond in both directions since it was made. It grows only, unless the
    /// bond was made anew.
    pub packets: u64,
    /// Median time of a packet to an address that the VM's owner named, and back, µs, by the
    /// path in `path`; none if the agent asks no address, or gets no answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u32>,
    /// Why the order is not carried out, if it is not, in a sentence.
    pub trouble: Option<String>,
}

/// Why a message is refused: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn read<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Refused> {
    if bytes.len() > MESSAGE_BYTES {
        let n = bytes.len();
        return Err(Refused(format!("a message has at most {MESSAGE_BYTES} bytes, not {n}")));
    }
    serde_json::from_slice(bytes).map_err(|e| Refused(format!("not a message of `bond`: {e}")))
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_BYTES).contains(&text.len()) && !text.contains(char::is_control)
}

impl Call {
    /// Reads a call's arguments.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        let call: Call = read(bytes)?;
        if let Call::Tell(report) = &call {
            report.check()?;
        }
        Ok(call)
    }

    /// A call's arguments. A report should be made to fit before ([`Report::fit`]).
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data")
    }
}

impl Order {
    /// Reads an order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        let order: Order = read(bytes)?;
        match (order.number, order.report_ms) {
            (0, _) => Err(Refused("an order has a number other than 0".into())),
            (_, ms) if ms < REPORT_MS_MIN => {
                Err(Refused(format!("report_ms is at least {REPORT_MS_MIN}, not {ms}")))
            }
            _ => Ok(order),
        }
    }

    /// An order's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data")
    }
}

impl Report {
    /// Cuts texts that are too long, and takes control characters out.
    pub fn fit(mut self) -> Self {
        let fit = |text: &mut String| {
            text.retain(|c| !c.is_control());
            let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|n| text.is_char_boundary(*n));
            text.truncate(end.unwrap_or(0));
            if text.is_empty() {
                text.push('?');
            }
        };
        [&mut self.agent, &mut self.bond, &mut self.mac].into_iter().for_each(fit);
        self.vf.iter_mut().chain(&mut self.trouble).for_each(fit);
        // Quotes and backslashes take two bytes in JSON: the sentence gives way.
        while Call::Tell(self.clone()).to_bytes().len() > MESSAGE_BYTES && self.trouble.is_some() {
            let text = self.trouble.as_mut().expect("just looked at");
            match text.len() {
                0..4 => self.trouble = None,
                n => text
                    .truncate((0..=n / 2).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0)),
            }
        }
        self
    }

    fn check(&self) -> Result<(), Refused> {
        let mut texts = vec![("agent", &self.agent), ("bond", &self.bond), ("mac", &self.mac)];
        texts.extend(self.vf.iter().map(|t| ("vf", t)));
        texts.extend(self.trouble.iter().map(|t| ("trouble", t)));
        match texts.iter().find(|(_, text)| !is_text(text)) {
            Some((name, _)) => Err(Refused(format!(
                "`{name}` is one line of 1 to {TEXT_BYTES} bytes without control characters"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            order: 7,
            agent: "0.1.0".into(),
            bond: "bond0".into(),
            mode: Mode::Bond,
            mac: "02:00:00:00:00:01".into(),
            path: Some(Path::Vf),
            vf: Some("enp1s0".into()),
            packets: u64::MAX,
            latency_us: Some(u32::MAX),
            trouble: None,
        }
    }

    #[test]
    fn messages_come_back_as_they_went() {
        for call in [Call::Next { have: 3 }, Call::Tell(report())] {
            assert_eq!(Call::from_bytes(&call.to_bytes()), Ok(call));
        }
        let order = Order { number: 9, path: Path::Paravirtual, report_ms: 1000 };
        assert_eq!(Order::from_bytes(&order.to_bytes()), Ok(order));
    }

    #[test]
    fn a_field_of_a_newer_side_is_ignored() {
        let next = br#"{"call":"next","have":3,"colour":"red"}"#;
        assert_eq!(Call::from_bytes(next), Ok(Call::Next { have: 3 }));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = format!(r#"{{"call":"next","have":{}3}}"#, " ".repeat(MESSAGE_BYTES));
        let mut lines = report();
        lines.trouble = Some("two\nlines".into());
        for bytes in [
            &b""[..],
            b"[]",
            b"{\"call\":\"x\"}",
            b"{\"call\":\"next\"}",
            long.as_bytes(),
            &Call::Tell(lines).to_bytes(),
        ] {
            assert!(Call::from_bytes(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        assert!(Order::from_bytes(br#"{"number":0,"path":"vf","report_ms":1000}"#).is_err());
        assert!(Order::from_bytes(br#"{"number":1,"path":"vf","report_ms":1}"#).is_err());
    }

    #[test]
    fn a_report_that_was_made_to_fit_is_taken() {
        let mut long = report();
        long.trouble = Some("\"é\n".repeat(500));
        long.bond = "\"".repeat(500);
        long.agent = String::new();
        let fitted = Call::Tell(long.fit());
        assert_eq!(Call::from_bytes(&fitted.to_bytes()), Ok(fitted));
    }
}
