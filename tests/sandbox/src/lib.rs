//! What the tests share: a driver that attacks, in a service of a real
//! manager, with all layers of the sandbox, without some, and with none, to
//! see that the same attempt succeeds where nothing is in its way.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use vfun::{Error, Function, Session};
use vfun_admin::{Ask, Reply, ServiceRow};
pub use vfun_attackdriver::{BYTES, Mode};
use vfun_jail::Layer;
use vfun_tests_local::{Stand, repo};

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The driver went on: what the call returned, below zero an error.
    Went(i64),
    /// The service ended, for this reason.
    Died(String),
}

impl Outcome {
    /// It failed with one of these errors.
    pub fn failed(&self, errors: &[i32]) -> bool {
        matches!(self, Outcome::Went(n) if errors.iter().any(|e| *n == -i64::from(*e)))
    }
    /// It succeeded.
    pub fn done(&self) -> bool {
        matches!(self, Outcome::Went(n) if *n >= 0)
    }
    /// It ended the service, with words like these in the reason.
    pub fn died_of(&self, words: &str) -> bool {
        matches!(self, Outcome::Died(why) if why.contains(words))
    }
}

/// Whether these tests can have all layers: a user of its own for each client
/// takes root.
pub fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A driver under attack's control.
pub struct Attacker {
    // Before the stand, whose manager they talk to.
    function: Function,
    _session: Session,
    /// The manager.
    pub stand: Stand,
}

/// Where the attacking driver's manifest is.
pub fn manifests() -> PathBuf {
    repo().join("services/attackdriver")
}

impl Attacker {
    /// One in a sandbox that lacks these layers.
    pub fn without(layers: &[Layer]) -> Self {
        Self::with(layers, &[])
    }

    /// The same, with more arguments for the manager.
    pub fn with(layers: &[Layer], more: &[&str]) -> Self {
        let manifests = manifests();
        let mut extra = vec![];
        if !more.contains(&"--functions") {
            extra.extend(["--functions", manifests.to_str().expect("a plain path")]);
        }
        extra.extend(layers.iter().flat_map(|l| ["--without-layer", l.name()]));
        extra.extend(more);
        Self::on(Stand::with(&extra))
    }

    /// One on this manager.
    pub fn on(stand: Stand) -> Self {
        let session = stand.connect("attacker");
        let function =
            session.function("attack").unwrap_or_else(|e| panic!("{e}\n{}", stand.log()));
        Attacker { function, _session: session, stand }
    }

    /// In all layers.
    pub fn jailed() -> Self {
        Self::without(&[])
    }
    /// In all layers but the list of system calls: what holds when that fails.
    pub fn unlisted() -> Self {
        Self::without(&[Layer::Seccomp])
    }
    /// In none.
    pub fn free() -> Self {
        Self::without(&Layer::ALL)
    }

    /// Sends the driver these bytes.
    pub fn send(&self, bytes: &[u8]) -> Outcome {
        match self.function.call(bytes) {
            Ok(answer) => {
                Outcome::Went(i64::from_le_bytes(answer.try_into().expect("eight bytes")))
            }
            Err(Error::DriverCrashed) => Outcome::Died(self.reason()),
            Err(e) => panic!("{e}\n{}", self.stand.log()),
        }
    }

    /// Why the last service ended, as the history has it.
    fn reason(&self) -> String {
        match self.stand.ask(&Ask::History { limit: 50 }) {
            Reply::History { rows } => {
                rows.into_iter().find(|r| r.state == "recovering").and_then(|r| r.why)
            }
            other => panic!("{other:?}"),
        }
        .unwrap_or_default()
    }

    /// Has it do something with these numbers.
    pub fn act(&self, mode: Mode, numbers: &[u64]) -> Outcome {
        let mut bytes = vec![mode as u8, 0, 0, 0, 0, 0, 0, 0];
        numbers.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        self.send(&bytes)
    }

    /// Has it make a system call.
    pub fn call(&self, number: i64, args: &[u64], bytes: &[u8]) -> Outcome {
        let mut all = vec![0; 8];
        all.extend(number.to_le_bytes());
        for i in 0..6 {
            all.extend(args.get(i).copied().unwrap_or(0).to_le_bytes());
        }
        all.extend(bytes);
        self.send(&all)
    }

    /// Its service, as the manager shows it.
    pub fn service(&self) -> ServiceRow {
        match self.stand.ask(&Ask::Services) {
            Reply::Services { services } => {
                services.into_iter().find(|s| s.function == "attack").expect("it runs")
            }
            other => panic!("{other:?}"),
        }
    }
}
