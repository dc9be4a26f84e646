use super::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Until something happens that is sure to happen: machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Told(Sender<PlugAnswer>);

impl Tell for Told {
    fn tell(&self, about: About, word: FromLinks) {
        let FromLinks::Plugged(answer) = word else { panic!("{word:?}") };
        assert_eq!(about, About::Order(answer.order));
        // A test that has seen enough does not listen any more.
        let _ = self.0.send(answer);
    }
}

fn plugs() -> (Plugs<Told>, Receiver<PlugAnswer>) {
    let (told, answers) = channel();
    (Plugs::new(Told(told)), answers)
}

/// A QEMU with one free port, which serves one connection at a time. What it is asked is told.
struct Qemu {
    asked: Sender<(String, Value)>,
    /// The windows that are in the machine.
    has: Vec<String>,
    /// Memory of windows that went out, and how often it is still shown.
    keeps: Vec<(String, u32)>,
}

impl Qemu {
    fn start(at: &Path) -> Receiver<(String, Value)> {
        let (asked, heard) = channel();
        let listener = UnixListener::bind(at).unwrap();
        let mut qemu = Qemu { asked, has: vec![], keeps: vec![] };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                qemu.serve(stream.unwrap());
            }
        });
        heard
    }

    fn serve(&mut self, mut stream: UnixStream) {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        stream.write_all(b"{\"QMP\": {}}\n").unwrap();
        for line in lines.map_while(Result::ok) {
            let asked: Value = serde_json::from_str(&line).unwrap();
            let command = asked["execute"].as_str().unwrap().to_owned();
            let arguments = &asked["arguments"];
            let answer = self.answer(&command, arguments);
            let _ = self.asked.send((command.clone(), arguments.clone()));
            stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
            if command == "device_del" {
                let gone = json!({"event": "DEVICE_DELETED", "data": {"device": arguments["id"]}});
                stream.write_all(format!("{gone}\n").as_bytes()).unwrap();
            }
        }
    }

    fn answer(&mut self, command: &str, arguments: &Value) -> Value {
        let refused = json!({"error": {"class": "DeviceNotFound", "desc": "not found"}});
        let device = |slot: u64, name: &str| {
            json!({"bus": 1, "slot": slot, "function": 0, "qdev_id": name,
                   "id": {"vendor": 0x1b36, "device": 12}})
        };
        match command {
            "query-pci" => {
                let mut port = device(0, "vf0");
                port["pci_bridge"] = json!({"devices": []});
                let mut all = vec![port];
                all.extend(self.has.iter().map(|name| device(1, name)));
                json!({"return": [{"devices": all}]})
            }
            "qom-get" if arguments["property"] == "type" => json!({"return": "pcie-root-port"}),
            "qom-get" => json!({"return": true}),
            "qom-list" => {
                let path = arguments["path"].as_str().unwrap();
                match self.has.iter().any(|name| path.ends_with(&format!("/{name}"))) {
                    true => json!({"return": []}),
                    false => refused,
                }
            }
            "device_add" => {
                // QEMU ends itself then. The memory of a device with a doorbell has no name of its own.
                let memory = arguments["memdev"].as_str();
                let is_kept = |(name, _): &(String, u32)| Some(&**name) == memory;
                assert!(!self.keeps.iter().any(is_kept), "already registered");
                self.has.push(arguments["id"].as_str().unwrap().to_owned());
                json!({"return": {}})
            }
            "human-monitor-command" => {
                assert_eq!(arguments["command-line"], "info ramblock");
                let line =
                    |(name, _): &(String, u32)| format!("0000:00:08.0:00.0/{name}  4 KiB  0x0\r\n");
                let all: String = self.keeps.iter().map(line).collect();
                self.keeps.iter_mut().for_each(|(_, shown)| *shown -= 1);
                self.keeps.retain(|(_, shown)| *shown > 0);
                json!({"return": format!("Block Name    PSize  Offset\r\n{all}")})
            }
            "device_del" => {
                self.has.retain(|name| arguments["id"] != *name);
                let memory = arguments["id"].as_str().unwrap().trim_end_matches("-device");
                self.keeps.push((memory.to_owned(), 3));
                json!({"return": {}})
            }
            "object-del" | "chardev-remove" => refused,
            "qmp_capabilities" | "object-add" | "chardev-add" => json!({"return": {}}),
            other => panic!("{other}"),
        }
    }
}

fn into() -> PlugWay {
    PlugWay::File { file: "/dev/shm/w".into(), bytes: 1 << 20 }
}

fn order(order: u64, qmp: &Path, id: &str, way: PlugWay) -> PlugOrder {
    PlugOrder { order, vmm: PlugAt::Qmp(qmp.into()), id: id.into(), way }
}

fn done(answers: &Receiver<PlugAnswer>) -> PlugAnswer {
    answers.recv_timeout(PATIENCE).unwrap()
}

/// The arguments of the next command of this name.
fn next(heard: &Receiver<(String, Value)>, command: &str) -> Value {
    loop {
        let (asked, arguments) = heard.recv_timeout(PATIENCE).expect(command);
        if asked == command {
            return arguments;
        }
    }
}

