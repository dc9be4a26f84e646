//! The shell that ends QEMU and removes the guest's folder, come what may.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::error::{Doing, GuestError};
use crate::{Result, limits};

/// A folder for one guest, short enough for the sockets in it.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!("vfun-guest-{name}-");
    builder.prefix(&prefix);
    // Room for the random part of the folder and the longest socket in it.
    let room =
        |dir: &Path| dir.as_os_str().len() + prefix.len() + 24 <= limits::MAX_SOCKET_PATH_BYTES;
    let wanted = env::temp_dir();
    let dir = if room(&wanted) { wanted } else { PathBuf::from("/tmp") };
    let made = builder
        .tempdir_in(&dir)
        .doing(|| format!("cannot make a folder for guest '{name}' in {}", dir.display()))?;
    Ok(made.keep())
}

/// A process in its own session that acts when its stdin ends.
pub(crate) struct Keeper {
    child: Child,
    pipe: Option<ChildStdin>,
    folder: PathBuf,
    timed: Option<(Instant, Duration)>,
}

fn spawn(mut command: Command, folder: &Path) -> Result<Child> {
    command.stdin(Stdio::piped()).spawn().map_err(|source| {
        let _ = fs::remove_dir_all(folder);
        match source.kind() {
            std::io::ErrorKind::NotFound => GuestError::MissingProgram {
                program: "setsid".into(),
                package: "util-linux".into(),
            },
            _ => GuestError::Io { doing: "cannot start a guest's keeper".into(), source },
        }
    })
}

/// `setsid sh -c script name folder`: a new session, so that neither Ctrl-C nor
/// the end of a terminal reaches it.
fn shell(script: &str, name: &str, folder: &Path) -> Command {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", script, name]).arg(folder);
    command
}

impl Keeper {
    /// Starts the keeper; it starts `qemu` at [`go`](Self::go).
    pub fn start(
        folder: &Path,
        life: Duration,
        qemu: &[OsString],
    ) -> Result<(Keeper, ChildStdout, ChildStderr)> {
        let mut command = shell(include_str!("keeper.sh"), "vfun-keeper", folder);
        command.arg(life.as_secs_f64().to_string()).args(qemu);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command, folder)?;
        let pipe = child.stdin.take();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let keeper =
            Keeper { child, pipe, folder: folder.into(), timed: Some((Instant::now(), life)) };
        match (out, err) {
            (Some(out), Some(err)) => Ok((keeper, out, err)),
            _ => unreachable!("both were asked for"),
        }
    }

    /// Starts the watcher for an interactive guest.
    pub fn watch(folder: &Path) -> Result<Keeper> {
        let mut command = shell(include_str!("watcher.sh"), "vfun-watcher", folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = spawn(command, folder)?;
        let pipe = child.stdin.take();
        Ok(Keeper { child, pipe, folder: folder.into(), timed: None })
    }

    /// Writes a line to the keeper.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        writeln!(pipe, "{line}").doing(|| "cannot reach a guest's keeper (was it killed?)".into())
    }

    /// Starts QEMU and gives its process id.
    pub fn go(&mut self) -> Result<u32> {
        self.say("go")?;
        let start = Instant::now();
        let path = self.folder.join("pid");
        while start.elapsed() < limits::QEMU_START {
            if let Some(pid) = fs::read_to_string(&path).ok().and_then(|t| t.trim().parse().ok()) {
                return Ok(pid);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let doing = format!("cannot start QEMU: its keeper wrote no {}", path.display());
        Err(GuestError::Io { doing, source: std::io::ErrorKind::TimedOut.into() })
    }

    /// The guest's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The time after which the keeper ends the guest, if it is over.
    pub fn life_over(&self) -> Option<Duration> {
        self.timed.filter(|(start, life)| start.elapsed() >= *life).map(|(_, life)| life)
    }

    /// Ends QEMU, removes the folder, and waits until both are gone.
    pub fn end(&mut self) {
        self.pipe = None;
        let start = Instant::now();
        while start.elapsed() < limits::KEEPER_END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // It was killed before it could: do its work as far as it goes.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}
