//! A guest that runs.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::channel::{Channel, Lost};
use crate::console::{self, Console};
use crate::error::GuestError;
use crate::initramfs::{self, Role};
use crate::keeper::{self, Keeper};
use crate::qemu::{self, Wiring};
use crate::qmp::{Failed, Qmp};
use crate::{Accel, Doorbell, GuestConfig, Kernel, Result, RunOutput, accel, limits};
use vfun_qmp::Refusal;

/// A running guest; dropping it ends it and removes all that it had. All calls
/// may be made from several threads at once.
pub struct Guest {
    name: String,
    accel: Accel,
    pid: u32,
    boot_time: Duration,
    boot_timeout: Duration,
    console: Console,
    stderr: Arc<Mutex<Vec<u8>>>,
    channel: Channel,
    qmp: Qmp,
    keeper: Keeper,
    threads: Vec<JoinHandle<()>>,
}

impl Guest {
    /// Starts a guest and waits until it takes commands.
    pub fn boot(config: &GuestConfig) -> Result<Guest> {
        config.check()?;
        let kernel = Kernel::of(config)?;
        let accel = accel::resolve(config.accel, &kernel)?;
        config.check_host_memory()?;
        let mut guest = Guest::launch(config, &kernel, accel)?;
        let start = Instant::now();
        guest.await_boot(0, guest.boot_timeout, None)?;
        guest.boot_time = start.elapsed();
        Ok(guest)
    }

    /// Whether a guest gets to user space with KVM, without a long wait.
    pub(crate) fn probe_kvm(config: &GuestConfig, kernel: &Kernel) -> bool {
        // Without "quiet" a kernel that works prints its first line at once.
        let config =
            GuestConfig { kernel_args: "loglevel=7 earlyprintk=serial".into(), ..config.clone() };
        let guest = Guest::launch(&config, kernel, Accel::Kvm);
        guest.is_ok_and(|g| {
            g.await_boot(0, limits::KVM_PROBE, Some(limits::KVM_PROBE_SILENCE)).is_ok()
        })
    }

    /// Starts QEMU and does not wait for the guest.
    fn launch(config: &GuestConfig, kernel: &Kernel, accel: Accel) -> Result<Guest> {
        let folder = keeper::folder(&config.name)?;
        let line = qemu::command(config, kernel, accel, &folder, &Wiring::Harness);
        let line = line.inspect_err(|_| drop(std::fs::remove_dir_all(&folder)))?;
        // From here on the folder goes with the keeper, which goes with us.
        let (mut keeper, stdout, stderr) = Keeper::start(&folder, config.max_life, &line)?;
        initramfs::write(config, kernel, &Role::Commands, &folder.join("initramfs"))?;
        let pid = keeper.go()?;
        let console = Console::default();
        let gather = console.gather(stdout);
        let (stderr, gather_stderr) = console::gather_stderr(stderr);
        let (channel, serve) = Channel::open(&folder.join("commands"));
        let reset = channel.clone();
        let (qmp, serve_qmp) = Qmp::open(&folder.join("qmp"), move || reset.restarted());
        let usual =
            if accel == Accel::Kvm { limits::BOOT_TIMEOUT_KVM } else { limits::BOOT_TIMEOUT_TCG };
        Ok(Guest {
            name: config.name.clone(),
            accel,
            pid,
            boot_time: Duration::ZERO,
            boot_timeout: config.boot_timeout.unwrap_or(usual),
            console,
            stderr,
            channel,
            qmp,
            keeper,
            threads: vec![gather, gather_stderr, serve, serve_qmp],
        })
    }

    /// Waits until the guest has come up more than `boots` times; with `silence`,
    /// gives up when it has printed nothing for so long.
    fn await_boot(&self, boots: u64, at_most: Duration, silence: Option<Duration>) -> Result<()> {
        let start = Instant::now();
        while !self.channel.wait_boots(boots, Duration::from_millis(20)) {
            if self.console.ended() {
                return Err(self.ended());
            }
            if self.console.panicked() {
                return Err(GuestError::Panicked {
                    guest: self.name.clone(),
                    tail: self.console.tail(),
                });
            }
            let silent = silence.is_some_and(|s| start.elapsed() > s && self.console.is_silent());
            if silent || start.elapsed() > at_most {
                return Err(GuestError::BootTimeout {
                    guest: self.name.clone(),
                    accel: self.accel.name(),
                    after: at_most,
                    tail: self.console.tail(),
                });
            }
        }
        Ok(())
    }

