//! Talks with the host: asks for the next order all the time, and reports.
//!
//! Whatever goes wrong here, the bond stays as it is, and the host is tried again after a
//! pause.

use crate::limits::{CELLS, HOST_GOOD, HOST_PAUSE, HOST_SLEEP, NEXT_PAUSE};
use crate::log::{Causes, line};
use crate::mailbox::{Mailbox, silence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::convert::Infallible;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Error, Function, FunctionRequest, FunctionVersion};
use vfun::{Pending, WaitMode, Waiter};
use vfun_bond::{Call, FUNCTION, MESSAGE_BYTES, Order, VERSION};

/// How this app is called at the host.
const APP: &str = "vfun-agent";
/// The variable that the library reads.
const ENDPOINT_VARIABLE: &str = "VFUN_ENDPOINT";

/// Pauses between two tries, which double until a channel was good.
struct Pauses(Duration);

impl Pauses {
    fn next(&mut self, lived: Duration) -> Duration {
        if lived >= HOST_GOOD {
            self.0 = HOST_PAUSE.0;
        }
        let pause = self.0;
        self.0 = (pause * 2).min(HOST_PAUSE.1);
        pause
    }
}

/// Talks until the process ends.
pub fn talk(mailbox: &Mailbox) -> Infallible {
    let mut causes = Causes::default();
    let mut pauses = Pauses(HOST_PAUSE.0);
    loop {
        let start = Instant::now();
        let Err(why) = open_and_serve(mailbox, &mut causes);
        let pause = pauses.next(start.elapsed());
        causes.now("host", Some(&format!("the host gives no orders: {why}")));
        mailbox.set_host(&why);
        std::thread::sleep(pause);
    }
}

fn explain(e: &Error) -> String {
    let advice = e.advice();
    if advice.is_empty() { e.to_string() } else { format!("{e}. {advice}") }
}

/// The kernel module: the host believes its word that this program may change the VM's
/// network. The library would map the window itself while the module is still to come. The
/// variable may name another one.
fn endpoint() -> Endpoint {
    match std::env::var_os(ENDPOINT_VARIABLE) {
        Some(name) if !name.is_empty() => Endpoint::Auto,
        _ => Endpoint::Module(None),
    }
}

fn open_and_serve(mailbox: &Mailbox, causes: &mut Causes) -> Result<Infallible, String> {
    let request = FunctionRequest::new(FUNCTION)
        .version(FunctionVersion::new(VERSION.0, VERSION.1))
        .depth(CELLS)
        .cell_bytes(MESSAGE_BYTES as u32)
        .service_waits(WaitMode::Sleep);
    let options = ConnectOptions::new(APP).endpoint(endpoint());
    let session = options.connect().map_err(|e| explain(&e))?;
    let function = session.negotiate(&request).and_then(vfun::Grant::activate);
    let function = function.map_err(|e| explain(&e))?;
    mailbox.set_host("is there, and has given no order yet");
    let mut channel =
        Channel { mailbox, causes, have: 0, next: None, next_at: Instant::now(), tell: None };
    channel.serve(&function).map_err(|e| explain(&e))
}

/// Whether only this call failed. A service that was ended is started again, and serves the
/// same channel.
fn channel_goes_on(e: &Error) -> bool {
    use Error::{Deadline, Driver, DriverCrashed, ServiceLost};
    matches!(e, Driver { .. } | DriverCrashed | Deadline | ServiceLost)
}

/// A channel of the function `bond`, with the calls that are under way.
struct Channel<'a> {
    mailbox: &'a Mailbox,
    causes: &'a mut Causes,
    /// Number of the order that was received here.
    have: u64,
    next: Option<Pending<'a>>,
    next_at: Instant,
    tell: Option<Pending<'a>>,
}

impl<'a> Channel<'a> {
    fn serve(&mut self, function: &'a Function) -> Result<Infallible, Error> {
        let mut waiter = Waiter::new()?;
        loop {
            self.submit(function)?;
            let calls = [&self.next, &self.tell].into_iter().flatten();
            let answered = waiter.arm(calls)?;
            if answered.is_empty() {
                self.sleep(&waiter);
            }
            self.take_answers()?;
        }
    }

    fn submit(&mut self, function: &'a Function) -> Result<(), Error> {
        if self.next.is_none() && Instant::now() >= self.next_at {
            self.next = Some(function.submit(&Call::Next { have: self.have }.to_bytes())?);
        }
        if self.tell.is_none()
            && let Some(report) = self.mailbox.take_report()
        {
            self.tell = Some(function.submit(&Call::Tell(report).to_bytes())?);
        }
        Ok(())
    }

    fn take_answers(&mut self) -> Result<(), Error> {
        if let Some(answer) = self.next.as_mut().and_then(Pending::try_wait) {
            self.next = None;
            self.next_at = Instant::now() + NEXT_PAUSE;
            match answer {
                Ok(bytes) => self.take_order(&bytes),
                Err(e) if channel_goes_on(&e) => {
                    self.next_at = Instant::now() + HOST_PAUSE.0;
                    self.causes
                        .now("order", Some(&format!("the host was asked for an order: {e}")));
                }
                Err(e) => return Err(e),
            }
        }
        match self.tell.as_mut().and_then(Pending::try_wait) {
            None => return Ok(()),
            Some(Ok(_)) => self.causes.now("report", None),
            // The next report says it all again.
            Some(Err(e)) if channel_goes_on(&e) => {
                self.causes.now("report", Some(&format!("the host takes no report: {e}")));
            }
            Some(Err(e)) => return Err(e),
        }
        self.tell = None;
        Ok(())
    }

    fn take_order(&mut self, bytes: &[u8]) {
        match Order::from_bytes(bytes) {
            Ok(order) => {
                if self.have == 0 {
                    line("the host gives orders");
                    self.mailbox.set_host("gives orders");
                }
                self.causes.now("host", None);
                self.causes.now("order", None);
                self.have = order.number;
                self.mailbox.put_order(order);
            }
            // Asked again after the pause.
            Err(e) => self.causes.now("order", Some(&format!("an order cannot be read: {e}"))),
        }
    }

    fn sleep(&self, waiter: &Waiter) {
        let next = self.next_at.saturating_duration_since(Instant::now());
        let limit = match self.next {
            None => next.max(Duration::from_millis(1)),
            Some(_) => HOST_SLEEP,
        };
        // While a report is under way, the next one can wait.
        let bell = match self.tell {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        let mut fds = [
            PollFd::from_borrowed_fd(waiter.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.mailbox.host_bell(), bell),
        ];
        let limit = Timespec::try_from(limit).ok();
        let rang = poll(&mut fds, limit.as_ref()).is_ok() && !fds[1].revents().is_empty();
        if rang {
            silence(self.mailbox.host_bell());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_begin_anew_only_after_a_good_channel() {
        let mut pauses = Pauses(HOST_PAUSE.0);
        let short = Duration::from_secs(1);
        let first: Vec<u64> = (0..7).map(|_| pauses.next(short).as_secs()).collect();
        assert_eq!(first, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pauses.next(HOST_GOOD).as_secs(), 1);
        assert_eq!(pauses.next(short).as_secs(), 2);
    }
}
