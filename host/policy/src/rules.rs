//! The rules of a client and of each of its functions, as plain values.
//!
//! A rule is looked for in the section of the client's function, then in the
//! client's, then in `[default]`, then here. What a client's manifest says
//! holds as well: of two bounds the stricter one wins.

use crate::matches;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use vfun_jail::{Layer, Limits};
use vfun_wire::limits::DEADLINE_MS_MAX;

/// What one client may use, as a whole or of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether it may run on hardware.
    pub hardware: bool,
    /// Channels (grants) at once.
    pub channels: u32,
    /// Bytes of its windows given out to channels, both sides.
    pub bytes: u64,
    /// Bytes of its windows given out to buffers.
    pub buffer_bytes: u64,
    /// Calls a second of each channel; 0 for no bound.
    pub calls_per_s: u32,
    /// Calls that can be in flight at once: the sum of the channels' cells.
    pub in_flight: u32,
    /// Longest deadline of a call, ms.
    pub deadline_ms: u32,
    /// Control requests a second of one window.
    pub requests_per_s: u32,
    /// Control requests that a window may make at once after a rest.
    pub requests_burst: u32,
    /// Rings of one window's bells a second that have nothing to say.
    pub rings_per_s: u32,
    /// Weight of its grants where VFs are leased, 0 to 10: a step doubles it.
    pub lease_priority: u8,
    /// Whether its apps must present a token.
    pub tokens: bool,
    /// Modules of its own that it may have on offer.
    pub modules: u32,
    /// Bytes of these, and of their compiled code, on the host's disk.
    pub modules_bytes: u64,
    /// How many it may submit within a minute.
    pub submits_per_min: u32,
    /// Bounds on each of its services.
    pub jail: Limits,
}

impl Default for Rules {
    /// Those of a client that no policy speaks of. Its manifest bounds
    /// functions, grants and hardware already, and the host runs as it did
    /// before there was a policy; what is bounded here is what one client
    /// could otherwise take from all others.
    fn default() -> Self {
        Rules {
            hardware: true,
            // As many as the client of the host's own programs has by itself.
            channels: 1024,
            // Sixteen windows of the usual size.
            bytes: 1 << 30,
            // Four windows of the usual size: an app that moves much data has a few
            // large ones, and channels need no more for it.
            buffer_bytes: 256 << 20,
            // A bound by count says little about load: `cpu` is the better one.
            calls_per_s: 0,
            // Sixty-four of the deepest channels.
            in_flight: 1 << 16,
            // The function's manifest has the bound that fits it.
            deadline_ms: DEADLINE_MS_MAX,
            // A program that starts makes some five requests, the manager
            // answers several times as many on one processor.
            requests_per_s: 1000,
            // All apps of a window that starts anew.
            requests_burst: 256,
            // A ring that finds nothing is a race between two threads, not a habit.
            rings_per_s: 10_000,
            lease_priority: vfun_leases::PRIORITY_DEFAULT,
            tokens: false,
            // A program's own functions, not a library of them.
            modules: 16,
            // Sixteen of some hundred kilobytes with their code.
            modules_bytes: 64 << 20,
            // One who tries something out; each may take a processor for seconds.
            submits_per_min: 30,
            jail: Limits::default(),
        }
    }
}

/// A rule by its name in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Functions on offer to the client.
    Functions,
    /// [`Rules::hardware`].
    Hardware,
    /// Devices that its services may open.
    Devices,
    /// [`Rules::channels`].
    Channels,
    /// [`Rules::bytes`].
    Bytes,
    /// [`Rules::buffer_bytes`].
    BufferBytes,
    /// [`Rules::calls_per_s`].
    CallsPerS,
    /// [`Rules::in_flight`].
    InFlight,
    /// [`Rules::deadline_ms`].
    DeadlineMs,
    /// Processor share in [`Rules::jail`].
    Cpu,
    /// Memory in [`Rules::jail`].
    Memory,
    /// Threads in [`Rules::jail`].
    Threads,
    /// [`Rules::requests_per_s`].
    RequestsPerS,
    /// [`Rules::requests_burst`].
    RequestsBurst,
    /// [`Rules::rings_per_s`].
    RingsPerS,
    /// [`Rules::lease_priority`].
    LeasePriority,
    /// [`Rules::tokens`].
    Tokens,
    /// Whether its apps may bring modules of their own.
    Submit,
    /// [`Rules::modules`].
    Modules,
    /// [`Rules::modules_bytes`].
    ModulesBytes,
    /// [`Rules::submits_per_min`].
    SubmitsPerMin,
}

