//! Work in this process: the same driver, called like any other library. It runs on the
//! services' processor, so that the same core computes in every domain.

use super::Place;
use crate::lab::{Pinned, Plan};
use crate::measure::{self, Callee, Clock, Job, Outcome};
use crate::report::{Domain, Function};
use crate::{BenchError, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use vfun_sdk::Config;
use vfun_sdk::loader::{Instance, Library};

/// The drivers of this host, loaded here at their first use.
pub struct InProcess {
    libraries: BTreeMap<String, PathBuf>,
    instances: BTreeMap<Function, Instance>,
    plan: Plan,
}

struct Driver<'a>(&'a mut Instance);

impl Callee for Driver<'_> {
    #[inline]
    fn call(&mut self, args: &[u8], result: &mut [u8]) -> Result<usize> {
        self.0.call(args, result).map_err(|e| BenchError::Driver(e.to_string()))
    }
}

impl InProcess {
    /// From where each function's library is.
    pub fn new(libraries: BTreeMap<String, PathBuf>, plan: Plan) -> Self {
        InProcess { libraries, instances: BTreeMap::new(), plan }
    }

    fn driver(&mut self, function: Function) -> Result<Driver<'_>> {
        if !self.instances.contains_key(&function) {
            let name = function.as_str();
            let path = self.libraries.get(name);
            let path =
                path.ok_or_else(|| BenchError::Driver(format!("no driver of {name} is known")))?;
            let library = Library::open(path).map_err(|e| BenchError::Driver(e.to_string()))?;
            let version = library.info().version;
            library.expect(name, version).map_err(|e| BenchError::Driver(e.to_string()))?;
            let config = Config { function: name.to_owned(), version, ..Config::default() };
            let instance = library.init(&config).map_err(|e| BenchError::Driver(e.to_string()))?;
            self.instances.insert(function, instance);
        }
        self.instances
            .get_mut(&function)
            .map(Driver)
            .ok_or_else(|| BenchError::Driver("no driver".into()))
    }
}

impl Place for InProcess {
    fn domain(&self) -> Domain {
        Domain::InProcess
    }

    fn transport(&self) -> &str {
        "none"
    }

    fn run(&mut self, job: &Job, _: Duration) -> Result<Outcome> {
        let _there = Pinned::to(self.plan.service());
        match *job {
            Job::Work { function, repetitions, iterations } => {
                let driver = self.driver(function)?;
                Ok(Outcome::Seconds(measure::seconds(driver, function, repetitions, iterations)?))
            }
            Job::Copies { bytes, rounds, millis } => {
                let time = Duration::from_millis(millis.into());
                let row = measure::copies(&Clock::calibrate(), self.domain(), bytes, rounds, time)?;
                Ok(Outcome::Rows(vec![row]))
            }
            Job::Clock => Ok(Outcome::NsPerCycle(Clock::calibrate().ns_per_cycle())),
            _ => Err(self.unfit("calls over a transport")),
        }
    }
}
