//! A guest with its console on a person's terminal.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::error::Doing;
use crate::initramfs::{self, Role};
use crate::keeper::{self, Keeper};
use crate::qemu::{self, Wiring};
use crate::{GuestConfig, Kernel, Result, accel};

/// Boots a guest whose console, with a busybox shell, is this process's terminal,
/// and waits for its end. `poweroff` in it leaves it, as does Ctrl-A and then X;
/// Ctrl-A and then C is QEMU's monitor. Gives QEMU's exit status (128 + n if
/// signal n ended it). `max_life` and `boot_timeout` do not apply: a person is
/// there.
pub fn interactive(config: &GuestConfig) -> Result<i32> {
    config.check()?;
    let kernel = Kernel::of(config)?;
    let accel = accel::resolve(config.accel, &kernel)?;
    config.check_host_memory()?;
    let folder = keeper::folder(&config.name)?;
    let mut keeper = Keeper::watch(&folder)?;
    let line = qemu::command(config, &kernel, accel, &folder, &Wiring::Terminal)?;
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let size = size.filter(|s| s.ws_row > 0 && s.ws_col > 0).map(|s| (s.ws_row, s.ws_col));
    initramfs::write(config, &kernel, &Role::Shell(size), &folder.join("initramfs"))?;
    eprintln!(
        "Booting guest '{}' ({accel}, {} MiB, {} CPU). Leave with 'poweroff', or with Ctrl-A and then X.",
        config.name, config.memory_mib, config.cpus
    );
    let mut qemu =
        Command::new(&line[0]).args(&line[1..]).spawn().doing(|| "cannot start QEMU".into())?;
    keeper.say(&format!("pid {}", qemu.id()))?;
    let status = qemu.wait().doing(|| "cannot wait for QEMU".into())?;
    keeper.say("done")?;
    keeper.end();
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}
