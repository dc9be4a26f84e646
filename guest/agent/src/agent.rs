//! Moves the bond: looks what there is, decides, does the steps, and says how things are.

use crate::counters::Counters;
use crate::decide::{Decision, Step, decide, options_wanted};
use crate::limits::{
    CARRIER_PATIENCE, LOOK_EVERY, LOOK_PAUSE, LOOK_PAUSE_MOVING, LOOK_WHILE_WAITING,
};
use crate::links::{ACTIVE_BACKUP, Carrier, Holder, Link, View};
use crate::log::Causes;
use crate::mailbox::{Mailbox, silence};
use crate::netlink::{Events, Socket, request};
use crate::pace::Pace;
use crate::paravirtual::{self, Known};
use crate::probe::Probe;
use crate::status::{Status, StatusFile};
use crate::sysfs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun_bond::{Mode, Order, REPORT_MS_MIN, Report};

/// A step that was done so often, and whose effect does not show, is reported.
const TIMES: u32 = 3;
/// How often to report while the host has not said it.
const REPORT_MS: u32 = 1000;

/// What an agent is told at its start.
#[derive(Clone)]
pub struct Settings {
    /// The bond's name.
    pub bond: String,
    /// Where the kernel lists interfaces.
    pub net: PathBuf,
    /// Where the status file goes.
    pub run: PathBuf,
    /// How long packets take, if an address is asked.
    pub probe: Option<Probe>,
}

impl Settings {
    /// The usual places.
    pub fn new(bond: &str) -> Self {
        Settings {
            bond: bond.into(),
            net: sysfs::NET.into(),
            run: crate::status::FOLDER.into(),
            probe: None,
        }
    }
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It cannot be an agent of this bond: starting it again does not help.
    #[error("{0}")]
    Unfit(String),
    /// Something of the system failed.
    #[error("{0}")]
    Failed(String),
}

/// Looks after the bond until the process ends. Orders come from the mailbox, reports go
/// there. The bond is left as it is when the process ends.
///
/// # Errors
/// If the bond has another mode than active-backup, another agent has it, or the kernel's
/// netlink cannot be opened.
pub fn run(settings: &Settings, mailbox: &Mailbox) -> Result<Infallible, Refused> {
    let failed = |e: &dyn std::fmt::Display| Refused::Failed(e.to_string());
    let file = StatusFile::open(&settings.run, &settings.bond).map_err(Refused::Unfit)?;
    let events = Events::open().map_err(|e| failed(&e))?;
    let socket = Socket::open().map_err(|e| failed(&e))?;
    let now = Instant::now();
    let mut agent = Agent {
        settings,
        mailbox,
        socket,
        known: file.known(),
        counters: Counters::new(&settings.net, &settings.bond),
        file,
        pace: Pace::default(),
        causes: Causes::default(),
        failures: vec![],
        order: None,
        waiting_since: None,
        opened_with_carrier: BTreeSet::new(),
        seen: Seen::default(),
        reported: None,
        probed: None,
        report_at: now,
        look_at: now,
        looked_at: now,
    };
    agent.look(now);
    if let Some(Holder::Bond(options)) = agent.seen.view.as_ref().map(|v| &v.holder)
        && options.mode != ACTIVE_BACKUP
    {
        let (bond, mode) = (&settings.bond, options.mode_name());
        return Err(Refused::Unfit(format!(
            "{bond} has the mode {mode}; the agent needs active-backup: change it in the network \
             configuration of this machine"
        )));
    }
    loop {
        agent.turn();
        agent.sleep(&events);
    }
}

/// What the last look has shown.
#[derive(Default)]
struct Seen {
    view: Option<View>,
    decision: Option<Decision>,
    trouble: Option<String>,
}

struct Agent<'a> {
    settings: &'a Settings,
    mailbox: &'a Mailbox,
    socket: Socket,
    known: Option<Known>,
    counters: Counters,
    file: StatusFile,
    pace: Pace,
    causes: Causes,
    /// Steps whose last try failed, and why.
    failures: Vec<(Step, String)>,
    order: Option<Order>,
    waiting_since: Option<Instant>,
    /// Interfaces that this program opened when they had a carrier, and that were neither set
    /// down nor lost it since.
    opened_with_carrier: BTreeSet<u32>,
    seen: Seen,
    reported: Option<(Instant, Report)>,
    /// The path whose latency is measured.
    probed: Option<vfun_bond::Path>,
    report_at: Instant,
    look_at: Instant,
    looked_at: Instant,
}

