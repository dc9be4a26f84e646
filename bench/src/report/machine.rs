//! Where a measurement was taken, and what may have disturbed it.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine that a report was measured on. What cannot be found out is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// When, in UTC: `2026-11-21T10:20:30Z`.
    pub taken_at: String,
    /// The processor's name for itself.
    pub cpu_model: Option<String>,
    /// Logical processors that are online.
    pub cores: Option<u32>,
    /// Logical processors that this process may use.
    pub cores_usable: Option<u32>,
    /// The kernel's release, as `uname -r` says it.
    pub kernel: Option<String>,
    pub memory_bytes: Option<u64>,
    /// The emulator of the guest; null if no guest took part.
    pub qemu_version: Option<String>,
    /// What ran the guest's processor, "kvm" or "tcg"; null if no guest took part.
    pub accel: Option<String>,
    /// What may have disturbed the measurement.
    pub noise: Noise,
}

/// Hints at what may have disturbed a measurement, read as it was set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Runnable tasks, averaged over 1, 5 and 15 minutes.
    pub loadavg: Option<[f64; 3]>,
    /// True if the machine is itself a guest of a hypervisor.
    pub virtualized: Option<bool>,
    /// The share of processor time since boot that its hypervisor gave to others, 0 to 1.
    pub steal: Option<f64>,
    /// How the first core's clock is governed; null where the kernel does not say.
    pub governor: Option<String>,
}

impl Machine {
    /// Looks at this machine. It never fails: what cannot be read is null.
    pub fn collect() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut machine = Self::read(Path::new("/proc"), Path::new("/sys"), now.as_secs());
        machine.cores_usable = std::thread::available_parallelism().ok().map(|n| n.get() as u32);
        machine
    }

    /// With the emulator and the accelerator that the guest ran on.
    #[must_use]
    pub fn with_qemu(mut self, version: Option<String>, accel: &str) -> Self {
        self.qemu_version = version;
        self.accel = Some(accel.to_owned());
        self
    }

    fn read(proc: &Path, sys: &Path, now: u64) -> Self {
        let text = |path: &Path| std::fs::read_to_string(path).ok();
        let cpuinfo = text(&proc.join("cpuinfo")).unwrap_or_default();
        let cpu_model = ["model name", "Model", "cpu model", "uarch"]
            .iter()
            .find_map(|key| field(&cpuinfo, key));
        let cores = cpuinfo
            .lines()
            .filter(|l| l.split(':').next().is_some_and(|k| k.trim() == "processor"))
            .count();
        let memory = text(&proc.join("meminfo")).and_then(|t| field(&t, "MemTotal"));
        let memory_bytes =
            memory.and_then(|m| m.strip_suffix(" kB")?.parse::<u64>().ok()).map(|kib| kib * 1024);
        let flags = field(&cpuinfo, "flags").or_else(|| field(&cpuinfo, "Features"));
        Self {
            taken_at: utc(now),
            cpu_model,
            cores: (cores > 0).then_some(cores as u32),
            cores_usable: None,
            kernel: text(&proc.join("sys/kernel/osrelease")).map(|t| t.trim().to_owned()),
            memory_bytes,
            qemu_version: None,
            accel: None,
            noise: Noise {
                loadavg: text(&proc.join("loadavg")).and_then(|t| loadavg(&t)),
                virtualized: flags.map(|f| f.split_whitespace().any(|flag| flag == "hypervisor")),
                steal: text(&proc.join("stat")).and_then(|t| steal(&t)),
                governor: text(&sys.join("devices/system/cpu/cpu0/cpufreq/scaling_governor"))
                    .map(|t| t.trim().to_owned()),
            },
        }
    }

    /// What ran the guest's processor, behind a title; nothing if no guest took part.
    pub fn guest_words(&self) -> String {
        match self.accel.as_deref() {
            Some("kvm") => " (guest under KVM)".to_owned(),
            Some("tcg") => " (guest emulated, TCG)".to_owned(),
            Some(other) => format!(" (guest under {other})"),
            None => String::new(),
        }
    }

    /// One line for people: what and when.
    pub fn line(&self) -> String {
        let mut parts =
            vec![self.cpu_model.clone().unwrap_or_else(|| "unknown processor".to_owned())];
        match (self.cores, self.cores_usable) {
            (Some(all), Some(usable)) if usable != all => {
                parts.push(format!("{usable} of {all} cores"))
            }
            (Some(all), _) => parts.push(format!("{all} core{}", if all == 1 { "" } else { "s" })),
            (None, _) => {}
        }
        parts
            .extend(self.memory_bytes.map(|b| format!("{:.1} GiB", b as f64 / f64::from(1 << 30))));
        parts.extend(self.kernel.as_ref().map(|k| format!("Linux {k}")));
        match (&self.qemu_version, &self.accel) {
            (Some(version), Some(accel)) => parts.push(format!("QEMU {version} ({accel})")),
            (None, Some(accel)) => parts.push(format!("QEMU ({accel})")),
            (Some(version), None) => parts.push(format!("QEMU {version}")),
            (None, None) => {}
        }
        parts.push(self.taken_at.replace('T', " ").replace('Z', " UTC"));
        parts.join(", ")
    }

    /// One line on what may have disturbed the measurement.
    pub fn noise_line(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.noise.loadavg.map(|[a, b, c]| format!("load {a:.2} {b:.2} {c:.2}")));
        if self.noise.virtualized == Some(true) {
            parts.push("itself a virtual machine".to_owned());
        }
        parts.extend(
            self.noise
                .steal
                .map(|s| format!("{:.1} % of processor time stolen since boot", s * 100.0)),
        );
        parts.extend(self.noise.governor.as_ref().map(|g| format!("governor {g}")));
        if parts.is_empty() { "nothing known".to_owned() } else { parts.join(", ") }
    }
}

