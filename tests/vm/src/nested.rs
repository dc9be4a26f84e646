//! An emulated host with an SR-IOV card, and VMs on it: machines in a machine.
//!
//! A VM boots where the test runs, is saved, and goes on in the emulated host: booting it
//! there takes minutes.

use crate::LONG;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_testguest::{Adopted, BootFiles, GuestConfig};

/// Memory of a VM, MiB.
const VM_MIB: u32 = 256;
/// Where the emulated host has the folder with the VMs' states, and QEMU.
const SHARED: [(&str, &str); 2] = [("states", "/mnt/states"), ("qemu", "/mnt/qemu")];

/// Where QEMU with an SR-IOV card lies (packaging/qemu-igb.sh); none where such tests are not
/// asked for.
pub fn qemu() -> Option<PathBuf> {
    std::env::var_os("VFUN_NESTED_QEMU").map(PathBuf::from)
}

/// A QEMU that ends with this, and what it was given.
pub struct Machine {
    child: Child,
    folder: PathBuf,
    name: String,
}

impl Machine {
    /// The thread that starts it must live as long.
    fn start(folder: &Path, name: &str, words: Vec<String>) -> Machine {
        let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(qemu().expect("asked for").join("qemu"))
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-serial"])
            .arg(format!("file:{}", folder.join(format!("{name}.console")).display()))
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("setpriv is there");
        Machine { child, folder: folder.to_owned(), name: name.to_owned() }
    }

    /// What QEMU and the guest's kernel said.
    pub fn said(&self) -> String {
        let read = |what: &str| {
            let file = self.folder.join(format!("{}.{what}", self.name));
            String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
        };
        format!("--- QEMU of {}\n{}\n--- its console\n{}", self.name, read("log"), read("console"))
    }

