//! A QEMU, as far as its control socket shows.

use super::Killer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Inside {
    devices: BTreeSet<String>,
    netdevs: BTreeSet<String>,
    chardevs: BTreeSet<String>,
    /// The VM's memory can be reached from outside.
    shares: bool,
    /// A device, and since and until when it was plugged in.
    spans: Vec<(String, Instant, Option<Instant>)>,
    connections: Vec<UnixStream>,
    dead: bool,
    /// The guest does not let go.
    holds_on: bool,
    chatty: bool,
    silent: bool,
    /// Connections that have ended.
    ended: u64,
}

pub struct Qemu {
    path: PathBuf,
    inside: Mutex<Inside>,
    killer: Arc<Killer>,
}

impl Qemu {
    pub fn start(path: PathBuf, killer: Arc<Killer>) -> Arc<Self> {
        let qemu = Arc::new(Qemu { path, inside: Mutex::default(), killer });
        qemu.listen();
        qemu
    }

    fn listen(self: &Arc<Self>) {
        let listener = UnixListener::bind(&self.path).unwrap();
        let me = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                if me.inside.lock().unwrap().dead {
                    return;
                }
                me.inside.lock().unwrap().connections.push(stream.try_clone().unwrap());
                me.serve(stream);
                me.inside.lock().unwrap().ended += 1;
            }
        });
    }

    /// One connection at a time, as QEMU does.
    fn serve(&self, mut stream: UnixStream) {
        let _ = stream.write_all(b"{\"QMP\": {}}\n");
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            let asked: Value = serde_json::from_str(&line).unwrap();
            while self.inside.lock().unwrap().chatty {
                if stream.write_all(b"{\"event\": \"NOISE\"}\n".repeat(100).as_slice()).is_err() {
                    return;
                }
            }
            while self.inside.lock().unwrap().silent {
                std::thread::sleep(Duration::from_millis(5));
            }
            let name = asked["execute"].as_str().unwrap().to_owned();
            let asks = ["qmp_capabilities", "qom-list", "qom-get", "query-chardev"];
            let changes = !asks.contains(&name.as_str());
            if changes {
                self.killer.effect();
            }
            let (mut answer, event) = self.run(&name, &asked["arguments"]);
            answer["id"] = asked["id"].clone();
            if changes {
                self.killer.effect();
            }
            let _ = stream.write_all(format!("{answer}\n").as_bytes());
            if let Some(event) = event {
                let _ = stream.write_all(format!("{event}\n").as_bytes());
            }
        }
    }

    fn run(&self, name: &str, arguments: &Value) -> (Value, Option<Value>) {
        let mut inside = self.inside.lock().unwrap();
        let id = arguments["id"].as_str().unwrap_or_default().to_owned();
        let no = |class: &str, desc: &str| json!({ "error": { "class": class, "desc": desc } });
        let done = json!({ "return": {} });
        match name {
            "qom-list" if arguments["path"] == "/objects" => {
                let memory = json!({ "name": "ram", "type": "child<memory-backend-memfd>" });
                (json!({ "return": [memory] }), None)
            }
            "qom-get" => (json!({ "return": inside.shares }), None),
            "chardev-add" => match inside.chardevs.insert(id) {
                true => (done, None),
                false => (no("GenericError", "Chardev 'x' already exists"), None),
            },
            "chardev-remove" => match inside.chardevs.remove(&id) {
                true => (done, None),
                false => (no("GenericError", "Chardev 'x' not found"), None),
            },
            "query-chardev" => {
                let chardev = |c: &String| json!({ "label": c, "filename": "unix:/x,server=on" });
                (json!({ "return": inside.chardevs.iter().map(chardev).collect::<Vec<_>>() }), None)
            }
            "qom-list" => {
                let list: Vec<Value> =
                    inside.devices.iter().map(|d| json!({ "name": d })).collect();
                (json!({ "return": list }), None)
            }
            "netdev_add" => match inside.netdevs.insert(id) {
                true => (done, None),
                false => (no("GenericError", "Duplicate ID 'x' for netdev"), None),
            },
            "netdev_del" => match inside.netdevs.remove(&id) {
                true => (done, None),
                false => (no("DeviceNotFound", "Device not found"), None),
            },
            "device_add" => {
                let netdev = arguments["netdev"].as_str().map(str::to_owned);
                if netdev.is_some_and(|n| !inside.netdevs.contains(&n)) {
                    return (no("GenericError", "Property 'netdev' can't find value"), None);
                }
                if !inside.devices.insert(id.clone()) {
                    return (no("GenericError", "Duplicate device ID"), None);
                }
                inside.spans.push((id, Instant::now(), None));
                (done, None)
            }
            "device_del" if !inside.devices.contains(&id) => {
                (no("DeviceNotFound", "Device not found"), None)
            }
            "device_del" if inside.holds_on => (done, None),
            "device_del" => {
                Self::remove(&mut inside, &id);
                let data = json!({ "device": id, "path": "/x" });
                (done, Some(json!({ "event": "DEVICE_DELETED", "data": data })))
            }
            _ => (done, None),
        }
    }

    fn remove(inside: &mut Inside, id: &str) {
        inside.devices.remove(id);
        let span = inside.spans.iter_mut().find(|s| s.0 == id && s.2.is_none());
        span.unwrap().2 = Some(Instant::now());
    }

    pub fn devices(&self) -> Vec<String> {
        self.inside.lock().unwrap().devices.iter().cloned().collect()
    }

    pub fn netdevs(&self) -> usize {
        self.inside.lock().unwrap().netdevs.len()
    }

    pub fn chardevs(&self) -> usize {
        self.inside.lock().unwrap().chardevs.len()
    }

    /// Whether the VM's memory can be reached from outside.
    pub fn share(&self, shares: bool) {
        self.inside.lock().unwrap().shares = shares;
    }

    pub fn spans(&self) -> Vec<(String, Instant, Option<Instant>)> {
        self.inside.lock().unwrap().spans.clone()
    }

    pub fn hold_on(&self, holds_on: bool) {
        self.inside.lock().unwrap().holds_on = holds_on;
    }

    pub fn chat(&self, chatty: bool) {
        self.inside.lock().unwrap().chatty = chatty;
    }

    /// It does not answer for now.
    pub fn be_silent(&self, silent: bool) {
        self.inside.lock().unwrap().silent = silent;
    }

    /// Somebody plugs this in by hand.
    pub fn plug(&self, id: &str) {
        self.inside.lock().unwrap().devices.insert(id.to_owned());
    }

    pub fn connections_ended(&self) -> u64 {
        self.inside.lock().unwrap().ended
    }

    pub fn connections(&self) -> usize {
        self.inside.lock().unwrap().connections.len()
    }

    /// It ends at once, with its devices.
    pub fn die(&self) {
        let mut inside = self.inside.lock().unwrap();
        inside.dead = true;
        let devices: Vec<String> = inside.devices.iter().cloned().collect();
        devices.iter().for_each(|d| Self::remove(&mut inside, d));
        inside.netdevs.clear();
        std::fs::remove_file(&self.path).unwrap();
        for stream in inside.connections.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
