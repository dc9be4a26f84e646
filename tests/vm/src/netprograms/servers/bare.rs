//! The small system with the servers, on this machine: without a VM.

use crate::netprograms::packed;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server has to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The devices that servers open. The folder /dev itself would be removed with this system.
const DEVICES: [&str; 2] = ["null", "urandom"];

/// The system, and the servers that run in it. It is gone with this, they too.
pub struct Bare {
    root: tempfile::TempDir,
    running: Vec<Child>,
}

fn succeeds(command: &mut Command) {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}: {said}", out.status);
}

/// Whether somebody in this network listens.
fn listens(port: u16) -> bool {
    let socket = format!(":{port:04X} 00000000:0000");
    let table = |name| std::fs::read_to_string(format!("/proc/self/net/{name}"));
    ["tcp", "udp"].iter().any(|name| table(name).unwrap_or_default().contains(&socket))
}

impl Bare {
    /// Unpacks it. For a process with a mount namespace of its own.
    pub fn unpack() -> Bare {
        let bare = Bare { root: tempfile::tempdir().unwrap(), running: vec![] };
        succeeds(Command::new("tar").arg("-xf").arg(packed()).arg("-C").arg(bare.root.path()));
        for name in DEVICES {
            let device = bare.root.path().join("dev").join(name);
            std::fs::write(&device, "").unwrap();
            succeeds(Command::new("mount").args(["--bind", &format!("/dev/{name}")]).arg(device));
        }
        std::fs::create_dir(bare.root.path().join("dev/shm")).unwrap();
        bare
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("exec chroot \"$1\" {words}");
        command.args(["-c", &script, "sh"]).arg(self.root.path()).stdin(Stdio::null());
        command
    }

    /// Runs one of its programs to its end.
    pub fn does(&self, words: &str) {
        succeeds(&mut self.command(words));
    }

    /// Writes more into one of its files.
    pub fn writes(&self, path: &str, text: &str) {
        use std::io::Write;
        let path = self.root.path().join(path.trim_start_matches('/'));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Makes a folder for a user.
    pub fn folder_of(&self, path: &str, user: u32) {
        let path = self.root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
    }

    /// Starts one of its servers, and waits until that listens.
    pub fn serve(&mut self, words: &str, port: u16) {
        let log = self.root.path().join(format!("tmp/{port}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = self.command(words);
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        self.running.push(child);
        let end = Instant::now() + PATIENCE;
        while !listens(port) {
            let ended = self.running.last_mut().expect("just started").try_wait().unwrap();
            if ended.is_some() || Instant::now() > end {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("{words} does not listen (ended: {ended:?}): {said}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends its servers in good order.
    pub fn stop(&mut self) {
        for child in &self.running {
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        for mut child in self.running.drain(..) {
            while Instant::now() < end && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Packs it as it is now, for a VM.
    pub fn pack(&self, to: &Path) {
        let mut tar = Command::new("tar");
        tar.args(["--numeric-owner", "--exclude", "./dev/*", "-C"]).arg(self.root.path());
        succeeds(tar.arg("-cf").arg(to).arg("."));
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop();
        for name in DEVICES {
            let device = self.root.path().join("dev").join(name);
            let _ = Command::new("umount").arg(device).output();
        }
    }
}
