//! The detector on a real, stock Open vSwitch: packaging/ovs-dpdk.sh unpacks one, and prints the
//! folder for VFUN_OVS_DIR. Its datapath is the dummy one, so it needs no root, and no frame moves.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use vfun_links::{Change, OurPort, Places, Verdict, Watch, watch};

/// Until something happens that is sure to happen: machines are busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rules in the test of many, and in a burst.
const MANY: usize = 10_000;
/// Changes of one rule among them.
const ROUNDS: usize = 20;

/// The programs, where the one who runs the tests says so.
fn programs() -> Option<PathBuf> {
    let dir = std::env::var_os("VFUN_OVS_DIR").map(PathBuf::from);
    if dir.is_none() {
        eprintln!("skipped: VFUN_OVS_DIR is not set; packaging/ovs-dpdk.sh prints the folder");
    }
    dir
}

/// A switch with a bridge and three ports, of which rules join the first two.
struct Switch {
    programs: PathBuf,
    folder: tempfile::TempDir,
    database: Child,
    daemon: Child,
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Switch {
    fn start(programs: PathBuf) -> Switch {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let schema = programs.join("vswitch.ovsschema");
        let made = command(&programs, folder.path(), "ovsdb-tool")
            .args(["create", &at("conf.db"), schema.to_str().unwrap()])
            .status();
        assert!(made.unwrap().success());
        let database = start_database(&programs, folder.path());
        let daemon = start_daemon(&programs, folder.path());
        let switch = Switch { programs, folder, database, daemon };
        switch.vsctl("add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure");
        for n in 1..=3 {
            switch.vsctl(&format!(
                "add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}"
            ));
        }
        switch.join();
        switch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The rules that join.
    fn join(&self) {
        self.ofctl("del-flows br0");
        self.ofctl("add-flow br0 in_port=1,actions=output:2");
        self.ofctl("add-flow br0 in_port=2,actions=output:1");
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let out =
            command(&self.programs, self.folder.path(), program).args(words).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{program} {words:?}: {error}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn vsctl(&self, words: &str) {
        let db = format!("--db=unix:{}", self.path("db.sock").display());
        let words: Vec<&str> = [&*db, "--timeout=60"].into_iter().chain(words.split(' ')).collect();
        self.run("ovs-vsctl", &words);
    }

    /// With OpenFlow 1.4, which has almost all that is tried.
    fn ofctl(&self, words: &str) {
        self.ofctl_of("OpenFlow14", words);
    }

    fn ofctl_of(&self, version: &str, words: &str) {
        let words: Vec<&str> = ["-O", version].into_iter().chain(words.split(' ')).collect();
        self.run("ovs-ofctl", &words);
    }

    fn appctl(&self, words: &str) {
        self.run("ovs-appctl", &words.split(' ').collect::<Vec<_>>());
    }

    /// Starts the switch anew; the old one has ended.
    fn restart(&mut self) {
        self.daemon = start_daemon(&self.programs, self.folder.path());
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        end(&mut self.daemon);
        end(&mut self.database);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn command(programs: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(programs.join(program));
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, folder);
    }
    command
}

fn start(programs: &Path, folder: &Path, program: &str, words: &[&str]) -> Child {
    let log = std::fs::File::create(folder.join(format!("{program}.log"))).unwrap();
    command(programs, folder, program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn start_database(programs: &Path, folder: &Path) -> Child {
    let socket = folder.join("db.sock");
    let _ = std::fs::remove_file(&socket);
    let remote = format!("--remote=punix:{}", socket.display());
    let file = folder.join("conf.db");
    let child = start(programs, folder, "ovsdb-server", &[file.to_str().unwrap(), &remote]);
    until("the database listens", || socket.exists());
    child
}

fn start_daemon(programs: &Path, folder: &Path) -> Child {
    let pidfile = folder.join("ovs-vswitchd.pid");
    let _ = std::fs::remove_file(&pidfile);
    let socket = format!("unix:{}", folder.join("db.sock").display());
    let pid = format!("--pidfile={}", pidfile.display());
    let words = [&*socket, &pid, "--enable-dummy", "--disable-system"];
    let child = start(programs, folder, "ovs-vswitchd", &words);
    until("the switch runs", || pidfile.exists());
    child
}

/// The detector on it.
struct Watched {
    _watch: Watch,
    changes: Receiver<Change>,
    /// The last verdicts of p1 and p2.
    now: [Option<Verdict>; 2],
}

impl Watched {
    fn of(switch: &Switch) -> Watched {
        let places = Places {
            run: switch.folder.path().to_owned(),
            database: switch.path("db.sock"),
            bridge: "br0".to_owned(),
        };
        let port = |n| OurPort {
            interface: format!("p{n}"),
            kind: "dummy".to_owned(),
            devargs: None,
            mtu: 1500,
        };
        let (watch, changes) = watch(places, [1, 2].map(port).to_vec());
        Watched { _watch: watch, changes, now: [None, None] }
    }

    fn joined(&self, n: usize) -> bool {
        matches!(&self.now[n - 1], Some(Verdict::Joined { .. }))
    }

    fn both(&self) -> bool {
        self.joined(1) && self.joined(2)
    }

    /// Takes one change, if one comes.
    fn take(&mut self, time: Duration) -> bool {
        match self.changes.recv_timeout(time) {
            Ok(change) => {
                let at = if change.from == "p1" { 0 } else { 1 };
                self.now[at] = Some(change.verdict);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(e) => panic!("{e}"),
        }
    }

    /// Takes all changes that have come.
    fn take_all(&mut self) {
        while self.take(Duration::ZERO) {}
    }

    /// Takes changes until none comes for a moment.
    fn take_rest(&mut self) {
        while self.take(Duration::from_millis(300)) {}
    }

    /// Waits until this is so.
    fn until(&mut self, what: &str, is: impl Fn(&Watched) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is(self) {
            assert!(Instant::now() < end, "{what}: {:?}", self.now);
            self.take(Duration::from_millis(200));
        }
    }

    fn joins(&mut self, what: &str) {
        self.until(&format!("{what}: both are joined"), Watched::both);
    }

    /// Waits for a reason that stays, of either, with these words.
    fn says(&mut self, n: usize, words: &str) {
        self.until(
            words,
            |w| matches!(&w.now[n - 1], Some(v @ Verdict::Not(_)) if v.to_string().contains(words)),
        );
    }
}

/// How a feature comes, how it goes, and words of the reason of p1.
type Feature = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// Commands: `v` ovs-vsctl, `f` ovs-ofctl, `1` the same with OpenFlow 1.1, `a` ovs-appctl.
fn run(switch: &Switch, commands: &[&str]) {
    for command in commands {
        let (program, words) = command.split_once(' ').unwrap();
        match program {
            "v" => switch.vsctl(words),
            "f" => switch.ofctl(words),
            "1" => switch.ofctl_of("OpenFlow11", words),
            "a" => switch.appctl(words),
            other => panic!("{other}"),
        }
    }
}

/// What takes p1's frames the switch's way.
const FEATURES: &[Feature] = &[
    (
        "a mirror of all",
        &[
            "v -- --id=@p get Port p3 -- --id=@m create Mirror name=m select_all=true output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "the mirror m",
    ),
    (
        "a mirror of the sender",
        &[
            "v -- --id=@p get Port p3 -- --id=@a get Port p1 -- --id=@m create Mirror name=m select_src_port=@a output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "copies frames of p1",
    ),
    (
        "a mirror of the receiver",
        &[
            "v -- --id=@p get Port p3 -- --id=@a get Port p2 -- --id=@m create Mirror name=m select_dst_port=@a output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "copies frames of p2",
    ),
    (
        "sFlow",
        &[
            "v -- --id=@s create sFlow agent=lo targets=\"127.0.0.1:6343\" sampling=64 -- set Bridge br0 sflow=@s",
        ],
        &["v clear Bridge br0 sflow"],
        "sFlow",
    ),
    (
        "NetFlow",
        &["v -- --id=@s create NetFlow targets=\"127.0.0.1:5566\" -- set Bridge br0 netflow=@s"],
        &["v clear Bridge br0 netflow"],
        "NetFlow",
    ),
    (
        "IPFIX",
        &["v -- --id=@s create IPFIX targets=\"127.0.0.1:4739\" -- set Bridge br0 ipfix=@s"],
        &["v clear Bridge br0 ipfix"],
        "IPFIX",
    ),
    (
        "a meter",
        &[
            "f add-meter br0 meter=1,kbps,band=type=drop,rate=1000",
            "f add-flow br0 in_port=1,actions=meter:1,output:2",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-meters br0"],
        "meter",
    ),
    (
        "policing",
        &["v set Interface p1 ingress_policing_rate=1000"],
        &["v set Interface p1 ingress_policing_rate=0"],
        "ingress_policing",
    ),
    (
        "policing by packets",
        &["v set Interface p2 ingress_policing_kpkts_rate=1"],
        &["v set Interface p2 ingress_policing_kpkts_rate=0"],
        "ingress_policing",
    ),
    (
        "QoS",
        &["v set Port p2 qos=@q -- --id=@q create QoS type=linux-htb"],
        &["v clear Port p2 qos"],
        "QoS",
    ),
    (
        "a copy for the controller",
        &["f add-flow br0 in_port=1,actions=controller,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "controller",
    ),
    (
        "NORMAL",
        &["f add-flow br0 in_port=1,actions=NORMAL"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "NORMAL",
    ),
    (
        "learn",
        &["f add-flow br0 in_port=1,actions=learn(table=1,in_port=3),output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "learn",
    ),
    (
        "conntrack",
        &["f add-flow br0 priority=40000,in_port=1,ip,actions=ct(table=1)"],
        &["f --strict del-flows br0 priority=40000,in_port=1,ip"],
        "ct",
    ),
    (
        "a group of one bucket",
        &[
            "f add-group br0 group_id=3,type=all,bucket=output:2",
            "f add-flow br0 in_port=1,actions=group:3",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-groups br0"],
        "group",
    ),
    (
        "a queue",
        &["f add-flow br0 in_port=1,actions=set_queue:1,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "set_queue",
    ),
    (
        "a changed field",
        &["f add-flow br0 in_port=1,actions=mod_dl_src:02:00:00:00:00:01,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "set_field",
    ),
    (
        "a second output",
        &["f add-flow br0 in_port=1,actions=output:2,output:3"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "not only sent on: p",
    ),
    (
        "another port",
        &["f add-flow br0 in_port=1,actions=output:3"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "no other port of ours",
    ),
    (
        "no rule",
        &["f --strict del-flows br0 in_port=1"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "no rule of table 0 takes all its frames",
    ),
    (
        "a table that sends frames without a rule to the next one",
        &[
            "f add-flow br0 table=1,in_port=1,actions=output:2",
            "1 mod-table br0 0 continue",
            "f --strict del-flows br0 table=0,in_port=1",
        ],
        &[
            "f add-flow br0 in_port=1,actions=output:2",
            "1 mod-table br0 0 drop",
            "f del-flows br0 table=1",
        ],
        "no rule of table 0 takes all its frames",
    ),
    (
        "a second table without a rule for all frames",
        &[
            "f add-flow br0 table=1,in_port=1,arp,actions=output:2",
            "f add-flow br0 in_port=1,actions=goto_table:1",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "no rule of table 1 takes all its frames",
    ),
    (
        "idle_timeout",
        &["f add-flow br0 idle_timeout=300,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "idle_timeout",
    ),
    (
        "send_flow_rem",
        &["f add-flow br0 send_flow_rem,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "send_flow_rem",
    ),
    (
        "a rule for a port of TCP",
        &["f add-flow br0 priority=40000,tcp,tp_dst=80,actions=drop"],
        &["f --strict del-flows br0 priority=40000,tcp,tp_dst=80"],
        "nw_proto",
    ),
    (
        "a rule for ARP",
        &["f add-flow br0 priority=40000,arp,actions=drop"],
        &["f --strict del-flows br0 priority=40000,arp"],
        "dl_type=0x0806",
    ),
    (
        "a rule for a strange EtherType",
        &["f add-flow br0 priority=40000,dl_type=0x1234,actions=drop"],
        &["f --strict del-flows br0 priority=40000,dl_type=0x1234"],
        "dl_type=0x1234",
    ),
    (
        "a rule for later fragments",
        &["f add-flow br0 priority=40000,ip,nw_frag=later,actions=drop"],
        &["f --strict del-flows br0 priority=40000,ip,nw_frag=later"],
        "nw_frag=later",
    ),
    (
        "a rule for a VLAN",
        &["f add-flow br0 priority=40000,dl_vlan=7,actions=drop"],
        &["f --strict del-flows br0 priority=40000,dl_vlan=7"],
        "dl_vlan",
    ),
    (
        "a rule for frames without a VLAN",
        &["f add-flow br0 priority=40000,vlan_tci=0,actions=drop"],
        &["f --strict del-flows br0 priority=40000,vlan_tci=0"],
        "d",
    ),
    (
        "a rule for an address",
        &["f add-flow br0 priority=40000,dl_dst=02:00:00:00:00:09,actions=output:2"],
        &["f --strict del-flows br0 priority=40000,dl_dst=02:00:00:00:00:09"],
        "dl_dst",
    ),
    (
        "a way over another bridge and back",
        &[
            "v add-br br1 -- set Bridge br1 datapath_type=dummy fail_mode=secure",
            "v add-port br0 a0 -- set Interface a0 type=patch options:peer=a1 ofport_request=11",
            "v add-port br1 a1 -- set Interface a1 type=patch options:peer=a0 ofport_request=11",
            "v add-port br0 b0 -- set Interface b0 type=patch options:peer=b1 ofport_request=12",
            "v add-port br1 b1 -- set Interface b1 type=patch options:peer=b0 ofport_request=12",
            "f add-flow br1 in_port=11,actions=output:12",
            "f add-flow br0 in_port=12,actions=output:2",
            "f add-flow br0 in_port=1,actions=output:11",
        ],
        &[
            "f add-flow br0 in_port=1,actions=output:2",
            "v del-port br0 a0",
            "v del-port br0 b0",
            "v del-br br1",
        ],
        "sends to port 11",
    ),
    (
        "a table that evicts",
        &[
            "v -- --id=@t create Flow_Table flow_limit=1000 overflow_policy=evict -- set Bridge br0 flow_tables:0=@t",
        ],
        &["v clear Bridge br0 flow_tables"],
        "overflow_policy",
    ),
    (
        "rules that are being restored",
        &["v --no-wait set Open_vSwitch . other_config:flow-restore-wait=true"],
        &["v remove Open_vSwitch . other_config flow-restore-wait"],
        "flow-restore-wait",
    ),
    ("STP", &["v set Bridge br0 stp_enable=true"], &["v set Bridge br0 stp_enable=false"], "STP"),
    (
        "RSTP",
        &["v set Bridge br0 rstp_enable=true"],
        &["v set Bridge br0 rstp_enable=false"],
        "RSTP",
    ),
    ("BFD", &["v set Interface p1 bfd:enable=true"], &["v clear Interface p1 bfd"], "BFD"),
    ("CFM", &["v set Interface p2 cfm_mpid=5"], &["v clear Interface p2 cfm_mpid"], "CFM"),
    ("LACP", &["v set Port p1 lacp=active"], &["v clear Port p1 lacp"], "LACP"),
    ("LLDP", &["v set Interface p1 lldp:enable=true"], &["v clear Interface p1 lldp"], "LLDP"),
    ("no-forward", &["f mod-port br0 p2 no-forward"], &["f mod-port br0 p2 forward"], "no-forward"),
    ("no-receive", &["f mod-port br0 p1 no-receive"], &["f mod-port br0 p1 receive"], "no-receive"),
    ("the sender down", &["f mod-port br0 p1 down"], &["f mod-port br0 p1 up"], "set down"),
    ("the receiver down", &["f mod-port br0 p2 down"], &["f mod-port br0 p2 up"], "set down"),
    (
        "no carrier",
        &["a netdev-dummy/set-admin-state p2 down"],
        &["a netdev-dummy/set-admin-state p2 up"],
        "p2",
    ),
    (
        "a smaller MTU",
        &["v set Interface p2 mtu_request=1400"],
        &["v set Interface p2 mtu_request=1500"],
        "MTU",
    ),
    (
        "another number",
        &["v set Interface p2 ofport_request=9"],
        &["v set Interface p2 ofport_request=2", "f add-flow br0 in_port=2,actions=output:1"],
        "are dropped",
    ),
    (
        "a controller in band",
        &["v set-controller br0 tcp:127.0.0.1:9"],
        &[
            "v del-controller br0",
            "f add-flow br0 in_port=1,actions=output:2",
            "f add-flow br0 in_port=2,actions=output:1",
        ],
        "hidden rules",
    ),
    (
        "a bridge that fails open",
        &["v set Bridge br0 fail_mode=standalone", "v set-controller br0 punix:/nonexistent/x"],
        &[
            "v del-controller br0",
            "v set Bridge br0 fail_mode=secure",
            "f del-flows br0",
            "f add-flow br0 in_port=1,actions=output:2",
            "f add-flow br0 in_port=2,actions=output:1",
        ],
        "fail_mode",
    ),
    (
        "a bridge without OpenFlow 1.4",
        &["v set Bridge br0 protocols=OpenFlow10,OpenFlow13"],
        &["v clear Bridge br0 protocols"],
        "OpenFlow14",
    ),
];

/// What changes nothing that matters: p1 stays joined or comes back.
const HARMLESS: &[Feature] = &[
    ("an access tag", &["v set Port p1 tag=5"], &["v clear Port p1 tag"], ""),
    (
        "tables",
        &[
            "f add-flow br0 table=1,actions=output:2",
            "f add-flow br0 in_port=1,actions=resubmit(,1)",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "",
    ),
    (
        "goto_table",
        &[
            "f add-flow br0 table=1,actions=output:2",
            "f add-flow br0 in_port=1,actions=goto_table:1",
        ],
        &["f add-flow br0 in_port=1,actions=output:2", "f del-flows br0 table=1"],
        "",
    ),
    (
        "hard_timeout",
        &["f add-flow br0 hard_timeout=600,in_port=1,actions=output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "",
    ),
    (
        "a note",
        &["f add-flow br0 in_port=1,actions=note:00.01,output:2"],
        &["f add-flow br0 in_port=1,actions=output:2"],
        "",
    ),
    (
        "ARP by a rule of its own",
        &["f add-flow br0 priority=40000,in_port=1,arp,actions=output:2"],
        &["f --strict del-flows br0 priority=40000,in_port=1,arp"],
        "",
    ),
    (
        "a mirror of another port",
        &[
            "v -- --id=@p get Port p3 -- --id=@m create Mirror name=m select_src_port=@p output_port=@p -- set Bridge br0 mirrors=@m",
        ],
        &["v clear Bridge br0 mirrors"],
        "",
    ),
    (
        "rules of another port",
        &["f add-flow br0 priority=40000,in_port=3,tcp,tp_dst=80,actions=NORMAL"],
        &["f --strict del-flows br0 priority=40000,in_port=3,tcp,tp_dst=80"],
        "",
    ),
    (
        "a rule below",
        &["f add-flow br0 priority=0,actions=NORMAL"],
        &["f --strict del-flows br0 priority=0"],
        "",
    ),
    (
        "another port",
        &["v add-port br0 p4 -- set Interface p4 type=dummy"],
        &["v del-port br0 p4"],
        "",
    ),
];

#[test]
fn each_feature_of_the_switch_withdraws_the_verdict_and_its_end_brings_it_back() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    for (name, on, off, words) in FEATURES {
        let began = Instant::now();
        run(&switch, on);
        watched.says(1, words);
        let why = watched.now[0].clone().expect("it was just said");
        run(&switch, off);
        watched.joins(name);
        eprintln!("{name} ({:?}): {why}", began.elapsed());
    }
}

#[test]
fn what_does_no_harm_leaves_ports_joined() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    for (name, on, off, _) in HARMLESS {
        run(&switch, on);
        settled(&switch, &mut watched);
        watched.joins(name);
        run(&switch, off);
        settled(&switch, &mut watched);
        watched.joins(&format!("without {name}"));
    }
}

/// Waits until all changes so far have been judged: a change behind them has.
fn settled(switch: &Switch, watched: &mut Watched) {
    switch.ofctl("mod-port br0 p2 down");
    watched.says(2, "set down");
    switch.ofctl("mod-port br0 p2 up");
}

/// These cause no event: the next look finds them.
#[test]
fn what_causes_no_event_is_found_by_looking_again() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    run(&switch, &["f mod-table br0 0 evict"]);
    watched.says(1, "eviction");
    run(&switch, &["f mod-table br0 0 noevict"]);
    watched.joins("without eviction");
    run(&switch, &["f set-frags br0 drop"]);
    watched.says(1, "drop");
    run(&switch, &["f set-frags br0 normal"]);
    watched.joins("with fragments as others");
}

#[test]
fn a_new_start_of_the_switch_or_of_its_database_withdraws_the_verdict() {
    let Some(programs) = programs() else { return };
    let mut switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    end(&mut switch.daemon);
    watched.says(1, "does not answer");
    watched.says(2, "does not answer");
    switch.restart();
    watched.says(1, "no rule of table 0 takes all its frames");
    assert!(!watched.joined(2), "its rules are gone: {:?}", watched.now);
    switch.join();
    watched.joins("after a new start of the switch");
    end(&mut switch.database);
    watched.says(1, "database");
    watched.says(2, "database");
    switch.database = start_database(&switch.programs, switch.folder.path());
    watched.joins("after a new start of the database");
    switch.vsctl("del-port br0 p2");
    watched.says(1, "p2");
    switch.vsctl("add-port br0 p2 -- set Interface p2 type=dummy ofport_request=2");
    switch.join();
    watched.joins("with the port again");
    switch.vsctl("del-br br0");
    watched.says(1, "not known yet");
}

/// Writes rules into a file and gives all of them to the switch at once.
fn add_all(switch: &Switch, rules: impl Iterator<Item = String>) {
    let file = switch.path("rules");
    std::fs::write(&file, rules.collect::<Vec<_>>().join("\n")).unwrap();
    switch.ofctl(&format!("add-flows br0 {}", file.display()));
}

#[test]
fn many_rules_and_bursts_of_changes_end_with_the_right_verdict() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    let began = Instant::now();
    add_all(
        &switch,
        (0..MANY).map(|n| {
            format!(
                "priority=9,in_port=3,dl_dst=02:00:00:00:{:02x}:{:02x},actions=drop",
                n >> 8,
                n & 255
            )
        }),
    );
    settled(&switch, &mut watched);
    watched.joins("after many rules");
    eprintln!("{MANY} rules for another port: {:?}", began.elapsed());
    let mut at_once = 0;
    for _ in 0..ROUNDS {
        switch.ofctl("add-flow br0 idle_timeout=300,in_port=1,actions=output:2");
        watched.take_all();
        at_once += usize::from(!watched.joined(1));
        watched.says(1, "idle_timeout");
        let began = Instant::now();
        switch.ofctl("add-flow br0 in_port=1,actions=output:2");
        watched.joins("among many rules");
        eprintln!("joined {:?} after ovs-ofctl's begin", began.elapsed());
    }
    eprintln!("withdrawn before ovs-ofctl's end: {at_once} of {ROUNDS}");
    // A detector that begins now finds all rules there.
    let began = Instant::now();
    let mut second = Watched::of(&switch);
    second.joins("at a start among many rules");
    eprintln!("a start among them: {:?}", began.elapsed());
    for last in ["drop", "output:2"] {
        let changes = ["output:2", "NORMAL", "drop", "output:3", last];
        let rule = |n| format!("in_port=1,actions={}", changes[n % changes.len()]);
        add_all(&switch, (0..MANY).map(rule));
        for watched in [&mut watched, &mut second] {
            match last {
                "drop" => watched.says(1, "dropped"),
                _ => watched.joins("after a burst"),
            }
        }
    }
}

/// Features of [`FEATURES`] that do not undo each other.
const APART: [&str; 13] = [
    "sFlow",
    "NetFlow",
    "IPFIX",
    "policing",
    "QoS",
    "STP",
    "BFD",
    "CFM",
    "no-receive",
    "a rule for a port of TCP",
    "a rule for ARP",
    "a rule for a VLAN",
    "a rule for a strange EtherType",
];

/// They come and go faster than they are judged. As long as one is there, p1 is not joined.
#[test]
fn features_that_come_and_go_in_any_order_end_with_the_right_verdict() {
    let Some(programs) = programs() else { return };
    let switch = Switch::start(programs);
    let mut watched = Watched::of(&switch);
    watched.joins("at the start");
    let features: Vec<&Feature> = FEATURES.iter().filter(|f| APART.contains(&f.0)).collect();
    assert_eq!(features.len(), APART.len());
    let mut on = vec![false; features.len()];
    // Any row of numbers would do; this one is the same each time.
    let mut number: u32 = 1;
    for round in 0..12 {
        for _ in 0..8 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (number >> 16) as usize % features.len();
            run(&switch, if on[at] { features[at].2 } else { features[at].1 });
            on[at] = !on[at];
        }
        if round % 3 == 2 {
            for (at, feature) in features.iter().enumerate().filter(|(at, _)| on[*at]) {
                eprintln!("{} goes, number {at}", feature.0);
                run(&switch, feature.2);
            }
            on.fill(false);
            watched.joins("without any of them");
        } else if on.contains(&true) {
            // Between two of them it may have been joined.
            watched.take_rest();
            watched.until("withdrawn", |w| !w.joined(1));
            watched.take_rest();
            assert!(!watched.joined(1), "{on:?}");
        }
    }
}
