//! One request through a control cell, from claim to answer.

use super::cell::{ControlCell, claim};
use crate::error::{Error, Result};
use crate::transport::{BellPlace, Bells, ControlPages, DoorbellWaiter, Window};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};
use vfun_wire::control::{ANSWER_ACK, ANSWER_BODY, ANSWER_NACK, Posted};
use vfun_wire::header::*;
use vfun_wire::message::Kind;
use vfun_wire::nack::Nack;
use vfun_wire::version::Features;

/// Looks before the first sleep: an answer by a manager that is awake takes a
/// few microseconds.
const SPIN_LOOKS: u32 = 300;
/// Longest sleep between two looks with a doorbell: the beat moves and the
/// host's life is checked this often.
const BELL_SLEEP: Duration = Duration::from_millis(50);
/// Shortest and longest sleep between two looks without one.
const TIMED_SLEEP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));
/// A host whose beat stands still this long, while it has no doorbell to
/// sleep on, is gone.
const HOST_BEAT_DEAD: Duration = Duration::from_secs(2);
/// How long a killed manager's place may stay empty before a request gives up.
const AWAY: Duration = Duration::from_secs(3);
/// How often a manager that declares sleep is rung again.
const RING_AGAIN: Duration = Duration::from_millis(100);

/// Control requests of one session through its window.
pub(crate) struct WindowControl {
    window: Arc<Window>,
    pages: Arc<ControlPages>,
    /// Whether the manager can be rung, and this side; otherwise it looks by the clock.
    bells: Bells,
    /// The host moves its beat at each look, having nothing to sleep on.
    beats: bool,
}

impl WindowControl {
    pub fn new(pages: Arc<ControlPages>) -> Self {
        let window = pages.window.clone();
        let offered = Features(window.checked.features.get()).has(Features::DOORBELL);
        WindowControl { bells: window.bells, window, pages, beats: !offered }
    }

    /// The pages that requests go through.
    pub fn pages(&self) -> &Arc<ControlPages> {
        &self.pages
    }

    /// Posts a request and waits for its answer.
    pub fn request(
        &self,
        kind: Kind,
        session: u64,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        self.check_host()?;
        let start = Instant::now();
        let cell = claim(&self.pages, timeout)?;
        let seq = cell.post(kind.to_wire(), session, body)?;
        let posted = ControlPages::guest_word(POSTED_OFF);
        self.pages.guest.fetch_add(posted, 1, Ordering::SeqCst);
        self.ring_sleeper();
        let answered = self.wait(&cell, seq, start, timeout, kind)?;
        self.read(&cell, answered, kind)
    }

    /// Rings the manager if it declares that it sleeps.
    fn ring_sleeper(&self) {
        fence(Ordering::SeqCst);
        if self.bells.ring && self.window.host_word(HOST_SLEEPS_OFF) != 0 {
            self.window.transport.ring(BellPlace::CONTROL);
        }
    }

    /// Whether there is somebody to ask, as far as can be told at once.
    fn check_host(&self) -> Result<()> {
        self.window.check_generation()?;
        if self.window.transport.host_gone() == Some(true) {
            return Err(Error::ManagerGone("its socket was closed"));
        }
        if self.window.host_word(HOST_STATE_OFF) as u32 == host_state::ENDED {
            return Err(Error::ManagerGone("it ended in an orderly way"));
        }
        Ok(())
    }

