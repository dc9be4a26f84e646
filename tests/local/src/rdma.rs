//! Unmodified programs of RDMA, as Debian has them, and the library that is preloaded into them.

use crate::{Stand, programs, repo};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a pair of programs may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two programs that talk to each other: what the server is called with, and the client.
/// `PORT` stands for a free port, `HOST` for the server's address.
#[derive(Clone, Copy, Debug)]
pub struct PairOfPrograms {
    pub server: &'static str,
    pub client: &'static str,
    /// The server does not end by itself.
    pub serves_on: bool,
    /// Peers write to memory of the program, or read it: it must move into the window.
    pub moves: bool,
}

const fn same(server: &'static str, client: &'static str, moves: bool) -> PairOfPrograms {
    PairOfPrograms { server, client, serves_on: false, moves }
}

macro_rules! of_one_word {
    ($($words:literal, $moves:literal;)*) => {
        [$(same(concat!($words, " -p PORT"), concat!($words, " -p PORT HOST"), $moves),)*]
    };
}

/// `ibv_…_pingpong` and perftest, whose server and client differ in the address alone.
pub const VERBS: [PairOfPrograms; 43] = of_one_word! {
    "ibv_rc_pingpong -c", false;
    "ibv_rc_pingpong -e", false;
    "ibv_uc_pingpong", false;
    "ibv_uc_pingpong -e", false;
    "ibv_uc_pingpong -c", false;
    "ibv_ud_pingpong", false;
    "ibv_ud_pingpong -e", false;
    "ibv_ud_pingpong -c", false;
    "ibv_srq_pingpong", false;
    "ibv_srq_pingpong -e", false;
    "ibv_srq_pingpong -c", false;
    "ib_send_lat -n 200", true;
    "ib_send_lat -n 200 -e", true;
    "ib_send_lat -n 200 -c UD", true;
    "ib_send_bw -n 200 -b", true;
    "ib_send_bw -n 200 -q 8", true;
    "ib_send_bw -n 200 --use-srq", true;
    "ib_send_bw -n 200 -e", true;
    "ib_send_bw -n 200 -a", true;
    "ib_write_lat -n 200", true;
    "ib_write_bw -n 200 -a", true;
    "ib_write_bw -n 200 -q 8 -b", true;
    "ib_write_bw -n 200 -c UC", true;
    "ib_read_lat -n 200", true;
    "ib_read_bw -n 200 -e", true;
    "ib_atomic_lat -n 200", true;
    "ib_atomic_bw -n 200 -q 4 -A FETCH_AND_ADD", true;
    "ib_send_lat -n 200 -R", true;
    "ib_write_bw -n 200 -R", true;
    "ib_send_bw -n 200 -R", true;
    "ib_send_bw -n 200 -c UD", true;
    "ib_send_lat -n 200 -a", true;
    "ib_send_lat -n 200 --use-srq", true;
    "ib_write_lat -n 200 -R", true;
    "ib_write_lat -n 200 -a", true;
    "ib_read_lat -n 200 -R", true;
    "ib_read_lat -n 200 -e", true;
    "ib_read_bw -n 200 -R", true;
    "ib_read_bw -n 200 -a", true;
    "ib_read_bw -n 200 -q 8 -b", true;
    "ib_atomic_lat -n 200 -R", true;
    "ib_atomic_bw -n 200 -e", true;
    "ib_atomic_bw -n 200 -q 8 -b", true;
};

/// Programs that find each other by the connection manager, qperf and libfabric.
pub const MANAGED: [PairOfPrograms; 9] = [
    same("rping -s -a HOST -p PORT -V -C 50", "rping -c -a HOST -p PORT -V -C 50", true),
    same("ucmatose -p PORT", "ucmatose -p PORT -s HOST", false),
    same("ucmatose -p PORT -c 8 -C 20", "ucmatose -p PORT -s HOST -c 8 -C 20", false),
    same("rdma_server -p PORT", "rdma_client -p PORT -s HOST", false),
    same("udaddy", "udaddy -s HOST", false),
    PairOfPrograms {
        server: "cmtime -p PORT -c 20",
        client: "cmtime -p PORT -c 20 -s HOST",
        serves_on: true,
        moves: false,
    },
    PairOfPrograms {
        server: "qperf -lp PORT",
        client: "qperf -lp PORT -t 1 HOST rc_lat rc_bw rc_bi_bw rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat rc_rdma_read_lat rc_rdma_read_bw rc_compare_swap_mr rc_fetch_add_mr ud_lat",
        serves_on: true,
        moves: true,
    },
    same(
        "fi_pingpong -p verbs -e msg -c -B PORT",
        "fi_pingpong -p verbs -e msg -c -P PORT HOST",
        true,
    ),
    same(
        "fi_pingpong -p verbs -e dgram -B PORT",
        "fi_pingpong -p verbs -e dgram -P PORT HOST",
        true,
    ),
];

