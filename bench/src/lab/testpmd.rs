//! testpmd of DPDK, a program that nobody here wrote: it sends frames or takes them, as
//! fast as it can, and says once a second how many.

use crate::error::Doing;
use crate::{BenchError, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The program, and the driver of ports.
const PROGRAM: &str = "dpdk-testpmd";
const DRIVER: &str = "librte_net_vfun.so";
/// How long a program may take to end that was asked to.
const ENDS: Duration = Duration::from_secs(5);
/// No pages of another size, no cards, no socket for others; as much memory as it takes.
const MEMORY: [&str; 5] = ["--no-huge", "--no-pci", "--no-telemetry", "-m", "128"];
/// Lines that are kept for who asks why it failed.
const KEPT: usize = 200;

/// The program, where this process's own path finds it.
pub fn testpmd() -> Option<PathBuf> {
    found(&std::env::var_os("PATH").unwrap_or_default())
}

fn found(path: &OsString) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(PROGRAM)).find(|p| p.is_file())
}

/// The driver: the one named, else that of this checkout or of this installation. Missing, the places that
/// were looked at.
pub fn dpdk_driver(named: Option<&Path>, program: &Path) -> std::result::Result<PathBuf, String> {
    let places: Vec<PathBuf> = match named {
        Some(file) => vec![file.to_owned()],
        None => {
            // TARGET/dpdk, PREFIX/lib/virtfun, PREFIX/lib and PREFIX/lib/vfun.
            let at = |d: &Path| ["dpdk", "", "lib/vfun"].map(|sub| d.join(sub).join(DRIVER));
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target/dpdk");
            let above = program.ancestors().skip(1).take(3).flat_map(at);
            above.chain([source.join(DRIVER)]).chain(packaged(Path::new("/usr/lib"))).collect()
        }
    };
    // DPDK looks below its own folders for what has no slash.
    let found = places.iter().find_map(|p| p.is_file().then(|| p.canonicalize().ok()).flatten());
    found.ok_or_else(|| {
        let looked = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        format!("no driver of ports: {looked} (packaging/dpdk.sh builds it)")
    })
}

/// Where the package virtfun-dpdk puts it: DPDK has a folder of drivers for each of its releases.
fn packaged(lib: &Path) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path())
    };
    let of_machines = inside(lib.into()).flat_map(|d| inside(d.join("dpdk")));
    let is_ours =
        |p: &PathBuf| p.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DRIVER));
    of_machines.flat_map(inside).filter(is_ours).collect()
}

/// How one is started.
pub struct TestpmdSpec<'a> {
    pub program: &'a Path,
    /// The driver of ports, to be loaded.
    pub driver: Option<&'a Path>,
    /// Where it puts files of its own, and its name among others there.
    pub folder: &'a Path,
    pub name: &'a str,
    /// The devices that it makes, as `--vdev` says them.
    pub devices: &'a [&'a str],
    /// `rxonly` or `txonly`.
    pub mode: &'a str,
    /// Bytes of a frame that it sends.
    pub bytes: u32,
    /// Where it runs.
    pub cpus: &'a [usize],
}

/// One that runs; it ends when it is dropped. If this process is killed, it ends within a second:
/// nobody reads what it says any more.
pub struct Testpmd {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

/// Its lines, as they come.
fn lines(from: PipeReader) -> Receiver<String> {
    let (to, lines) = channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from).split(b'\n').map_while(std::io::Result::ok);
        from.try_for_each(|line| to.send(String::from_utf8_lossy(&line).into_owned()))
    });
    lines
}

