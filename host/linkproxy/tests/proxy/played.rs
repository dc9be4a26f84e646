//! A manager whose admin socket a test has.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vfun_admin::links::{FlowRow, FlowsAsk, FlowsView, ProxyRow};
use vfun_admin::{Ask, Reply};

/// What the manager says, and what it heard.
#[derive(Default)]
pub struct ManagerPlayed {
    /// What went past rules of br0.
    pub rows: Vec<FlowRow>,
    /// How often it says still that links are direct.
    pub direct: usize,
    pub holds: usize,
    pub proxies: Vec<ProxyRow>,
}

/// Until something happens that is sure to happen: machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn now_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1000 + time.tv_nsec / 1_000_000).unwrap()
}

fn answer(said: &mut ManagerPlayed, ask: Ask) -> Reply {
    match ask {
        Ask::LinkFlows(FlowsAsk::Sums { bridge }) => {
            assert_eq!(bridge.as_deref(), Some("br0"));
            Reply::LinkFlows(FlowsView { flows: said.rows.clone(), proxies: vec![] })
        }
        Ask::LinkFlows(FlowsAsk::Hold { .. }) => {
            said.holds += 1;
            let direct = said.direct;
            said.direct = direct.saturating_sub(1);
            Reply::LinksHeld { direct }
        }
        Ask::LinkFlows(FlowsAsk::Proxy(row)) => {
            said.proxies.push(row);
            Reply::Done { sentence: "heard".into() }
        }
        other => panic!("{other:?}"),
    }
}

pub fn manager(socket: &Path) -> Arc<Mutex<ManagerPlayed>> {
    let said = Arc::<Mutex<ManagerPlayed>>::default();
    let (listener, answers) = (UnixListener::bind(socket).unwrap(), said.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let ask = serde_json::from_str(&line).unwrap();
            let reply = answer(&mut answers.lock().unwrap(), ask);
            let mut text = serde_json::to_string(&reply).unwrap();
            text.push('\n');
            // Who asked may be gone.
            let _ = (&stream).write_all(text.as_bytes());
        }
    });
    said
}
