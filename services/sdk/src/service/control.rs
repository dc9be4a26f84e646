//! The main thread: talks with the manager, opens and closes channels, and
//! keeps the watch over deadlines.

use super::buffers::{Buffers, LeavingBuffers};
use super::channel::{Event, Running, Teller, open};
use super::engine::Engine;
use super::idle::End;
use super::manager_link::ManagerQuestion;
use super::porter::Porter;
use super::pulse::Pulse;
use super::watch::{Alarm, NextCheck, Watched};
use super::{Backend, Bonds, exit, fault, log};
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use vfun_supervise::{
    BufferCame, EXIT_CANNOT_START, EXIT_DEADLINE, Error, FromService, ModuleVerdict, Open, Start,
    ToService,
};
use vfun_wire::Handle;
use vfun_wire::kind::ChannelKind;

const SOCKET: u64 = 0;
const ALARM: u64 = 1;
/// How long a channel is served on after the word to hand it over.
const LET_OTHERS_END: Duration = Duration::from_micros(300);
/// Channels in one packet of a report: handles have up to 20 digits.
const CHANNELS_PER_REPORT: usize = 2_000;
/// Between two looks whether a call that uses a buffer which was taken away has ended.
const LET_GO_LOOK: Duration = Duration::from_millis(5);
/// How often a service without a manager shows that it lives (R-CHN-7).
const BEAT_ALONE: Duration = Duration::from_millis(500);
/// How often a service shows apps of queues that it lives (R-ARN-3).
const BEAT_LIFE: Duration = Duration::from_secs(1);
/// Longest time that the last message, that of a deadline, may wait for room.
const LAST_WORD: Duration = Duration::from_millis(200);

/// A channel the manager knows of.
struct Channel {
    app: String,
    running: Running,
    watched: Option<Watched>,
    /// The manager asked to close it.
    closing: bool,
    /// Its thread has said that it could serve.
    standing: bool,
    /// Its thread has said that it serves.
    opened: bool,
    /// Its thread has ended.
    ended: bool,
    /// Why, if the app broke the protocol.
    broken: Option<String>,
}

struct Control<E> {
    start: Start,
    work: Arc<Backend<E>>,
    /// False once the manager is gone.
    manager: bool,
    /// When it showed last that it lives, where it does.
    beat: Instant,
    stopping: bool,
    unsent: VecDeque<(FromService, Option<OwnedFd>)>,
    /// What calls ask of the manager.
    questions: Receiver<ManagerQuestion>,
    /// Who waits for its word.
    waiting: BTreeMap<u64, Sender<ModuleVerdict>>,
    next_ask: u64,
    channels: BTreeMap<u64, Channel>,
    buffers: Arc<Buffers>,
    /// Those that were taken away, while calls use them.
    leaving: LeavingBuffers,
    alarm: Arc<Alarm>,
    events: Receiver<(u64, Event)>,
    teller: Sender<(u64, Event)>,
    epoll: OwnedFd,
    rest: NextCheck,
    porter: Porter,
}

/// Serves until told to stop, or until the manager and all channels are gone.
pub fn serve<E: Engine>(
    start: Start,
    work: Backend<E>,
    alarm: Arc<Alarm>,
    questions: Receiver<ManagerQuestion>,
) -> ExitCode {
    match Control::new(start, work, alarm, questions).and_then(Control::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log::line(format_args!("the service cannot go on: {e}"));
            ExitCode::from(EXIT_CANNOT_START as u8)
        }
    }
}

/// Whether a send failed because the other end is closed.
fn went(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(e.kind(), BrokenPipe | ConnectionReset)
}