impl Testpmd {
    /// Starts one.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn start(spec: &TestpmdSpec) -> Result<Self> {
        let cpus = spec.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let doing = || format!("cannot start {}", spec.program.display());
        let (reader, writer) = pipe().doing(doing)?;
        let mut line = Command::new(spec.program);
        line.args(MEMORY).arg(format!("--file-prefix={}", spec.name));
        // The first only waits; the other one polls.
        line.arg(format!("--lcores=0@({cpus}),1@({cpus})"));
        if let Some(driver) = spec.driver {
            line.arg("-d").arg(driver);
        }
        line.args(spec.devices.iter().flat_map(|device| ["--vdev", device]));
        line.args(["--", "--total-num-mbufs=4096", "--mbcache=256"])
            .args(["--burst=32", "--stats-period=1"])
            .arg(format!("--forward-mode={}", spec.mode))
            .arg(format!("--txpkts={}", spec.bytes))
            .env("RUNTIME_DIRECTORY", spec.folder)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().doing(doing)?)
            .stderr(writer);
        let child = line.spawn().doing(doing)?;
        Ok(Testpmd { child, lines: lines(reader), said: Vec::new() })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What `find` makes of the first line of which it makes anything; none if nothing comes in time.
    ///
    /// # Errors
    /// [`BenchError::Testpmd`]: it ended.
    pub fn await_line<T>(
        &mut self,
        until: Instant,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = find(&line);
                    if self.said.len() < KEPT {
                        self.said.push(line);
                    }
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::Testpmd(why(&self.said)));
                }
            }
        }
    }

    /// Why it failed, in its own words, if they came.
    pub fn words(&self) -> String {
        why(&self.said)
    }

    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let until = Instant::now() + ENDS;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            // Its words are taken, so that it does not wait for a reader.
            let _ = self.lines.recv_timeout(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last line that complains; else the last one.
fn why(said: &[String]) -> String {
    let complains = |line: &&String| {
        let line = line.to_lowercase();
        ["error", "cannot", "fail", "invalid", "vfun:"].iter().any(|word| line.contains(word))
    };
    let last = said.iter().rev().find(complains).or(said.last());
    last.map_or_else(|| "it said nothing".into(), |line| line.trim().to_owned())
}

/// Frames a second that a line of testpmd's counts says it took.
pub fn taken_per_s(line: &str) -> Option<f64> {
    let rest = line.trim().strip_prefix("Rx-pps:")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_words_are_read() {
        let line = "  Rx-pps:      3619877          Rx-bps:   1853385048";
        assert_eq!(taken_per_s(line), Some(3_619_877.0));
        assert_eq!((taken_per_s("  Tx-pps:   7"), taken_per_s("Rx-pps: x")), (None, None));
        let said = ["EAL: Error - exiting with code: 1", "  Cause: Cannot init EAL", "bye"];
        assert_eq!(why(&said.map(String::from)), "Cause: Cannot init EAL");
        assert_eq!(why(&said.map(String::from)[2..]), "bye");
        assert_eq!(why(&[]), "it said nothing");
    }

    #[test]
    fn the_driver_is_found_beside_the_programs_or_where_it_was_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for (program, driver) in [
            ("work/target/ci/vfun-bench", "work/target/dpdk"),
            ("usr/lib/virtfun/vfun-bench", "usr/lib/virtfun"),
            ("local/lib/virtfun/vfun-bench", "local/lib/vfun"),
        ] {
            let file = root.join(driver).join(DRIVER);
            std::fs::create_dir_all(root.join(driver)).unwrap();
            std::fs::write(&file, "").unwrap();
            assert_eq!(dpdk_driver(None, &root.join(program)), Ok(file.clone()));
            assert_eq!(dpdk_driver(Some(&file), Path::new("/x")), Ok(file));
        }
        let e = dpdk_driver(Some(&root.join("none.so")), Path::new("/x")).unwrap_err();
        assert!(e.contains("none.so") && e.contains("packaging/dpdk.sh"), "{e}");
    }

    #[test]
    fn the_packages_driver_is_found_among_those_of_dpdk() {
        let lib = tempfile::tempdir().unwrap();
        let folder = lib.path().join("x86_64-linux-gnu/dpdk/pmds-23.0");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("librte_net_tap.so.23.0"), "").unwrap();
        assert_eq!(packaged(lib.path()), Vec::<PathBuf>::new());
        let file = folder.join("librte_net_vfun.so.23.0");
        std::fs::write(&file, "").unwrap();
        assert_eq!(packaged(lib.path()), [file]);
    }

    #[test]
    fn the_program_is_found_by_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([Path::new("/nonexistent"), folder.path()]).unwrap();
        assert_eq!(found(&path), None);
        std::fs::write(folder.path().join(PROGRAM), "").unwrap();
        assert_eq!(found(&path), Some(folder.path().join(PROGRAM)));
    }

    #[test]
    fn one_that_ends_says_why_and_one_that_stays_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let start = |script: &str| {
            let program = folder.path().join("program");
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&program, mode).unwrap();
            Testpmd::start(&TestpmdSpec {
                program: &program,
                driver: None,
                folder: folder.path(),
                name: "x",
                devices: &["net_null0"],
                mode: "rxonly",
                bytes: 64,
                cpus: &[0],
            })
        };
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut ended = start("echo 'EAL: failed to parse device'; echo bye").unwrap();
        let e = ended.await_line(soon(), taken_per_s).unwrap_err().to_string();
        assert!(e.contains("failed to parse device"), "{e}");
        let mut stays = start("echo \"$@\"; echo 'Rx-pps: 7'; exec sleep 600").unwrap();
        let line = stays.await_line(soon(), |line| line.contains("net_null0").then_some(()));
        assert_eq!(line.unwrap(), Some(()));
        assert_eq!(stays.await_line(soon(), taken_per_s).unwrap(), Some(7.0));
        let silent = stays.await_line(Instant::now() + Duration::from_millis(20), taken_per_s);
        assert_eq!(silent.unwrap(), None);
        let pid = stays.child.id();
        drop(stays);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
