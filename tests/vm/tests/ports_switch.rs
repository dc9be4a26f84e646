//! Ports for a switch with DPDK: this test is the switch's driver. It gets a port's memory over
//! the manager's socket, answers the pings of a real guest, and loses the memory again.

use crate::ports::{carrier, port, reaches, tell};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vfun_packet::layout::header::{FRAME, STATE};
use vfun_packet::layout::{DOWN, UP};
use vfun_packet::{Memory as _, Receiver, Ring, Sender, WindowMemory};
use vfun_testguest::Guest;
use vfun_tests_local::Stand;
use vfun_tests_vm::boot;
use vfun_tests_vm::fakehost::ports::answer;
use vfun_tests_vm::module::{MODULE, doorbell_client, healthy, load, module_config, ok, until};
use vfun_window::{Access, Bell, Mapping, ReadSpan, WriteSpan, fdpass};
use vfun_wire::handover::{ASK_MAGIC, PortAsk, PortWord, WORD_MAGIC, ask, word};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const NAME: &str = "vm0.eth1";
const PEER: &str = "10.9.0.1";
const LONGEST: usize = 1518;
/// The manager answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// A switch's driver, with at most one memory.
struct Driver {
    socket: OwnedFd,
    memory: Option<PortAtSwitch>,
}

/// Memory that it has.
struct PortAtSwitch {
    handle: u64,
    mine: u64,
    sender: Sender<WindowMemory>,
    receiver: Receiver<WindowMemory>,
    news: (WriteSpan, usize),
    bell: Bell,
}

/// The whole of a mapped part.
fn mapped(file: &OwnedFd, at: u64, bytes: usize) -> WriteSpan {
    Mapping::new(file, at, bytes, Access::ReadWrite).unwrap().write().unwrap()
}

impl PortAtSwitch {
    fn new(said: &PortWord, fds: Vec<OwnedFd>) -> Self {
        let [file, bell] = fds.try_into().expect("memory, and what rings the VM");
        let ring = Ring::new(said.ring.get()).unwrap();
        let bytes = ring.side_bytes() as usize;
        let theirs: ReadSpan =
            Mapping::new(&file, said.theirs.get(), bytes, Access::Read).unwrap().read();
        let memory = WindowMemory::of_sides(mapped(&file, said.mine.get(), bytes), theirs);
        let page = said.news.get() / 4096 * 4096;
        let mut new = PortAtSwitch {
            handle: said.handle.get(),
            mine: said.mine.get(),
            sender: Sender::new(memory.clone(), ring),
            receiver: Receiver::new(memory, ring),
            news: (mapped(&file, page, 4096), (said.news.get() - page) as usize / 8),
            bell: Bell::from_fd(bell),
        };
        new.say(UP);
        new
    }

    fn say(&mut self, state: u64) {
        self.sender.memory().store(FRAME, LONGEST as u64, Ordering::Relaxed);
        self.sender.memory().store(STATE, state, Ordering::Release);
        self.sender.must_ring();
        self.ring();
    }

    fn ring(&self) {
        self.news.0.fetch_add(self.news.1, 1, Ordering::Release);
        self.bell.ring();
    }

    /// Answers what came.
    fn serve(&mut self) {
        let mut frame = vec![0; LONGEST];
        for _ in 0..64 {
            let Some(bytes) = self.receiver.next(&mut frame) else { break };
            if let Some(answer) = answer(&frame[..bytes]) {
                let _ = self.sender.put(&answer);
            }
        }
        self.receiver.take();
        if self.sender.publish() && self.sender.must_ring() {
            self.ring();
        }
    }
}

