//! A real libvirtd of this test's own: its configuration, state and sockets are
//! in one folder, and it and its QEMUs are in a PID namespace that ends with it.

use crate::runs::Runs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_testguest::{Adopted, BootFiles, GuestConfig, RunOutput};

/// Where libvirt keeps things unless it is built otherwise.
const FOLDERS: [(&str, &str); 4] = [
    ("etc", "/etc/libvirt"),
    ("lib", "/var/lib/libvirt"),
    ("cache", "/var/cache/libvirt"),
    ("log", "/var/log/libvirt"),
];

/// Who runs QEMU for libvirt on Debian.
const USER: &str = "libvirt-qemu";

/// A libvirtd.
pub struct Libvirtd {
    dir: tempfile::TempDir,
    child: Child,
    /// Whether QEMU is run by a user who is not root, in group kvm.
    pub unprivileged: bool,
}

/// Why there can be no libvirtd here: it is not installed, or this is not root
/// (then its own folders cannot be put in place).
pub fn missing() -> Option<String> {
    let there = |p: &str| ["/usr/sbin", "/usr/bin"].iter().any(|d| Path::new(d).join(p).is_file());
    for program in ["libvirtd", "virsh", "unshare", "setpriv"] {
        if !there(program) {
            return Some(format!("{program} is not installed (packaging/setup.sh installs it)"));
        }
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    (!root).then(|| "libvirtd with folders of its own needs root".into())
}

/// Makes its folders and writes its configuration: as on a Debian host, but without
/// AppArmor, whose profiles know nothing of folders in odd places.
fn configure(dir: &Path, unprivileged: bool) {
    for (name, _) in FOLDERS {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::create_dir(dir.join("run")).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, open).unwrap();
    let (user, group) = if unprivileged { (USER, "kvm") } else { ("root", "root") };
    let qemu = format!(
        "user = \"{user}\"\ngroup = \"{group}\"\ndynamic_ownership = 1\nsecurity_driver = \"none\"\n\
         stdio_handler = \"file\"\ncgroup_controllers = [ ]\n"
    );
    std::fs::write(dir.join("etc/qemu.conf"), qemu).unwrap();
    let conf = format!(
        "unix_sock_dir = \"{}\"\nauth_unix_ro = \"none\"\nauth_unix_rw = \"none\"\n",
        dir.join("run").display()
    );
    std::fs::write(dir.join("libvirtd.conf"), conf).unwrap();
}

/// The script that starts it in a namespace, with its own folders in the usual places.
fn namespace(dir: &Path) -> String {
    let mut script = String::from("set -e\n");
    // libvirt does not start without the user that it was built for, even if
    // its configuration names another; the package that adds it is not needed.
    for (file, line) in [
        ("passwd", format!("{USER}:x:64055:64055::/nonexistent:/usr/sbin/nologin\n")),
        ("group", format!("{USER}:x:64055:{USER}\nkvm:x:64054:{USER}\n")),
    ] {
        let path = format!("/etc/{file}");
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        for line in line.lines() {
            let name = line.split_inclusive(':').next().unwrap();
            if !text.lines().any(|l| l.starts_with(name)) {
                text += &format!("{line}\n");
            }
        }
        std::fs::write(dir.join(file), text).unwrap();
        script += &format!("mount --bind {} {path}\n", dir.join(file).display());
    }
    for (name, path) in FOLDERS {
        script += &format!("mkdir -p {path}; mount --bind {} {path}\n", dir.join(name).display());
    }
    let run = dir.join("run");
    script += &format!("mkdir -p /run/libvirt; mount --bind {} /run/libvirt\n", run.display());
    // The shell stays, as the namespace's first process: it reaps the QEMUs
    // that libvirt lets go of, which libvirtd would leave as zombies. They live
    // on while libvirtd is down.
    let (conf, pid) = (dir.join("libvirtd.conf"), dir.join("run/libvirtd.pid"));
    let (conf, pid, down) = (conf.display(), pid.display(), down(dir));
    let down = down.display();
    script
        + &format!(
            "while :; do\n libvirtd -f {conf} -p {pid} &\n \
             until [ -e {down} ]; do kill -0 $! || exit 1; sleep 0.2; done\n \
             kill -9 $!\n wait $! || true\n while [ -e {down} ]; do sleep 0.2; done\n\
             done\n"
        )
}

/// While this file is there, libvirtd is not to run.
fn down(dir: &Path) -> PathBuf {
    dir.join("down")
}

impl Libvirtd {
    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("vfun-lv-").tempdir_in("/dev/shm").unwrap();
        let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let unprivileged = groups.lines().any(|l| l.starts_with("kvm:"));
        configure(dir.path(), unprivileged);
        let script = namespace(dir.path());
        let log = std::fs::File::create(dir.path().join("libvirtd.log")).unwrap();
        // The kernel ends it if this test is killed.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork"])
            .args(["--kill-child", "--mount-proc", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut libvirtd = Libvirtd { dir, child, unprivileged };
        libvirtd.until_it_answers(true);
        libvirtd
    }

    /// Waits until it answers, or until it does not.
    fn until_it_answers(&mut self, answers: bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.virsh(&["version"]).0 != answers {
            let runs = self.child.try_wait().is_ok_and(|s| s.is_none());
            assert!(runs, "it ended:\n{}", self.log());
            assert!(Instant::now() < until, "it does not begin or end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills it, but no QEMU of its domains.
    pub fn kill(&mut self) {
        std::fs::write(down(self.dir.path()), "").unwrap();
        self.until_it_answers(false);
    }

    /// Starts it again.
    pub fn start_again(&mut self) {
        std::fs::remove_file(down(self.dir.path())).unwrap();
        self.until_it_answers(true);
    }

    /// From now on programs that look for this host's libvirt find this one, in this test's
    /// own mount namespace ([`inside`](crate::netns::inside)).
    pub fn is_found(&self) {
        let script = "mkdir -p /run/libvirt && mount --bind \"$1\" /run/libvirt";
        let run = self.dir.path().join("run");
        let status = Command::new("sh").args(["-c", script, "sh"]).arg(run).status().unwrap();
        assert!(status.success(), "{status}");
    }

    /// How virsh reaches it.
    pub fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.dir.path().join("run/libvirt-sock").display())
    }

    /// A folder that QEMU can use.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("libvirtd.log")).unwrap_or_default()
    }

    /// Runs virsh; whether it did, and what it said.
    pub fn virsh(&self, words: &[&str]) -> (bool, String) {
        let out =
            Command::new("virsh").args(["-q", "-c", &self.uri()]).args(words).output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Runs virsh, which must do it.
    pub fn must(&self, words: &[&str]) -> String {
        let (ok, said) = self.virsh(words);
        assert!(ok, "virsh {words:?}: {said}\n{}", self.log());
        said
    }

    /// Defines and starts a domain with these devices besides its own, and
    /// waits until it takes commands.
    pub fn boot(&self, config: &GuestConfig, devices: &str) -> Domain {
        let name = &config.name;
        let folder = self.dir.path().join(name);
        let files = BootFiles::make(config, &folder).unwrap_or_else(|e| panic!("{e}"));
        let socket = self.dir.path().join(format!("{name}.sock"));
        let console = self.dir.path().join(format!("{name}.console"));
        let xml = self.dir.path().join(format!("{name}.xml"));
        std::fs::write(&xml, domain(config, &files, &socket, &console, devices)).unwrap();
        self.must(&["define", xml.to_str().unwrap()]);
        self.must(&["start", name]);
        let guest = Adopted::connect(name, &socket, Duration::from_secs(120));
        let guest = guest.unwrap_or_else(|e| {
            let said = std::fs::read_to_string(&console).unwrap_or_default();
            panic!("{e}\n{said}\n{}", self.log())
        });
        Domain { name: name.clone(), guest }
    }
}

/// A domain that runs; libvirtd keeps it.
pub struct Domain {
    pub name: String,
    guest: Adopted,
}

impl Runs for Domain {
    fn run(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<RunOutput> {
        self.guest.run(script, at_most)
    }

    fn run_ok(&self, script: &str, at_most: Duration) -> vfun_testguest::Result<String> {
        self.guest.run_ok(script, at_most)
    }
}

impl Drop for Libvirtd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- libvirtd said:\n{}", self.log());
        }
        // Its namespace goes with it, and all QEMUs in there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn domain(
    config: &GuestConfig,
    files: &BootFiles,
    socket: &Path,
    console: &Path,
    devices: &str,
) -> String {
    let ports = "<controller type='pci' model='pcie-root-port'/>".repeat(6);
    format!(
        "<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{}</name>
  <memory unit='MiB'>{}</memory>
  <vcpu>{}</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{}</kernel>
    <initrd>{}</initrd>
    <cmdline>{}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='maximum'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    {ports}
    <serial type='file'><source path='{}'/></serial>
    <channel type='unix'>
      <source mode='bind' path='{}'/>
      <target type='virtio' name='vfun.commands'/>
    </channel>
    <memballoon model='none'/>
    {devices}
  </devices>
  <qemu:commandline>
    <qemu:arg value='-global'/>
    <qemu:arg value='pcie-root-port.pref64-reserve=128M'/>
  </qemu:commandline>
</domain>
",
        config.name,
        config.memory_mib,
        config.cpus,
        files.kernel.display(),
        files.initramfs.display(),
        files.cmdline,
        console.display(),
        socket.display(),
    )
}
