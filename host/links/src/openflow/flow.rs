//! Rules: what they match, and what they do with a frame.

use super::{Malformed, RESERVED_PORTS, Reader};
use crate::limits::{MATCH_BYTES_MAX, STEPS_MAX};

/// What a rule matches, as far as it is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Only frames of this port.
    pub in_port: Option<u32>,
    /// Only frames of this EtherType.
    pub dl_type: Option<u16>,
    /// Something else as well.
    pub other: bool,
}

impl Match {
    /// Whether a frame of a port may match.
    pub fn may_be_of(&self, port: u32) -> bool {
        self.in_port.is_none_or(|p| p == port)
    }

    /// Whether each frame of a port surely matches, if it may.
    pub fn takes_all(&self) -> bool {
        self.dl_type.is_none() && !self.other
    }
}

/// What makes two rules the same one: the switch writes a match always in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Its table.
    pub table: u8,
    /// The larger wins.
    pub priority: u16,
    /// Fields of its match, as the switch wrote them.
    pub fields: Vec<u8>,
}

/// What a rule does that a direct link may not pass by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionFault {
    /// One whose name is known.
    Named(&'static str),
    /// An action of OpenFlow.
    Standard(u16),
    /// An action of a vendor.
    Vendor(u32, u16),
    /// An instruction of OpenFlow.
    Instruction(u16),
    /// More outputs and tables than are kept.
    TooManySteps,
}

impl std::fmt::Display for ActionFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ActionFault::Named(name) => f.write_str(name),
            ActionFault::Standard(n) => write!(f, "action {n} of OpenFlow"),
            ActionFault::Vendor(v, n) => write!(f, "action {n} of vendor {v:#x}"),
            ActionFault::TooManySteps => {
                write!(f, "one of more than {STEPS_MAX} outputs and tables")
            }
            ActionFault::Instruction(n) => write!(f, "instruction {n} of OpenFlow"),
        }
    }
}

/// One step of a rule that only sends a frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a port.
    Output(u32),
    /// To another table.
    Table(u8),
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// It only sends frames on.
    Sends(Vec<Step>),
    /// It does something else; the first thing that was found.
    Else(ActionFault),
}

/// A rule of the switch, as an answer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Which one.
    pub key: FlowKey,
    /// The same match, understood.
    pub matches: Match,
    /// A number that its owner gave it.
    pub cookie: u64,
    /// Seconds without a frame after which it ends; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0: never.
    pub hard_timeout: u16,
    /// Flags, if they are known: events do not have them.
    pub flags: Option<u16>,
    /// How long it has been there, ms; events do not have it either.
    pub age_ms: Option<u64>,
    /// What it does.
    pub does: Instructions,
}

impl Flow {
    /// Flag: its end is told, with its counts.
    pub const SEND_FLOW_REM: u16 = 1;
}

/// One change of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// A rule is there, or is another than before.
    Is(Flow),
    /// A rule is gone.
    Gone(Flow),
    /// A change by ourselves; we make none.
    Ours,
    /// The switch holds changes back from here on: too many wait.
    Paused,
    /// It tells them again.
    Resumed,
}

/// All rules of an answer.
pub(super) fn flows(r: &mut Reader<'_>) -> Result<Vec<Flow>, Malformed> {
    const WHAT: &str = "a rule";
    let mut found = vec![];
    while !r.0.is_empty() {
        let length = usize::from(r.u16(WHAT)?).checked_sub(2);
        let mut r = r.part(length.ok_or(Malformed::Wrong("length"))?, WHAT)?;
        let table = r.u8(WHAT)?;
        r.skip(1, WHAT)?;
        let (s, ns) = (u64::from(r.u32(WHAT)?), u64::from(r.u32(WHAT)?));
        let age_ms = Some(s * 1000 + ns / 1_000_000);
        let priority = r.u16(WHAT)?;
        let (idle_timeout, hard_timeout) = (r.u16(WHAT)?, r.u16(WHAT)?);
        let flags = Some(r.u16(WHAT)?);
        r.skip(4, WHAT)?;
        let cookie = r.u64(WHAT)?;
        r.skip(16, WHAT)?;
        let (fields, matches) = matched(&mut r)?;
        let key = FlowKey { table, priority, fields };
        let does = instructions(&mut r)?;
        let flow = Flow { key, matches, cookie, idle_timeout, hard_timeout, flags, age_ms, does };
        found.push(flow);
    }
    Ok(found)
}