impl<E: Engine> Control<E> {
    fn new(
        start: Start,
        work: Backend<E>,
        alarm: Arc<Alarm>,
        questions: Receiver<ManagerQuestion>,
    ) -> std::io::Result<Self> {
        let stdin = std::io::stdin();
        let flags = rustix::fs::fcntl_getfl(&stdin)?;
        rustix::fs::fcntl_setfl(&stdin, flags | rustix::fs::OFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        use epoll::{EventData, EventFlags};
        epoll::add(&epoll, &stdin, EventData::new_u64(SOCKET), EventFlags::IN)?;
        epoll::add(
            &epoll,
            alarm.bell(),
            EventData::new_u64(ALARM),
            EventFlags::IN | EventFlags::ET,
        )?;
        let (max_args, max_result, note) = match &work {
            Backend::Calls(engine) => (engine.max_args(), engine.max_result(), engine.note()),
            Backend::Floor => (8, 8, None),
        };
        let (teller, events) = channel();
        let mut control = Control {
            start,
            work: Arc::new(work),
            manager: true,
            beat: Instant::now(),
            stopping: false,
            unsent: VecDeque::new(),
            questions,
            waiting: BTreeMap::new(),
            next_ask: 1,
            channels: BTreeMap::new(),
            buffers: Arc::default(),
            leaving: LeavingBuffers::default(),
            alarm,
            events,
            teller,
            epoll,
            rest: NextCheck::new(Instant::now()),
            porter: Porter::new()?,
        };
        control.say(FromService::Ready { max_args, max_result, note, buffers: true });
        Ok(control)
    }

    fn run(mut self) -> std::io::Result<()> {
        loop {
            self.flush();
            if self.over() {
                return Ok(());
            }
            let now = Instant::now();
            self.check_deadlines(now);
            let every = self
                .channels
                .values()
                .filter_map(|c| c.watched.as_ref())
                .map(Watched::look_every)
                .min();
            let channels = &self.channels;
            let awake = || {
                channels
                    .values()
                    .any(|c| c.watched.is_some() && c.running.pulse().is_some_and(Pulse::awake))
            };
            let limit = self.rest.until(&self.alarm, now, every, awake);
            let limits = [limit, self.beat_every(), self.let_go_look(), self.reports_patience()];
            self.wait(limits.into_iter().flatten().min())?;
            self.let_buffers_go();
            self.channels.values_mut().for_each(|c| c.running.look());
            self.pass_reports_on();
            if self.beat_every().is_some_and(|every| self.beat.elapsed() >= every) {
                self.beat();
            }
            while let Ok((channel, event)) = self.events.try_recv() {
                self.happened(channel, event);
            }
            while let Ok(asked) = self.questions.try_recv() {
                self.pass_on(asked);
            }
        }
    }

    /// Whether there is nothing left to do.
    fn over(&self) -> bool {
        let served = self.channels.values().any(|c| !c.ended);
        if self.stopping {
            return !served && (self.unsent.is_empty() || !self.manager);
        }
        if !self.manager && !served {
            log::line(format_args!(
                "the manager is gone and no channel is left: this service ends"
            ));
            return true;
        }
        false
    }

    fn wait(&mut self, limit: Option<Duration>) -> std::io::Result<()> {
        let limit = limit
            .map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut events = [std::mem::MaybeUninit::uninit(); 4];
        let socket = match epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) {
            Ok((got, _)) => got.iter().any(|e| e.data.u64() == SOCKET),
            Err(rustix::io::Errno::INTR) => false,
            Err(e) => return Err(e.into()),
        };
        if socket {
            self.hear();
        }
        Ok(())
    }

    /// Takes one message; more make the next wait return at once.
    fn hear(&mut self) {
        match vfun_supervise::receive::<ToService>(std::io::stdin().as_fd()) {
            Ok(Some((message, fds))) => self.told(message, fds),
            Ok(None) => self.alone("it closed the socket"),
            Err(Error::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e @ Error::Io(_)) => self.alone(&e.to_string()),
            Err(e) => log::line(format_args!("{e}; it is ignored")),
        }
    }

