//! A session's steps, one by one and by hand, so that whoever takes them can die
//! at each.

use crate::app::{self, App, Channel};
use crate::window::{Place, Window};
use std::io::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun_wire::channel::in_header;
use vfun_wire::message::Kind;
use zerocopy::IntoBytes;

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It has a window.
    Attached,
    /// Its hello is posted.
    HelloPosted,
    /// It has a session.
    Greeted,
    /// Its negotiation is posted.
    NegotiatePosted,
    /// It has a grant.
    Negotiated,
    /// Its activation is posted.
    ActivatePosted,
    /// It has a channel.
    Active,
    /// A call is posted behind another one, so that nobody has taken it.
    CallPosted,
    /// A call is computed.
    Computing,
    /// A result is written, and not taken.
    Written,
    /// Its release is posted, over a call under way.
    ReleasePosted,
    /// Its grant is given back.
    Released,
    /// Its goodbye is posted.
    GoodbyePosted,
}

use Step::*;

/// All of them, in order.
pub const STEPS: [Step; 13] = [
    Attached,
    HelloPosted,
    Greeted,
    NegotiatePosted,
    Negotiated,
    ActivatePosted,
    Active,
    CallPosted,
    Computing,
    Written,
    ReleasePosted,
    Released,
    GoodbyePosted,
];

/// What must stay open while the step lasts.
pub struct Held {
    _window: Arc<Window>,
}

impl Step {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Attached => "attached",
            HelloPosted => "hello posted",
            Greeted => "session open",
            NegotiatePosted => "negotiate posted",
            Negotiated => "granted",
            ActivatePosted => "activate posted",
            Active => "active",
            CallPosted => "call posted",
            Computing => "call computing",
            Written => "result written",
            ReleasePosted => "release posted",
            Released => "released",
            GoodbyePosted => "goodbye posted",
        }
    }

    /// By its words.
    pub fn named(name: &str) -> Option<Step> {
        STEPS.into_iter().find(|s| s.name() == name)
    }

    /// Goes that far in a window of its own.
    ///
    /// # Errors
    /// The host refused something on the way.
    pub fn reach(self, place: &Place) -> Result<Held> {
        let w = Window::attach(place)?;
        self.walk(&w)?;
        Ok(Held { _window: w })
    }

    fn walk(self, w: &Window) -> Result<()> {
        if self == Attached {
            return Ok(());
        }
        if self == HelloPosted {
            app::post(w, 0, Kind::Hello.to_wire(), 0, app::hello_body("mortal").as_bytes());
            return Ok(());
        }
        let app = got("hello", App::hello(w, 0, "mortal"))?;
        let post = |kind: Kind, body: &[u8]| {
            app::post(w, 0, kind.to_wire(), app.session, body);
            Ok(())
        };
        if self == Greeted {
            return Ok(());
        }
        if self == NegotiatePosted {
            let body = app::negotiate_body("misbehave", 4, 256);
            return post(Kind::Negotiate, body.as_bytes());
        }
        let grant = got("negotiate", app.negotiate(w, "misbehave", 4, 256))?;
        if self == Negotiated {
            return Ok(());
        }
        if self == ActivatePosted {
            return post(Kind::Activate, &grant.to_le_bytes());
        }
        let mut channel = got("activate", patiently(|| app.activate(w, grant)))?;
        match self {
            Active => Ok(()),
            Released => got("release", app.release(w, grant)).map(|_| ()),
            GoodbyePosted => {
                got("release", app.release(w, grant))?;
                post(Kind::Goodbye, &[0; 8])
            }
            Written => {
                channel.call(w, 0, &[0, 1, 2, 3]);
                until("the result", || channel.free(w, 0))
            }
            _ => {
                // Sleeps, and the next one waits behind it.
                channel.call(w, 0, &[6, 200, 0, 0, 0]);
                until("a call under way", || computing(w, &channel))?;
                match self {
                    CallPosted => {
                        channel.call(w, 1, &[0, 1]);
                        Ok(())
                    }
                    ReleasePosted => post(Kind::Release, &grant.to_le_bytes()),
                    _ => Ok(()),
                }
            }
        }
    }
}

fn computing(w: &Window, channel: &Channel) -> bool {
    w.span.load(channel.inn() + in_header::CURRENT, Ordering::Acquire) != 0
}

fn got<T>(what: &str, got: app::Got<T>) -> Result<T> {
    match got {
        Some(Ok(t)) => Ok(t),
        Some(Err(nack)) => Err(Error::other(format!("{what}: {nack}"))),
        None => Err(Error::other(format!("{what}: no answer"))),
    }
}

/// An activation may take longer than an attacker cares to wait, on a busy machine.
fn patiently<T>(mut ask: impl FnMut() -> app::Got<T>) -> app::Got<T> {
    (0..4).find_map(|_| ask())
}

fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        if Instant::now() > until {
            return Err(Error::other(format!("{what} did not come to pass")));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Ends this process as kill -9 does.
pub fn die() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}