/// Whether the programs are on this machine.
pub fn can_be_tried() -> bool {
    let there = ["ibv_rc_pingpong", "ib_write_bw", "rping", "qperf", "fi_pingpong"];
    let missing = |name: &&str| !Path::new("/usr/bin").join(name).exists();
    let missing: Vec<&str> = there.into_iter().filter(missing).collect();
    if !missing.is_empty() {
        eprintln!("not tried: there is no {}", missing.join(" and no "));
    }
    missing.is_empty()
}

/// A manager that offers the NIC.
pub fn offer() -> Stand {
    let folder = repo().join("services/verbsback/functions");
    Stand::with(&["--functions", folder.to_str().expect("utf-8")])
}

/// A program of the host's client with the library preloaded. Memory may move by the library itself.
pub fn command(stand: &Stand, words: &str, moves: bool) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command
        .args(words)
        .env("LD_PRELOAD", programs().join("libvfunverbs.so"))
        .env("VFUN_ROOT", stand.root())
        .env("VFUN_VERBS_REMAP", if moves { "user" } else { "off" });
    command
}

/// What two programs printed, and how they ended.
pub struct PairEnded {
    pub server: Output,
    pub client: Output,
}

impl PairEnded {
    /// Both, for people.
    pub fn text(&self) -> String {
        let text = |name: &str, out: &Output| {
            let (said, errors) =
                (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            format!("{name} ({}):\n{said}{errors}\n", out.status)
        };
        text("server", &self.server) + &text("client", &self.client)
    }
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn start(mut command: Command) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    child.unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Ends with its program, and kills it after [`PATIENCE`].
fn end(mut child: Child, kill: bool) -> Output {
    let began = Instant::now();
    while !kill && child.try_wait().expect("it is ours").is_none() {
        if began.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait_with_output().expect("it is ours")
}

/// Runs a client until it reaches its server, which has just been started: what a person does, too.
/// A client that came too early says so soon.
pub fn run(stand: &Stand, pair: &PairOfPrograms) -> PairEnded {
    let port = free_port().to_string();
    let words = |of: &str| of.replace("PORT", &port).replace("HOST", "127.0.0.1");
    let server = start(command(stand, &words(pair.server), pair.moves));
    let mut tries = 0;
    let client = loop {
        std::thread::sleep(Duration::from_millis(100 * (tries + 2)));
        let client = end(start(command(stand, &words(pair.client), pair.moves)), false);
        tries += 1;
        // One that has no report has ended its server as well.
        let said = [&client.stdout, &client.stderr].map(|text| String::from_utf8_lossy(text));
        let no_report = said.iter().any(|text| text.contains(NO_REPORT));
        if client.status.success() || tries == 5 || no_report {
            break client;
        }
    };
    PairEnded { server: end(server, pair.serves_on), client }
}

/// What perftest says where the machine's clock was too uneven while it looked: it was no failure of a NIC.
pub const NO_REPORT: &str = "Can't produce a report";

/// The same; both must end well.
pub fn run_well(stand: &Stand, pair: &PairOfPrograms) {
    let mut ended = run(stand, pair);
    for _ in 0..4 {
        if ended.text().contains(NO_REPORT) {
            ended = run(stand, pair);
        }
    }
    let fine = ended.client.status.success() && (pair.serves_on || ended.server.status.success());
    assert!(fine, "{}\n{}{}", pair.client, ended.text(), stand.log());
}

/// A program of ours that knows of nothing but libibverbs, compiled into a folder.
pub fn compiled(source: &str, dir: &Path) -> PathBuf {
    let name = Path::new(source).file_stem().expect("a file's name");
    let program = dir.join(name);
    let done = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(repo().join(source))
        .args(["-lrdmacm", "-libverbs", "-lpthread"])
        .status();
    assert!(done.expect("cc runs").success(), "{source} does not compile");
    program
}

/// The source of the program that registers memory in all ways.
pub const MEMORY: &str = "tests/local/tests/rdma/memory.c";
/// The source of the program whose threads take events of what other threads destroy.
pub const EVENTS: &str = "tests/local/tests/rdma/events.c";
/// The source of the program that asks a device for all kinds of answers, and what ours answers.
pub const CONFORMANCE: &str = "tests/local/tests/rdma/conformance.c";
pub const ANSWERS: &str = "tests/local/tests/rdma/conformance.txt";
