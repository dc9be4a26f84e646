//! Negotiations: what an app asks for becomes a grant, or is refused.

use super::asked::AskedShape;
use super::catalog::{Client, Function, Hardware};
use super::grant::{Grant, Holder, Lease, Replay, Shape, Stage, Subject, Terms, dies_with_service};
use super::grants::Key;
use super::nacks::{self, malformed};
use super::requests::{Answer, body, zero};
use super::services::Owner;
use super::sessions::Session;
use super::{Action, Core, ReplyTo, rules};
use vfun_wire::kind::{self, ChannelKind};
use vfun_wire::message::{Kind, Location, Negotiate, NegotiateAck, Preference, WaitMode};
use vfun_wire::version::FunctionVersion;
use vfun_wire::{Handle, Nack, names};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// What a request asks for, as far as it can be read by itself.
struct WantedChannel<'a> {
    function: &'a str,
    version: FunctionVersion,
    signature: u64,
    preference: Preference,
    wait: WaitMode,
    kind: ChannelKind,
    shape: AskedShape,
    deadline_ms: u32,
}

impl<'a> WantedChannel<'a> {
    fn read(n: &'a Negotiate) -> Result<Self, Nack> {
        let reserved = n.reserved0.get() == 0 && n.reserved1 == [U64::ZERO; 3];
        zero("negotiate's reserved bytes", reserved)?;
        let function = names::decode(&n.function)
            .map_err(|e| malformed(format!("the function's name: {e}")))?;
        let preference = Preference::from_wire(n.preference)
            .ok_or_else(|| malformed(format!("{} is not a preference", n.preference)))?;
        let wait = WaitMode::from_wire(n.wait)
            .ok_or_else(|| malformed(format!("{} is not a way to wait", n.wait)))?;
        let kind = ChannelKind::from_wire(n.kind.get())
            .ok_or_else(|| malformed(format!("{} is not a kind of channel", n.kind)))?;
        Ok(WantedChannel {
            function,
            version: FunctionVersion(n.version.get()),
            signature: n.signature.get(),
            preference,
            wait,
            kind,
            shape: AskedShape::read(kind, &n.shape).map_err(|e| malformed(e.to_string()))?,
            deadline_ms: n.deadline_ms.get(),
        })
    }
}

impl Core {
    pub(super) fn negotiate(
        &mut self,
        now: u64,
        session: Handle,
        to: ReplyTo,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) -> Answer {
        let n: Negotiate = body(bytes, Kind::Negotiate)?;
        // Read again by a manager that took over before it was answered.
        let asked = self.grants.of(&Key::asked(to)).into_iter();
        let mut mine = asked.filter_map(|h| Some((h, self.grants.get(h).ok()?)));
        if let Some((handle, g)) = mine.find(|(_, g)| g.holder.session == session) {
            return Ok(self.negotiate_ack(handle, g));
        }
        let grant = self.to_be_granted(now, session, to, &WantedChannel::read(&n)?, out)?;
        let handle = self.grants.insert(grant.clone());
        self.record(handle, None, out);
        Ok(self.negotiate_ack(handle, &grant))
    }

    /// The grant that a request gets, if everything allows it.
    fn to_be_granted(
        &self,
        now: u64,
        session: Handle,
        to: ReplyTo,
        n: &WantedChannel<'_>,
        out: &mut Vec<Action>,
    ) -> Result<Grant, Nack> {
        let s = self.session(session)?;
        let client = self.client_of(s.window)?;
        let f = self.wanted_function(client, s, n)?;
        self.check_right(s, f)?;
        self.check_alone(s, f, out)?;
        let shape = self.wanted_shape(s, f, n)?;
        self.check_port(s, client, &shape)?;
        let deadline_ms = rules::deadline(&self.catalog, client, f, n.deadline_ms)?;
        self.within_quota(client, &f.name, &shape)?;
        let location = self.wanted_location(client, f, n.preference)?;
        rules::check_devices(&self.catalog, client, f, location)?;
        self.check_breaker(now, Owner::Client(client.id), &f.name, location)?;
        // A service that spins keeps a processor of the host busy for an idle
        // app: only where policy says so. The answer shows what is in force.
        let wait = match n.wait {
            WaitMode::Spin if !client.spin => WaitMode::Hybrid,
            mode => mode,
        };
        Ok(Grant {
            holder: Holder {
                session,
                window: s.window,
                client_id: client.id,
                client: client.name.clone(),
                vm: self.windows.get(&s.window).and_then(|w| w.vm.clone()),
                app_id: s.app_id,
                app: s.app.clone(),
            },
            port: self.port_of_shape(s, client, &shape).map(super::ports::Port::print),
            subject: Subject { function: f.name.clone(), location, of: f.own_print(), shape },
            terms: Terms {
                deadline_ms,
                calls_per_s: self.catalog.policy.of(&client.name, &f.name).calls_per_s,
                wait,
            },
            stage: Stage::Granted,
            lease: self.wanted_lease(client, f, location, n),
            replay: Replay { asked: to, activated: None },
            since_ms: now,
            restarts: 0,
            at_switch: None,
        })
    }

