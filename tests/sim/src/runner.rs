//! Runs a plan, catches what it finds, and makes it small.

use crate::plan::{CHANCES, Plan};
use crate::trace;
use crate::world::{Report, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The run.
    pub plan: Plan,
    /// What was not as it must be.
    pub what: String,
    /// Steps until then.
    pub step: u64,
    /// The last things that happened.
    pub trace: Vec<String>,
}

thread_local! {
    static PLACE: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

/// Panics are findings here: where they came from is kept, nothing is printed.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match trace::running() {
            true => {
                let place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
                PLACE.with_borrow_mut(|p| *p = place.unwrap_or_default());
            }
            false => before(info),
        }));
    });
}

/// Runs `f`; what it panics with is a finding.
pub fn catch<T>(plan: Plan, loud: bool, f: impl FnOnce() -> T) -> Result<T, Box<Failure>> {
    quiet();
    trace::begin(true, loud);
    let result = catch_unwind(AssertUnwindSafe(f));
    let (step, lines) = trace::end();
    result.map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_else(|| "a panic without words".into());
        let what = format!("{text} ({})", PLACE.with_borrow(Clone::clone));
        Box::new(Failure { plan, what, step, trace: lines })
    })
}

/// Runs a plan.
pub fn attempt(plan: Plan, loud: bool) -> Result<Report, Box<Failure>> {
    catch(plan, loud, || World::new(plan).run())
}

/// The same finding with fewer steps and fewer things that may happen, if there is one.
pub fn minimise(failure: Failure) -> Failure {
    let mut best = failure;
    loop {
        let mut tries = vec![];
        if best.step + 1 < best.plan.steps {
            tries.push(Plan { steps: best.step + 1, ..best.plan });
        }
        tries.push(Plan { steps: best.plan.steps / 2, ..best.plan });
        tries.push(Plan { steps: best.plan.steps * 9 / 10, ..best.plan });
        for (chance, _) in CHANCES {
            if best.plan.may(chance) {
                tries.push(best.plan.without(chance));
            }
        }
        let kind = |f: &Failure| f.what.rsplit(" (").next().unwrap_or("").to_owned();
        let smaller = tries
            .into_iter()
            .filter(|p| p.steps > 0 && *p != best.plan)
            .find_map(|p| attempt(p, false).err().filter(|f| kind(f) == kind(&best)));
        match smaller {
            Some(f) => best = *f,
            None => return best,
        }
    }
}

/// What a person needs to see it again.
pub fn explain(f: &Failure) -> String {
    let may: Vec<_> =
        CHANCES.iter().filter(|(c, _)| f.plan.may(*c)).map(|(_, name)| *name).collect();
    let kill = f.plan.kill_at.map_or(String::new(), |k| format!(" --kill-at {k}"));
    let list = if may.is_empty() { "none".to_owned() } else { may.join(",") };
    format!(
        "{}\nseed {} found at step {}: {}\nagain: cargo run --release -p vfun-tests-sim --bin vfun-sim -- --seed {} --steps {} --chances {list}{kill} --trace",
        f.trace.join("\n"),
        f.plan.seed,
        f.step,
        f.what,
        f.plan.seed,
        f.plan.steps,
    )
}
