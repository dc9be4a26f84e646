//! `[rdma]` of a client's manifest.

use super::{ManifestError, Source};
use crate::rdma::{Rdma, RdmaBackend, RdmaQuota};
use core::net::IpAddr;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RdmaToml {
    backend: Option<Spanned<String>>,
    network: Option<Spanned<String>>,
    programs: Option<Spanned<u64>>,
    queue_pairs: Option<Spanned<u64>>,
    regions: Option<Spanned<u64>>,
    memory: Option<Spanned<String>>,
}

/// What it says, or what holds where it is not there. All addresses lie in the network that it names.
pub(super) fn of_client(
    src: &Source<'_>,
    said: Option<&RdmaToml>,
    addresses: &BTreeMap<String, IpAddr>,
) -> Result<Rdma, ManifestError> {
    let Some(t) = said else { return Ok(Rdma::default()) };
    if let Some(word) = &t.backend {
        backend(word.get_ref()).map_err(|e| src.error(word, e))?;
    }
    let network = t.network.as_ref().map(|text| {
        let network: crate::rdma::Network =
            text.get_ref().parse().map_err(|e| src.error(text, e))?;
        match addresses.iter().find(|(_, at)| !network.has(**at)) {
            None => Ok(network),
            Some((vm, at)) => {
                Err(src.error(text, format!("the address {at} of {vm} does not lie in {network}")))
            }
        }
    });
    let quotas = quotas(src, t)?;
    Ok(Rdma { backend: RdmaBackend::Software, network: network.transpose()?, quotas })
}

fn backend(word: &str) -> Result<RdmaBackend, String> {
    let all = RdmaBackend::ALL;
    all.into_iter().find(|backend| backend.name() == word).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|backend| format!("\"{}\"", backend.name())).collect();
        format!("backend \"{word}\" is not one of {}", names.join(", "))
    })
}

fn quotas(src: &Source<'_>, t: &RdmaToml) -> Result<BTreeMap<RdmaQuota, u64>, ManifestError> {
    let counts = [
        (RdmaQuota::Programs, &t.programs),
        (RdmaQuota::QueuePairs, &t.queue_pairs),
        (RdmaQuota::Regions, &t.regions),
    ];
    let mut quotas = BTreeMap::new();
    for (quota, said) in counts {
        let Some(most) = said else { continue };
        if *most.get_ref() == 0 {
            let none = format!(
                "{} is at least 1: to offer no RDMA leave the function out of `functions`",
                quota.name()
            );
            return Err(src.error(most, none));
        }
        quotas.insert(quota, *most.get_ref());
    }
    if let Some(text) = &t.memory {
        let bytes = vfun_policy::size(text.get_ref()).map_err(|e| src.error(text, e))?;
        quotas.insert(RdmaQuota::Memory, bytes);
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use std::path::Path;

    fn read(rest: &str) -> Result<Rdma, String> {
        let text = format!("name = \"web\"\naddress = \"10.0.0.5\"\n{rest}");
        client(Path::new("web.toml"), &text, 1).map(|c| c.rdma).map_err(|e| e.to_string())
    }

    #[test]
    fn a_client_says_its_network_and_what_its_vms_may_have() {
        assert_eq!(read(""), Ok(Rdma::default()));
        assert_eq!(read("[rdma]"), Ok(Rdma::default()));
        let text = "[rdma]\nbackend = \"software\"\nnetwork = \"10.0.0.0/24\"\nprograms = 4\nqueue_pairs = 100\nmemory = \"64 MiB\"";
        let rdma = read(text).unwrap();
        assert_eq!(rdma.network.map(|n| n.to_string()).as_deref(), Some("10.0.0.0/24"));
        let settings: Vec<_> = rdma.settings().map(|(name, n)| format!("{name}={n}")).collect();
        assert_eq!(settings, ["programs=4", "queue_pairs=100", "memory=67108864"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let wrong = |rest: &str, says: &str| {
            let said = read(&format!("[rdma]\n{rest}")).unwrap_err();
            assert!(said.contains("web.toml:4") && said.contains(says), "{said}");
        };
        wrong("backend = \"card\"", "is not one of \"software\"");
        wrong("network = \"10.0.1.0/24\"", "10.0.0.5 of web does not lie in 10.0.1.0/24");
        wrong("network = \"10.0.0.0\"", "no network");
        wrong("programs = 0", "programs is at least 1");
        wrong("memory = \"64 pages\"", "not a unit");
        wrong("devices = 1", "devices");
    }
}
