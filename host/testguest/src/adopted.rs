//! Guests that somebody else boots, such as libvirt: what to boot them with,
//! and commands in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::channel::{Channel, Lost};
use crate::error::{Doing, GuestError};
use crate::initramfs::{self, Role};
use crate::{GuestConfig, Kernel, Result, RunOutput, qemu};

/// What a machine needs to boot a guest of ours. It also needs a virtio serial
/// port named `vfun.commands`, a UNIX socket on the host, for [`Adopted`].
#[derive(Clone, Debug)]
pub struct BootFiles {
    /// Path of the kernel's image.
    pub kernel: PathBuf,
    /// The initramfs, in the folder that was named.
    pub initramfs: PathBuf,
    /// The kernel's command line; the console is `ttyS0`.
    pub cmdline: String,
}

impl BootFiles {
    /// Makes them in `folder`. Of `config` only the files, the modules and the
    /// kernel's arguments count.
    pub fn make(config: &GuestConfig, folder: &Path) -> Result<BootFiles> {
        config.check()?;
        if config.disk.is_some() {
            return Err(GuestError::Config {
                guest: config.name.clone(),
                why: "a machine of somebody else has its own disks, so leave out disk".into(),
            });
        }
        let kernel = Kernel::find()?;
        fs::create_dir_all(folder).doing(|| format!("cannot make {}", folder.display()))?;
        let initramfs = folder.join("initramfs");
        initramfs::write(config, &kernel, &Role::Commands, &initramfs)?;
        let cmdline = format!("{} {}", qemu::KERNEL_ARGS, config.kernel_args).trim_end().to_owned();
        Ok(BootFiles { kernel: kernel.image(), initramfs, cmdline })
    }
}

/// A guest that somebody else runs; dropping this only lets go of it.
pub struct Adopted {
    name: String,
    channel: Channel,
    thread: Option<JoinHandle<()>>,
}

impl Adopted {
    /// Waits until the guest at the other end of this socket takes commands.
    pub fn connect(name: &str, socket: &Path, at_most: Duration) -> Result<Adopted> {
        let (channel, thread) = Channel::open(socket);
        let guest = Adopted { name: name.to_owned(), channel, thread: Some(thread) };
        match guest.channel.wait_boots(0, at_most) {
            true => Ok(guest),
            false => Err(guest.lost(Lost::Broken(format!(
                "it has not come up within {at_most:?} on {}",
                socket.display()
            )))),
        }
    }

    fn lost(&self, lost: Lost) -> GuestError {
        let why = match lost {
            Lost::Ended => "its machine has ended".into(),
            Lost::Restarted => "it was restarted".into(),
            Lost::Broken(why) => why,
            Lost::Full => "too many commands at once".into(),
        };
        GuestError::Channel { guest: self.name.clone(), why }
    }

    /// As [`Guest::run`](crate::Guest::run).
    pub fn run(&self, script: &str, timeout: Duration) -> Result<RunOutput> {
        let (id, answer) = self.channel.start(script).map_err(|l| self.lost(l))?;
        match answer.recv_timeout(timeout) {
            Ok(answer) => answer.map_err(|l| self.lost(l)),
            Err(RecvTimeoutError::Disconnected) => Err(self.lost(Lost::Ended)),
            Err(RecvTimeoutError::Timeout) => {
                self.channel.kill(id);
                self.channel.forget(id);
                let why = format!("a command did not end within {timeout:?}");
                Err(self.lost(Lost::Broken(why)))
            }
        }
    }

    /// As [`Guest::run_ok`](crate::Guest::run_ok).
    pub fn run_ok(&self, script: &str, timeout: Duration) -> Result<String> {
        let output = self.run(script, timeout)?;
        match output.status {
            0 => Ok(output.text()),
            _ => Err(GuestError::CommandFailed {
                guest: self.name.clone(),
                command: script.chars().take(100).collect(),
                output: Box::new(output),
            }),
        }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        self.channel.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
