//! A grant: a holder's right to a subject on certain terms, and how far it is with it.
//! Each stage carries what there is in it. These structs are what is noted, too.

use super::event::{ReplyTo, ServiceId, WindowId};
use super::place::Place;
use super::serial;
use super::switch::Moving;
use serde::{Deserialize, Serialize};
use vfun_wire::kind::{self, ChannelKind};
use vfun_wire::message::{Location, WaitMode};
use vfun_wire::place::ChannelPlace;
use vfun_wire::status::BreakReason;
use vfun_wire::{Handle, Status};

/// What a grant's stage is called: in the history, in lists, and in what apps are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// Negotiated; no channel yet.
    Granted,
    /// Waiting for its service and channel.
    Activating,
    /// Serving calls.
    Active,
    /// Its service died and is being started again.
    Recovering,
    /// Its channel broke; it can only be released.
    Broken,
    /// Released; the service has not let go of the channel yet.
    Closing,
    /// Gone. No grant is in it; the last record of one is.
    Released,
}

impl GrantState {
    /// For people and the history.
    pub const fn text(self) -> &'static str {
        match self {
            GrantState::Granted => "granted",
            GrantState::Activating => "activating",
            GrantState::Active => "active",
            GrantState::Recovering => "recovering",
            GrantState::Broken => "broken",
            GrantState::Closing => "closing",
            GrantState::Released => "released",
        }
    }
}

/// Who has a grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Session of the app that has it.
    #[serde(with = "serial")]
    pub session: Handle,
    /// The window of that.
    pub window: WindowId,
    /// clientID, kept beside the window: it is needed when that is gone.
    pub client_id: u32,
    #[serde(deserialize_with = "serial::name")]
    pub client: String,
    /// The VM that its app is in; none of a program on the host or over TCP.
    #[serde(default, deserialize_with = "serial::option_name")]
    pub vm: Option<String>,
    pub app_id: u32,
    #[serde(deserialize_with = "serial::name")]
    pub app: String,
}

/// What a channel was asked to be like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What its channel carries.
    #[serde(with = "serial")]
    pub kind: ChannelKind,
    /// How large it is, in the words of its kind.
    pub shape: kind::Shape,
}

/// Whether channels of a kind end with their service: nobody else knows what it kept of
/// them. Of the others all that there is to know stands in the window.
pub const fn dies_with_service(kind: ChannelKind) -> bool {
    match kind {
        // Of packets, too: rings say how far each side is (R-PKT-8).
        ChannelKind::Calls | ChannelKind::Floor | ChannelKind::Packets => false,
        ChannelKind::Queues => true,
    }
}

/// What is granted: a channel to a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subject {
    #[serde(deserialize_with = "serial::name")]
    pub function: String,
    /// Where its calls are computed.
    #[serde(with = "serial")]
    pub location: Location,
    /// Of a client's own function: which module it was when it was granted.
    /// Another may have its name when it is activated.
    #[serde(default)]
    pub of: Option<u64>,
    #[serde(flatten)]
    pub shape: Shape,
}

/// On which terms calls are served.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// Deadline of each call, ms.
    pub deadline_ms: u32,
    /// Calls a second that its channel takes; 0 for any number.
    #[serde(default)]
    pub calls_per_s: u32,
    /// How its service waits.
    #[serde(with = "serial")]
    pub wait: WaitMode,
}

/// How far a grant is, and what there is of it then.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum Stage {
    /// Negotiated; it has no place yet.
    Granted,
    /// Its place is laid out; its service is to open it.
    Activating {
        /// Where the channel lies in its window.
        place: Place,
        /// Who is to serve it.
        service: ServiceId,
        /// Who waits for its activation.
        waiting: Option<ReplyTo>,
    },
    /// Calls are served.
    Active {
        /// Where the channel lies in its window.
        place: Place,
        /// The service that answers its calls.
        service: ServiceId,
    },
    /// Its service died; calls wait for the next one.
    Recovering {
        /// Where the channel lies in its window.
        place: Place,
        /// Who is to serve it.
        service: ServiceId,
    },
    /// Its channel broke; it can only be released.
    Broken {
        /// Where the channel lies in its window.
        place: Place,
        /// Who has not let go of it yet.
        service: Option<ServiceId>,
        /// When this began, ms of the manager's clock.
        #[serde(rename = "closing_ms")]
        since_ms: u64,
        /// Why its app is to be told that it is broken, once no service is on its channel
        /// any more; nothing if it has been told.
        #[serde(with = "serial::option", default)]
        over: Option<BreakReason>,
    },
    /// Released; a service has not let go of it yet.
    Closing {
        /// Where the channel lies in its window.
        place: Place,
        /// Who has not let go of it yet, of those that served it.
        service: Option<ServiceId>,
        /// When this began, ms of the manager's clock.
        #[serde(rename = "closing_ms")]
        since_ms: u64,
        /// It was taken away from a program that may not know yet: its pages are given
        /// out again a little later only.
        #[serde(default)]
        hold_back: bool,
    },
}

