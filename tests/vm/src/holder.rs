//! What holds a VM's NICs together.

/// The interface of the VM that has its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Bond,
    /// The kernel's net_failover, which it makes where QEMU says so (`failover=on`).
    Failover,
}

impl Holder {
    pub fn interface(self) -> &'static str {
        match self {
            Holder::Bond => "bond0",
            Holder::Failover => "eth0",
        }
    }

    /// The script that makes it, as the guest's own network configuration would at its start.
    pub fn make(self) -> &'static str {
        match self {
            Holder::Bond => {
                "echo active-backup > /sys/class/net/bond0/bonding/mode && \
                 ip link set eth0 down && echo +eth0 > /sys/class/net/bond0/bonding/slaves && \
                 ip link set bond0 up"
            }
            Holder::Failover => "ip link set eth0 up",
        }
    }

    /// The script that says which interface the VM's packets take.
    pub fn active(self) -> &'static str {
        match self {
            Holder::Bond => "cat /sys/class/net/bond0/bonding/active_slave",
            // It takes the VF, eth2, as soon as that runs.
            Holder::Failover => {
                "if grep -qs 1 /sys/class/net/eth2/carrier; then echo eth2; else echo eth0; fi"
            }
        }
    }
}
