//! Sets the places up, and keeps account of what could not be measured.

use super::progress;
use crate::lab::{self, GuestSpec, HOST_CLIENT, LabGuest, Manager, Pinned, Plan, Start, Wiring};
use crate::measure::{Calls, Clock, Floor, Job, Outcome};
use crate::method::Watch;
use crate::place::{InBareVm, InGuest, InProcess, OverSession, Place};
use crate::report::{Domain, Machine, Settings, machine};
use crate::{BenchError, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vfun::Endpoint;

/// What to measure on.
#[derive(Clone, Debug, Default)]
pub struct Where {
    /// A manager that runs already, by its root.
    pub root: Option<PathBuf>,
    /// Where to connect, with no manager of one's own: how a guest that is up already is
    /// measured, from inside.
    pub endpoint: Option<Endpoint>,
    /// The client to name.
    pub client: Option<String>,
    /// The folder of manifests.
    pub functions: Option<PathBuf>,
    /// The folder of drivers.
    pub drivers: Option<PathBuf>,
    /// Whether caller and service each get a processor of their own.
    pub pin: bool,
    /// This program, which is taken into the guest; found by itself if not named.
    pub program: Option<PathBuf>,
    /// The folder of the other programs; that of this program if not named.
    pub programs: Option<PathBuf>,
    /// How guests reach their windows; the best way that is there if not named.
    pub wiring: Option<Wiring>,
}

impl Where {
    /// This program, and the folder of the others.
    pub(super) fn program_and_folder(&self) -> (PathBuf, PathBuf) {
        let own = std::env::current_exe().unwrap_or_default();
        let program = self.program.clone().unwrap_or(own);
        let beside = program.parent().unwrap_or(Path::new("/")).to_owned();
        let programs = self.programs.clone().unwrap_or(beside);
        (program, programs)
    }

    /// How guests reach their windows.
    pub(super) fn wiring(&self) -> Wiring {
        self.wiring.unwrap_or_else(Wiring::best)
    }

    /// A manager with some more clients, on the host or in guests, whose services may run
    /// on some processors only.
    pub(super) fn manager(
        &self,
        more: &[&str],
        more_in: Option<Wiring>,
        services: &[usize],
    ) -> Result<Manager> {
        self.manager_without(more, more_in, services, &[])
    }

    /// The same, whose services do without layers of the sandbox.
    pub(super) fn manager_without(
        &self,
        more: &[&str],
        more_in: Option<Wiring>,
        services: &[usize],
        without: &[String],
    ) -> Result<Manager> {
        let [programs, functions, drivers] = self.folders()?;
        let start = Start::new(&programs, &functions, &drivers);
        Manager::start(&Start { more, more_in, services, without, ..start })
    }

    /// A manager that moves network VFs.
    pub(super) fn manager_with_nics(&self) -> Result<Manager> {
        let [programs, functions, drivers] = self.folders()?;
        Manager::start(&Start { nics: true, ..Start::new(&programs, &functions, &drivers) })
    }

    /// Of programs, manifests and drivers.
    fn folders(&self) -> Result<[PathBuf; 3]> {
        let (program, programs) = self.program_and_folder();
        let functions = lab::functions_folder(self.functions.as_deref(), &program)?;
        let drivers = self.drivers.clone().unwrap_or_else(|| programs.clone());
        Ok([programs, functions, drivers])
    }
}

/// Everything that an experiment runs on.
pub struct Bench {
    // In this order they are taken down.
    places: Vec<Box<dyn Place>>,
    guest: Option<Arc<LabGuest>>,
    manager: Option<Manager>,
    missed: Vec<(Option<Domain>, String)>,
    machine: Machine,
    plan: Plan,
    notes: Vec<(&'static str, String)>,
    _pinned: Pinned,
}

impl Bench {
    /// Sets up what these domains need. A domain that cannot be had is noted and left
    /// out; only if none can, that is an error.
    pub fn prepare(at: &Where, domains: &[Domain]) -> Result<Self> {
        let plan = Plan::new(at.pin);
        let mut bench = Bench {
            places: Vec::new(),
            guest: None,
            manager: None,
            missed: Vec::new(),
            // Before this thread is moved to one processor.
            machine: Machine::collect(),
            plan,
            notes: Vec::new(),
            _pinned: Pinned::to(plan.caller()),
        };
        if let Some(times) = lab::slowed_by_spinning(&plan) {
            let words =
                format!("work while the other processor spins over work alone: {}", times.words());
            bench.notes.push(("processors", words));
        }
        match &at.endpoint {
            Some(endpoint) => bench.over_endpoint(at, endpoint, domains)?,
            None => bench.with_manager(at, domains)?,
        }
        if bench.places.is_empty() {
            let why: Vec<_> = bench.missed.iter().map(|(_, why)| why.clone()).collect();
            return Err(BenchError::Options(match why.is_empty() {
                true => "there is nothing to measure: name a domain".to_owned(),
                false => format!("nothing can be measured: {}", why.join("; ")),
            }));
        }
        Ok(bench)
    }

    fn over_endpoint(&mut self, at: &Where, endpoint: &Endpoint, domains: &[Domain]) -> Result<()> {
        let place = OverSession::connect(endpoint, at.client.as_deref())?;
        for &domain in domains.iter().filter(|&&d| d != place.domain()) {
            self.missed.push((
                Some(domain),
                format!("the endpoint {endpoint} leads to {} only", place.domain()),
            ));
        }
        self.notes.push(("endpoint", endpoint.to_string()));
        self.places.push(Box::new(place));
        Ok(())
    }

    fn with_manager(&mut self, at: &Where, domains: &[Domain]) -> Result<()> {
        let manager = match &at.root {
            Some(root) => Manager::running(root)?,
            None => self.own_manager(at, domains)?,
        };
        self.notes.push((
            "manager",
            if manager.is_own() { "started for this".into() } else { "as found running".into() },
        ));
        if domains.contains(&Domain::InProcess) {
            let libraries =
                manager.functions()?.into_iter().map(|f| (f.name, PathBuf::from(f.driver)));
            self.places.push(Box::new(InProcess::new(libraries.collect(), self.plan)));
        }
        self.manager = Some(manager);
        if domains.contains(&Domain::HostHost) {
            self.on_the_host(at)?;
        }
        if domains.contains(&Domain::KvmBare) {
            self.in_a_bare_machine(at);
        }
        let ways = [(Domain::GuestHost, false), (Domain::GuestNet, true)];
        let ways: Vec<_> = ways.into_iter().filter(|(d, _)| domains.contains(d)).collect();
        if !ways.is_empty() {
            self.in_a_guest(at, ways)?;
        }
        self.say_missed();
        Ok(())
    }

    fn own_manager(&mut self, at: &Where, domains: &[Domain]) -> Result<Manager> {
        progress("starting a manager");
        let [programs, functions, drivers] = at.folders()?;
        let services: Vec<_> = self.plan.service().into_iter().collect();
        let tcp = domains.contains(&Domain::GuestNet);
        let guest = tcp || domains.contains(&Domain::GuestHost);
        self.start(Start {
            tcp,
            guest: guest.then(|| at.wiring()),
            services: &services,
            ..Start::new(&programs, &functions, &drivers)
        })
    }

    fn on_the_host(&mut self, at: &Where) -> Result<()> {
        let manager = self.manager.as_ref().expect("it is there");
        let endpoint = Endpoint::Host(Some(manager.host_socket()));
        let client = at.client.as_deref().or(manager.is_own().then_some(HOST_CLIENT));
        let mut place = OverSession::connect(&endpoint, client)?;
        if !manager.is_own()
            && let Err(e) = pin_services(manager, place.calls(), self.plan)
        {
            self.notes.push(("services", format!("left where the manager runs them: {e}")));
        }
        self.places.push(Box::new(place));
        Ok(())
    }

    fn in_a_bare_machine(&mut self, at: &Where) {
        progress("trying a bare virtual machine");
        let manager = self.manager.as_ref().expect("it is there");
        let endpoint = Endpoint::Host(Some(manager.host_socket()));
        let client = at.client.as_deref().or(manager.is_own().then_some(HOST_CLIENT));
        match InBareVm::connect(&endpoint, client) {
            Ok(place) => self.places.push(Box::new(place)),
            Err(e) => self.missed.push((Some(Domain::KvmBare), e.to_string())),
        }
    }

    /// Boots a guest for these domains, each with whether it goes over TCP.
    fn in_a_guest(&mut self, at: &Where, ways: Vec<(Domain, bool)>) -> Result<()> {
        progress("booting a guest");
        let manager = self.manager.as_ref().expect("it is there");
        let (program, _) = at.program_and_folder();
        let guest =
            match LabGuest::boot(manager, &GuestSpec::new(at.wiring(), &self.plan), &program) {
                Ok(guest) => Arc::new(guest),
                Err(e) => {
                    self.missed.extend(ways.into_iter().map(|(d, _)| (Some(d), e.to_string())));
                    return Ok(());
                }
            };
        progress(match guest.accel() {
            "kvm" => "the guest runs under KVM",
            _ => "the guest is emulated (TCG): KVM boots no guest here, or was not wanted",
        });
        self.notes.push(("guest_window", guest.wiring().to_string()));
        self.notes.extend(compare_clocks(&guest).map(|words| ("guest_clock", words)));
        for (domain, net) in ways {
            if net && manager.status()?.tcp.is_none() {
                self.missed.push((Some(domain), "no gateway serves callers over TCP".into()));
                continue;
            }
            self.places.push(Box::new(InGuest::new(guest.clone(), net)));
        }
        self.guest = Some(guest);
        Ok(())
    }

    /// Without a gateway all but the network can be measured.
    fn start(&mut self, start: Start) -> Result<Manager> {
        match Manager::start(&start) {
            Err(e @ BenchError::NoProgram(_)) if start.tcp => {
                let manager = Manager::start(&Start { tcp: false, ..start })?;
                self.missed.push((Some(Domain::GuestNet), e.to_string()));
                Ok(manager)
            }
            other => other,
        }
    }

    fn say_missed(&self) {
        for (domain, why) in &self.missed {
            match domain {
                Some(domain) => progress(format_args!("{domain} is not measured: {why}")),
                None => progress(why),
            }
        }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none; [`Bench::prepare`] sees to it that there is.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A place by its number.
    pub fn place(&mut self, i: usize) -> &mut dyn Place {
        &mut *self.places[i]
    }

    /// The number of the place of a domain.
    pub fn find(&self, domain: Domain) -> Option<usize> {
        self.places.iter().position(|p| p.domain() == domain)
    }

    /// The manager, unless only an endpoint was named.
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref()
    }

    /// The guest that was booted.
    pub fn guest(&self) -> Option<Arc<LabGuest>> {
        self.guest.clone()
    }

    /// What is run here, to be watched: this process, the guest's, the manager's and all services'.
    pub fn watch(&self) -> Watch {
        let host = self.manager.as_ref().and_then(|m| m.processes().ok()).unwrap_or_default();
        let guest = self.guest.as_ref().map(|g| g.pid());
        Watch::new(&self.plan.both(), host.into_iter().chain(guest))
    }

    /// Which processor does what.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Something could not be measured.
    pub fn miss(&mut self, domain: Domain, what: &str, why: &BenchError) {
        progress(format_args!("{domain}, {what}: {why}"));
        self.missed.push((Some(domain), format!("{what}: {why}")));
    }

    /// Something that reports say of this run.
    pub fn note(&mut self, name: &'static str, words: String) {
        self.notes.push((name, words));
    }

    /// What could not be measured, with the reason.
    pub fn missed(&self) -> &[(Option<Domain>, String)] {
        &self.missed
    }

    /// The machine, with the guest's emulator.
    pub fn machine(&self) -> Machine {
        let machine = self.machine.clone();
        match &self.guest {
            Some(guest) => machine.with_qemu(machine::qemu_version(&guest.qemu()), guest.accel()),
            None => machine,
        }
    }

    /// The settings so far.
    pub fn settings(&self, scale: f64, repeats: u32) -> Settings {
        let pinning = self.plan.words();
        let mut settings = Settings { scale, repeats, pinning, ..Settings::default() };
        for (name, value) in &self.notes {
            settings = settings.with(name, value.as_str());
        }
        let mut missed: Vec<_> = self
            .missed
            .iter()
            .map(|(domain, why)| match domain {
                Some(domain) => format!("{domain}: {why}"),
                None => why.clone(),
            })
            .collect();
        missed.dedup();
        if !missed.is_empty() {
            settings = settings.with("not_measured", missed.join("; "));
        }
        settings
    }
}

/// A guest times by its own clock, whose rate its kernel has guessed at boot. Where the
/// processor's counter runs alike in both, it tells how well.
fn compare_clocks(guest: &LabGuest) -> Option<String> {
    match guest.run(false, &Job::Clock, Duration::ZERO) {
        Ok(Outcome::NsPerCycle(there)) => {
            let ratio = there / Clock::calibrate().ns_per_cycle();
            Some(format!("{ratio:.5} of the host's"))
        }
        _ => None,
    }
}

/// Moves the services of this session to their processor. A manager of one's own has
/// started them there.
fn pin_services(manager: &Manager, calls: &mut Calls, plan: Plan) -> Result<()> {
    if plan.service().is_none() {
        return Ok(());
    }
    for name in ["echo", "factorial", "fibonacci"] {
        calls.function(name)?;
    }
    let _floor = Floor::open(calls.session(), 1);
    let app = calls.session().info().app_id;
    for grant in manager.grants()?.into_iter().filter(|g| g.app_id == app) {
        if let Some(pid) = grant.pid {
            lab::pin::process(pid, plan.service())?;
        }
    }
    Ok(())
}