impl Key {
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Key::Functions => "functions",
            Key::Hardware => "hardware",
            Key::Devices => "devices",
            Key::Channels => "channels",
            Key::Bytes => "bytes",
            Key::BufferBytes => "buffer_bytes",
            Key::CallsPerS => "calls_per_s",
            Key::InFlight => "in_flight",
            Key::DeadlineMs => "deadline_ms",
            Key::Cpu => "cpu",
            Key::Memory => "memory",
            Key::Threads => "threads",
            Key::RequestsPerS => "requests_per_s",
            Key::RequestsBurst => "requests_burst",
            Key::RingsPerS => "rings_per_s",
            Key::LeasePriority => "lease_priority",
            Key::Tokens => "tokens",
            Key::Submit => "submit",
            Key::Modules => "modules",
            Key::ModulesBytes => "modules_bytes",
            Key::SubmitsPerMin => "submits_per_min",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One section of the file: what it sets; the rest is the section's around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layered {
    /// Functions on offer; `*` for all.
    pub functions: Option<Vec<String>>,
    /// Devices: paths in which each `*` stands for any text.
    pub devices: Option<Vec<String>>,
    /// See [`Rules`], as the rest.
    pub hardware: Option<bool>,
    #[allow(missing_docs)]
    pub channels: Option<u32>,
    #[allow(missing_docs)]
    pub bytes: Option<u64>,
    #[allow(missing_docs)]
    pub buffer_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub calls_per_s: Option<u32>,
    #[allow(missing_docs)]
    pub in_flight: Option<u32>,
    #[allow(missing_docs)]
    pub deadline_ms: Option<u32>,
    /// Percent of one processor; `Some(None)` for no bound.
    pub cpu: Option<Option<u32>>,
    /// Bytes.
    pub memory: Option<u64>,
    #[allow(missing_docs)]
    pub threads: Option<u32>,
    #[allow(missing_docs)]
    pub requests_per_s: Option<u32>,
    #[allow(missing_docs)]
    pub requests_burst: Option<u32>,
    #[allow(missing_docs)]
    pub rings_per_s: Option<u32>,
    #[allow(missing_docs)]
    pub lease_priority: Option<u8>,
    #[allow(missing_docs)]
    pub tokens: Option<bool>,
    /// Apps that may submit modules: names in which each `*` stands for any
    /// text. None: nobody.
    pub submit: Option<Vec<String>>,
    #[allow(missing_docs)]
    pub modules: Option<u32>,
    #[allow(missing_docs)]
    pub modules_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub submits_per_min: Option<u32>,
}

impl Layered {
    fn onto(&self, r: &mut Rules) {
        fn set<T: Copy>(to: &mut T, from: Option<T>) {
            if let Some(v) = from {
                *to = v;
            }
        }
        set(&mut r.hardware, self.hardware);
        set(&mut r.channels, self.channels);
        set(&mut r.bytes, self.bytes);
        set(&mut r.buffer_bytes, self.buffer_bytes);
        set(&mut r.calls_per_s, self.calls_per_s);
        set(&mut r.in_flight, self.in_flight);
        set(&mut r.deadline_ms, self.deadline_ms);
        set(&mut r.jail.cpu_percent, self.cpu);
        set(&mut r.jail.memory_bytes, self.memory);
        set(&mut r.jail.threads, self.threads);
        set(&mut r.requests_per_s, self.requests_per_s);
        set(&mut r.requests_burst, self.requests_burst);
        set(&mut r.rings_per_s, self.rings_per_s);
        set(&mut r.lease_priority, self.lease_priority);
        set(&mut r.tokens, self.tokens);
        set(&mut r.modules, self.modules);
        set(&mut r.modules_bytes, self.modules_bytes);
        set(&mut r.submits_per_min, self.submits_per_min);
    }

    /// Whether it sets a rule.
    pub fn sets(&self, key: Key) -> bool {
        match key {
            Key::Functions => self.functions.is_some(),
            Key::Hardware => self.hardware.is_some(),
            Key::Devices => self.devices.is_some(),
            Key::Channels => self.channels.is_some(),
            Key::Bytes => self.bytes.is_some(),
            Key::BufferBytes => self.buffer_bytes.is_some(),
            Key::CallsPerS => self.calls_per_s.is_some(),
            Key::InFlight => self.in_flight.is_some(),
            Key::DeadlineMs => self.deadline_ms.is_some(),
            Key::Cpu => self.cpu.is_some(),
            Key::Memory => self.memory.is_some(),
            Key::Threads => self.threads.is_some(),
            Key::RequestsPerS => self.requests_per_s.is_some(),
            Key::RequestsBurst => self.requests_burst.is_some(),
            Key::RingsPerS => self.rings_per_s.is_some(),
            Key::LeasePriority => self.lease_priority.is_some(),
            Key::Tokens => self.tokens.is_some(),
            Key::Submit => self.submit.is_some(),
            Key::Modules => self.modules.is_some(),
            Key::ModulesBytes => self.modules_bytes.is_some(),
            Key::SubmitsPerMin => self.submits_per_min.is_some(),
        }
    }
}

/// A client's sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSection {
    /// `[client.NAME]`.
    pub own: Layered,
    /// `[client.NAME.function.FN]`.
    pub functions: BTreeMap<String, Layered>,
}

/// A whole policy. Its default is that of a host without a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Layers of the sandbox without which no service starts.
    pub require: BTreeSet<Layer>,
    /// `[default]`.
    pub default: Layered,
    /// By the client's name.
    pub clients: BTreeMap<String, ClientSection>,
}