    fn connect(&self, socket: &Path) -> Adopted {
        Adopted::connect(&self.name, socket, LONG)
            .unwrap_or_else(|e| panic!("{e}\n{}", self.said()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

/// A VM of the emulated host.
pub struct Vm {
    /// From 0.
    pub number: u8,
    /// MAC address of its paravirtual NIC.
    pub mac: String,
}

impl Vm {
    /// Its machine. It must be the same where it is saved and where it goes on.
    ///
    /// Its clock counts instructions, 32 ns each (`-icount shift=5`). With a clock that runs on
    /// its own, a slow processor spends all of its time in the kernel's 250 ticks a second, and
    /// the VM does nothing else.
    fn machine(&self, commands: &str) -> Vec<String> {
        words(&format!(
            "-M q35,usb=off,smbus=off,sata=off,hpet=off -accel tcg,thread=single,tb-size=256 \
             -icount shift=5,sleep=on -cpu qemu64 -smp 1 -m {VM_MIB} \
             -chardev socket,id=commands,{commands},server=on,wait=off \
             -device virtio-serial-pci,addr=0x02 \
             -device virtserialport,chardev=commands,name=vfun.commands \
             -device pcie-root-port,id=hp0,chassis=1,slot=1,addr=0x08,pref64-reserve=64M \
             -device pcie-root-port,id=hp1,chassis=2,slot=2,addr=0x09,pref64-reserve=64M \
             -netdev tap,id=pv,ifname=pv{},script=no,downscript=no \
             -device virtio-net-pci,netdev=pv,romfile=,addr=0x05,mac={}",
            self.number, self.mac
        ))
    }

    fn file(&self, folder: &Path, what: &str) -> PathBuf {
        folder.join(format!("vm{}.{what}", self.number))
    }

    /// Boots it, has it run a script, and saves it in the folder.
    pub fn save(&self, folder: &Path, config: &GuestConfig, script: &str) {
        let files = BootFiles::make(
            &GuestConfig { memory_mib: VM_MIB, ..config.clone() },
            &self.file(folder, "boot"),
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let (commands, qmp) = (self.file(folder, "commands"), self.file(folder, "qmp"));
        let mut all = self.machine(&format!("path={}", commands.display()));
        all.extend(booted(&files));
        all.extend(["-qmp".into(), format!("unix:{},server=on,wait=off", qmp.display())]);
        let machine = Machine::start(folder, &format!("vm{}", self.number), all);
        let guest = machine.connect(&commands);
        guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", machine.said()));
        let to = format!("file:{}", self.file(folder, "state").display());
        migrate(&qmp, &to);
    }

    /// The words that have it go on in the emulated host. QEMU's control socket for vfun-nics
    /// is `/run/vmN.qmp`, the one for others `/run/vmN.attach`; its process is in `/run/vmN.pid`.
    pub fn restore(&self, commands: SocketAddr) -> String {
        let n = self.number;
        let (ip, port) = (commands.ip(), commands.port());
        format!(
            "{}/qemu -nodefaults -no-user-config -display none -serial file:/tmp/vm{n}.console {} \
             -qmp unix:/run/vm{n}.qmp,server=on,wait=off -qmp unix:/run/vm{n}.attach,server=on,wait=off \
             -pidfile /run/vm{n}.pid -incoming file:{}/vm{n}.state",
            SHARED[1].1,
            self.machine(&format!("host={ip},port={port}")).join(" "),
            SHARED[0].1,
        )
    }

    /// Commands in it, once it goes on.
    pub fn adopt(&self, folder: &Path, commands: SocketAddr) -> Adopted {
        let socket = self.file(folder, "proxy");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || proxy(&listener, commands));
        Adopted::connect(&format!("vm{}", self.number), &socket, LONG)
            .unwrap_or_else(|e| panic!("{e}"))
    }
}

/// The words that have a machine boot these.
fn booted(files: &BootFiles) -> Vec<String> {
    let path = |p: &Path| p.to_str().expect("UTF-8").to_owned();
    ["-kernel".into(), path(&files.kernel), "-initrd".into(), path(&files.initramfs)]
        .into_iter()
        .chain(["-append".into(), files.cmdline.clone()])
        .collect()
}

/// Joins a socket here with a guest's commands elsewhere. A guest that goes on does not say
/// once more that it is up, so this says it.
fn proxy(listener: &UnixListener, to: SocketAddr) {
    let Ok((mut here, _)) = listener.accept() else { return };
    let end = Instant::now() + LONG;
    let there = loop {
        match TcpStream::connect_timeout(&to, Duration::from_secs(1)) {
            Ok(there) => break there,
            Err(e) => assert!(Instant::now() < end, "{to}: {e}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let (Ok(mut from), Ok(mut back)) = (here.try_clone(), there.try_clone()) else { return };
    let mut there = there;
    std::thread::spawn(move || std::io::copy(&mut from, &mut there));
    if here.write_all(b"H\n").is_ok() {
        let _ = std::io::copy(&mut back, &mut here);
    }
}

/// Asks QEMU; what it answers.
fn ask(stream: &mut BufReader<UnixStream>, command: &Value) -> Value {
    stream.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "QEMU ended: {command}");
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said["error"].is_null(), "{command}: {said}");
        if !said["return"].is_null() {
            return said["return"].clone();
        }
    }
}

/// Saves a machine. It goes on by itself where its state is taken.
fn migrate(qmp: &Path, to: &str) {
    let mut stream = BufReader::new(UnixStream::connect(qmp).unwrap());
    ask(&mut stream, &json!({ "execute": "qmp_capabilities" }));
    ask(&mut stream, &json!({ "execute": "migrate", "arguments": { "uri": to } }));
    let end = Instant::now() + LONG;
    loop {
        let state = ask(&mut stream, &json!({ "execute": "query-migrate" }));
        match state["status"].as_str() {
            Some("completed") => return,
            Some("failed" | "cancelled") => panic!("{state}"),
            _ => assert!(Instant::now() < end, "{state}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The emulated host.
pub struct Host {
    pub guest: Adopted,
    pub machine: Machine,
}

impl Host {
    /// Boots it. Its card is at the tap `card` of the test's network, its other NIC, with the
    /// MAC address `uplink`, at the tap `uplink`.
    pub fn boot(folder: &Path, config: &GuestConfig, uplink: &str) -> Host {
        let files = BootFiles::make(config, &folder.join("boot")).unwrap_or_else(|e| panic!("{e}"));
        let commands = folder.join("commands");
        let mut all = words(&format!(
            "-M q35,kernel-irqchip=split -accel tcg,thread=multi,tb-size=1024 -cpu max -smp 2 \
             -m {} -device intel-iommu,intremap=on,caching-mode=on \
             -chardev socket,id=commands,path={},server=on,wait=off \
             -device virtio-serial-pci,addr=0x02 \
             -device virtserialport,chardev=commands,name=vfun.commands \
             -device pcie-root-port,id=rp1,chassis=1,slot=1 \
             -netdev tap,id=card,ifname=card,script=no,downscript=no \
             -device igb,bus=rp1,netdev=card,mac=52:54:00:0a:00:02 \
             -netdev tap,id=uplink,ifname=uplink,script=no,downscript=no \
             -device virtio-net-pci,netdev=uplink,romfile=,mac={uplink}",
            config.memory_mib,
            commands.display()
        ));
        let qemu = qemu().expect("asked for");
        for ((tag, _), path) in SHARED.iter().zip([folder, &qemu]) {
            let share = format!(
                "local,path={},mount_tag={tag},security_model=none,readonly=on",
                path.display()
            );
            all.extend(["-virtfs".into(), share]);
        }
        all.extend(booted(&files));
        let machine = Machine::start(folder, "host", all);
        let guest = machine.connect(&commands);
        let host = Host { guest, machine };
        for (tag, at) in SHARED {
            let options = "ro,trans=virtio,version=9p2000.L,cache=loose,msize=262144";
            host.ok(&format!("mkdir -p {at} && mount -t 9p -o {options} {tag} {at}"));
        }
        host
    }

    /// Runs a script that must succeed.
    pub fn ok(&self, script: &str) -> String {
        self.guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", self.said()))
    }

    /// What `vfun` answers; it must succeed.
    pub fn vfun(&self, words: &str) -> Value {
        let said = self.ok(&format!("vfun {words} --json"));
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("vfun {words}: {e}: {said}"))
    }

    /// What the manager said, and the last words of its kernel.
    pub fn said(&self) -> String {
        let script = "tail -n 60 /tmp/vfund.log; dmesg | tail -n 30; tail -n 5 /tmp/vm*";
        let said = self.guest.run(script, LONG).map(|o| o.text());
        format!("{}\n{said:?}", self.machine.said())
    }
}
