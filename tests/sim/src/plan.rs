//! What a run does.

/// What may go wrong in a run. A run that fails is run again without each of
/// them, to see which it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of every stream of random numbers.
    pub seed: u64,
    /// Steps before everything is left to settle.
    pub steps: u64,
    /// What may happen, as bits of [`Chance`].
    pub chances: u32,
    /// Kill the manager at this point, counted from the start, besides the
    /// kills by chance.
    pub kill_at: Option<u64>,
}

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Chance {
    /// The manager is killed, at any point of what it does.
    ManagerDies = 1,
    /// The keeper is killed, the manager beside it or not.
    KeeperDies = 2,
    /// Services crash at any step, fail to start, hang, or keep buffers.
    ServicesDie = 4,
    /// A hostile client's services say what is not so.
    ServicesLie = 8,
    /// Hostile guests are there.
    Hostile = 16,
    /// Guests reboot, their windows go and come; apps die.
    Reboots = 32,
    /// Functions and clients are declared anew, grants revoked.
    Admin = 64,
    /// Time jumps ahead.
    Jumps = 128,
    /// Services and guests run between any two actions of the manager.
    Races = 256,
    /// The machine refuses: no process, no packet.
    Refusals = 512,
}

/// Every [`Chance`] with its name.
pub const CHANCES: [(Chance, &str); 10] = [
    (Chance::ManagerDies, "manager-dies"),
    (Chance::KeeperDies, "keeper-dies"),
    (Chance::ServicesDie, "services-die"),
    (Chance::ServicesLie, "services-lie"),
    (Chance::Hostile, "hostile"),
    (Chance::Reboots, "reboots"),
    (Chance::Admin, "admin"),
    (Chance::Jumps, "jumps"),
    (Chance::Races, "races"),
    (Chance::Refusals, "refusals"),
];

/// All of them.
pub const ALL: u32 = (1 << CHANCES.len()) - 1;

impl Plan {
    /// Everything may happen.
    pub fn new(seed: u64, steps: u64) -> Self {
        Plan { seed, steps, chances: ALL, kill_at: None }
    }

    /// Whether this may happen.
    pub fn may(&self, c: Chance) -> bool {
        self.chances & c as u32 != 0
    }

    /// The same without something.
    pub fn without(self, c: Chance) -> Self {
        Plan { chances: self.chances & !(c as u32), ..self }
    }

    /// A stream of random numbers of its own for each actor: what one does
    /// changes no other's.
    pub fn stream(&self, name: &str) -> fastrand::Rng {
        let mut hash = self.seed ^ 0x9e37_79b9_7f4a_7c15;
        for b in name.bytes() {
            hash = (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        fastrand::Rng::with_seed(hash)
    }
}
