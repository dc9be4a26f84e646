//! A policy as people read it: each rule in force, and the section it is from.

use super::Unenforced;
use super::rules::{Key, Policy, Rules};
use vfun_admin::policy::{ClientView, FunctionView, Holds, RuleView};

impl Key {
    /// All of them, in the order in which people read them.
    pub const ALL: [Key; 21] = [
        Key::Functions,
        Key::Hardware,
        Key::Devices,
        Key::Channels,
        Key::Bytes,
        Key::BufferBytes,
        Key::CallsPerS,
        Key::InFlight,
        Key::DeadlineMs,
        Key::Cpu,
        Key::Memory,
        Key::Threads,
        Key::RequestsPerS,
        Key::RequestsBurst,
        Key::RingsPerS,
        Key::LeasePriority,
        Key::Tokens,
        Key::Submit,
        Key::Modules,
        Key::ModulesBytes,
        Key::SubmitsPerMin,
    ];
}

/// Rules that are lists.
#[derive(Default)]
struct Lists<'a> {
    functions: Vec<String>,
    devices: Option<&'a [String]>,
    submit: &'a [String],
}

/// Bytes in the largest unit that keeps them exact.
fn bytes(n: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(u, _)| n > 0 && n.is_multiple_of(*u));
    unit.map_or_else(|| format!("{n} B"), |(u, name)| format!("{} {name}", n / u))
}

fn value(key: Key, r: &Rules, lists: &Lists<'_>) -> String {
    match key {
        Key::Functions => lists.functions.join(", "),
        Key::Devices => lists.devices.map_or("*".into(), |d| d.join(", ")),
        Key::Hardware => r.hardware.to_string(),
        Key::Channels => r.channels.to_string(),
        Key::Bytes => bytes(r.bytes),
        Key::BufferBytes => bytes(r.buffer_bytes),
        Key::CallsPerS if r.calls_per_s == 0 => "0 (no bound)".into(),
        Key::CallsPerS => r.calls_per_s.to_string(),
        Key::InFlight => r.in_flight.to_string(),
        Key::DeadlineMs => r.deadline_ms.to_string(),
        Key::Cpu => r.jail.cpu_percent.map_or("none".into(), |p| format!("{p}%")),
        Key::Memory => bytes(r.jail.memory_bytes),
        Key::Threads => r.jail.threads.to_string(),
        Key::RequestsPerS => r.requests_per_s.to_string(),
        Key::RequestsBurst => r.requests_burst.to_string(),
        Key::RingsPerS => r.rings_per_s.to_string(),
        Key::LeasePriority => r.lease_priority.to_string(),
        Key::Tokens => r.tokens.to_string(),
        Key::Submit => match lists.submit {
            [] => "false".into(),
            [all] if all == "*" => "true".into(),
            some => some.join(", "),
        },
        Key::Modules => r.modules.to_string(),
        Key::ModulesBytes => bytes(r.modules_bytes),
        Key::SubmitsPerMin => r.submits_per_min.to_string(),
    }
}

/// Rules with the bound of the client's manifest, where that is the lower one.
pub fn within(max_grants: u32, mut view: ClientView) -> ClientView {
    let channels = view.rules.iter_mut().find(|r| r.key == Key::Channels.name());
    if let Some(rule) = channels
        && rule.value.parse().is_ok_and(|channels: u32| channels > max_grants)
    {
        rule.value = max_grants.to_string();
        rule.from = "max_grants of its manifest".into();
    }
    view
}