#[test]
fn a_window_goes_into_a_vm_and_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let qmp = folder.path().join("qmp");
    let heard = Qemu::start(&qmp);
    let (mut plugs, answers) = plugs();
    plugs.begin(order(1, &qmp, "virtfun_pair", into()));
    assert_eq!(done(&answers), PlugAnswer { order: 1, outcome: PlugOutcome::Done });
    let memory = next(&heard, "object-add");
    assert_eq!(
        (&memory["id"], &memory["mem-path"]),
        (&json!("virtfun_pair"), &json!("/dev/shm/w"))
    );
    assert_eq!((&memory["size"], &memory["share"]), (&json!(1 << 20), &json!(true)));
    let device = next(&heard, "device_add");
    assert_eq!((&device["bus"], &device["memdev"]), (&json!("vf0"), &json!("virtfun_pair")));
    // Once more is no fault, and changes nothing.
    plugs.begin(order(2, &qmp, "virtfun_pair", into()));
    assert_eq!(done(&answers), PlugAnswer { order: 2, outcome: PlugOutcome::Already });
    plugs.begin(order(3, &qmp, "virtfun_pair", PlugWay::Out));
    assert_eq!(done(&answers), PlugAnswer { order: 3, outcome: PlugOutcome::Done });
    let asked: Vec<String> = heard.try_iter().map(|(command, _)| command).collect();
    assert!(!asked.contains(&"device_add".to_owned()), "{asked:?}");
    assert!(asked.contains(&"device_del".to_owned()), "{asked:?}");
    plugs.begin(order(4, &qmp, "virtfun_pair", PlugWay::Out));
    assert_eq!(done(&answers), PlugAnswer { order: 4, outcome: PlugOutcome::Already });
    // In again once QEMU has forgotten the memory.
    plugs.begin(order(5, &qmp, "virtfun_pair", into()));
    assert_eq!(done(&answers), PlugAnswer { order: 5, outcome: PlugOutcome::Done });
    next(&heard, "device_add");
}

#[test]
fn a_window_that_the_manager_hands_over_is_a_device_with_a_doorbell() {
    let folder = tempfile::tempdir().unwrap();
    let qmp = folder.path().join("qmp");
    let heard = Qemu::start(&qmp);
    let (mut plugs, answers) = plugs();
    let served = PlugWay::Served { socket: "/run/w.sock".into() };
    plugs.begin(order(1, &qmp, "virtfun.link-7", served));
    assert_eq!(done(&answers), PlugAnswer { order: 1, outcome: PlugOutcome::Done });
    let chardev = next(&heard, "chardev-add");
    assert_eq!(chardev["id"], json!("virtfun.link-7"));
    assert_eq!(chardev["backend"]["data"]["addr"]["data"]["path"], json!("/run/w.sock"));
    let device = next(&heard, "device_add");
    assert_eq!(
        (&device["driver"], &device["chardev"], &device["vectors"]),
        (&json!("ivshmem-doorbell"), &json!("virtfun.link-7"), &json!(1))
    );
    plugs.begin(order(2, &qmp, "virtfun.link-7", PlugWay::Out));
    assert_eq!(done(&answers), PlugAnswer { order: 2, outcome: PlugOutcome::Done });
}

#[test]
fn a_vm_that_does_not_let_go_is_told_from_one_whose_qemu_refuses() {
    let kept = Fault::kept("the VM", LETS_GO);
    assert!(matches!(outcome(Err(kept)), PlugOutcome::Kept(why) if why.contains("within 10 s")));
    let refused = outcome(Err(Fault::failed("no").advise("do this")));
    assert_eq!(refused, PlugOutcome::Failed("no (do this)".into()));
}

#[test]
fn orders_for_one_vm_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let qmp = folder.path().join("qmp");
    let _heard = Qemu::start(&qmp);
    let (mut plugs, answers) = plugs();
    for n in 0..8 {
        plugs.begin(order(n, &qmp, &format!("virtfun_{n}"), into()));
    }
    let mut all: Vec<PlugAnswer> = (0..8).map(|_| done(&answers)).collect();
    all.sort_by_key(|answer| answer.order);
    let outcome = PlugOutcome::Done;
    let whole = (0..8).map(|order| PlugAnswer { order, outcome: outcome.clone() });
    let whole: Vec<PlugAnswer> = whole.collect();
    assert_eq!(all, whole);
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (mut plugs, answers) = plugs();
    plugs.begin(order(7, &folder.path().join("nobody"), "virtfun_pair", into()));
    let PlugAnswer { order: number, outcome } = done(&answers);
    let PlugOutcome::Unreachable(why) = outcome else { panic!("{outcome:?}") };
    assert!(number == 7 && why.contains("nobody") && why.contains("-qmp unix:"), "{why}");
    let domain = PlugAt::Libvirt("d".into());
    plugs.begin(PlugOrder { order: 8, vmm: domain, id: "virtfun_pair".into(), way: into() });
    let PlugOutcome::Failed(why) = done(&answers).outcome else { panic!("it cannot be done") };
    assert!(why.contains("/dev/shm only") && why.contains("--window-dir"), "{why}");
}

#[test]
fn orders_beyond_what_is_done_at_once_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let qmp = folder.path().join("qmp");
    // It takes connections and says nothing.
    let _silent = UnixListener::bind(&qmp).unwrap();
    let (mut plugs, answers) = plugs();
    for n in 0..=PLUGS_AT_ONCE as u64 {
        plugs.begin(order(n, &qmp, "virtfun_pair", into()));
    }
    let PlugAnswer { order: number, outcome } = done(&answers);
    assert_eq!(number, PLUGS_AT_ONCE as u64);
    let PlugOutcome::Failed(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("which is the most"), "{why}");
}