    /// Tells a manager that started anew what is served here.
    fn report(&mut self, to: u32) {
        let served: Vec<u64> = self.channels.keys().copied().collect();
        let mut parts = served.chunks(CHANNELS_PER_REPORT).peekable();
        if parts.peek().is_none() {
            self.say(FromService::Channels { channels: vec![], more: false, to, buffers: true });
        }
        while let Some(part) = parts.next() {
            let more = parts.peek().is_some();
            let channels = part.to_vec();
            self.say(FromService::Channels { channels, more, to, buffers: true });
        }
        // What was said before may have been heard by the one that was killed
        // and by nobody else.
        let mut again = vec![];
        for (&channel, c) in &self.channels {
            if c.opened {
                again.push(FromService::Opened { channel });
            } else if c.standing {
                again.push(FromService::Standing { channel });
            }
            if let Some(reason) = &c.broken {
                again.push(FromService::Broken { channel, reason: reason.clone() });
            }
        }
        again.into_iter().for_each(|message| self.say(message));
        if let Some(bonds) = self.bonds() {
            bonds.tell_again();
        }
    }

    /// The agents of VMs, if this is the function `bond`.
    fn bonds(&self) -> Option<&Bonds> {
        match &*self.work {
            Backend::Calls(engine) => engine.bonds(),
            Backend::Floor => None,
        }
    }

    /// How long until an agent's report may go to the manager, if the socket has room.
    fn reports_patience(&self) -> Option<Duration> {
        let may = self.manager && self.unsent.is_empty();
        self.bonds().filter(|_| may)?.patience(Instant::now())
    }

    /// Sends reports of agents while there is room: one that waits gives way to a newer one.
    fn pass_reports_on(&mut self) {
        if !self.manager || !self.unsent.is_empty() {
            return;
        }
        let due = self.bonds().map_or(vec![], |bonds| bonds.due_reports(Instant::now()));
        for (channel, report) in due {
            self.say(FromService::Told { channel, report });
        }
    }

    fn told(&mut self, message: ToService, fds: Vec<OwnedFd>) {
        match message {
            ToService::Open(open) => self.open(open, fds),
            ToService::BufferCame(came) => self.buffer_came(&came, fds),
            ToService::BufferGone { buffer } => {
                self.leaving.push(buffer, self.buffers.gone(buffer));
                self.let_buffers_go();
            }
            ToService::Close { channel } => self.close(channel, |c| c.stop()),
            ToService::HandOver { channel } => {
                let baton = fds.into_iter().next();
                // Whoever said this, and who noted it, still need a processor:
                // on a machine with few, the one that the next service needs.
                std::thread::sleep(LET_OTHERS_END);
                self.close(channel, |c| c.hand_over(baton));
            }
            ToService::TakeUp { channel, status } => {
                if let Some(c) = self.channels.get(&channel) {
                    c.running.take_up(status);
                }
            }
            ToService::Stop => {
                self.stopping = true;
                self.channels.values_mut().for_each(|c| c.running.stop());
            }
            ToService::Rate { channel, calls_per_s } => {
                if let Some(c) = self.channels.get(&channel) {
                    c.running.set_rate(calls_per_s);
                }
            }
            ToService::Report { by } => self.report(by),
            ToService::Live => self.say(FromService::Alive),
            ToService::Look { channel } => {
                if let Some(c) = self.channels.get(&channel) {
                    c.running.wake();
                }
            }
            ToService::Order { channel, order } => {
                if self.channels.contains_key(&channel)
                    && let Some(bonds) = self.bonds()
                {
                    bonds.ordered(channel, order);
                }
            }
            ToService::Verdict { ask, verdict } => {
                // Who asked may have given up.
                if let Some(waits) = self.waiting.remove(&ask) {
                    let _ = waits.send(verdict);
                }
            }
            ToService::Start(_) => log::line(format_args!("a second Start is ignored")),
        }
    }

    fn buffer_came(&mut self, came: &BufferCame, fds: Vec<OwnedFd>) {
        if let Err(e) = self.buffers.came(came, fds) {
            // Calls that name it are told that it is not mapped.
            log::line(format_args!("buffer {} cannot be mapped: {e}", Handle(came.buffer)));
        }
        self.say(FromService::BufferHere { buffer: came.buffer });
    }

