//! Packets between the test and a VM, in one of three ways.

use crate::module::ok;
use crate::netns::ip;
use crate::oneway::Listener;
use crate::pinger::{Count, Pinger};
use crate::runs::Runs;
use std::time::{Duration, Instant};

/// The host's address on the test's bridge.
pub const HOST: &str = "10.9.0.1";
/// Where the VM writes what it hears, in the VM.
const HEARD: &str = "/tmp/heard";
/// How long a packet to or from a VM may take before it counts as lost.
const LATE: Duration = Duration::from_secs(1);
/// How often it is looked whether packets arrive, [`LATE`] apart.
const LOOKS: u32 = 10;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the VM, which sends each back.
    Answered,
    /// To the VM, which says nothing at all: the switch learns of a move only what the bond
    /// tells it.
    ToVm,
    /// From the VM, which nobody answers.
    FromVm,
}

/// Packets at an even pace.
pub enum Flow {
    Answered(Pinger),
    ToVm(Pinger),
    FromVm(Listener),
}

impl Flow {
    /// Starts it between the host and the VM with this number, whose bond has this address.
    pub fn start(way: Way, guest: &impl Runs, n: u8, mac: &str, every: Duration) -> Flow {
        let (vm, port) = (format!("10.9.0.1{n}"), 7000 + u16::from(n));
        let pinger = || {
            Pinger::start(
                format!("{HOST}:0").parse().unwrap(),
                format!("{vm}:7").parse().unwrap(),
                every,
            )
        };
        match way {
            Way::Answered => {
                ok(guest, "(vfun-vm-app udp-echo 7 >/dev/null 2>&1 &)");
                Flow::Answered(pinger())
            }
            Way::ToVm => {
                // Else the host asks for it now and then, and the answers teach the switch; so
                // do the reports of IPv6 after each move.
                let ipv6 = "/proc/sys/net/ipv6/conf/bond0/disable_ipv6";
                ok(guest, &format!("if [ -e {ipv6} ]; then echo 1 > {ipv6}; fi"));
                ip(&format!("neigh replace {vm} lladdr {mac} nud permanent dev br0"));
                ok(guest, &format!("(vfun-vm-app udp-sink 7 {HEARD} >/dev/null 2>&1 &)"));
                ok(guest, &format!("until test -e {HEARD}; do usleep 10000; done"));
                Flow::ToVm(pinger())
            }
            Way::FromVm => {
                let listener = Listener::start(format!("{HOST}:{port}").parse().unwrap());
                let us = every.as_micros();
                ok(
                    guest,
                    &format!("(vfun-vm-app udp-source {HOST}:{port} {us} >/dev/null 2>&1 &)"),
                );
                Flow::FromVm(listener)
            }
        }
    }

    /// Counts the packets that were sent in this time; waits for the last ones.
    pub fn count(&self, guest: &impl Runs, begin: Instant, end: Instant) -> Count {
        match self {
            Flow::Answered(pinger) => pinger.count(begin, end),
            Flow::ToVm(pinger) => {
                std::thread::sleep(LATE.saturating_sub(end.elapsed()));
                let numbers = pinger.numbers(begin, end);
                let (from, to) = (numbers.start, numbers.end);
                let said = ok(guest, &format!("vfun-vm-app udp-heard {HEARD} {from} {to}"));
                let mut words = said.split_whitespace().map(|w| w.parse().expect("a number"));
                let mut next = || words.next().expect("two numbers");
                let (lost, ms): (u64, u64) = (next(), next());
                let sent = (to - from) as usize;
                Count {
                    sent,
                    lost: lost as usize,
                    gap: Duration::from_millis(ms),
                    ..Count::default()
                }
            }
            Flow::FromVm(listener) => {
                std::thread::sleep(LATE.saturating_sub(end.elapsed()));
                let (numbers, lost, gap) = listener.count(begin, end);
                Count {
                    sent: (numbers.end - numbers.start) as usize,
                    lost,
                    gap,
                    ..Count::default()
                }
            }
        }
    }

    /// Whether packets arrive now. On a busy machine a guest may be further behind than
    /// [`LATE`] for a while, so it is asked some times.
    pub fn arrives(&self, guest: &impl Runs) -> bool {
        (0..LOOKS).any(|look| {
            std::thread::sleep(if look == 0 { Duration::ZERO } else { LATE });
            let now = Instant::now();
            let count = self.count(guest, now - LATE, now);
            count.lost < count.sent
        })
    }
}
