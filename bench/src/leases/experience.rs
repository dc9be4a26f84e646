//! What a client saw.

/// Calls that did not end as they should; all are 0 in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Ended with an error.
    pub failed: u64,
    /// Ended with another result than the right one.
    pub wrong: u64,
    /// Got no answer before the run ended.
    pub lost: u64,
    /// Were run more often than they were made.
    pub repeated: u64,
}

impl std::ops::AddAssign for Trouble {
    fn add_assign(&mut self, other: Self) {
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.repeated += other.repeated;
    }
}

/// What one client saw in the time that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experience {
    /// Index of its group in the crowd.
    pub group: usize,
    /// Time of each call, from posting it until its answer, ns.
    pub times_ns: Vec<u64>,
    /// Of these calls, on a VF.
    pub on_vf: u64,
    /// Time on a VF, seconds.
    pub vf_s: f64,
    /// The longest time without one, seconds.
    pub without_s: f64,
    /// Times that it moved.
    pub switches: u64,
    /// Calls of it that went wrong.
    pub trouble: Trouble,
}
