//! The policy file: TOML, refused whole with file, line and reason.

use super::limits::*;
use super::rules::{ClientSection, Layered, Policy};
use crate::size::size;
use crate::source::{ManifestError, Source};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;
use vfun_submit::limits::MODULES_MAX;
use vfun_wire::limits::DEADLINE_MS_MAX;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyToml {
    #[serde(default)]
    jail: JailToml,
    #[serde(default)]
    default: SectionToml,
    #[serde(default)]
    client: BTreeMap<Spanned<String>, SectionToml>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct JailToml {
    #[serde(default)]
    require: Vec<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct SectionToml {
    /// Of a client's section only.
    #[serde(default)]
    function: BTreeMap<Spanned<String>, SectionToml>,
    functions: Option<Spanned<Vec<Spanned<String>>>>,
    hardware: Option<bool>,
    devices: Option<Spanned<Vec<String>>>,
    channels: Option<Spanned<u32>>,
    bytes: Option<Spanned<String>>,
    buffer_bytes: Option<Spanned<String>>,
    calls_per_s: Option<u32>,
    in_flight: Option<Spanned<u32>>,
    deadline_ms: Option<Spanned<u32>>,
    cpu: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    threads: Option<Spanned<u32>>,
    requests_per_s: Option<Spanned<u32>>,
    requests_burst: Option<Spanned<u32>>,
    rings_per_s: Option<Spanned<u32>>,
    lease_priority: Option<Spanned<u8>>,
    tokens: Option<Spanned<bool>>,
    submit: Option<Spanned<toml::Value>>,
    modules: Option<Spanned<u32>>,
    modules_bytes: Option<Spanned<String>>,
    submits_per_min: Option<Spanned<u32>>,
}

/// `true`, `false`, or a list of patterns of apps' names.
fn submit(src: &Source<'_>, v: &Spanned<toml::Value>) -> Result<Vec<String>, ManifestError> {
    let wrong = || {
        src.error(
            v,
            format!("submit is true, false, or a list of apps' names, each of 1 to {APP_PATTERN_BYTES} bytes, in which * stands for any text"),
        )
    };
    match v.get_ref() {
        toml::Value::Boolean(true) => Ok(vec!["*".into()]),
        toml::Value::Boolean(false) => Ok(vec![]),
        toml::Value::Array(list) => list
            .iter()
            .map(|p| {
                p.as_str()
                    .filter(|p| (1..=APP_PATTERN_BYTES).contains(&p.len()))
                    .map(str::to_owned)
                    .ok_or_else(wrong)
            })
            .collect(),
        _ => Err(wrong()),
    }
}

/// A share of processors as people write it: `150%` is one and a half; `none`
/// for no bound.
fn cpu(text: &str) -> Result<Option<u32>, String> {
    let t = text.trim();
    if t == "none" {
        return Ok(None);
    }
    t.strip_suffix('%')
        .and_then(|n| n.trim().parse::<u32>().ok())
        .filter(|n| (CPU_PERCENT_MIN..=CPU_PERCENT_MAX).contains(n))
        .map(Some)
        .ok_or_else(|| {
            format!("'{text}' is not a share of processors: write it as \"150%\" for one and a half ({CPU_PERCENT_MIN}% to {CPU_PERCENT_MAX}%), or \"none\" for no bound")
        })
}

/// A number of which a bound is known on one side or on both.
fn number(
    src: &Source<'_>,
    v: &Option<Spanned<u32>>,
    (least, most): (u32, u32),
    key: &str,
) -> Result<Option<u32>, ManifestError> {
    match v {
        Some(n) if *n.get_ref() < least => Err(src.error(n, format!("{key} is at least {least}"))),
        Some(n) if *n.get_ref() > most => Err(src.error(n, format!("{key} is at most {most}"))),
        other => Ok(other.as_ref().map(|n| *n.get_ref())),
    }
}

/// Functions by name, or `*`.
fn functions(src: &Source<'_>, s: &SectionToml) -> Result<Option<Vec<String>>, ManifestError> {
    let Some(list) = &s.functions else { return Ok(None) };
    for f in list.get_ref() {
        if f.get_ref() != "*" {
            src.name(f)?;
        }
    }
    Ok(Some(list.get_ref().iter().map(|f| f.get_ref().clone()).collect()))
}

fn section(src: &Source<'_>, s: &SectionToml) -> Result<Layered, ManifestError> {
    let within = |v, bounds, key: &str| number(src, v, bounds, key);
    let at_least = |v, least: u32, key: &str| number(src, v, (least, u32::MAX), key);
    let bytes = |v: &Option<Spanned<String>>, least: u64, key: &str| match v {
        None => Ok(None),
        Some(t) => match size(t.get_ref()) {
            Ok(n) if n < least => {
                Err(src.error(t, format!("{key} is at least {} MiB", least >> 20)))
            }
            Ok(n) => Ok(Some(n)),
            Err(e) => Err(src.error(t, e)),
        },
    };
    let deadline_ms = match &s.deadline_ms {
        None => None,
        Some(d) if (1..=DEADLINE_MS_MAX).contains(d.get_ref()) => Some(*d.get_ref()),
        Some(d) => {
            return Err(src.error(d, format!("a deadline is from 1 to {DEADLINE_MS_MAX} ms")));
        }
    };
    let cpu = match &s.cpu {
        None => None,
        Some(c) => Some(cpu(c.get_ref()).map_err(|e| src.error(c, e))?),
    };
    if let Some(n) = s.channels.as_ref().filter(|n| *n.get_ref() == 0) {
        return Err(src.error(
            n,
            "channels is at least 1: a client that may have nothing has `functions = []`",
        ));
    }
    let most = vfun_leases::PRIORITY_MAX;
    if let Some(n) = s.lease_priority.as_ref().filter(|n| *n.get_ref() > most) {
        return Err(src.error(n, format!("lease_priority is from 0 to {most}")));
    }
    Ok(Layered {
        functions: functions(src, s)?,
        hardware: s.hardware,
        devices: s.devices.as_ref().map(|d| d.get_ref().clone()),
        channels: at_least(&s.channels, 1, "channels")?,
        bytes: bytes(&s.bytes, 0, "bytes")?,
        buffer_bytes: bytes(&s.buffer_bytes, 0, "buffer_bytes")?,
        calls_per_s: s.calls_per_s,
        in_flight: at_least(&s.in_flight, 1, "in_flight")?,
        deadline_ms,
        cpu,
        memory: bytes(&s.memory, MEMORY_MIN, "memory")?,
        threads: at_least(&s.threads, THREADS_MIN, "threads")?,
        requests_per_s: at_least(&s.requests_per_s, REQUESTS_PER_S_MIN, "requests_per_s")?,
        requests_burst: at_least(&s.requests_burst, REQUESTS_BURST_MIN, "requests_burst")?,
        rings_per_s: at_least(&s.rings_per_s, RINGS_PER_S_MIN, "rings_per_s")?,
        lease_priority: s.lease_priority.as_ref().map(|n| *n.get_ref()),
        tokens: s.tokens.as_ref().map(|t| *t.get_ref()),
        submit: s.submit.as_ref().map(|v| submit(src, v)).transpose()?,
        modules: within(&s.modules, (1, MODULES_MAX), "modules")?,
        modules_bytes: bytes(&s.modules_bytes, MODULES_BYTES_MIN, "modules_bytes")?,
        submits_per_min: within(&s.submits_per_min, (1, SUBMITS_PER_MIN_MAX), "submits_per_min")?,
    })
}

/// Rules of a whole client must not hide in a function's section, where they
/// would be believed to hold.
fn only_a_functions(src: &Source<'_>, s: &SectionToml, client: &str) -> Result<(), ManifestError> {
    let wrong =
        |key: &str| format!("{key} is a rule of a whole client: move it to [client.{client}]");
    if let Some(f) = &s.functions {
        return Err(src.error(f, wrong("functions")));
    }
    if let Some(d) = &s.devices {
        return Err(src.error(d, wrong("devices")));
    }
    if let Some(t) = &s.tokens {
        return Err(src.error(t, wrong("tokens")));
    }
    let numbers = [
        (&s.requests_per_s, "requests_per_s"),
        (&s.requests_burst, "requests_burst"),
        (&s.rings_per_s, "rings_per_s"),
        (&s.modules, "modules"),
        (&s.submits_per_min, "submits_per_min"),
    ];
    if let Some(v) = &s.submit {
        return Err(src.error(v, wrong("submit")));
    }
    if let Some(v) = &s.modules_bytes {
        return Err(src.error(v, wrong("modules_bytes")));
    }
    if let Some(v) = &s.buffer_bytes {
        return Err(src.error(v, wrong("buffer_bytes")));
    }
    match numbers.into_iter().find_map(|(v, key)| Some((v.as_ref()?, key))) {
        Some((v, key)) => Err(src.error(v, wrong(key))),
        None => Ok(()),
    }
}

/// Only a client has functions.
fn no_function(src: &Source<'_>, s: &SectionToml) -> Result<(), ManifestError> {
    match s.function.keys().next() {
        None => Ok(()),
        Some(f) => Err(src.error(
            f,
            "rules of a function belong to a client: write them in [client.NAME.function.FUNCTION]",
        )),
    }
}

/// Reads a policy. `file` is for errors.
pub fn parse(file: &Path, text: &str) -> Result<Policy, ManifestError> {
    let src = Source { file, text };
    if text.len() > POLICY_BYTES_MAX {
        return Err(
            src.whole(format!("{} bytes; a policy has at most {POLICY_BYTES_MAX}", text.len()))
        );
    }
    let t: PolicyToml = src.parse()?;
    no_function(&src, &t.default)?;
    let mut policy = Policy { default: section(&src, &t.default)?, ..Policy::default() };
    for layer in &t.jail.require {
        let found = layer.get_ref().parse();
        policy
            .require
            .insert(found.map_err(|e: vfun_jail::UnknownLayer| src.error(layer, e.to_string()))?);
    }
    for (name, client) in t.client {
        let name = src.name(&name)?;
        let mut c = ClientSection { own: section(&src, &client)?, ..ClientSection::default() };
        for (function, rules) in client.function {
            let function = src.name(&function)?;
            no_function(&src, &rules)?;
            only_a_functions(&src, &rules, &name)?;
            c.functions.insert(function, section(&src, &rules)?);
        }
        policy.clients.insert(name, c);
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;
    use vfun_jail::Layer;

    fn p(text: &str) -> Result<Policy, String> {
        parse(Path::new("p.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn every_key_is_read_where_it_stands() {
        let text = r#"
            [jail]
            require = ["seccomp", "own-user"]
            [default]
            functions = ["sum", "mean"]
            hardware = false
            channels = 2
            bytes = "3 MiB"
            buffer_bytes = "4 MiB"
            calls_per_s = 4
            in_flight = 5
            deadline_ms = 6
            cpu = "70%"
            memory = "80 MiB"
            threads = 9
            requests_per_s = 110
            requests_burst = 120
            rings_per_s = 130
            lease_priority = 7
            tokens = true
            submit = ["ci-*"]
            modules = 3
            modules_bytes = "5 MiB"
            submits_per_min = 7
            [client.vm1]
            submit = false
            cpu = "none"
            functions = ["*"]
            [client."vm1".function.sum]
            calls_per_s = 1000
        "#;
        let p = p(text).unwrap();
        let all = p.client("any");
        let jail = vfun_jail::Limits { cpu_percent: Some(70), memory_bytes: 80 << 20, threads: 9 };
        let expected = Rules {
            hardware: false,
            channels: 2,
            bytes: 3 << 20,
            buffer_bytes: 4 << 20,
            calls_per_s: 4,
            in_flight: 5,
            deadline_ms: 6,
            requests_per_s: 110,
            requests_burst: 120,
            rings_per_s: 130,
            lease_priority: 7,
            tokens: true,
            modules: 3,
            modules_bytes: 5 << 20,
            submits_per_min: 7,
            jail,
        };
        assert_eq!(all, expected);
        assert!(p.may_use("any", "sum") && !p.may_use("any", "other") && p.may_use("vm1", "other"));
        assert_eq!(p.client("vm1").jail.cpu_percent, None);
        assert_eq!((p.submit("any"), p.submit("vm1")), (&["ci-*".to_owned()][..], &[][..]));
        assert!(p.may_use("any", "submit") && p.may_use("any", "my.x"));
        assert!(!p.may_use("vm1", "submit") && !p.may_use("vm1", "my.x"), "whatever is listed");
        assert!(!Policy::default().may_use("any", "submit"), "nobody by default");
        assert_eq!(p.of("vm1", "sum").calls_per_s, 1000);
        assert!(p.require.iter().eq(&[Layer::OwnUser, Layer::Seccomp]));
        assert_eq!(super::parse(Path::new("p"), "").unwrap(), Policy::default());
    }

    #[test]
    fn wrong_policies_are_refused_with_file_line_and_reason() {
        for (text, expect) in [
            ("[jail]\nrequire = [\n\"seccomp\",\n\"sandbox\"]", "p.toml:4: 'sandbox' is no layer"),
            ("[default]\ncolour = 3", "p.toml:2: unknown field `colour`"),
            ("[defaults]\nchannels = 3", "p.toml:1: unknown field `defaults`"),
            ("[default]\nchannels = 0", "p.toml:2: channels is at least 1: a client"),
            ("[default]\nchannels = \"3\"", "p.toml:2: invalid type"),
            ("[default]\nchannels = -1", "p.toml:2: invalid value"),
            ("[default]\nbytes = \"3 parsecs\"", "p.toml:2: 'parsecs' is not a unit"),
            ("[default]\nbytes = 3", "p.toml:2: invalid type"),
            ("[default]\nin_flight = 0", "p.toml:2: in_flight is at least 1"),
            ("[default]\ndeadline_ms = 0", "p.toml:2: a deadline is from 1 to"),
            ("[default]\ncpu = \"1.5\"", "p.toml:2: '1.5' is not a share of processors"),
            ("[default]\ncpu = \"0%\"", "p.toml:2: '0%' is not"),
            ("[default]\nmemory = \"1 MiB\"", "p.toml:2: memory is at least 16 MiB"),
            ("[default]\nthreads = 1", "p.toml:2: threads is at least"),
            ("[default]\nrequests_per_s = 0", "p.toml:2: requests_per_s is at least"),
            ("[default]\nrequests_burst = 1", "p.toml:2: requests_burst is at least"),
            ("[default]\nrings_per_s = 0", "p.toml:2: rings_per_s is at least"),
            ("[default]\nlease_priority = 11", "p.toml:2: lease_priority is from 0 to 10"),
            ("[default]\ntokens = 1", "p.toml:2: invalid type"),
            ("[default]\nsubmit = 1", "p.toml:2: submit is true, false, or a list"),
            ("[default]\nsubmit = [\"\"]", "p.toml:2: submit is true, false, or a list"),
            ("[default]\nmodules = 0", "p.toml:2: modules is at least 1"),
            ("[default]\nmodules = 1000", "p.toml:2: modules is at most 128"),
            ("[default]\nmodules_bytes = \"1 B\"", "p.toml:2: modules_bytes is at least 1 MiB"),
            ("[default]\nsubmits_per_min = 0", "p.toml:2: submits_per_min is at least 1"),
            ("[client.a.function.b]\nsubmit = true", "p.toml:2: submit is a rule of a whole"),
            ("\n[client.\"a/b\"]\nchannels = 1", "p.toml:2: name 'a/b'"),
            ("[client.a]\nfunctions = [\"x\",\n\"y z\"]", "p.toml:3: name 'y z'"),
            ("[client.a]\nchannel = 1", "p.toml:2: unknown field `channel`"),
            ("[client.a.function.\"b c\"]\nchannels = 1", "p.toml:1: name 'b c'"),
            (
                "[client.a.function.b]\n\ntokens = true",
                "p.toml:3: tokens is a rule of a whole client: move it to [client.a]",
            ),
            ("[client.a.function.b]\nfunctions = []", "p.toml:2: functions is a rule of"),
            ("[client.a.function.b]\nrings_per_s = 7", "p.toml:2: rings_per_s is a rule of"),
            ("[client.a]\nchannels = 1\nchannels = 2", "p.toml:3: duplicate key"),
            ("[client.a]\n[client.a]\n", "p.toml:2:"),
            ("[default\n", "p.toml:1:"),
            ("[default.function.x]\nchannels = 1", "p.toml:1: rules of a function belong"),
            ("[client.a.function.x.function.y]\n", "p.toml:1: rules of a function belong"),
        ] {
            let e = p(text).unwrap_err();
            assert!(e.starts_with(expect), "{e} should say {expect}");
        }
        let long = "#".repeat(POLICY_BYTES_MAX + 1);
        assert!(p(&long).unwrap_err().contains("a policy has at most"));
    }
}
