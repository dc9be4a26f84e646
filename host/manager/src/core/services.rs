//! Services as the core sees them: one for each client, function and location.

use vfun_wire::message::Location;

/// Crashes in [`CRASH_WINDOW_MS`] after which a service's channels are broken
/// off instead of starting it again: a driver that dies six times in half a
/// minute will die a seventh time.
pub const CRASHES_MAX: usize = 6;
/// See [`CRASHES_MAX`].
pub const CRASH_WINDOW_MS: u64 = 30_000;
/// How long a service without channels stays, so that an app that comes and
/// goes does not start a process each time.
pub const LINGER_MS: u64 = 1_000;
/// How long a service may take to load its driver.
pub const START_MS: u64 = 10_000;
/// How long a released channel waits for a call under way before its service
/// is ended, if no other channel uses it.
pub const CLOSE_GRACE_MS: u64 = 2_000;

/// Where a service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

/// One service.
#[derive(Clone, Debug)]
pub struct Service {
    /// clientID.
    pub client: u32,
    /// Function's name.
    pub function: String,
    /// Software, or which hardware.
    pub location: Location,
    /// Where it stands.
    pub state: ServiceState,
    /// Since when, ms.
    pub since_ms: u64,
    /// When it last had a channel, ms.
    pub used_ms: u64,
    /// Whether its driver was ever loaded: a first start that crashes is not tried again.
    pub ever_ready: bool,
    /// Recent crashes, ms.
    pub crashes: Vec<u64>,
    /// The channel whose call ran past its deadline, just before the exit.
    pub overran: Option<vfun_wire::Handle>,
    /// Its function was declared anew since: it keeps its channels and gets no more.
    pub outdated: bool,
}

impl Service {
    /// Notes a crash. `Some(delay)` before the next start, `None` if it crashed too often.
    pub fn crashed(&mut self, now: u64) -> Option<u64> {
        self.crashes.retain(|t| now.saturating_sub(*t) < CRASH_WINDOW_MS);
        self.crashes.push(now);
        let n = self.crashes.len();
        if n > CRASHES_MAX { None } else { Some([0, 20, 100, 400, 1_000, 2_000][n.min(6) - 1]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_back_off_then_give_up_and_old_ones_are_forgotten() {
        let mut s = Service {
            client: 1,
            function: "f".into(),
            location: Location::Software,
            state: ServiceState::Ready,
            since_ms: 0,
            used_ms: 0,
            ever_ready: true,
            crashes: vec![],
            overran: None,
            outdated: false,
        };
        let delays: Vec<_> = (0..7).map(|i| s.crashed(i)).collect();
        assert_eq!(delays[0], Some(0));
        assert!(delays[..6].windows(2).all(|w| w[0] < w[1]));
        assert_eq!(delays[6], None);
        assert_eq!(s.crashed(CRASH_WINDOW_MS * 3), Some(0));
    }
}
