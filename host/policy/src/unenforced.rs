//! Bounds that a policy sets and a host has not the means to enforce.

use super::rules::{Key, Layered, Policy};
use std::collections::BTreeMap;
use vfun_jail::{Layer, Missing};

/// Rules that a host does not enforce, each with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unenforced(BTreeMap<Key, String>);

impl Unenforced {
    /// Those of a host whose services lack these layers of the sandbox.
    pub fn of(missing: &[Missing]) -> Self {
        let lacks = |layer: Layer| missing.iter().find(|m| m.layer == layer);
        // Where no group bounds it, memory and threads are bounded for each
        // process by itself; the latter in a user namespace only.
        let keepers: [(Key, &[&[Layer]]); 3] = [
            (Key::Cpu, &[&[Layer::CgroupCpu]]),
            (Key::Memory, &[&[Layer::CgroupMemory], &[Layer::Rlimits]]),
            (Key::Threads, &[&[Layer::CgroupPids], &[Layer::User, Layer::Rlimits]]),
        ];
        let why = |ways: &[&[Layer]]| {
            let gone = |way: &&[Layer]| way.iter().find_map(|layer| lacks(*layer));
            let gone: Option<Vec<&Missing>> = ways.iter().map(gone).collect();
            gone?.first().map(|m| format!("services lack the layer '{}': {}", m.layer, m.why))
        };
        Unenforced(keepers.into_iter().filter_map(|(key, ways)| Some((key, why(ways)?))).collect())
    }

    /// Why a rule is not enforced, if it is not.
    pub fn why(&self, key: Key) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// The bounds that a section sets in vain.
    fn of_section(&self, section: &str, rules: &Layered) -> Vec<String> {
        let bounds = |key: &Key| match key {
            Key::Cpu => matches!(rules.cpu, Some(Some(_))),
            key => rules.sets(*key),
        };
        let of = |(key, why): (&Key, &String)| format!("{section} {key}: {why}");
        self.0.iter().filter(|(key, _)| bounds(key)).map(of).collect()
    }
}

impl Policy {
    /// The bounds that it sets and a host does not enforce, a sentence each.
    pub fn unenforced(&self, host: &Unenforced) -> Vec<String> {
        let mut all = host.of_section("[default]", &self.default);
        for (name, client) in &self.clients {
            all.extend(host.of_section(&format!("[client.{name}]"), &client.own));
            for (function, rules) in &client.functions {
                let section = format!("[client.{name}.function.{function}]");
                all.extend(host.of_section(&section, rules));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use std::path::Path;

    fn host(layers: &[Layer]) -> Unenforced {
        let missing: Vec<_> = layers.iter().map(|l| Missing::new(*l, "of a reason")).collect();
        Unenforced::of(&missing)
    }

    #[test]
    fn a_bound_is_enforced_while_one_of_its_keepers_is_there() {
        use Layer::*;
        for (layers, keys) in [
            (&[][..], &[][..]),
            (&[CgroupCpu], &[Key::Cpu]),
            (&[CgroupMemory], &[]),
            (&[CgroupMemory, Rlimits], &[Key::Memory]),
            (&[CgroupPids], &[]),
            (&[CgroupPids, User], &[Key::Threads]),
            (&[CgroupPids, Rlimits], &[Key::Threads]),
            (&[User, Rlimits], &[]),
        ] {
            let host = host(layers);
            let found: Vec<Key> = host.0.keys().copied().collect();
            assert_eq!(found, keys, "{layers:?}");
        }
    }

    #[test]
    fn each_section_that_sets_one_is_named() {
        let text = "[default]\ncpu = \"none\"\nchannels = 7\n[client.a]\ncpu = \"50%\"\n\
                    [client.a.function.f]\nthreads = 9\n";
        let p = parse(Path::new("p"), text).unwrap();
        assert_eq!(
            p.unenforced(&host(&[Layer::CgroupCpu, Layer::CgroupPids, Layer::User])),
            [
                "[client.a] cpu: services lack the layer 'cgroup-cpu': of a reason",
                "[client.a.function.f] threads: services lack the layer 'cgroup-pids': of a reason",
            ]
        );
        assert!(p.unenforced(&Unenforced::default()).is_empty());
    }
}