    /// Runs a shell script (busybox `sh`) as root in `/root` and waits for its
    /// end. Past `timeout` it is killed, with all processes of its session, and
    /// the guest can be used on. What it left in the background lives on.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(guest: &vfun_testguest::Guest) -> vfun_testguest::Result<()> {
    /// let out = guest.run("cat /proc/cpuinfo | grep -c ^processor", Duration::from_secs(5))?;
    /// assert_eq!(out.text(), "1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&self, script: &str, timeout: Duration) -> Result<RunOutput> {
        if script.len() > limits::MAX_SCRIPT_BYTES || script.contains('\0') {
            return Err(GuestError::Config {
                guest: self.name.clone(),
                why: format!(
                    "a script of {} bytes: at most {} without NUL can be run, so take it along as a file",
                    script.len(),
                    limits::MAX_SCRIPT_BYTES
                ),
            });
        }
        let (id, answer) = self.channel.start(script).map_err(|l| self.lost(l))?;
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match answer.recv_timeout(left.min(Duration::from_millis(100))) {
                Ok(answer) => return answer.map_err(|l| self.lost(l)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost(Lost::Ended)),
                // A kernel that has panicked will not answer.
                Err(RecvTimeoutError::Timeout) if self.console.panicked() => {
                    self.channel.forget(id);
                    let tail = self.console.tail();
                    return Err(GuestError::Panicked { guest: self.name.clone(), tail });
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // Asked again and again: the first may come before the script runs.
        let end = Instant::now() + limits::KILL_GRACE;
        while Instant::now() < end {
            self.channel.kill(id);
            match answer.recv_timeout(Duration::from_secs(1)) {
                Ok(Ok(output)) => {
                    let (guest, output) = (self.name.clone(), Box::new(output));
                    return Err(GuestError::CommandTimeout { guest, after: timeout, output });
                }
                Ok(Err(lost)) => return Err(self.lost(lost)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost(Lost::Ended)),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.channel.forget(id);
        let tail = self.console.tail();
        Err(GuestError::NoAnswer { guest: self.name.clone(), after: timeout, tail })
    }

    /// Runs a script that must succeed, and gives its stdout as trimmed text.
    pub fn run_ok(&self, script: &str, timeout: Duration) -> Result<String> {
        let output = self.run(script, timeout)?;
        if output.status == 0 {
            return Ok(output.text());
        }
        let mut command: String = script.trim().chars().take(100).collect();
        if command.len() < script.trim().len() {
            command.push_str("...");
        }
        Err(GuestError::CommandFailed {
            guest: self.name.clone(),
            command,
            output: Box::new(output),
        })
    }

    /// Runs a QMP command; `Value::Null` stands for no arguments.
    pub fn qmp(&self, command: &str, arguments: Value) -> Result<Value> {
        self.qmp
            .execute(command, arguments)
            .map_err(|f| self.failed(f, command, limits::QMP_ANSWER))
    }

    /// Takes the first QMP event of this name whose data `fits`, be it one that
    /// has come already (the last [`limits::MAX_QMP_EVENTS`] are kept) or not yet.
    pub fn wait_event(
        &self,
        name: &str,
        fits: impl Fn(&Value) -> bool,
        at_most: Duration,
    ) -> Result<Value> {
        let event = self.qmp.wait_event(|e| e["event"] == name && fits(&e["data"]), at_most);
        event.map_err(|f| self.failed(f, &format!("send the event {name}"), at_most))
    }

    fn failed(&self, failed: Failed, command: &str, after: Duration) -> GuestError {
        let guest = self.name.clone();
        match failed {
            Failed::Ended => self.ended(),
            Failed::Slow => {
                GuestError::QemuSlow { guest, what: format!("did not {command}"), after }
            }
            Failed::Refused(Refusal { class, sentence: desc }) => {
                GuestError::Qmp { guest, command: command.into(), class, desc }
            }
        }
    }

    fn lost(&self, lost: Lost) -> GuestError {
        let guest = self.name.clone();
        match lost {
            Lost::Ended => self.ended(),
            Lost::Restarted => GuestError::Restarted { guest },
            Lost::Broken(why) => GuestError::Channel { guest, why },
            Lost::Full => GuestError::Config {
                guest,
                why: format!(
                    "more than {} commands at once: wait for some to end",
                    limits::MAX_COMMANDS
                ),
            },
        }
    }

    /// QEMU is gone: gathers what is known of the reason.
    fn ended(&self) -> GuestError {
        // Its last words come through another pipe.
        let start = Instant::now();
        while !self.console.ended() && start.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(5));
        }
        let said = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let why = match (self.keeper.life_over(), self.qmp.shutdown_reason()) {
            (Some(life), _) => format!(": its life was limited to {life:?} (max_life)"),
            (None, Some(reason)) => format!(" ({reason})"),
            (None, None) if said.is_empty() => {
                " (QEMU is gone and gave no reason; was it killed?)".into()
            }
            (None, None) => format!(": QEMU said '{said}'"),
        };
        GuestError::Ended { guest: self.name.clone(), why, tail: self.console.tail() }
    }

    /// Resets the machine, as its button would, and waits until it is up again.
    pub fn reset(&self) -> Result<()> {
        let boots = self.channel.boots();
        self.console.forgive();
        self.qmp("system_reset", json!({}))?;
        self.await_boot(boots, self.boot_timeout, None)
    }

    /// How often the guest has come up: 1 after [`boot`](Self::boot).
    pub fn boots(&self) -> u64 {
        self.channel.boots()
    }

    /// Waits until it has come up `boots` times, as after a reboot from inside.
    pub fn wait_boots(&self, boots: u64, at_most: Duration) -> Result<()> {
        self.await_boot(boots.saturating_sub(1), at_most, None)
    }

    /// What the console printed, at most the last [`limits::MAX_CONSOLE_BYTES`].
    pub fn console(&self) -> String {
        self.console.text()
    }

    /// QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// `Kvm` or `Tcg`.
    pub fn accel(&self) -> Accel {
        self.accel
    }

    /// From the start of QEMU to the first command that could be run.
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// The guest's folder on the host; whatever is put there goes with the guest.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Whether QEMU still runs.
    pub fn is_running(&self) -> bool {
        !self.console.ended()
    }

    /// The PCI address of window `i` in the guest, such as `0000:00:10.0`; its
    /// memory is `/sys/bus/pci/devices/ADDRESS/resource2`.
    pub fn window_bdf(i: usize) -> String {
        format!("0000:00:{:02x}.0", qemu::FIRST_WINDOW_SLOT as usize + i)
    }

    /// The PCI address of doorbell device `i` in the guest.
    pub fn doorbell_bdf(i: usize) -> String {
        format!("0000:00:{:02x}.0", qemu::FIRST_DOORBELL_SLOT as usize + i)
    }

    /// Plugs a doorbell device into hot-plug port `port`; `id` names it for
    /// [`unplug_doorbell`](Self::unplug_doorbell).
    pub fn plug_doorbell(&self, port: u32, id: &str, doorbell: &Doorbell) -> Result<()> {
        let address = json!({"type": "unix", "data": {"path": doorbell.socket}});
        let backend = json!({"type": "socket", "data": {"addr": address, "server": false}});
        self.qmp("chardev-add", json!({"id": format!("{id}-socket"), "backend": backend}))?;
        let device = json!({
            "driver": "ivshmem-doorbell", "id": id, "bus": Self::hotplug_bus(port),
            "chardev": format!("{id}-socket"), "vectors": doorbell.vectors,
        });
        self.qmp("device_add", device).map(drop)
    }

    /// Unplugs it and waits until the guest has let go of it.
    pub fn unplug_doorbell(&self, id: &str, at_most: Duration) -> Result<()> {
        self.qmp("device_del", json!({"id": id}))?;
        self.wait_event("DEVICE_DELETED", |data| data["device"] == id, at_most)?;
        self.qmp("chardev-remove", json!({"id": format!("{id}-socket")})).map(drop)
    }

    /// The bus to name to `device_add` for hot-plug port `i`.
    pub fn hotplug_bus(i: u32) -> String {
        format!("hp{i}")
    }

    /// Powers the guest off from inside and waits for QEMU's end; past `timeout`
    /// it is ended by force, and that is an error.
    pub fn shutdown(self, timeout: Duration) -> Result<()> {
        self.channel.power_off();
        let start = Instant::now();
        while !self.console.ended() {
            if start.elapsed() > timeout {
                let (guest, what) = (self.name.clone(), "did not power off".into());
                return Err(GuestError::QemuSlow { guest, what, after: timeout });
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends it at once, as a loss of power would.
    pub fn kill(self) {}
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.channel.close();
        self.qmp.close();
        self.keeper.end();
        for thread in self.threads.drain(..) {
            // A QEMU that cannot be killed keeps its pipes open: do not wait for it.
            if thread.is_finished() || self.console.ended() {
                let _ = thread.join();
            }
        }
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guest({}, pid {}, {})", self.name, self.pid, self.accel)
    }
}
