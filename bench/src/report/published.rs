//! What has been published, and what is aimed for. Figures only, as the papers print them.
//!
//! - Carlos A. Petry and Rodolfo J. de Azevedo, "VirtFun: Function Offload
//!   Methodology to Virtualized Environment", Computer Science & Information Technology
//!   (CS & IT), volume 10, number 11, September 2020: tables 1 and 2.
//! - "FlexVF": who gets the virtual functions of a network card; its table 2 and its figures 6 and 8; for
//!   network VFs also what its text says of figures 3 and 7.

use super::text::number::ns;
use super::{Domain, Function, Instance, instances};
use serde::{Deserialize, Serialize};

/// Where published figures come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The paper that published it.
    pub paper: String,
    /// The machine of its figures.
    pub machine: String,
}

impl Published {
    /// Paper and machine of the experiment that VirtFun's authors published.
    pub fn virtfun() -> Self {
        Published { paper: PAPER.to_owned(), machine: MACHINE.to_owned() }
    }

    /// Everything in one line of text.
    pub fn line(&self) -> String {
        format!("{}, on {}", self.paper, self.machine)
    }
}

/// Published figures beside those of leases: of network cards and packets, so of another size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedLeases {
    /// The paper that published it.
    pub paper: String,
    /// The machine of its figures.
    pub machine: String,
    /// To plug a VF into a guest, ns.
    pub plug_ns: f64,
    /// To unplug it, ns.
    pub unplug_ns: f64,
    /// The part by which a server's answers came sooner with a VF.
    pub sooner: f64,
    /// The part of its throughput that a guest lost at most beside busier ones, where these have the VFs.
    pub starved: f64,
}

impl Default for PublishedLeases {
    fn default() -> Self {
        let (plug_ns, unplug_ns) = SWITCH_NS;
        let (paper, machine) = (FLEXVF.to_owned(), FLEXVF_MACHINE.to_owned());
        PublishedLeases { paper, machine, plug_ns, unplug_ns, sooner: 0.75, starved: 0.93 }
    }
}

impl PublishedLeases {
    /// In a few lines.
    pub fn lines(&self) -> String {
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        format!(
            "Published ({}, on {}): {} to plug a VF in and {} to unplug it; a server's answers {} sooner with a VF; \
             a guest beside busier ones, which have the VFs, loses up to {} of its throughput.\n",
            self.paper,
            self.machine,
            ns(self.plug_ns),
            ns(self.unplug_ns),
            percent(self.sooner),
            percent(self.starved)
        )
    }
}

impl PublishedLeases {
    /// What else was published, where network VFs are shown. The text gives no figure of the
    /// curves and boxes of its figures 2, 5 and 7 but these.
    pub fn nics_lines(&self) -> String {
        let (best, worst) = NICS_GAIN;
        format!(
            "With a VF, servers gained {worst} % (sphinx) to {best} % (masstree). Of 100 VMs in four groups with {NICS_VFS} VFs, activity gave all \
             of the two busiest groups one and some of the next; fair and random gave all groups the same. \
             The daemon took under {:.0} % of a processor and up to {} MB a VM; a decision every {NICS_INTERVAL_S} s.\n",
            100.0 * NICS_CPU_SHARE,
            NICS_VM_BYTES / 1e6
        )
    }
}

/// What was published of a remoted API: the text's figures only. Figures 6, 9, 10 and 11 are curves, of
/// which the text says their shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRemoting {
    /// The paper that published it.
    pub paper: String,
    /// The machine of its figures.
    pub machine: String,
    /// The part of the native rate that one transfer of 512 KiB had: the worst.
    pub transfer_rate: f64,
    /// The part of the native rate that bursts had: the worst, of 2 MiB.
    pub burst_rate: f64,
    /// How much later a callback came, ns: from so much to so much.
    pub callback_ns: (f64, f64),
    /// What a polled transfer took longer, ns, at any size.
    pub polled_ns: f64,
}

impl Default for PublishedRemoting {
    fn default() -> Self {
        PublishedRemoting {
            paper: REMOTING.to_owned(),
            machine: REMOTING_MACHINE.to_owned(),
            transfer_rate: 0.93,
            burst_rate: 0.96,
            callback_ns: (130e3, 140e3),
            polled_ns: 3e3,
        }
    }
}

impl PublishedRemoting {
    /// In a few lines.
    pub fn lines(&self) -> String {
        let (least, most) = self.callback_ns;
        format!(
            "Published ({}, on {}; with an FPGA's engine, here it is simulated): allocating took a native program about the same \
             at all sizes, and a guest time in proportion to the size (pages are mapped one by one); one transfer had {} of the \
             native rate at 512 KiB, which was the worst; bursts {} at 2 MiB, the worst; a callback came {} to {} later; \
             spinning was orders of magnitude faster than the virtio path that sleeps; a polled transfer took about {} more, at \
             any size, one by events more than that. The text has no other figures of its curves.\n",
            self.paper,
            self.machine,
            self.transfer_rate,
            self.burst_rate,
            ns(least),
            ns(most),
            ns(self.polled_ns)
        )
    }
}

/// The paper on remoting an API.
const REMOTING: &str = "API remoting for RDMA, section V, figures 6 to 11";
/// Its machine.
const REMOTING_MACHINE: &str = "ARM Juno R2 boards with an FPGA";

