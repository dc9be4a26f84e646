//! What a VF's port is called on the host, where this program makes it.

use vfun_nics::VfId;
use vfun_nics::declared::TAP_PREFIX;

/// Longest name of an interface, bytes: the kernel's.
const NAME_BYTES: usize = 15;

/// What marks a port that this program made: others have its name by chance.
pub(super) const MARK: &str = "vfun-nics";

/// The name of a VF's tap, or of its port of Open vSwitch.
pub fn port_name(vf: &VfId) -> String {
    let name = format!("{TAP_PREFIX}{}", vf.0);
    if name.len() <= NAME_BYTES {
        return name;
    }
    format!("{TAP_PREFIX}{:012x}", hash(&vf.0) >> 16)
}

/// The port's own MAC address on the host. A bridge without a fixed address takes the lowest of
/// its ports': one that came and went with a VF would change it, and all VMs would send to the
/// old address until they ask anew. So it is higher than those that other programs give.
pub(super) fn port_mac(port: &str) -> String {
    let [a, b, c, ..] = hash(port).to_le_bytes();
    format!("fe:ff:ff:{a:02x}:{b:02x}:{c:02x}")
}

/// FNV-1a: the same number each time, and another for another name.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_names_that_the_kernel_takes() {
        let name = |vf: &str| port_name(&VfId(vf.into()));
        assert_eq!(name("cards-0"), "vt-cards-0");
        let long = name("a-pool-with-a-long-name-1");
        assert!(long.len() <= NAME_BYTES && long != name("a-pool-with-a-long-name-2"), "{long}");
    }
}