    /// Says which of the buffers that were taken away no call uses any more.
    fn let_buffers_go(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        self.channels.values().for_each(|c| c.running.expire());
        let left = self.leaving.left();
        left.into_iter().for_each(|buffer| self.say(FromService::BufferLeft { buffer }));
    }

    fn open(&mut self, message: Open, fds: Vec<OwnedFd>) {
        fault::at(&self.start.settings, "opening");
        let (id, app) = (message.channel, message.app.clone());
        let calls = matches!(*self.work, Backend::Calls(_))
            && message.place.kind == ChannelKind::Calls.to_wire();
        let watched = calls.then(|| {
            Watched::new(Duration::from_millis(message.deadline_ms.max(1).into()), Instant::now())
        });
        let teller = Teller { channel: id, events: self.teller.clone(), alarm: self.alarm.clone() };
        let opened = if self.stopping {
            Err("this service is being stopped".to_owned())
        } else if self.channels.contains_key(&id) {
            Err("a channel with this handle is being served".to_owned())
        } else {
            let with = (&self.buffers, &self.porter);
            open(&self.start, &self.work, with, message, fds, teller)
        };
        match opened {
            Ok(running) => {
                let channel = Channel {
                    app,
                    running,
                    watched,
                    closing: false,
                    standing: false,
                    opened: false,
                    ended: false,
                    broken: None,
                };
                self.channels.insert(id, channel);
            }
            Err(reason) => self.refused(id, &app, reason),
        }
    }

    /// A channel is served here no more.
    fn forget(&mut self, channel: u64) -> Option<Channel> {
        if let Some(bonds) = self.bonds() {
            bonds.gone(channel);
        }
        self.channels.remove(&channel)
    }

    fn refused(&mut self, channel: u64, app: &str, reason: String) {
        log::line(format_args!("channel {channel} of {app} cannot be served: {reason}"));
        self.say(FromService::OpenFailed { channel, reason });
    }

    fn close(&mut self, channel: u64, stop: impl FnOnce(&mut Running)) {
        fault::at(&self.start.settings, "closing");
        match self.channels.get_mut(&channel) {
            Some(c) if !c.ended => {
                c.closing = true;
                stop(&mut c.running);
            }
            // Not any more: its app broke it.
            Some(_) => {
                self.forget(channel);
                self.say(FromService::Closed { channel });
            }
            // Refused, or closed already, which was said: said again it could be
            // taken for the end of a channel that is opened anew meanwhile.
            None => {}
        }
    }

    /// What a channel's thread told.
    fn happened(&mut self, channel: u64, event: Event) {
        match event {
            Event::Standing => {
                if let Some(c) = self.channels.get_mut(&channel) {
                    c.standing = true;
                }
                self.say(FromService::Standing { channel });
            }
            Event::Opened => {
                if let Some(c) = self.channels.get_mut(&channel) {
                    c.opened = true;
                }
                self.say(FromService::Opened { channel });
            }
            Event::Refused(reason) => {
                let app = self.forget(channel).map_or_else(String::new, |c| c.app);
                self.refused(channel, &app, reason);
            }
            Event::Ended(end) => {
                let Some(c) = self.channels.get_mut(&channel) else { return };
                c.ended = true;
                c.watched = None;
                // A driver may keep a handle of an earlier call, and with it the lender.
                c.running.expire();
                // An engine may let go of queues unasked: the manager breaks them then.
                let unasked = matches!(c.running, Running::Queues(_)) && !self.stopping;
                let closing = c.closing || unasked;
                if let End::Lost(reason) = end {
                    let app = &c.app;
                    log::line(format_args!(
                        "the device of channel {channel} of {app} is lost: {reason}"
                    ));
                    self.forget(channel);
                    return self.say(FromService::DeviceLost { channel, reason });
                }
                if let End::Broken(violation) = end {
                    log::line(format_args!(
                        "channel {channel} of {} is broken: {violation}",
                        c.app
                    ));
                    let reason = violation.to_string();
                    c.broken = Some(reason.clone());
                    self.say(FromService::Broken { channel, reason });
                }
                if closing {
                    self.forget(channel);
                    self.say(FromService::Closed { channel });
                }
            }
        }
    }