impl Driver {
    fn connect(socket: &Path) -> Self {
        let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::SEQPACKET);
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        until("the manager listens", || {
            rustix::net::connect(&fd, &SocketAddrUnix::new(socket).unwrap()).is_ok()
        });
        Driver { socket: fd, memory: None }
    }

    /// One that has a port, and memory of it from before.
    fn of(socket: &Path, has: u64) -> Self {
        let driver = Driver::connect(socket);
        driver.say(ask::WANT, has, NAME);
        let (welcome, _) = driver.hears().expect("a welcome");
        assert_eq!((welcome.kind.get(), welcome.ring.get()), (word::WELCOME, 2 << 20));
        driver
    }

    /// Connects anew, and keeps the memory.
    fn again(self, socket: &Path, has: u64) -> Self {
        let Driver { socket: old, memory } = self;
        drop(old);
        Driver { memory, ..Driver::of(socket, has) }
    }

    fn say(&self, kind: u32, handle: u64, name: &str) {
        let mut said = PortAsk::new_zeroed();
        (said.magic, said.kind) = (U64::new(ASK_MAGIC), U32::new(kind));
        said.handle = U64::new(handle);
        said.name[..name.len()].copy_from_slice(name.as_bytes());
        fdpass::send(&self.socket, said.as_bytes(), &[]).unwrap();
    }

    /// The next message, if one comes in time; nothing when the manager hangs up.
    fn hears(&self) -> Option<(PortWord, Vec<OwnedFd>)> {
        let end = Instant::now() + PATIENCE;
        let mut bytes = [0; size_of::<PortWord>() + 1];
        while Instant::now() < end {
            match fdpass::receive(&self.socket, &mut bytes) {
                Ok((0, _)) => return None,
                Ok((n, fds)) => {
                    let said = PortWord::read_from_bytes(&bytes[..n]).expect("its size");
                    assert_eq!(said.magic.get(), WORD_MAGIC);
                    return Some((said, fds));
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(_) => return None,
            }
        }
        panic!("the manager says nothing");
    }

    /// Whether nothing is said for a while.
    fn is_quiet(&self) -> bool {
        std::thread::sleep(Duration::from_millis(300));
        let mut bytes = [0; 8];
        let heard = fdpass::receive(&self.socket, &mut bytes);
        heard.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Waits for memory, and takes it.
    fn takes(&mut self) -> u64 {
        let (said, fds) = self.hears().expect("memory");
        assert_eq!(said.kind.get(), word::MEMORY);
        self.memory = Some(PortAtSwitch::new(&said, fds));
        said.handle.get()
    }

    /// Waits for the order to let go, and stops to use the memory, without saying so.
    fn drops(&mut self) {
        let (said, _) = self.hears().expect("an order to let go");
        let had = self.memory.take().expect("it has memory");
        assert_eq!((said.kind.get(), said.handle.get()), (word::DROP, had.handle));
    }

    /// Serves while something is done.
    fn serving<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            let memory = self.memory.as_mut().expect("it has memory");
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    memory.serve();
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let done = what();
            over.store(true, Ordering::Relaxed);
            done
        })
    }
}

/// A manager, and a VM with a port for a switch.
fn start(name: &str) -> (Stand, Guest) {
    let stand = Stand::with(&["--ports"]);
    let doorbell = doorbell_client(&stand, "vm0", "[ports.eth1]\nway = \"dpdk\"\n");
    let mut config = module_config(name, vec![doorbell]);
    config.cpus = 1;
    let guest = boot(&config);
    load(&guest);
    ok(&guest, "ip addr add 10.9.0.2/24 dev eth1; ip link set eth1 up");
    (stand, guest)
}

/// Waits until the interface has no link.
fn no_carrier(guest: &Guest) {
    ok(
        guest,
        "for i in $(seq 200); do [ \"$(cat /sys/class/net/eth1/carrier)\" = 0 ] && exit 0; usleep 50000; done; exit 1",
    );
}

#[test]
fn a_switch_has_a_ports_memory_until_it_lets_go() {
    let (mut stand, guest) = start("switch");
    let socket = stand.root().join("ports.sock");
    let mut driver = Driver::of(&socket, 0);
    let first = driver.takes();
    let at = driver.memory.as_ref().unwrap().mine;
    carrier(&guest);
    driver.serving(|| reaches(&guest, PEER));
    let found = port(&stand, "vm0");
    assert!(found["connected"] == true && found["state"] == "active", "{found}");
    assert!(found["devargs"].as_str().unwrap().contains(NAME), "{found}");
    until("counts come", || port(&stand, "vm0")["counts"]["from_vm"].as_u64() > Some(1));

    // The VM has another port in the place of the first one. Nobody else gets the first one's
    // memory before the switch has let go.
    ok(&guest, "ip link set eth1 down");
    driver.drops();
    ok(&guest, "ip link set eth1 up");
    until("the VM has it again", || port(&stand, "vm0")["state"] == "active");
    assert!(driver.is_quiet(), "one memory at a time");
    driver.say(ask::LET_GO, first, "");
    let second = driver.takes();
    let next = driver.memory.as_ref().unwrap().mine;
    assert!(second != first && next.abs_diff(at) >= (2 << 20) + 8192, "{at} {next}");
    carrier(&guest);
    driver.serving(|| reaches(&guest, PEER));

    // What a switch says of memory that it has not changes nothing.
    driver.say(ask::LET_GO, first, "");
    driver.say(ask::LET_GO, 0, "");
    driver.serving(|| reaches(&guest, PEER));

    // The manager is killed: frames go on, and the next manager knows who has the memory.
    driver.serving(|| {
        stand.kill_vfund();
        reaches(&guest, PEER);
        stand.start_vfund();
    });
    driver = driver.again(&socket, second);
    assert!(driver.is_quiet(), "it keeps what it has");
    driver.serving(|| reaches(&guest, PEER));
    // And again: it had a connection, and has connected anew.
    driver = driver.again(&socket, second);
    assert!(driver.is_quiet());
    driver.serving(|| reaches(&guest, PEER));

    // It goes, with what it has, and comes again.
    driver.say(ask::GOODBYE, 0, "");
    until("it is gone", || port(&stand, "vm0")["connected"] == false);
    driver = Driver::of(&socket, 0);
    assert_eq!(driver.takes(), second, "the VM has it still");
    driver.serving(|| reaches(&guest, PEER));

    // The module is loaded again.
    ok(&guest, &format!("rmmod vfun && insmod {MODULE}"));
    driver.drops();
    driver.say(ask::LET_GO, second, "");
    ok(&guest, "ip addr add 10.9.0.2/24 dev eth1; ip link set eth1 up");
    driver.takes();
    carrier(&guest);
    driver.memory.as_mut().unwrap().say(DOWN);
    no_carrier(&guest);
    healthy(&guest);
}