/// VFs of the published card that VMs could have.
pub const NICS_VFS: u16 = 63;
/// Seconds between two published decisions.
pub const NICS_INTERVAL_S: u64 = 300;
/// The published packet rates of four groups of 25 VMs, a second.
pub const NICS_RATES: [f64; 4] = [20e3, 40e3, 80e3, 100e3];
/// What a database request took on a paravirtual NIC and on a VF, ns: 75 % less. On the
/// paravirtual one it varied from 7 to 10 ms.
pub const NICS_REQUEST_NS: (f64, f64) = (8e6, 2e6);
/// The most and the least that a server gained by a VF, percent: masstree and sphinx.
pub const NICS_GAIN: (f64, f64) = (12.0, 1.6);
/// What hot-plugging and hot-unplugging a VF took, ns: table 2.
pub const NICS_PLUG_NS: (f64, f64) = (640e6, 56e6);
/// Processor time of the published daemon: less than this part of a processor.
pub const NICS_CPU_SHARE: f64 = 0.01;
/// Memory of the published daemon a VM: up to so many bytes.
pub const NICS_VM_BYTES: f64 = 10e6;

/// The paper, as reports cite it.
const PAPER: &str =
    "Petry and de Azevedo, VirtFun, CS & IT 10(11), 2020, tables 1 and 2, means of 5";
/// Its machine, as far as it is described.
const MACHINE: &str = "Intel Core i7, 16 GB, Ubuntu Server 20.04, Linux 5.4, QEMU 4.2.50 with KVM";
/// The paper on leases of network cards.
const FLEXVF: &str = "FlexVF, table 2 and figures 6 and 8";
/// The machine of FlexVF's authors.
const FLEXVF_MACHINE: &str =
    "2 × Intel Xeon E5-2630 v3, 128 GB, Intel 82599ES, Ubuntu 18.04, Linux 4.15, QEMU 5.1 with KVM";

/// The largest slowdown against native that the abstract gives: 2.8 %. The tables' own largest is
/// 4.0 % ([`worst_in_tables`]).
pub const WORST_SLOWDOWN: f64 = 1.028;

/// The work of a call where that slowdown was found: 8 to 20 ms.
pub const CALL_NS: (f64, f64) = (8e6, 20e6);

/// The work a call may be as small as while it keeps within [`WORST_SLOWDOWN`]: 20 µs.
pub const TARGET_GRAIN_NS: f64 = 20e3;

/// What it took to plug a VF in, and to unplug it, ns.
pub const SWITCH_NS: (f64, f64) = (640e6, 56e6);

/// Seconds of the five instances, coarsest first, in host-host, guest-host and guest-net.
type Table = [[f64; 5]; 3];

const FACTORIAL: Table = [
    [16.40, 16.45, 16.79, 20.87, 26.02],
    [16.41, 16.57, 16.81, 21.44, 26.54],
    [15.98, 16.52, 20.84, 65.40, 114.81],
];
const FIBONACCI: Table = [
    [19.68, 19.78, 20.03, 23.92, 29.62],
    [19.69, 19.80, 20.08, 24.87, 30.13],
    [19.18, 19.79, 26.17, 70.99, 118.16],
];

/// The published mean seconds of an unscaled instance; `None` where there are none (in-process).
pub fn seconds(function: Function, domain: Domain, published: Instance) -> Option<f64> {
    let table = match function {
        Function::Factorial => &FACTORIAL,
        Function::Fibonacci => &FIBONACCI,
    };
    let row = match domain {
        Domain::InProcess | Domain::KvmBare => return None,
        Domain::HostHost => 0,
        Domain::GuestHost => 1,
        Domain::GuestNet => 2,
    };
    let column = instances::PUBLISHED.iter().position(|&i| i == published)?;
    Some(table[row][column])
}

/// The published mean over that of host-host.
pub fn to_host_host(function: Function, domain: Domain, published: Instance) -> Option<f64> {
    let of = |domain| seconds(function, domain, published);
    Some(of(domain)? / of(Domain::HostHost)?)
}

/// The published guest-net mean over that of guest-host.
pub fn net_over_guest_host(function: Function, published: Instance) -> Option<f64> {
    let of = |domain| seconds(function, domain, published);
    Some(of(Domain::GuestNet)? / of(Domain::GuestHost)?)
}

/// The largest guest-host mean over host-host in the tables, and where.
pub fn worst_in_tables() -> (Function, Instance, f64) {
    let mut worst = (Function::Factorial, instances::PUBLISHED[0], 1.0);
    for &function in Function::ALL {
        for published in instances::PUBLISHED {
            let ratio = to_host_host(function, Domain::GuestHost, published).unwrap_or(1.0);
            if ratio > worst.2 {
                worst = (function, published, ratio);
            }
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_say_what_the_paper_says_of_them() {
        let (coarsest, finest) = (instances::PUBLISHED[0], instances::PUBLISHED[4]);
        let of = |domain, instance| seconds(Function::Factorial, domain, instance).unwrap();
        let growth = |domain| 100.0 * (of(domain, finest) / of(domain, coarsest) - 1.0);
        assert_eq!(format!("{:.1}", growth(Domain::HostHost)), "58.7");
        assert_eq!(format!("{:.1}", growth(Domain::GuestHost)), "61.7");
        assert_eq!(format!("{:.0}", growth(Domain::GuestNet)), "618");
        // Its 340 % is guest-net against host-host, at the finest.
        let net = to_host_host(Function::Factorial, Domain::GuestNet, finest).unwrap();
        assert_eq!(format!("{:.0}", 100.0 * (net - 1.0)), "341");
        assert_eq!(
            format!("{:.2}", net_over_guest_host(Function::Factorial, finest).unwrap()),
            "4.33"
        );
        assert_eq!(seconds(Function::Factorial, Domain::InProcess, finest), None);
        assert_eq!(seconds(Function::Factorial, Domain::HostHost, finest.scaled(0.5)), None);
        let (function, instance, ratio) = worst_in_tables();
        assert_eq!(
            (function, instance.to_string(), format!("{ratio:.3}")),
            (Function::Fibonacci, "500K×1k".into(), "1.040".into())
        );
    }
}
