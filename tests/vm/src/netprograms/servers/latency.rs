//! What a server's answers took.

/// Of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    pub answered: usize,
    /// Requests without an answer, or with a wrong one.
    pub failed: usize,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Latency {
    /// From what each answer took, with how often that was seen. Without any there is no time.
    pub fn of(mut took_us: Vec<(f64, usize)>, failed: usize) -> Latency {
        took_us.sort_by(|a, b| a.0.total_cmp(&b.0));
        let answered: usize = took_us.iter().map(|(_, times)| times).sum();
        if answered == 0 {
            return Latency { answered, failed, p50_us: f64::NAN, p99_us: f64::NAN };
        }
        let at = |percent: usize| {
            let rank = (answered * percent).div_ceil(100);
            let mut so_far = 0;
            let mut reached = took_us.iter().filter(|(_, times)| {
                so_far += times;
                so_far >= rank
            });
            reached.next().expect("ranks end with the last one").0
        };
        Latency { answered, failed, p50_us: at(50), p99_us: at(99) }
    }

    /// The same, each seen once.
    pub fn of_each(took_us: impl Iterator<Item = f64>, failed: usize) -> Latency {
        Latency::of(took_us.map(|us| (us, 1)).collect(), failed)
    }
}