/// Another process that takes the port, says that it is there, and then waits.
const OTHER: &str = r#"
import mmap, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(struct.pack("<QIIQQ64s", int.from_bytes(b"PORTASK3", "little"), 1, 0, 0, 0, sys.argv[2].encode()))
while True:
    said, fds, _, _ = socket.recv_fds(s, 240, 4)
    _, kind, _, handle, mine, theirs, ring, news = struct.unpack_from("<QIIQQQQQ", said)
    print(kind, handle, said[56:].rstrip(b"\0").decode(), flush=True)
    if kind == 2:
        sys.exit()
    if kind == 3:
        side = mmap.mmap(fds[0], 4096 + ring, offset=mine)
        head = mmap.mmap(fds[0], 4096, offset=news // 4096 * 4096)
        struct.pack_into("<Q", side, 128, 1)
        word = news % 4096
        struct.pack_into("<Q", head, word, struct.unpack_from("<Q", head, word)[0] + 1)
        os.write(fds[1], struct.pack("<Q", 1))
"#;

fn other(socket: &Path, name: &str) -> std::process::Child {
    std::process::Command::new("python3")
        .args(["-c", OTHER])
        .arg(socket)
        .arg(name)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

fn said_by(child: std::process::Child) -> String {
    let out = child.wait_with_output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_port_has_one_switch_and_survives_its_end() {
    let (stand, guest) = start("switch-ends");
    let socket = stand.root().join("ports.sock");
    // Wrong questions.
    for (said, name) in [("no port has the name 'vm9.eth1'", "vm9.eth1"), ("no port", "")] {
        let refused = said_by(other(&socket, name));
        assert!(refused.starts_with("2 ") && refused.contains(said), "{refused}");
    }
    let nonsense = Driver::connect(&socket);
    fdpass::send(&nonsense.socket, b"what is this?", &[]).unwrap();
    assert!(nonsense.hears().is_none(), "hung up");
    let unknown = Driver::connect(&socket);
    unknown.say(7, 0, "");
    let (refused, _) = unknown.hears().expect("a refusal");
    assert_eq!(refused.kind.get(), word::REFUSED);

    // A switch's process that ends has let go of everything; meanwhile nobody else has the port.
    let mut process = other(&socket, NAME);
    carrier(&guest);
    let second = said_by(other(&socket, NAME));
    assert!(second.starts_with("2 ") && second.contains("a port has one switch"), "{second}");
    process.kill().unwrap();
    no_carrier(&guest);
    let said = said_by(process);
    assert!(said.contains("1 0 \n3 "), "{said}");
    let mut driver = Driver::of(&socket, 0);
    driver.takes();
    carrier(&guest);
    driver.serving(|| reaches(&guest, PEER));

    // It goes before it has read of its memory: nobody holds that then.
    let had = driver.memory.take().unwrap().handle;
    driver.say(ask::LET_GO, had, "");
    assert!(driver.is_quiet(), "what it gives back unasked is not offered again");
    let trouble = port(&stand, "vm0")["trouble"].as_str().unwrap_or_default().to_owned();
    assert!(trouble.contains("could not use"), "{trouble}");
    driver = driver.again(&socket, 0);
    std::thread::sleep(Duration::from_millis(300));
    driver.say(ask::GOODBYE, 0, "");
    drop(driver);
    ok(&guest, "ip link set eth1 down");
    until("its pages are free", || stand.grants().is_empty());
    ok(&guest, "ip link set eth1 up");
    let mut driver = Driver::of(&socket, 0);
    driver.takes();

    // A port that is relayed from now on, or goes, is no switch's.
    tell(&stand, &["port", "add", "vm0", "eth1", "--way", "tap"]);
    let had = driver.memory.as_ref().unwrap().handle;
    driver.drops();
    driver.say(ask::LET_GO, had, "");
    let (gone, _) = driver.hears().expect("a reason");
    assert_eq!(gone.kind.get(), word::REFUSED);
    healthy(&guest);
}