    /// The function that a request names, if this app may have it as it asks for it.
    fn wanted_function<'a>(
        &'a self,
        client: &Client,
        s: &Session,
        n: &WantedChannel<'_>,
    ) -> Result<&'a Function, Nack> {
        let found = self.catalog.function(client.id, n.function);
        let f = found.ok_or_else(|| self.no_such_function(client, n.function))?;
        rules::check_function(&self.catalog, client, &f.name)?;
        rules::check_submits(&self.catalog, client, &s.app, &f.name)?;
        self.check_drain(&client.name, &f.name)?;
        if !f.version.serves(n.version) {
            return Err(nacks::version(f, n.version));
        }
        if n.signature != 0 && n.signature != f.fingerprint() {
            return Err(nacks::signature(f, n.signature));
        }
        if !f.serves(n.kind) {
            return Err(nacks::kind(f, n.kind));
        }
        match s.features.has(kind::row(n.kind).needs) {
            true => Ok(f),
            false => Err(nacks::kind_without_feature(n.kind)),
        }
    }

    /// The channel that a request asks for, if its window could ever have room for it.
    fn wanted_shape(
        &self,
        s: &Session,
        f: &Function,
        n: &WantedChannel<'_>,
    ) -> Result<Shape, Nack> {
        let shape = n.shape.granted(n.kind, f)?;
        let w = self.windows.get(&s.window).ok_or_else(nacks::client_removed)?;
        match shape.bytes() > w.control.heap.total() {
            true => Err(nacks::larger_than_window(&shape, w)),
            false => Ok(shape),
        }
    }

    /// A grant's part in the competition for VFs, where the function's are leased. One
    /// that is granted on hardware has its VF at once.
    fn wanted_lease(
        &self,
        client: &Client,
        f: &Function,
        location: Location,
        n: &WantedChannel<'_>,
    ) -> Option<Lease> {
        let hw = f.hardware.as_ref().filter(|hw| hw.leased)?;
        let vf = location.is_hardware().then(|| self.free_vf(client.id, hw)).flatten();
        let wanted = n.preference == Preference::Any && f.software.is_some();
        let movable = wanted && !dies_with_service(n.kind);
        Some(Lease { device: hw.device.clone(), movable, vf, ..Lease::default() })
    }

    fn negotiate_ack(&self, grant: Handle, g: &Grant) -> Vec<u8> {
        let function = self.catalog.function(g.holder.client_id, &g.subject.function);
        NegotiateAck {
            grant: U64::new(grant.0),
            client_id: U32::new(g.holder.client_id),
            app_id: U32::new(g.holder.app_id),
            function_id: U32::new(function.map_or(0, |f| f.id)),
            version: U32::new(function.map_or(0, |f| f.version.0)),
            location: g.subject.location.to_wire(),
            wait: g.terms.wait.to_wire(),
            kind: U16::new(g.subject.shape.kind.to_wire()),
            deadline_ms: U32::new(g.terms.deadline_ms),
            shape: g.subject.shape.shape,
            reserved: [U64::ZERO; 2],
        }
        .as_bytes()
        .to_vec()
    }

    /// Whether all instances of a function's hardware are taken.
    fn is_busy(&self, client: &Client, f: &Function, hw: &Hardware) -> bool {
        if hw.leased {
            return self.free_vf(client.id, hw).is_none();
        }
        let on = self.grants.of(&Key::OnHardware(f.name.clone())).into_iter();
        let there = on.filter_map(|h| self.grants.get(h).ok());
        there.filter(|g| g.subject.location == hw.location).count() >= hw.instances as usize
    }

    /// Where a grant will run: hardware if there is an instance for it and the
    /// caller wants it, else software.
    fn wanted_location(
        &self,
        client: &Client,
        f: &Function,
        p: Preference,
    ) -> Result<Location, Nack> {
        let software = f.software.is_some();
        let refuse = |n: Nack| if software { n.offering_software() } else { n };
        let denied = rules::no_hardware(&self.catalog, client, &f.name);
        match (p, &f.hardware) {
            // It begins in software; who gets a VF is decided by what each does.
            (Preference::Any, Some(hw)) if hw.leased && software => Ok(Location::Software),
            (Preference::Any, Some(hw)) if denied.is_none() && !self.is_busy(client, f, hw) => {
                Ok(hw.location)
            }
            (Preference::Any | Preference::Software, _) if software => Ok(Location::Software),
            (Preference::Software, _) => Err(nacks::only_hardware(f)),
            (_, None) => Err(refuse(nacks::no_hardware(f))),
            (_, Some(hw)) => match denied {
                Some(nack) => Err(refuse(nack)),
                None if self.is_busy(client, f, hw) => Err(refuse(nacks::hardware_busy(f, hw))),
                None => Ok(hw.location),
            },
        }
    }
}