/// All changes of a message.
pub(super) fn updates(r: &mut Reader<'_>) -> Result<Vec<Update>, Malformed> {
    const WHAT: &str = "a change of rules";
    let mut found = vec![];
    while !r.0.is_empty() {
        let length = usize::from(r.u16(WHAT)?).checked_sub(2);
        let mut r = r.part(length.ok_or(Malformed::Wrong("length"))?, WHAT)?;
        found.push(match r.u16(WHAT)? {
            0 | 1 | 3 => Update::Is(changed(&mut r)?),
            2 => Update::Gone(changed(&mut r)?),
            4 => Update::Ours,
            5 => Update::Paused,
            6 => Update::Resumed,
            _ => return Err(Malformed::Wrong("kind of a change of rules")),
        });
    }
    Ok(found)
}

fn changed(r: &mut Reader<'_>) -> Result<Flow, Malformed> {
    const WHAT: &str = "a changed rule";
    let table = r.u8(WHAT)?;
    r.skip(1, WHAT)?;
    let (idle_timeout, hard_timeout) = (r.u16(WHAT)?, r.u16(WHAT)?);
    let priority = r.u16(WHAT)?;
    r.skip(4, WHAT)?;
    let cookie = r.u64(WHAT)?;
    let (fields, matches) = matched(r)?;
    let key = FlowKey { table, priority, fields };
    let does = instructions(r)?;
    let (flags, age_ms) = (None, None);
    Ok(Flow { key, matches, cookie, idle_timeout, hard_timeout, flags, age_ms, does })
}

/// A match with its fields as they stand.
fn matched(r: &mut Reader<'_>) -> Result<(Vec<u8>, Match), Malformed> {
    const WHAT: &str = "a match";
    let kind = r.u16(WHAT)?;
    let length = usize::from(r.u16(WHAT)?);
    if kind != 1 || length > MATCH_BYTES_MAX {
        return Err(Malformed::Wrong("kind or length of match"));
    }
    let fields = r.part(length.checked_sub(4).ok_or(Malformed::Wrong("length"))?, WHAT)?;
    // The whole is filled up to eight bytes.
    r.skip(length.next_multiple_of(8) - length, WHAT)?;
    let bytes = fields.0.to_vec();
    Ok((bytes, understood(fields)?))
}

fn understood(mut r: Reader<'_>) -> Result<Match, Malformed> {
    const WHAT: &str = "a field of a match";
    // Class, number, whether with a mask, length: OpenFlow's own, and Nicira's older one.
    const IN_PORT: u32 = 0x8000_0004;
    const NX_IN_PORT: u32 = 0x0000_0002;
    const ETH_TYPE: u32 = 0x8000_0a02;
    const NX_ETH_TYPE: u32 = 0x0000_0602;
    let mut found = Match::default();
    while !r.0.is_empty() {
        let header = r.u32(WHAT)?;
        let mut value = r.part((header & 0xff) as usize, WHAT)?;
        match header {
            IN_PORT => found.in_port = Some(value.u32(WHAT)?),
            NX_IN_PORT => found.in_port = Some(value.u16(WHAT)?.into()),
            ETH_TYPE | NX_ETH_TYPE => found.dl_type = Some(value.u16(WHAT)?),
            _ => found.other = true,
        }
    }
    Ok(found)
}