/// The version that a QEMU program tells of itself, such as "7.2.19"; `None` if it does
/// not run or does not say.
pub fn qemu_version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, after) = text.lines().next()?.split_once("version ")?;
    after.split_whitespace().next().map(str::to_owned)
}

/// The value of the first line `key : value`.
fn field(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(k, v)| k.trim() == key && !v.trim().is_empty())?;
    Some(value.trim().to_owned())
}

fn loadavg(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(|n| n.parse::<f64>().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// From /proc/stat's first line: user nice system idle iowait irq softirq steal. The
/// guest times that follow are within user and nice already.
fn steal(stat: &str) -> Option<f64> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = times.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    (all > 0).then_some(*times.get(7)? as f64 / all as f64)
}

/// Seconds since 1970 as a date and time (the civil calendar, days counted from March so
/// that leap days fall at a year's end).
fn utc(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(utc(1_795_256_462), "2026-11-21T10:21:02Z");
    }

    #[test]
    fn reads_a_proc_tree() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(
            "cpuinfo",
            "processor\t: 0\nmodel name\t: Fast CPU\nflags\t: fpu hypervisor\n\nprocessor\t: 1\n",
        );
        put("meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n");
        put("sys/kernel/osrelease", "6.12.0\n");
        put("loadavg", "0.10 0.20 0.30 1/83 4943\n");
        put("stat", "cpu  50 0 30 10 0 0 0 10 25 0\ncpu0 1 2 3\n");
        let machine =
            Machine::read(root.path(), root.path(), 0).with_qemu(Some("7.2.19".into()), "tcg");
        assert_eq!(
            machine.line(),
            "Fast CPU, 2 cores, 1.0 GiB, Linux 6.12.0, QEMU 7.2.19 (tcg), 1970-01-01 00:00:00 UTC"
        );
        assert_eq!(
            machine.noise_line(),
            "load 0.10 0.20 0.30, itself a virtual machine, 10.0 % of processor time stolen since boot"
        );
    }

    #[test]
    fn an_unknown_machine_is_no_error() {
        let machine = Machine::read(Path::new("/nonexistent"), Path::new("/nonexistent"), 0);
        assert_eq!(machine.line(), "unknown processor, 1970-01-01 00:00:00 UTC");
        assert_eq!(machine.noise_line(), "nothing known");
        assert_eq!(qemu_version(Path::new("/nonexistent")), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let machine = Machine::collect();
        assert!(
            machine.kernel.is_some() && machine.cores.is_some() && machine.memory_bytes.is_some()
        );
    }
}
