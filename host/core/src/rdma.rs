//! The NIC that a client's programs for RDMA see, as its manifest says in `[rdma]`.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use std::collections::BTreeMap;

/// What the NIC is, and what each VM may have of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rdma {
    /// What does the work.
    pub backend: RdmaBackend,
    /// Where the addresses of the client's VMs lie; none if they may lie anywhere.
    pub network: Option<Network>,
    /// What the programs of one VM may have together; what has no bound is not in it.
    pub quotas: BTreeMap<RdmaQuota, u64>,
}

/// What does the work of a NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RdmaBackend {
    /// The client's service, by copying from window to window.
    #[default]
    Software,
}

impl RdmaBackend {
    /// All of them.
    pub const ALL: [RdmaBackend; 1] = [RdmaBackend::Software];

    /// Its name in a manifest.
    pub const fn name(self) -> &'static str {
        match self {
            RdmaBackend::Software => "software",
        }
    }
}

/// What a VM may have so many of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RdmaQuota {
    Programs,
    QueuePairs,
    Regions,
    /// Bytes that are registered.
    Memory,
}

impl RdmaQuota {
    /// Its key in a manifest, and its setting for the service.
    pub const fn name(self) -> &'static str {
        match self {
            RdmaQuota::Programs => "programs",
            RdmaQuota::QueuePairs => "queue_pairs",
            RdmaQuota::Regions => "regions",
            RdmaQuota::Memory => "memory",
        }
    }
}

impl Rdma {
    /// Settings for the service: a number for each quota.
    pub fn settings(&self) -> impl Iterator<Item = (String, String)> {
        self.quotas.iter().map(|(quota, most)| (quota.name().to_owned(), most.to_string()))
    }
}

/// A network: an address, and how many of its first bits all addresses in it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// The address as a number at the left of 128 bits, and how many it has.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// That number without the bits behind the first ones.
fn head(number: u128, bits: u8) -> u128 {
    number & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl Network {
    /// Whether an address lies in it.
    pub fn has(&self, address: IpAddr) -> bool {
        let (own, other) = (number(self.first), number(address));
        own.1 == other.1 && own.0 == head(other.0, self.bits)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is no network: write one such as \"10.0.0.0/24\" or \"fd00::/64\"")
        };
        let (first, bits) = text.split_once('/').ok_or_else(wrong)?;
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        let (own, most) = number(first);
        if bits > most {
            return Err(wrong());
        }
        if head(own, bits) != own {
            return Err(format!(
                "'{text}' has bits behind its first {bits}: those are 0 in a network"
            ));
        }
        Ok(Network { first, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_a_network_or_not() {
        let has = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.to_string().parse(), Ok(network));
            network.has(address.parse().unwrap())
        };
        assert!(has("10.0.0.0/24", "10.0.0.5") && !has("10.0.0.0/24", "10.0.1.5"));
        assert!(has("fd00::/64", "fd00::5") && !has("fd00::/64", "fd00:0:0:1::5"));
        assert!(has("0.0.0.0/0", "10.0.0.5") && !has("0.0.0.0/0", "fd00::5"));
        assert!(has("10.0.0.5/32", "10.0.0.5") && !has("10.0.0.5/32", "10.0.0.4"));
        assert!(has("fd00::5/128", "fd00::5") && !has("::/0", "10.0.0.5"));
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "x/8", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().unwrap_err().contains(text));
        }
        assert!("10.0.0.5/24".parse::<Network>().unwrap_err().contains("behind its first 24"));
    }
}
