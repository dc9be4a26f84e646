//! Who calls, and what calling takes.

/// Clients that call at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// How many clients it has.
    pub clients: u32,
    /// Calls a second of each.
    pub per_s: f64,
    /// What each call asks for besides: so many times [`Latencies::unit_ns`].
    pub units: u32,
}

/// What a call takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Work of a call in software, ns: a processor is busy for so long.
    pub software_ns: f64,
    /// Time of a call on a VF, ns: waiting, which takes no processor.
    pub hardware_ns: f64,
    /// What a unit takes besides, ns: in software, and on a VF.
    pub unit_ns: (f64, f64),
    /// What calling adds, ns: in software, and on a VF.
    pub calling_ns: (f64, f64),
    /// From the end of a client's call until its channel is open in the other
    /// place, in a switch, ns.
    pub switch_ns: f64,
}

impl Latencies {
    /// Work of a call of so many units in software, and its time on a VF, ns.
    pub fn of(&self, units: u32) -> (f64, f64) {
        let units = f64::from(units);
        let (soft, hard) = self.unit_ns;
        (self.software_ns + units * soft, self.hardware_ns + units * hard)
    }
}

/// An experiment with many clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    pub groups: Vec<Group>,
    /// VFs of the device.
    pub vfs: u16,
    /// Processors that software's work is done on.
    pub cores: u32,
    /// What a call takes.
    pub latencies: Latencies,
    /// Between two decisions, ms.
    pub interval_ms: u64,
    /// A lease lasts at least so long, ms.
    pub hold_ms: u64,
    /// Seconds at the beginning that do not count: leases find their holders.
    pub warm_s: f64,
    /// Seconds after these, which count.
    pub seconds: f64,
    /// Seed of the callers' paces and of lots.
    pub seed: u64,
}

impl Crowd {
    /// The published proportions of rates.
    pub const PROPORTIONS: [u32; 4] = [20, 40, 80, 100];

    /// Four groups of so many clients each, whose rates are in the published proportions.
    pub fn published(each: u32, rate_factor: f64) -> Vec<Group> {
        let group = |&rate: &u32| Group {
            name: format!("rate {rate}"),
            clients: each,
            per_s: f64::from(rate) * rate_factor,
            units: 0,
        };
        Self::PROPORTIONS.iter().map(group).collect()
    }

    /// The number of each client's group, client by client. Groups take turns, so that
    /// neither the first nor the last to come are all of one.
    pub fn members(&self) -> Vec<usize> {
        let most = self.groups.iter().map(|g| g.clients).max().unwrap_or(0);
        let of_turn = |turn| {
            self.groups.iter().enumerate().filter(move |(_, g)| turn < g.clients).map(|(i, _)| i)
        };
        (0..most).flat_map(of_turn).collect()
    }

    /// Clients of all groups.
    pub fn clients(&self) -> u32 {
        self.groups.iter().map(|g| g.clients).sum()
    }

    /// Calls a second of all clients together.
    pub fn per_s(&self) -> f64 {
        self.groups.iter().map(|g| f64::from(g.clients) * g.per_s).sum()
    }

    /// The part of all processors that the work takes if nobody has a VF.
    pub fn load(&self) -> f64 {
        let work = |g: &Group| f64::from(g.clients) * g.per_s * self.latencies.of(g.units).0 * 1e-9;
        self.groups.iter().map(work).sum::<f64>() / f64::from(self.cores.max(1))
    }
}