impl Agent<'_> {
    /// All that is to do now.
    fn turn(&mut self) {
        let now = Instant::now();
        let order = self.mailbox.order();
        if order != self.order {
            if order.as_ref().map(|o| o.path) != self.order.as_ref().map(|o| o.path) {
                self.pace.forget();
            }
            (self.order, self.look_at) = (order, now);
        }
        if now >= self.look_at {
            self.look(now);
            // Each step is checked by a look, and waits before it is done again.
            while self.step() {
                self.look(Instant::now());
            }
            self.plan_look(now);
        }
        self.tell();
    }

    fn look(&mut self, now: Instant) {
        self.looked_at = now;
        let net = &self.settings.net;
        let read = self.socket.links().map_err(|e| format!("the interfaces cannot be read: {e}"));
        let device = |l: &Link| sysfs::device(net, &l.name);
        let opened = &mut self.opened_with_carrier;
        let read = read.map(|mut all| {
            let open = |l: &Link| l.up && l.carrier != Carrier::None;
            opened.retain(|i| all.iter().any(|l| l.index == *i && open(l)));
            all.iter_mut().for_each(|l| l.opened_with_carrier = opened.contains(&l.index));
            all
        });
        match read.and_then(|all| View::of(&self.settings.bond, all, device)) {
            Ok(view) => {
                let found = paravirtual::find(&view, self.known.as_ref());
                if let (None, Ok(index)) = (&self.known, &found) {
                    self.known = view.slave(*index).map(Known::of);
                }
                let want = self.order.as_ref().map(|o| o.path);
                let decision = decide(&view, found, want);
                let trouble = self.trouble(&decision, now);
                self.seen = Seen { view: Some(view), decision: Some(decision), trouble };
            }
            Err(why) => self.seen = Seen { trouble: Some(why), ..Seen::default() },
        }
        self.causes.now("trouble", self.seen.trouble.as_deref());
    }

    fn trouble(&mut self, decision: &Decision, now: Instant) -> Option<String> {
        if decision.waiting.is_none() {
            self.waiting_since = None;
        }
        let waited = |since: Instant| now.saturating_duration_since(since) >= CARRIER_PATIENCE;
        let waiting =
            decision.waiting.clone().filter(|_| waited(*self.waiting_since.get_or_insert(now)));
        self.failures.retain(|(step, _)| decision.steps.contains(step));
        let failure = self.failures.last().map(|(_, why)| why.clone());
        let in_vain = decision.steps.iter().find(|s| self.pace.times(**s) >= TIMES);
        let in_vain = in_vain.map(|s| format!("could {}, but it does not show", self.words(*s)));
        decision.trouble.clone().or(failure).or(in_vain).or(waiting)
    }

    /// Does the steps that may be done now; whether there was one.
    fn step(&mut self) -> bool {
        let Some(decision) = &self.seen.decision else { return false };
        if decision.done {
            self.pace.calm(self.looked_at);
        }
        let steps = decision.steps.clone();
        let mut did = false;
        for step in steps {
            if !self.pace.may(step, Instant::now()) {
                continue;
            }
            did = true;
            self.failures.retain(|(s, _)| *s != step);
            if let Err(why) = self.perform(step) {
                self.failures.push((step, format!("cannot {}: {why}", self.words(step))));
            }
        }
        did
    }

    fn perform(&mut self, step: Step) -> Result<(), String> {
        let Some(view) = &self.seen.view else { return Ok(()) };
        let bond = view.bond.index;
        if let Step::Enslave(index) | Step::Up(index) = step {
            let link = view.others.iter().find(|l| l.index == index);
            // The kernel opens it now.
            if link.is_some_and(|l| !l.up && l.carrier == Carrier::Fresh) {
                self.opened_with_carrier.insert(index);
            }
        }
        let requests = match (step, &view.holder) {
            (Step::Options, Holder::Bond(options)) => match options_wanted(options) {
                Some(wanted) => request::set_options(bond, options, &wanted),
                None => vec![],
            },
            (Step::Down(index), _) => vec![request::set_up(index, false)],
            (Step::Up(index), _) => vec![request::set_up(index, true)],
            (Step::Enslave(index), _) => vec![request::set_master(index, bond)],
            (Step::Activate(index), _) => vec![request::set_active(bond, index)],
            (Step::Options, Holder::Failover) => vec![],
        };
        // All of them, also where one fails.
        let ask = |r| self.socket.ask(&r).map_err(|e| e.to_string());
        let done: Vec<_> = requests.into_iter().map(ask).collect();
        done.into_iter().collect()
    }

    fn name(&self, index: u32) -> &str {
        let links = self.seen.view.iter().flat_map(|v| &v.others);
        links.filter(|l| l.index == index).map(|l| l.name.as_str()).next().unwrap_or("?")
    }

    fn words(&self, step: Step) -> String {
        let bond = &self.settings.bond;
        match step {
            Step::Options => format!("set the options of {bond}"),
            Step::Down(index) => format!("set {} down", self.name(index)),
            Step::Up(index) => format!("set {} up", self.name(index)),
            Step::Enslave(index) => format!("take {} into {bond}", self.name(index)),
            Step::Activate(index) => format!("make {} the active one", self.name(index)),
        }
    }

    fn plan_look(&mut self, now: Instant) {
        self.look_at = now + LOOK_EVERY;
        let Some(decision) = self.seen.decision.as_ref().filter(|d| !d.done) else { return };
        let again = self.pace.next(&decision.steps);
        self.look_at = again.unwrap_or(now + LOOK_WHILE_WAITING).max(now).min(self.look_at);
    }

    fn report(&mut self) -> Report {
        let view = self.seen.view.as_ref();
        let decision = self.seen.decision.as_ref();
        let vf = decision.and_then(|d| d.vf).map(|index| self.name(index).to_owned());
        let failover = view.is_some_and(|v| v.holder == Holder::Failover);
        Report {
            order: self.order.as_ref().map_or(0, |o| o.number),
            agent: env!("CARGO_PKG_VERSION").into(),
            bond: self.settings.bond.clone(),
            mode: if failover { Mode::NetFailover } else { Mode::Bond },
            mac: view.and_then(|v| v.bond.mac).map_or("?".into(), |m| m.to_string()),
            path: decision.and_then(|d| d.path),
            vf,
            packets: self.counters.packets().unwrap_or(0),
            latency_us: self.latency_us(),
            trouble: self.seen.trouble.clone(),
        }
        .fit()
    }

    /// How long packets take by the path that they take now.
    fn latency_us(&mut self) -> Option<u32> {
        let probe = self.settings.probe.as_ref()?;
        let path = self.seen.decision.as_ref().and_then(|d| d.path);
        if path != self.probed {
            self.probed = path;
            probe.forget();
        }
        probe.median_us()
    }

    fn every(&self) -> Duration {
        let ms = self.order.as_ref().map_or(REPORT_MS, |o| o.report_ms);
        Duration::from_millis(ms.max(REPORT_MS_MIN).into())
    }

    /// Whether packets do not take the path yet that the host wants, and nothing is known to be
    /// wrong.
    fn is_moving(&self) -> bool {
        let want = self.order.as_ref().map(|o| o.path);
        let path = self.seen.decision.as_ref().and_then(|d| d.path);
        want.is_some() && want != path && self.seen.trouble.is_none()
    }

    /// Whether something else is so than was reported last, but for what always changes.
    fn has_news(&self, report: &Report) -> bool {
        let (packets, latency_us) = (report.packets, report.latency_us);
        let last = self.reported.as_ref().map(|(_, r)| Report { packets, latency_us, ..r.clone() });
        last.as_ref() != Some(report)
    }

    /// Reports, if it is time to.
    fn tell(&mut self) {
        let (now, report) = (Instant::now(), self.report());
        let least = Duration::from_millis(REPORT_MS_MIN.into());
        // Reports have a pause between them: what is new in the middle of a move would delay the
        // word that the move is done.
        let news = self.has_news(&report) && !self.is_moving();
        let pause = if news { least } else { self.every() };
        self.report_at = self.reported.as_ref().map_or(now, |(last, _)| *last + pause);
        if now >= self.report_at {
            self.report_at = now + self.every();
            self.mailbox.put_report(report.clone());
            self.reported = Some((now, report.clone()));
        }
        let status = self.status(report);
        if let Err(why) = self.file.write(&status) {
            self.causes.once("status", &why);
        }
    }

    fn status(&self, report: Report) -> Status {
        let options = self.seen.view.as_ref().and_then(|v| match &v.holder {
            Holder::Bond(options) => Some(options),
            Holder::Failover => None,
        });
        Status {
            pid: std::process::id(),
            host: self.mailbox.host(),
            paravirtual: self.known.clone(),
            wanted: self.order.as_ref().map(|o| o.path),
            fail_over_mac: options.map(|o| o.fail_over_mac_name().to_owned()),
            // Told anew each second; a file is written when something else is so.
            report: Report { packets: 0, latency_us: None, ..report },
        }
    }

    /// Until something may be to do.
    fn sleep(&mut self, events: &Events) {
        let now = Instant::now();
        let until = self.report_at.min(self.look_at);
        let limit = until.saturating_duration_since(now) + Duration::from_millis(1);
        let limit = Timespec::try_from(limit).ok();
        let bell = self.mailbox.agent_bell();
        let on = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = [on(std::os::fd::AsFd::as_fd(events)), on(bell)];
        if poll(&mut fds, limit.as_ref()).is_err() {
            return;
        }
        if !fds[0].revents().is_empty() {
            events.drain();
            let pause = if self.is_moving() { LOOK_PAUSE_MOVING } else { LOOK_PAUSE };
            let soon = (self.looked_at + pause).max(Instant::now());
            self.look_at = self.look_at.min(soon);
        }
        silence(self.mailbox.agent_bell());
    }
}