impl Stage {
    /// Takes it out with its data. [`Stage::Granted`], which has none, is left.
    pub(super) fn take(&mut self) -> Stage {
        std::mem::replace(self, Stage::Granted)
    }

    /// What it is called.
    pub fn state(&self) -> GrantState {
        match self {
            Stage::Granted => GrantState::Granted,
            Stage::Activating { .. } => GrantState::Activating,
            Stage::Active { .. } => GrantState::Active,
            Stage::Recovering { .. } => GrantState::Recovering,
            Stage::Broken { .. } => GrantState::Broken,
            Stage::Closing { .. } => GrantState::Closing,
        }
    }

    /// Its place, once laid out.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Stage::Granted => None,
            Stage::Activating { place, .. }
            | Stage::Active { place, .. }
            | Stage::Recovering { place, .. }
            | Stage::Broken { place, .. }
            | Stage::Closing { place, .. } => Some(place),
        }
    }

    /// The service that has its channel, or is to have it.
    pub fn service(&self) -> Option<ServiceId> {
        match self {
            Stage::Granted => None,
            Stage::Activating { service, .. }
            | Stage::Active { service, .. }
            | Stage::Recovering { service, .. } => Some(*service),
            Stage::Broken { service, .. } | Stage::Closing { service, .. } => *service,
        }
    }

    /// Whether calls are served, or will be again.
    pub fn goes_on(&self) -> bool {
        matches!(self, Stage::Active { .. } | Stage::Recovering { .. })
    }

    /// Since when a broken or released one waits for its service to let go, ms.
    pub fn over_since(&self) -> Option<u64> {
        match self {
            Stage::Broken { since_ms, .. } | Stage::Closing { since_ms, .. } => Some(*since_ms),
            _ => None,
        }
    }

    /// Another service is to serve what waits for one.
    pub(super) fn serve_by(&mut self, by: ServiceId) {
        if let Stage::Activating { service, .. }
        | Stage::Active { service, .. }
        | Stage::Recovering { service, .. } = self
        {
            *service = by;
        }
    }

    /// What is served waits for a service from now on.
    pub(super) fn recover(&mut self) {
        match self.take() {
            Stage::Active { place, service } => *self = Stage::Recovering { place, service },
            other => *self = other,
        }
    }

    /// No service has the channel of what is over.
    pub(super) fn let_go(&mut self) {
        if let Stage::Broken { service, .. } | Stage::Closing { service, .. } = self {
            *service = None;
        }
    }
}

/// A grant's part in the competition for the VFs of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// The device whose VFs it may hold.
    pub device: String,
    /// It may move between software and a VF while it is active; otherwise it has
    /// the VF that it was granted until it ends.
    #[serde(rename = "leased")]
    pub movable: bool,
    /// The VF that it is on, or is to be on; nobody else is on it meanwhile.
    pub vf: Option<u16>,
    /// Where it is moving to.
    pub moving: Option<Moving>,
    /// Another service that has its channel mapped while it ends: its pages are
    /// given out again when both have let go.
    pub also: Option<ServiceId>,
    /// How often it has moved.
    pub switches: u64,
    /// A service that may have had its turn already has died in a hand-over: what the
    /// call that it left half done is answered with, once nobody is on the channel.
    #[serde(with = "serial::option")]
    pub left: Option<Status>,
}

/// A grant without a lease is noted without its fields, or, as by earlier managers,
/// with an empty name of a device.
mod lease {
    use super::*;
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(lease: &Option<Lease>, s: S) -> Result<S::Ok, S::Error> {
        lease.serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Lease>, D::Error> {
        let lease = Lease::deserialize(d)?;
        if lease.device.is_empty() {
            return Ok(None);
        }
        vfun_wire::names::check(&lease.device)
            .map_err(|e| D::Error::custom(format!("the device's name: {e}")))?;
        Ok(Some(lease))
    }
}

/// Requests that this grant answered: one that is read again, because a manager was
/// killed before it had answered, is answered with the same grant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The one that negotiated it.
    pub asked: ReplyTo,
    /// The one that activated it.
    pub activated: Option<ReplyTo>,
}