    fn check_deadlines(&mut self, now: Instant) {
        let over = self.channels.iter_mut().find_map(|(&id, c)| {
            let watched = c.watched.as_mut().zip(c.running.pulse());
            watched.is_some_and(|(w, pulse)| w.overran(pulse, now)).then(|| (id, c.app.clone()))
        });
        if let Some((channel, app)) = over {
            log::line(format_args!(
                "a call of {app} on channel {channel} ran past its deadline: this service ends"
            ));
            self.say(FromService::Deadline { channel });
            let until = Instant::now() + LAST_WORD;
            while self.manager && !self.unsent.is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
                self.flush();
            }
            exit::now(EXIT_DEADLINE);
        }
    }

    fn say(&mut self, message: FromService) {
        self.unsent.push_back((message, None));
        self.flush();
    }

    /// Asks the manager what a call wants to know.
    fn pass_on(&mut self, asked: ManagerQuestion) {
        let ManagerQuestion { channel, wish, file, reply } = asked;
        if !self.manager {
            return; // who asked is told by its channel's end
        }
        let ask = self.next_ask;
        self.next_ask += 1;
        self.waiting.insert(ask, reply);
        self.unsent.push_back((FromService::Submission { ask, channel, wish }, file));
        self.flush();
    }

    /// Sends what there is room for: a manager that is busy or stopped must
    /// not hold up the watch.
    fn flush(&mut self) {
        let before = self.unsent.len();
        while self.manager {
            let Some((message, file)) = self.unsent.front() else { break };
            let fds: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            match vfun_supervise::send(std::io::stdin().as_fd(), message, &fds) {
                Ok(()) => {
                    self.unsent.pop_front();
                }
                Err(Error::Io(e)) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                // What it said before it went is read before its end is: `hear`.
                Err(Error::Io(e)) if went(&e) => {
                    self.unsent.clear();
                    break;
                }
                Err(Error::Io(e)) => self.alone(&e.to_string()),
                Err(e) => {
                    log::line(format_args!("a message to the manager is lost: {e}"));
                    self.unsent.pop_front();
                }
            }
        }
        if self.manager && (before > 0 || !self.unsent.is_empty()) {
            use epoll::{EventData, EventFlags};
            let room = if self.unsent.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
            let _ = epoll::modify(
                &self.epoll,
                std::io::stdin().as_fd(),
                EventData::new_u64(SOCKET),
                EventFlags::IN | room,
            );
        }
    }

    /// How often this service shows apps that it lives, if any of them relies on it.
    fn beat_every(&self) -> Option<Duration> {
        let queues =
            self.channels.values().any(|c| !c.ended && matches!(c.running, Running::Queues(_)));
        match self.manager {
            false => Some(BEAT_ALONE),
            true => queues.then_some(BEAT_LIFE),
        }
    }

    fn beat(&mut self) {
        self.beat = Instant::now();
        self.channels.values().for_each(|c| c.running.beat_life());
        if !self.manager {
            self.channels.values().for_each(|c| c.running.beat_alone());
        }
    }

    /// When to look again whether something that was taken away is let go of.
    fn let_go_look(&self) -> Option<Duration> {
        let channels = self.channels.values().any(|c| c.running.is_leaving());
        (channels || !self.leaving.is_empty()).then_some(LET_GO_LOOK)
    }

    /// The manager is gone: channels are served on.
    fn alone(&mut self, why: &str) {
        if self.manager {
            self.manager = false;
            self.unsent.clear();
            // Nobody is there to say whose turn it is. One that has just had its turn,
            // or is about to have it, is all that its channel has.
            self.channels.values().for_each(|c| c.running.leave_alone());
            self.beat();
            self.waiting.clear();
            let _ = epoll::delete(&self.epoll, std::io::stdin().as_fd());
            log::line(format_args!(
                "the manager is gone ({why}); {} channels are served on",
                self.channels.values().filter(|c| !c.ended).count()
            ));
        }
    }
}