impl Policy {
    /// A client's rules, for people.
    pub fn view_of(&self, client: &str, holds: Holds, host: &Unenforced) -> ClientView {
        let lists = Lists {
            functions: self.functions(client),
            devices: self.devices(client),
            submit: self.submit(client),
        };
        let rules = self.client(client);
        let own = self.clients.get(client);
        let unenforced = |key: Key, r: &Rules| {
            let bounds = key != Key::Cpu || r.jail.cpu_percent.is_some();
            host.why(key).filter(|_| bounds).map(str::to_owned)
        };
        let rule = |key: Key| {
            let set = own.is_some_and(|c| c.own.sets(key)) || self.default.sets(key);
            let from = if set { self.section(client, "", key) } else { "default".into() };
            RuleView {
                key: key.name().into(),
                value: value(key, &rules, &lists),
                from,
                unenforced: unenforced(key, &rules),
            }
        };
        let of_functions = own.map(|c| &c.functions).into_iter().flatten().map(|(f, section)| {
            let rules = self.of(client, f);
            let rule = |key: Key| RuleView {
                key: key.name().into(),
                value: value(key, &rules, &Lists::default()),
                from: self.section(client, f, key),
                unenforced: unenforced(key, &rules),
            };
            FunctionView {
                function: f.clone(),
                rules: Key::ALL.into_iter().filter(|k| section.sets(*k)).map(rule).collect(),
            }
        });
        ClientView {
            client: client.into(),
            holds,
            rules: Key::ALL.map(rule).into(),
            functions: of_functions.collect(),
        }
    }

    /// Functions that a client is allowed, as the file lists them.
    pub fn functions(&self, client: &str) -> Vec<String> {
        let own = self.clients.get(client).and_then(|c| c.own.functions.clone());
        own.or_else(|| self.default.functions.clone()).unwrap_or_else(|| vec!["*".into()])
    }

    /// What is probably not meant so: sections of clients and functions that
    /// are not there.
    pub fn doubts<'a>(
        &self,
        clients: impl Fn(&str) -> bool + 'a,
        functions: impl Fn(&str) -> bool + 'a,
    ) -> Vec<String> {
        let mut doubts = vec![];
        for (name, c) in &self.clients {
            if !clients(name) {
                doubts.push(format!("[client.{name}]: no client of this name is declared"));
            }
            for f in c.functions.keys().filter(|f| !functions(f)) {
                doubts.push(format!(
                    "[client.{name}.function.{f}]: no function of this name is offered"
                ));
            }
        }
        let sections = self.clients.iter().map(|(n, c)| (format!("[client.{n}]"), &c.own));
        for (section, s) in sections.chain([("[default]".into(), &self.default)]) {
            for f in s.functions.iter().flatten().filter(|f| *f != "*" && !functions(f)) {
                doubts.push(format!("{section} functions: no function '{f}' is offered"));
            }
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use std::path::Path;

    #[test]
    fn rules_are_shown_with_where_they_are_from() {
        let p = parse(
            Path::new("p"),
            "[default]\nchannels = 7\n[client.a]\ncpu = \"50%\"\nfunctions = [\"f\", \"g\"]\n\
             [client.a.function.f]\nbytes = \"1 MiB\"\n[client.b.function.h]\nchannels = 1\n",
        )
        .unwrap();
        let v = p.view_of("a", Default::default(), &Default::default());
        let rule = |key: &str| v.rules.iter().find(|r| r.key == key).unwrap().clone();
        let told = |key| (rule(key).value, rule(key).from);
        assert_eq!(told("channels"), ("7".into(), "[default]".into()));
        let bound =
            super::within(3, v.clone()).rules.into_iter().find(|r| r.key == "channels").unwrap();
        assert_eq!(
            (bound.value.as_str(), bound.from.as_str()),
            ("3", "max_grants of its manifest")
        );
        assert_eq!(super::within(8, v.clone()).rules, v.rules);
        assert_eq!(told("cpu"), ("50%".into(), "[client.a]".into()));
        assert_eq!(told("memory"), ("1 GiB".into(), "default".into()));
        assert_eq!(told("functions").0, "f, g");
        assert_eq!(v.functions[0].rules.len(), 1);
        assert_eq!(v.functions[0].rules[0].value, "1 MiB");
        let doubts = p.doubts(|c| c == "a", |f| f == "f");
        assert_eq!(
            doubts,
            [
                "[client.b]: no client of this name is declared",
                "[client.b.function.h]: no function of this name is offered",
                "[client.a] functions: no function 'g' is offered",
            ]
        );
    }
}
