//! Programs of Debian that talk over a network, as their packages have them: one part runs
//! at the host, the other in a VM.

mod ftp;
mod iperf3;
mod ping;
pub mod servers;
mod sockperf;
mod ssh;

use crate::module::ok;
use crate::pinger::Count;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use vfun_testguest::Guest;

/// The address of the VM with number 0.
const VM: &str = "10.9.0.10";
/// Where the VM has the small system with the programs, which they take for its root.
const ROOT: &str = "/programs";
/// The same, packed.
const PACKED: &str = "/programs.tar";

/// Something that people run over a network.
pub struct NetProgram {
    pub name: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Whether it tells no gaps, but only that they were shorter than what it tells.
    pub bounds: bool,
    /// Starts the VM's part again, and waits until it listens.
    pub serve: fn(&Guest, Duration),
    /// Runs the host's part for so long; what it counted, or why it ended early.
    pub run: fn(&Guest, Duration) -> Result<Count, String>,
}

pub const NET_PROGRAMS: [NetProgram; 7] = [
    NetProgram {
        name: "sockperf under-load, 1000/s",
        unit: "packets",
        bounds: false,
        serve: sockperf::serve,
        run: sockperf::run,
    },
    NetProgram {
        name: "iperf3, UDP to the VM",
        unit: "packets",
        bounds: true,
        serve: iperf3::serve,
        run: iperf3::udp_to_vm,
    },
    NetProgram {
        name: "iperf3, UDP from the VM",
        unit: "packets",
        bounds: true,
        serve: iperf3::serve,
        run: iperf3::udp_from_vm,
    },
    NetProgram {
        name: "iperf3, one TCP connection",
        unit: "bytes",
        bounds: true,
        serve: iperf3::serve,
        run: iperf3::tcp_from_vm,
    },
    NetProgram {
        name: "ping, 100/s",
        unit: "packets",
        bounds: false,
        serve: |_, _| {},
        run: ping::run,
    },
    NetProgram {
        name: "ssh, one connection",
        unit: "lines",
        bounds: false,
        serve: ssh::serve,
        run: ssh::run,
    },
    NetProgram {
        name: "vsftpd to curl, one download",
        unit: "bytes",
        bounds: false,
        serve: ftp::serve,
        run: ftp::run,
    },
];

/// Where they lie (packaging/net-programs.sh); none where such tests are not asked for.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("VFUN_NET_PROGRAMS").map(PathBuf::from)
}

/// The small system with them, as it was fetched.
pub fn packed() -> PathBuf {
    folder().expect("asked for").join("root.tar")
}

/// What a VM is to have for [`install`]: a small system, packed.
pub fn files(packed: PathBuf) -> Vec<(PathBuf, String)> {
    vec![(packed, PACKED.into())]
}

/// Makes the programs ready in a VM.
pub fn install(guest: &Guest) {
    ok(
        guest,
        &format!(
            "mkdir {ROOT} && tar -xf {PACKED} -C {ROOT} && rm {PACKED} && \
             mount -o bind /dev {ROOT}/dev && mount -t proc proc {ROOT}/proc"
        ),
    );
}

/// Ends the VM's program of this name, starts one by these words, and waits until it
/// listens.
fn serve(guest: &Guest, words: &str, port: u16) {
    let path = words.split(' ').next().expect("a path");
    let name = path.rsplit('/').next().expect("a name");
    let listens = format!(
        "cat /proc/net/udp /proc/net/tcp 2>/dev/null | grep -q ':{port:04X} 00000000:0000'"
    );
    ok(
        guest,
        &format!(
            "killall {name} 2>/dev/null; while {listens}; do usleep 10000; done; \
             (chroot {ROOT} {words} >/tmp/{name} 2>&1 </dev/null &); \
             for i in $(seq 1000); do {listens} && exit; usleep 10000; done; \
             cat /tmp/{name}; exit 1"
        ),
    );
}

/// Packets that came to a program which did not take them for so long that its buffer was
/// full: at the host and in the VM, since their start. Such a packet is lost by a machine
/// that is busy elsewhere, and not on its way.
pub fn not_taken(guest: &Guest) -> u64 {
    let host = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let vm = ok(guest, "cat /proc/net/snmp");
    [host, vm].iter().map(|text| full_buffers(text).expect("the kernel counts them")).sum()
}

fn full_buffers(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "RcvbufErrors")?;
    numbers.split(' ').nth(at)?.parse().ok()
}

/// One of the programs at the host.
fn host(program: &str) -> Command {
    let mut command = Command::new(folder().expect("asked for").join("run"));
    command.arg(program);
    command
}

/// Its standard output, if it succeeds; all that it said, if not.
fn said(command: &mut Command) -> Result<String, String> {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(text) } else { Err(format!("{}: {text}{errors}", out.status)) }
}

/// The number that follows these words, and spaces.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let rest = text[text.find(words)? + words.len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The longest time between two of these moments, which are in seconds.
fn longest(mut moments: Vec<f64>) -> Duration {
    moments.sort_by(f64::total_cmp);
    let gaps = moments.windows(2).map(|w| w[1] - w[0]);
    Duration::from_secs_f64(gaps.fold(0.0, f64::max))
}