/// One grant: a function that an app may call, and the channel for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Whose it is: window, session, app.
    #[serde(flatten)]
    pub holder: Holder,
    /// Function, location and channel that were granted.
    #[serde(flatten)]
    pub subject: Subject,
    #[serde(flatten)]
    pub terms: Terms,
    /// How far it is.
    #[serde(flatten)]
    pub stage: Stage,
    /// Its part in a competition for VFs, if its function's are leased.
    #[serde(flatten, with = "lease")]
    pub lease: Option<Lease>,
    /// The last answer, for a request that comes again.
    #[serde(flatten)]
    pub replay: Replay,
    /// When it was granted, ms.
    pub since_ms: u64,
    /// Starts of its service after the first.
    pub restarts: u32,
    /// With a port: how it was declared when it was granted, as [`Port::print`] says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u64>,
    /// A switch has the memory of its channel mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_switch: Option<AtSwitch>,
}

/// Which switch has the memory of a port's channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtSwitch {
    /// The port's name on the host.
    pub port: String,
    /// The switch's process, and when that began, in ticks since the system's start: so that
    /// it can be told from another one that got its number later.
    pub pid: u32,
    pub began: u64,
}

impl Grant {
    /// What its stage is called.
    pub fn state(&self) -> GrantState {
        self.stage.state()
    }

    /// The service that has its channel, or is to have it.
    pub fn service(&self) -> Option<ServiceId> {
        self.stage.service()
    }

    /// Where its channel lies and what it is like, once laid out.
    pub fn channel(&self) -> Option<ChannelPlace> {
        self.stage.place().map(Place::channel)
    }

    /// The same, if what its pages say is its own: until it is first opened they
    /// hold what the grant before it left.
    pub fn told(&self) -> Option<ChannelPlace> {
        match self.stage {
            Stage::Activating { .. } => None,
            _ => self.channel(),
        }
    }

    /// Whether it is served and cannot be served by another service.
    pub(super) fn dies_with_service(&self) -> bool {
        self.stage.goes_on() && dies_with_service(self.subject.shape.kind)
    }

    /// Whether it is broken or released.
    pub fn is_over(&self) -> bool {
        self.stage.over_since().is_some()
    }

    /// Whether it may move between software and a VF.
    pub fn movable(&self) -> bool {
        self.lease.as_ref().is_some_and(|l| l.movable)
    }

    /// The VF that it is on, or is to be on.
    pub fn vf(&self) -> Option<u16> {
        self.lease.as_ref()?.vf
    }

    /// Its move, if it moves.
    pub fn moving(&self) -> Option<Moving> {
        self.lease.as_ref()?.moving
    }

    /// Another service that has its channel mapped while it ends.
    pub fn also(&self) -> Option<ServiceId> {
        self.lease.as_ref()?.also
    }

    /// How often it has moved.
    pub fn switches(&self) -> u64 {
        self.lease.as_ref().map_or(0, |l| l.switches)
    }

    pub(super) fn set_vf(&mut self, vf: Option<u16>) {
        if let Some(l) = &mut self.lease {
            l.vf = vf;
        }
    }

    pub(super) fn set_moving(&mut self, moving: Option<Moving>) {
        if let Some(l) = &mut self.lease {
            l.moving = moving;
        }
    }

    /// It runs elsewhere from now on.
    pub(super) fn goes_to(&mut self, location: Location) {
        self.subject.location = location;
        if let Some(l) = &mut self.lease {
            l.switches += 1;
        }
    }

    pub(super) fn set_also(&mut self, also: Option<ServiceId>) {
        if let Some(l) = &mut self.lease {
            l.also = also;
        }
    }

    /// Takes out what a call is to be answered with that was left half done.
    pub(super) fn take_left(&mut self) -> Option<Status> {
        self.lease.as_mut()?.left.take()
    }

    /// Whether it can be: what notes say is refused otherwise.
    pub(super) fn check(&self) -> Result<(), String> {
        let shape = &self.subject.shape;
        shape.wants().map_err(|e| e.to_string())?;
        self.stage.place().map_or(Ok(()), |place| place.check(shape))
    }
}