impl Policy {
    /// The rules of a client, over all its functions.
    pub fn client(&self, client: &str) -> Rules {
        let mut rules = Rules::default();
        self.default.onto(&mut rules);
        if let Some(c) = self.clients.get(client) {
            c.own.onto(&mut rules);
        }
        rules
    }

    /// The rules of one of a client's functions. Bounds that a function's
    /// section sets hold for that function, and the client's hold besides.
    pub fn of(&self, client: &str, function: &str) -> Rules {
        let mut rules = self.client(client);
        if let Some(f) = self.function(client, function) {
            f.onto(&mut rules);
        }
        rules
    }

    fn function(&self, client: &str, function: &str) -> Option<&Layered> {
        self.clients.get(client)?.functions.get(function)
    }

    /// Apps of a client that may submit modules of their own; nobody by default:
    /// whoever may brings code to this host.
    pub fn submit(&self, client: &str) -> &[String] {
        let own = self.clients.get(client).and_then(|c| c.own.submit.as_deref());
        own.or(self.default.submit.as_deref()).unwrap_or(&[])
    }

    /// Devices that a client's services may open, of those that manifests name.
    pub fn devices(&self, client: &str) -> Option<&[String]> {
        let own = self.clients.get(client).and_then(|c| c.own.devices.as_deref());
        own.or(self.default.devices.as_deref())
    }

    /// Whether a client's services may open a device that a manifest names.
    pub fn may_open(&self, client: &str, device: &str) -> bool {
        self.devices(client).is_none_or(|all| all.iter().any(|pattern| matches(pattern, device)))
    }

    /// Whether a client may use a function at all. Its own functions, and the
    /// one by which it submits them, it may while any app of it may submit:
    /// taking that right away ends what was brought by it.
    pub fn may_use(&self, client: &str, function: &str) -> bool {
        if key_of(function) == Key::Submit {
            return !self.submit(client).is_empty();
        }
        let own = self.clients.get(client).and_then(|c| c.own.functions.as_ref());
        own.or(self.default.functions.as_ref())
            .is_none_or(|list| list.iter().any(|f| f == "*" || f == function))
    }

    /// The section that a rule of a client comes from, as it is written;
    /// `function` empty for the client's own.
    pub fn section(&self, client: &str, function: &str, key: Key) -> String {
        if self.function(client, function).is_some_and(|f| f.sets(key)) {
            format!("[client.{client}.function.{function}]")
        } else if self.clients.get(client).is_some_and(|c| c.own.sets(key)) {
            format!("[client.{client}]")
        } else {
            "[default]".into()
        }
    }
}

/// The rule that says who may use a function.
pub fn key_of(function: &str) -> Key {
    match function == vfun_submit::FUNCTION || vfun_submit::is_own(function) {
        true => Key::Submit,
        false => Key::Functions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let own = Layered { channels: Some(3), cpu: Some(Some(50)), ..Layered::default() };
        let f = Layered { channels: Some(1), memory: Some(1 << 20), ..Layered::default() };
        let vm1 = ClientSection { own, functions: BTreeMap::from([("sum".into(), f)]) };
        Policy {
            default: Layered {
                channels: Some(9),
                deadline_ms: Some(5),
                functions: Some(vec!["sum".into()]),
                ..Layered::default()
            },
            clients: BTreeMap::from([("vm1".into(), vm1)]),
            ..Policy::default()
        }
    }

    #[test]
    fn a_rule_is_of_the_innermost_section_that_sets_it() {
        let p = policy();
        let usual = Rules::default();
        assert_eq!(Policy::default().of("any", "thing"), usual);
        assert_eq!(p.client("other"), Rules { channels: 9, deadline_ms: 5, ..usual });
        let vm1 = p.client("vm1");
        assert_eq!((vm1.channels, vm1.deadline_ms, vm1.jail.cpu_percent), (3, 5, Some(50)));
        let sum = p.of("vm1", "sum");
        assert_eq!((sum.channels, sum.jail.memory_bytes), (1, 1 << 20));
        assert_eq!(p.of("vm1", "other"), vm1);
        assert_eq!(p.section("vm1", "sum", Key::Channels), "[client.vm1.function.sum]");
        assert_eq!(p.section("vm1", "", Key::Channels), "[client.vm1]");
        assert_eq!(p.section("vm1", "sum", Key::DeadlineMs), "[default]");
    }

    #[test]
    fn functions_are_those_listed_for_the_client_or_for_all() {
        let mut p = policy();
        assert!(p.may_use("vm1", "sum") && !p.may_use("vm1", "other"));
        p.clients.get_mut("vm1").unwrap().own.functions = Some(vec!["other".into()]);
        assert!(!p.may_use("vm1", "sum") && p.may_use("vm1", "other"));
        p.default.functions = Some(vec!["*".into()]);
        assert!(p.may_use("vm2", "anything") && !p.may_use("vm1", "sum"));
        assert!(Policy::default().may_use("vm1", "anything"));
    }
}
