//! Other ends on this machine.

use crate::{End, Memory, Said};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use vfun_admin::{ClientRow, Transport};
use vfun_tests_local::programs;

/// Apps that are processes of this machine.
#[derive(Default)]
pub struct Here {
    /// What stands before the program's name.
    pub prefix: Vec<String>,
    /// What stands after it.
    pub words: Vec<String>,
    /// Variables of the apps.
    pub variables: Vec<(&'static str, String)>,
    /// The window's file, if not the client's own.
    pub memory: Option<PathBuf>,
    /// An app survives that the window's file is truncated.
    pub truncation: bool,
    /// Those that run.
    pub apps: Mutex<Vec<u32>>,
}

impl Here {
    fn start(&self, words: &[&str]) -> Child {
        let program = programs().join("vfun-conform");
        let mut line: Vec<_> = self.prefix.iter().map(std::ffi::OsString::from).collect();
        line.push(program.into());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(&self.words).args(words);
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }
}

impl End for Here {
    fn app(&self, words: &[&str]) -> Said {
        let child = self.start(words);
        let pid = child.id();
        self.apps.lock().expect("no panic").push(pid);
        let out = child.wait_with_output().expect("it is ours");
        self.apps.lock().expect("no panic").retain(|p| *p != pid);
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        Said { status: out.status.code().unwrap_or(-1), text: text.into() }
    }

    fn shell(&self, script: &str) {
        let done = Command::new("/bin/sh").args(["-c", script]).status().expect("a shell");
        assert!(done.success(), "{script}");
    }

    fn die(&self) {
        for pid in self.apps.lock().expect("no panic").iter() {
            let pid = rustix::process::Pid::from_raw(*pid as i32).expect("a process");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn memory(&self, client: &ClientRow) -> Option<Memory> {
        if let Some(path) = &self.memory {
            return Some(Memory::open(path, 0));
        }
        // A program has a window of its own, which ends with it.
        let file = client.window_file.as_deref()?;
        Some(Memory::open(file, client.transport.row().origin))
    }

    fn survives_truncation(&self) -> bool {
        self.truncation
    }
}

/// What a client's manifest and variables say for apps on this machine.
pub fn host(root: &std::path::Path, client: &str) -> Here {
    let socket = root.join("host.sock");
    Here {
        variables: vec![
            ("VFUN_ENDPOINT", format!("{}:{}", Transport::Host, socket.display())),
            ("VFUN_CLIENT", client.into()),
        ],
        ..Here::default()
    }
}
