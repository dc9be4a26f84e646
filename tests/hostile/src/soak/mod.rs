//! An hour of everything at once: guests that reboot, apps that die, attackers
//! in turns, a manager that is started anew; and whether anything grows.

pub mod sample;
pub mod trend;

use crate::attack::{ATTACKS, ON_FILES};
use crate::random::Random;
use crate::witness::{Witness, manifest};
use sample::{Deeds, FIGURES, Row, look};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trend::Trend;
use vfun_admin::{Ask, Reply};
use vfun_testguest::{Doorbell, Guest, GuestConfig};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::{LONG, client, config};

/// How it is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For how long.
    pub time: Duration,
    /// Where the samples go.
    pub csv: PathBuf,
    /// What is left to chance.
    pub seed: u64,
    /// Whether real guests take part.
    pub guests: bool,
}

impl Plan {
    /// Between two rows: a minute, less in short runs.
    fn every(&self) -> Duration {
        (self.time / 30).clamp(Duration::from_secs(3), Duration::from_secs(60))
    }
}

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

struct Scene {
    stand: Stand,
    tcp: String,
    /// The window's file of a client that cuts its own.
    plain: PathBuf,
    end: AtomicBool,
    attacks: AtomicU64,
    boots: AtomicU64,
    killed_apps: AtomicU64,
    anew: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Scene {
    fn over(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }
    fn wrong(&self, what: String) {
        eprintln!("soak: WRONG: {what}");
        self.wrong.lock().expect("nobody panics with it").push(what);
    }
    /// Sleeps unless it is over.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The app that is killed: holds a channel, and calls.
pub fn app(socket: &Path) -> Result<(), vfun::Error> {
    let session = vfun::ConnectOptions::new("mortal")
        .client("mortal")
        .endpoint(vfun::Endpoint::Host(Some(socket.to_owned())))
        .connect()?;
    let f = session.function("echo")?;
    let slow = session.function("misbehave")?;
    loop {
        let _half_done = slow.submit(&[6, 20, 0, 0, 0])?;
        for i in 0..200u64 {
            f.call(&i.to_le_bytes())?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn apps(scene: &Scene, seed: u64) {
    let mut random = Random::new(seed);
    while !scene.over() {
        let spawned = Command::new(programs().join("vfun-soak"))
            .arg("--app")
            .arg(scene.stand.root().join("host.sock"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match spawned {
            Ok(mut child) => {
                std::thread::sleep(Duration::from_millis(random.below(1_500)));
                let _ = child.kill();
                let _ = child.wait();
                scene.killed_apps.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => scene.wrong(format!("an app: {e}")),
        }
        scene.pause(Duration::from_millis(200));
    }
}

fn attackers(scene: &Scene, seed: u64) {
    let mut random = Random::new(seed);
    let socket = scene.stand.root().join("host.sock");
    while !scene.over() {
        for attack in ATTACKS {
            if scene.over() {
                return;
            }
            let place: [&OsStr; 2] = match attack.name {
                ON_FILES => ["--file".as_ref(), scene.plain.as_ref()],
                _ => ["--socket".as_ref(), socket.as_ref()],
            };
            let out = Command::new(programs().join("vfun-hostile"))
                .args(place)
                .args(["--attack", attack.name, "--seed", &random.word().to_string()])
                .args(["--seconds", "3", "--client", "attacker", "--tcp", &scene.tcp])
                .stdin(Stdio::null())
                .output();
            match out {
                Ok(out) if out.status.success() => {}
                Ok(out) => {
                    let said = String::from_utf8_lossy(&out.stderr).into_owned();
                    eprintln!("soak: attack {} ended: {said}", attack.name);
                }
                Err(e) => scene.wrong(format!("an attacker: {e}")),
            }
            scene.attacks.fetch_add(1, Ordering::Relaxed);
            scene.pause(Duration::from_secs(2));
        }
    }
}

/// Runs a script in a guest over and over, and ends the guest in ever new ways.
fn guests(scene: &Scene, config: &GuestConfig, seed: u64, script: impl Fn(&mut Random) -> Script) {
    let mut random = Random::new(seed);
    while !scene.over() {
        let guest = match Guest::boot(config) {
            Ok(guest) => guest,
            Err(e) => {
                // A machine too busy to boot in time is not the host's fault.
                eprintln!("soak: {}: {e}", config.name);
                scene.pause(Duration::from_secs(5));
                continue;
            }
        };
        scene.boots.fetch_add(1, Ordering::Relaxed);
        for _ in 0..1 + random.below(3) {
            if scene.over() {
                break;
            }
            let script = script(&mut random);
            match guest.run(&script.text, LONG) {
                Ok(out) if out.status == 0 || !script.must_work => {}
                Ok(out) => {
                    let err = String::from_utf8_lossy(&out.stderr).into_owned();
                    scene.wrong(format!("in guest {}: {} {err}", config.name, out.text()));
                }
                Err(e) => eprintln!("soak: {}: {e}", config.name),
            }
            if guest.reset().is_err() {
                break;
            }
            scene.boots.fetch_add(1, Ordering::Relaxed);
        }
        // By its own will, or as by a loss of power.
        if random.below(2) == 0 {
            let _ = guest.shutdown(Duration::from_secs(30));
        } else {
            guest.kill();
        }
    }
}

struct Script {
    text: String,
    must_work: bool,
}

fn generation(stand: &Stand) -> Option<(u32, u32)> {
    match stand.try_ask(&Ask::Status) {
        Ok(Reply::Status(s)) => Some((s.pid, s.generation)),
        _ => None,
    }
}

/// Starts the manager anew in place, as an update does.
fn anew(scene: &Scene) {
    let Some((pid, before)) = generation(&scene.stand) else {
        return scene.wrong("the manager does not answer".into());
    };
    let raw = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    let _ = rustix::process::kill_process(raw, rustix::process::Signal::HUP);
    let until = Instant::now() + Duration::from_secs(20);
    while generation(&scene.stand).is_none_or(|(_, g)| g <= before) {
        if Instant::now() > until {
            return scene.wrong("the manager did not start anew".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    scene.anew.fetch_add(1, Ordering::Relaxed);
}

/// What came of it.
pub struct Outcome {
    /// Each figure and what it did.
    pub trends: Vec<(&'static str, Option<f64>, Trend)>,
    /// What must not be.
    pub wrong: Vec<String>,
    /// What was done, in a sentence.
    pub done: String,
}

impl Outcome {
    /// Figures that grow, and all else that must not be.
    pub fn failures(&self) -> Vec<String> {
        let grows = self.trends.iter().filter_map(|(name, bearable, t)| {
            let bearable = (*bearable)?;
            t.grows(bearable).then(|| format!("{name} grows: {t:?}"))
        });
        grows.chain(self.wrong.iter().cloned()).collect()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.done)?;
        writeln!(
            f,
            "{:<20} {:>14} {:>14} {:>14} {:>12} {:>10}  verdict",
            "figure", "first", "half time", "last", "growth", "noise"
        )?;
        for (name, bearable, t) in &self.trends {
            let verdict = match bearable {
                None => "(shown)",
                Some(b) if t.grows(*b) => "GROWS",
                Some(_) => "steady",
            };
            writeln!(
                f,
                "{name:<20} {:>14.0} {:>14.0} {:>14.0} {:>12.1} {:>10.1}  {verdict}",
                t.first, t.half, t.last, t.growth, t.noise
            )?;
        }
        Ok(())
    }
}

fn victim_guest(socket: PathBuf) -> GuestConfig {
    let mut c = config("soak-victim", vec![]);
    c.doorbells = vec![Doorbell::new(socket)];
    c.files.push((programs().join("vfun-vm-app"), "/usr/bin/vfun-vm-app".into()));
    c
}

fn attacker_guest(stand: &Stand) -> GuestConfig {
    let mut c = config("soak-attacker", vec![client(stand, "vm-attacker", "")]);
    c.files.push((programs().join("vfun-hostile"), "/usr/bin/vfun-hostile".into()));
    c
}

/// What takes part, set up: the scene, and the two guests.
fn set_up() -> std::io::Result<(Arc<Scene>, GuestConfig, GuestConfig)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let tcp = format!("127.0.0.1:{port}");
    let stand = Stand::with(&["--tcp", &tcp]);
    for name in ["neighbour", "attacker", "mortal"] {
        stand.add_client(&manifest(name)).map_err(std::io::Error::other)?;
    }
    let add = |manifest| match stand.add_client(manifest) {
        Ok(Reply::ClientAdded(row)) => Ok(row),
        other => Err(std::io::Error::other(format!("{other:?}"))),
    };
    let victim = add("name = \"vm-victim\"\nwindow = \"16 MiB\"\n")?;
    let victim = victim_guest(victim.socket.unwrap_or_default());
    let attacker = attacker_guest(&stand);
    let cutter = "name = \"cutter\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";
    let plain = add(cutter)?.window_file.unwrap_or_default();
    let scene = Scene {
        stand,
        tcp,
        plain,
        end: AtomicBool::new(false),
        attacks: AtomicU64::new(0),
        boots: AtomicU64::new(0),
        killed_apps: AtomicU64::new(0),
        anew: AtomicU64::new(0),
        wrong: Mutex::default(),
    };
    Ok((Arc::new(scene), victim, attacker))
}

/// What an attacking guest runs.
fn attack(random: &mut Random) -> Script {
    let of: Vec<&str> = ATTACKS.iter().filter(|a| a.in_guests).map(|a| a.name).collect();
    let (name, seed) = (random.of(&of), random.word());
    let text = format!("vfun-hostile --attack {name} --seed {seed} --seconds 8 --pci");
    Script { text, must_work: false }
}

/// Lets it all happen.
///
/// # Errors
/// The samples cannot be written.
pub fn run(plan: &Plan) -> std::io::Result<Outcome> {
    let (scene, victim, attacker) = set_up()?;
    let witness = Witness::start(scene.stand.options("neighbour").client("neighbour"));
    let mut rows = vec![];
    std::thread::scope(|scope| {
        let s = &*scene;
        scope.spawn(move || apps(s, plan.seed ^ 1));
        scope.spawn(move || attackers(s, plan.seed ^ 2));
        if plan.guests {
            scope.spawn(move || {
                guests(s, &victim, plan.seed ^ 3, |_| Script {
                    text: "vfun-vm-app loop echo 0102030405 15".into(),
                    must_work: true,
                });
            });
            scope.spawn(move || guests(s, &attacker, plan.seed ^ 4, attack));
        }
        let watched = watch(s, plan, &witness);
        scene.end.store(true, Ordering::Relaxed);
        rows = watched?;
        Ok::<_, std::io::Error>(())
    })?;
    let calls = witness.calls();
    let mut wrong = witness.end().err().into_iter().collect::<Vec<_>>();
    wrong.extend(left_over(scene.stand.root()));
    wrong.extend(scene.wrong.lock().expect("nobody panics with it").drain(..));
    let trends = FIGURES
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let values: Vec<f64> = rows.iter().map(|row: &Row| row[i]).collect();
            (f.name, f.bearable, Trend::of(&values))
        })
        .collect();
    let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
    let done = format!(
        "{} minutes, seed {}: {} attacks, {} boots and resets of guests, {} apps killed, \
         manager started anew {} times, {calls} calls of the neighbour checked, {} samples",
        plan.time.as_secs() / 60,
        plan.seed,
        n(&scene.attacks),
        n(&scene.boots),
        n(&scene.killed_apps),
        n(&scene.anew),
        rows.len()
    );
    Ok(Outcome { trends, wrong, done })
}

/// What is still held a minute after everybody has gone, if anything is: heartbeats give
/// back what guests left.
fn left_over(root: &Path) -> Option<String> {
    let until = Instant::now() + Duration::from_secs(60);
    while crate::watch::totals(root).is_ok_and(|t| t.grants + t.sessions > 0) {
        if Instant::now() > until {
            return Some(format!("left at the end: {:?}", crate::watch::totals(root)));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    None
}

/// Takes the samples, and starts the manager anew in the first half: in the
/// second one its memory is to be seen growing, if it does.
fn watch(scene: &Scene, plan: &Plan, witness: &Witness) -> std::io::Result<Vec<Row>> {
    let mut csv = std::fs::File::create(&plan.csv)?;
    let names: Vec<&str> = FIGURES.iter().map(|f| f.name).collect();
    writeln!(csv, "seconds,{}", names.join(","))?;
    let (start, mut rows) = (Instant::now(), vec![]);
    let mut anew_next = plan.time / 10;
    while start.elapsed() < plan.time {
        let until = Instant::now() + plan.every();
        let mut least: Option<Row> = None;
        while Instant::now() < until {
            let deeds = Deeds {
                witness_calls: witness.calls(),
                attacks: scene.attacks.load(Ordering::Relaxed),
                guest_boots: scene.boots.load(Ordering::Relaxed),
            };
            if let Some(row) = look(scene.stand.root(), deeds) {
                least = Some(match least {
                    None => row,
                    Some(was) => was.iter().zip(&row).map(|(a, b)| a.min(*b)).collect(),
                });
            }
            std::thread::sleep(LOOK);
        }
        match least {
            Some(row) => {
                let shown: Vec<String> = row.iter().map(|v| format!("{v:.0}")).collect();
                writeln!(csv, "{},{}", start.elapsed().as_secs(), shown.join(","))?;
                rows.push(row);
            }
            None => scene.wrong("the manager did not answer for a whole sample".into()),
        }
        if let Some(what) = witness.wrong() {
            scene.wrong(format!("the neighbour: {what}"));
            break;
        }
        if start.elapsed() > anew_next && anew_next < plan.time / 2 {
            anew(scene);
            anew_next += plan.time / 10;
        }
    }
    if rows.is_empty() {
        return Err(std::io::Error::other("no sample was taken"));
    }
    Ok(rows)
}
