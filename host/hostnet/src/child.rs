//! Child processes: each has a time and a limit on what it may say. One that keeps to
//! neither is killed, and no thread waits for a killed one without limit.

use crate::limits::{CHILD_BYTES, CHILD_KILLED, SENTENCE_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a program said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Why nothing is known of what a program did.
#[derive(Debug)]
pub enum ChildTrouble {
    /// It is not installed.
    NotHere(String),
    /// It was not started.
    NotStarted(String),
    /// It was killed. What it had begun may go on elsewhere.
    Killed(String),
}

impl fmt::Display for ChildTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildTrouble::NotHere(why)
            | ChildTrouble::NotStarted(why)
            | ChildTrouble::Killed(why) => f.write_str(why),
        }
    }
}

/// Runs a program with this on its standard input (at most 64 KiB: as much as a pipe takes).
pub fn run(
    program: &str,
    words: &[&str],
    stdin: &str,
    at_most: Duration,
) -> Result<Said, ChildTrouble> {
    let not_started = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => ChildTrouble::NotHere(format!(
            "the program {program} is not here: install {}",
            package(program)
        )),
        _ => ChildTrouble::NotStarted(format!("{program} could not be started: {e}")),
    };
    let mut child = Command::new(program)
        .args(words)
        // Its sentences are looked at: they are to be in one language.
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that its own children are killed with it.
        .process_group(0)
        .spawn()
        .map_err(not_started)?;
    let ended = follow(&mut child, stdin, at_most);
    match ended {
        Ok((ok, stdout, stderr)) => {
            Ok(Said { ok, stdout: text(stdout), stderr: short(&text(stderr)) })
        }
        Err(why) => {
            kill(child);
            Err(ChildTrouble::Killed(format!("{program} {} {why}", words.join(" "))))
        }
    }
}

/// Runs a program that has to succeed.
pub fn must(
    program: &str,
    words: &[&str],
    stdin: &str,
    at_most: Duration,
) -> Result<String, String> {
    let said = run(program, words, stdin, at_most).map_err(|e| e.to_string())?;
    match said.ok {
        true => Ok(said.stdout),
        false => Err(format!("`{program} {}`: {}", words.join(" "), said.stderr)),
    }
}

fn package(program: &str) -> &str {
    match program {
        "ip" | "tc" | "bridge" => "iproute2",
        "virsh" => "libvirt-clients",
        "ovs-vsctl" | "ovs-ofctl" | "ovs-appctl" => "openvswitch-switch",
        other => other,
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// One line of bounded length.
pub fn short(sentence: &str) -> String {
    let line: String =
        sentence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let end = (0..=SENTENCE_BYTES.min(line.len())).rev().find(|n| line.is_char_boundary(*n));
    line[..end.unwrap_or(0)].trim().to_owned()
}

type Streams = (bool, Vec<u8>, Vec<u8>);

fn follow(child: &mut Child, stdin: &str, at_most: Duration) -> Result<Streams, String> {
    let until = Instant::now() + at_most;
    let broke = |e: io::Error| format!("broke off: {e}");
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| broke(e.into()))?;
    let mut pipe = child.stdin.take().expect("asked for");
    nonblocking(&pipe).map_err(broke)?;
    match pipe.write_all(stdin.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(broke(e)),
        _ => drop(pipe),
    }
    let mut out = Stream::new(child.stdout.take().expect("asked for").into()).map_err(broke)?;
    let mut err = Stream::new(child.stderr.take().expect("asked for").into()).map_err(broke)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("did not end within {} s", at_most.as_secs()));
        }
        let ended = wait(&pidfd, &out, &err, left).map_err(broke)?;
        out.fetch()?;
        err.fetch()?;
        if ended {
            // What it wrote before is fetched; a child that it left may hold the pipes.
            let status = child.wait().map_err(broke)?;
            return Ok((status.success(), out.got, err.got));
        }
    }
}

/// Waits until the process ended or said something.
fn wait(pidfd: &OwnedFd, out: &Stream, err: &Stream, left: Duration) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
    for stream in [out, err] {
        if let Some(from) = &stream.from {
            fds.push(PollFd::new(from, PollFlags::IN));
        }
    }
    match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn nonblocking(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// One of its streams, until that ends.
struct Stream {
    from: Option<std::fs::File>,
    got: Vec<u8>,
}

impl Stream {
    fn new(from: OwnedFd) -> io::Result<Self> {
        nonblocking(&from)?;
        Ok(Stream { from: Some(from.into()), got: vec![] })
    }

    /// Takes what there is.
    fn fetch(&mut self) -> Result<(), String> {
        let mut room = [0; 16 << 10];
        while let Some(from) = &mut self.from {
            match from.read(&mut room) {
                Ok(0) => self.from = None,
                Ok(n) if self.got.len() + n > CHILD_BYTES => {
                    return Err(format!("said more than {CHILD_BYTES} bytes"));
                }
                Ok(n) => self.got.extend_from_slice(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("could not be read: {e}")),
            }
        }
        Ok(())
    }
}

/// Kills it with its children. One that hangs in the kernel is left to a thread.
fn kill(mut child: Child) {
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let until = Instant::now() + CHILD_KILLED;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let reap = std::thread::Builder::new().name("reap".into());
    // Without a thread it stays a zombie, which costs a line in the list of processes.
    let _ = reap.spawn(move || child.wait());
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn sh(script: &str, stdin: &str, at_most: Duration) -> Result<Said, ChildTrouble> {
        run("sh", &["-c", script], stdin, at_most)
    }

    #[test]
    fn what_it_says_comes_back() {
        let said = sh("cat; echo wrong >&2; exit 3", "given", LONG).unwrap();
        assert_eq!((said.ok, &*said.stdout, &*said.stderr), (false, "given", "wrong"));
        let why = must("sh", &["-c", "echo no >&2; false"], "", LONG).unwrap_err();
        assert!(why.contains("no"), "{why}");
    }

    #[test]
    fn one_that_is_not_here_is_named() {
        let trouble = run("no-such-program", &[], "", LONG).unwrap_err();
        assert!(matches!(&trouble, ChildTrouble::NotHere(w) if w.contains("install")));
    }

    #[test]
    fn one_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let script = format!("sleep 600 & echo $$ $! >{}; wait", pids.display());
        let trouble = sh(&script, "", Duration::from_secs(1)).unwrap_err();
        assert!(matches!(trouble, ChildTrouble::Killed(_)), "{trouble}");
        // A process that was killed ends when it has a processor again.
        let lives = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().and_then(|s| s.chars().next());
            !matches!(state, None | Some('Z' | 'X'))
        };
        for pid in std::fs::read_to_string(pids).unwrap().split_whitespace() {
            let ended = (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                !lives(pid)
            });
            assert!(ended, "{pid} lives");
        }
    }

    #[test]
    fn one_that_talks_without_end_is_killed() {
        let trouble = sh("yes", "", LONG).unwrap_err();
        assert!(trouble.to_string().contains("more than"), "{trouble}");
    }

    #[test]
    fn a_child_that_it_left_behind_holds_nobody_up() {
        let said = sh("sleep 5 & echo done", "", LONG).unwrap();
        assert_eq!(said.stdout, "done");
    }
}
