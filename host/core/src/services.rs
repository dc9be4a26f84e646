//! Services as the core sees them: one for each owner, function and location.

use super::serial;
use serde::{Deserialize, Serialize};
use vfun_jail::Device;
use vfun_wire::Handle;
use vfun_wire::message::Location;

/// How long a service without channels stays, so that an app that comes and
/// goes does not start a process each time.
pub const LINGER_MS: u64 = 1_000;
/// How long a move of a channel may wait for a driver to load and open it.
pub const START_MS: u64 = 10_000;
/// How long a service may take to load its driver: an OpenCL kernel's first
/// compilation takes more than [`START_MS`] on a busy machine.
pub const LOAD_MS: u64 = 60_000;
/// After which who waits for an activation is told what it waits for: less than an
/// app waits for an answer (`CONTROL_TIMEOUT_MS`), which would blame the manager.
pub const STARTING_MS: u64 = 8_000;
/// How long after a call's deadline its service is ended by the manager, if it has
/// not done so itself, which takes it 50 ms. An app gives the call up after 5 s.
pub const OVERDUE_MS: u64 = 1_000;
/// How long a service with channels of queues may show no sign of life there before it is
/// asked for one over its socket, and [`LIFE_MS`] later ended: it shows one each second.
pub const QUEUES_STILL_MS: u64 = 10_000;
/// How long a service that owes an answer is left alone before it is asked for a
/// sign of life.
pub const LIFE_AFTER_MS: u64 = 1_000;
/// How long it has for that: its main thread does nothing else. With
/// [`LIFE_AFTER_MS`] and another start less than [`STARTING_MS`].
pub const LIFE_MS: u64 = 4_000;
/// How long a grant may stay on a VF that is lent to another client because the
/// service that it is to go to waits for its turn to be started: three starts.
pub const WARMING_MS: u64 = 3 * START_MS;
/// Between two tries to start a service while the host has no process,
/// descriptor or memory for it: at first, and at most. Twice as long each time.
pub const DELAY_MS: u64 = 100;
/// Longest delay before a start, ms: it doubles from [`DELAY_MS`].
pub const DELAY_MOST_MS: u64 = 2_000;
/// How long that is tried before its channels are broken off.
pub const DELAYED_MS: u64 = 60_000;
/// Services of one client that may wait for their start; see
/// [`STARTS`](crate::limits::STARTS).
pub const STARTS_WAITING: usize = 32;
/// How long a released channel waits for a call under way before its service
/// is ended, if no other channel uses it.
pub const CLOSE_GRACE_MS: u64 = 2_000;

/// Whose a service is: who it may serve, by whose rules and user it runs, and whose
/// crashes and logs are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub enum Owner {
    /// A client, by its clientID. It serves that client alone.
    Client(u32),
}

impl From<u32> for Owner {
    fn from(client: u32) -> Self {
        Owner::Client(client)
    }
}

impl From<Owner> for u32 {
    fn from(owner: Owner) -> Self {
        let Owner::Client(id) = owner;
        id
    }
}

/// Where a service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceState {
    /// Started; its driver is loading.
    Starting,
    /// It opens channels.
    Ready,
    /// It crashed; it will be started again at this time.
    Backoff(u64),
    /// Told to exit.
    Stopping,
}

/// One service: a process that answers calls of one owner to one function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Whom it serves.
    #[serde(rename = "client")]
    pub owner: Owner,
    #[serde(deserialize_with = "serial::name")]
    pub function: String,
    /// Software, or which hardware.
    #[serde(with = "serial")]
    pub location: Location,
    /// Where it stands.
    pub state: ServiceState,
    /// Since when, ms. Counted anew by each manager, as is what follows.
    #[serde(skip)]
    pub since_ms: u64,
    /// When it last had a channel, ms.
    #[serde(skip)]
    pub used_ms: u64,
    /// Whether its driver was ever loaded: a first start that crashes is not tried again.
    pub ever_ready: bool,
    /// Since when the host has had no means to start it, ms.
    pub delayed: Option<u64>,
    /// The channel whose call ran past its deadline, just before the exit.
    #[serde(with = "serial::option")]
    pub overran: Option<Handle>,
    /// The manager ends it because it does not run; how that showed.
    #[serde(skip)]
    pub stalled: Option<String>,
    /// Devices that it was started with; `None` if nobody knows: its manager did not note
    /// them, and its function is another one since.
    pub devices: Option<Vec<Device>>,
    /// It can be told of buffers: it is of a version that has them.
    #[serde(default)]
    pub takes_buffers: bool,
    /// Its function was declared anew since: it keeps its channels and gets no more.
    #[serde(default)]
    pub outdated: bool,
}

impl Service {
    /// One that is to be started.
    pub fn new(now: u64, owner: Owner, function: String, location: Location) -> Self {
        Service {
            owner,
            function,
            location,
            state: ServiceState::Starting,
            since_ms: now,
            used_ms: now,
            ever_ready: false,
            delayed: None,
            overran: None,
            stalled: None,
            devices: Some(vec![]),
            takes_buffers: false,
            outdated: false,
        }
    }

    /// By what its crashes are counted.
    pub fn key(&self) -> super::breakers::BreakerKey {
        (self.owner, self.function.clone(), self.location.to_wire())
    }
}