fn instructions(r: &mut Reader<'_>) -> Result<Instructions, Malformed> {
    const WHAT: &str = "an instruction";
    let (mut steps, mut fault) = (vec![], None);
    while !r.0.is_empty() {
        let kind = r.u16(WHAT)?;
        let length = usize::from(r.u16(WHAT)?).checked_sub(4);
        let mut body = r.part(length.ok_or(Malformed::Wrong("length"))?, WHAT)?;
        let other = match kind {
            1 => {
                steps.push(Step::Table(body.u8(WHAT)?));
                continue;
            }
            4 => {
                body.skip(4, WHAT)?;
                actions(&mut body, &mut steps)?
            }
            2 => Some(ActionFault::Named("write_metadata")),
            3 => Some(ActionFault::Named("write_actions")),
            5 => Some(ActionFault::Named("clear_actions")),
            6 => Some(ActionFault::Named("meter")),
            n => Some(ActionFault::Instruction(n)),
        };
        fault = fault.or(other);
    }
    let many = (steps.len() > STEPS_MAX).then_some(ActionFault::TooManySteps);
    let fault = fault.or(many);
    steps.shrink_to_fit();
    Ok(fault.map_or(Instructions::Sends(steps), Instructions::Else))
}

/// Adds what sends frames on; the answer is the first thing that does something else.
fn actions(r: &mut Reader<'_>, steps: &mut Vec<Step>) -> Result<Option<ActionFault>, Malformed> {
    const WHAT: &str = "an action";
    let mut fault = None;
    while !r.0.is_empty() {
        let kind = r.u16(WHAT)?;
        let length = usize::from(r.u16(WHAT)?).checked_sub(4);
        let mut body = r.part(length.ok_or(Malformed::Wrong("length"))?, WHAT)?;
        match action(kind, &mut body)? {
            Ok(step) => steps.extend(step),
            Err(other) => fault = fault.or(Some(other)),
        }
    }
    Ok(fault)
}

/// A step, or nothing, or what is not one.
fn action(kind: u16, r: &mut Reader<'_>) -> Result<Result<Option<Step>, ActionFault>, Malformed> {
    const WHAT: &str = "an action";
    const VENDOR: u16 = 0xffff;
    Ok(match kind {
        0 => match r.u32(WHAT)? {
            port @ ..RESERVED_PORTS => Ok(Some(Step::Output(port))),
            reserved => Err(ActionFault::Named(reserved_port(reserved))),
        },
        VENDOR => return vendor_action(r),
        17 => Err(ActionFault::Named("push_vlan")),
        18 => Err(ActionFault::Named("pop_vlan")),
        21 => Err(ActionFault::Named("set_queue")),
        22 => Err(ActionFault::Named("group")),
        24 => Err(ActionFault::Named("dec_ttl")),
        25 => Err(ActionFault::Named("set_field")),
        n => Err(ActionFault::Standard(n)),
    })
}

fn vendor_action(r: &mut Reader<'_>) -> Result<Result<Option<Step>, ActionFault>, Malformed> {
    const WHAT: &str = "an action of a vendor";
    const NICIRA: u32 = 0x2320;
    // The port that a frame came in by.
    const IN_PORT: u16 = 0xfff8;
    const SAME_TABLE: u8 = 0xff;
    let (vendor, subtype) = (r.u32(WHAT)?, r.u16(WHAT)?);
    if vendor != NICIRA {
        return Ok(Err(ActionFault::Vendor(vendor, subtype)));
    }
    Ok(match subtype {
        // A note has no effect.
        8 => Ok(None),
        14 => match (r.u16(WHAT)?, r.u8(WHAT)?) {
            (IN_PORT, table) if table != SAME_TABLE => Ok(Some(Step::Table(table))),
            _ => Err(ActionFault::Named("resubmit with another port or into the same table")),
        },
        1 => Err(ActionFault::Named("resubmit into the same table")),
        16 => Err(ActionFault::Named("learn")),
        20 | 37 => Err(ActionFault::Named("controller")),
        29 => Err(ActionFault::Named("sample")),
        34 => Err(ActionFault::Named("conjunction")),
        35 => Err(ActionFault::Named("ct")),
        n => Err(ActionFault::Vendor(vendor, n)),
    })
}

fn reserved_port(number: u32) -> &'static str {
    match number {
        0xffff_fff8 => "output to in_port",
        0xffff_fff9 => "output to table",
        0xffff_fffa => "NORMAL",
        0xffff_fffb => "FLOOD",
        0xffff_fffc => "ALL",
        0xffff_fffd => "controller",
        0xffff_fffe => "output to LOCAL",
        _ => "output to a reserved port",
    }
}