    fn wait(
        &self,
        cell: &ControlCell,
        seq: u32,
        start: Instant,
        timeout: Duration,
        kind: Kind,
    ) -> Result<Posted> {
        let before = seq.wrapping_sub(1);
        let look = || -> Result<Option<Posted>> {
            let a = cell.answered();
            if a.seq == seq {
                Ok(Some(a))
            } else if a.seq == before {
                Ok(None)
            } else {
                // A window that was made again starts at 0 again; anything else is nonsense.
                self.window.check_generation()?;
                Err(Error::HostNonsense(format!(
                    "the answer to '{kind}' bears number {} where {seq} was due",
                    a.seq
                )))
            }
        };
        for _ in 0..SPIN_LOOKS {
            if let Some(a) = look()? {
                return Ok(a);
            }
            vfun_window::pause();
        }
        let waiter = || self.window.transport.waiter(BellPlace::CONTROL)?.ok();
        let mut waiter = self.bells.rung.then(waiter).flatten();
        let mut sleep = if waiter.is_some() { Duration::from_millis(1) } else { TIMED_SLEEP.0 };
        let mut life = HostLife::new(self);
        let mut rung = Instant::now();
        loop {
            if let Some(a) = self.sleep(waiter.as_deref_mut(), sleep, look)? {
                return Ok(a);
            }
            sleep = if waiter.is_some() { BELL_SLEEP } else { (sleep * 2).min(TIMED_SLEEP.1) };
            cell.beat();
            self.check_host()?;
            life.check()?;
            if rung.elapsed() >= RING_AGAIN {
                self.ring_sleeper();
                rung = Instant::now();
            }
            if start.elapsed() >= timeout {
                return match look()? {
                    Some(a) => Ok(a),
                    None => {
                        Err(Error::ControlTimeout { request: kind.text(), waited: start.elapsed() })
                    }
                };
            }
        }
    }

    /// Declares sleep, looks once more, sleeps, looks again.
    fn sleep(
        &self,
        waiter: Option<&mut (dyn DoorbellWaiter + 'static)>,
        timeout: Duration,
        look: impl Fn() -> Result<Option<Posted>>,
    ) -> Result<Option<Posted>> {
        let Some(waiter) = waiter else {
            std::thread::sleep(timeout);
            return look();
        };
        let sleepers = ControlPages::guest_word(GUEST_SLEEPS_OFF);
        self.pages.guest.fetch_add(sleepers, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let found = look();
        if matches!(found, Ok(None)) {
            waiter.wait(timeout);
        }
        self.pages.guest.fetch_sub(sleepers, 1, Ordering::SeqCst);
        match found {
            Ok(None) => look(),
            other => other,
        }
    }

    /// Copies the answer once, then checks it.
    fn read(&self, cell: &ControlCell, answered: Posted, kind: Kind) -> Result<Vec<u8>> {
        let len = usize::from(answered.len);
        if len > ANSWER_BODY {
            return Err(Error::HostNonsense(format!(
                "the answer to '{kind}' claims {len} bytes, a control cell has {ANSWER_BODY}"
            )));
        }
        let generation = cell.answer_generation();
        let body = cell.copy_answer(len);
        if !cell.owned() || cell.answered() != answered {
            self.window.check_generation()?;
            return Err(Error::HostNonsense(format!(
                "the answer to '{kind}' changed while it was read"
            )));
        }
        if generation != self.window.generation() {
            return Err(Error::StaleGeneration {
                ours: self.window.generation(),
                found: generation,
            });
        }
        match answered.kind {
            ANSWER_ACK => Ok(body),
            ANSWER_NACK => Err(Error::Refused(Nack::decode(&body))),
            n => Err(Error::HostNonsense(format!("the answer to '{kind}' is of unknown kind {n}"))),
        }
    }
}

/// Whether a host without a doorbell still looks at its control cells.
struct HostLife<'a> {
    control: &'a WindowControl,
    beat: u64,
    moved: Instant,
    away: Option<Instant>,
}

impl<'a> HostLife<'a> {
    fn new(control: &'a WindowControl) -> Self {
        let beat = control.window.host_word(HOST_BEAT_OFF);
        HostLife { control, beat, moved: Instant::now(), away: None }
    }

    fn check(&mut self) -> Result<()> {
        if self.control.window.host_word(HOST_STATE_OFF) as u32 != host_state::AWAY {
            self.away = None;
        } else if self.away.get_or_insert_with(Instant::now).elapsed() >= AWAY {
            return Err(Error::ManagerGone("it was killed, and none has taken its place"));
        }
        if !self.control.beats {
            return Ok(());
        }
        let beat = self.control.window.host_word(HOST_BEAT_OFF);
        if beat != self.beat {
            (self.beat, self.moved) = (beat, Instant::now());
        } else if self.moved.elapsed() > HOST_BEAT_DEAD {
            return Err(Error::ManagerGone("its beat in the window stands still"));
        }
        Ok(())
    }
}
