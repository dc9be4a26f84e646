//! Policy in force: what a client holds, whether it may have more, and what
//! it loses when policy changes.

use super::catalog::{Catalog, Client, Function};
use super::grant::{Grant, Shape, Stage};
use super::grants::Key as GrantKey;
use super::services::{Service, ServiceState};
use super::{Action, Core, ServiceId};
use crate::policy::{Key, Policy, Rules, key_of, matches};
use sha2::{Digest, Sha256};
use vfun_admin::policy::Holds;
use vfun_jail::Device;
use vfun_wire::message::Location;
use vfun_wire::{Handle, Nack, NackCode};

/// What a client's grants and buffers add up to. What grants do is counted from the
/// grants themselves each time, so that a charge ends with its grant whichever way that
/// goes, and a manager that takes over has nothing to restore. There can be many more
/// buffers: their sum is kept, and [`Core::check`] compares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// Grants, those that are being closed included.
    pub channels: u32,
    /// Bytes of both sides of their channels, laid out or to be laid out.
    pub bytes: u64,
    /// Calls that can be in flight: cells.
    pub in_flight: u32,
    /// Buffers, those that are being given back included. They are a client's: of one
    /// function there are none.
    pub buffers: u32,
    /// Bytes of these.
    pub buffer_bytes: u64,
}

impl From<Charges> for Holds {
    fn from(c: Charges) -> Self {
        Holds {
            channels: c.channels,
            bytes: c.bytes,
            in_flight: c.in_flight,
            buffers: c.buffers,
            buffer_bytes: c.buffer_bytes,
        }
    }
}

/// What a change of policy or of tokens takes from those who have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Sessions that end, and why.
    pub sessions: Vec<(Handle, &'static str)>,
    /// Grants that end, and why; those of sessions that end are not among them.
    pub grants: Vec<(Handle, String)>,
    /// Channels that are served at another rate: calls a second, 0 for any.
    pub rates: Vec<(Handle, u32)>,
}

/// A refusal by a rule names the rule, where it stands, and who can change it.
fn by_policy(
    catalog: &Catalog,
    code: NackCode,
    client: &Client,
    function: &str,
    key: Key,
    what: String,
) -> Nack {
    let section = catalog.policy.section(&client.name, function, key);
    Nack::new(
        code,
        format!("{what} ({key} in {section} of the host's policy); its operator can change that"),
    )
}

/// Until a policy that cannot be read is corrected, nothing new is granted.
fn readable(catalog: &Catalog) -> Result<(), Nack> {
    if catalog.policy_unreadable {
        return Err(Nack::new(
            NackCode::Denied,
            "the policy of this host cannot be read, so that nothing new is granted until its operator has corrected it (`vfun policy check` on the host shows the line)",
        ));
    }
    Ok(())
}

/// Whether policy lets a client use a function.
pub(super) fn check_function(catalog: &Catalog, client: &Client, f: &str) -> Result<(), Nack> {
    readable(catalog)?;
    check_may(catalog, client, f)
}

/// The same of a function of the host that somebody only asks about.
pub(super) fn check_may(catalog: &Catalog, client: &Client, f: &str) -> Result<(), Nack> {
    if !client.may_use(f) {
        return Err(Nack::new(
            NackCode::Denied,
            format!(
                "client {} may not use '{f}': its manifest does not list it; the host's operator can change that",
                client.name
            ),
        ));
    }
    if !catalog.policy.may_use(&client.name, f) {
        let what = format!("client {} may not use '{f}'", client.name);
        return Err(by_policy(catalog, NackCode::Denied, client, "", key_of(f), what));
    }
    Ok(())
}

/// Whether policy lets an app of a client bring modules, where it asks for the
/// function by which it does.
pub(super) fn check_submits(
    catalog: &Catalog,
    client: &Client,
    app: &str,
    f: &str,
) -> Result<(), Nack> {
    if f != vfun_submit::FUNCTION || may_submit(catalog, client, app) {
        return Ok(());
    }
    let what = format!("app {app} of client {} may not submit modules", client.name);
    Err(by_policy(catalog, NackCode::Denied, client, "", Key::Submit, what))
}

/// Whether policy lets an app of a client bring modules.
pub fn may_submit(catalog: &Catalog, client: &Client, app: &str) -> bool {
    !catalog.policy_unreadable
        && catalog.policy.submit(&client.name).iter().any(|p| matches(p, app))
}

/// Whether a client is shown a function.
pub(super) fn offered(catalog: &Catalog, client: &Client, f: &str) -> bool {
    client.may_use(f) && catalog.policy.may_use(&client.name, f)
}

/// Why a client may not have hardware for a function, if it may not.
pub(super) fn no_hardware(catalog: &Catalog, client: &Client, f: &str) -> Option<Nack> {
    if !client.hardware {
        let what = format!("client {} may not use hardware: its manifest says so.", client.name);
        return Some(Nack::new(NackCode::Denied, what));
    }
    if !catalog.policy.of(&client.name, f).hardware {
        let what = format!("client {} may not use hardware for '{f}'", client.name);
        return Some(by_policy(catalog, NackCode::Denied, client, f, Key::Hardware, what));
    }
    let hardware = catalog.functions.get(f).and_then(|f| Some((f, f.hardware.as_ref()?.location)));
    hardware.and_then(|(f, location)| check_devices(catalog, client, f, location).err())
}

/// The first of these devices that policy does not let a client's services open.
fn closed<'a>(policy: &Policy, client: &str, devices: &'a [Device]) -> Option<&'a Device> {
    devices.iter().find(|d| !policy.may_open(client, &d.path.display().to_string()))
}

/// Why policy does not let a client's services have these devices any more, if so;
/// `None` for those that nobody knows.
fn not_let(policy: &Policy, client: &str, devices: Option<&[Device]>) -> Option<String> {
    let section = || policy.section(client, "", Key::Devices);
    let Some(devices) = devices else {
        // Only what stands for all devices stands for this text.
        let all = policy.may_open(client, "/dev/*");
        return (!all).then(|| {
            format!(
                "an earlier manager did not note which devices its service has, and policy lets it open only some (devices in {})",
                section()
            )
        });
    };
    let node = closed(policy, client, devices)?.path.display();
    Some(format!("policy does not let it open {node} any more (devices in {})", section()))
}

/// Why the manifest of its function does not let a service have its devices any
/// more, if so.
fn unnamed(catalog: &Catalog, s: &Service) -> Option<String> {
    let now = catalog.function_of(s.owner, &s.function)?.devices_at(s.location);
    let device = s.devices.iter().flatten().find(|d| !now.iter().any(|now| now.covers(d)))?;
    let node = device.path.display();
    Some(format!("its function's manifest does not name {node}, or a request of it, any more"))
}

/// Why a client's service may not have its devices any more, if so.
fn lost(catalog: &Catalog, client: &str, s: &Service) -> Option<String> {
    unnamed(catalog, s).or_else(|| not_let(&catalog.policy, client, s.devices.as_deref()))
}

/// Whether policy lets a client's services open the devices that a function's
/// driver at a place needs.
pub(super) fn check_devices(
    catalog: &Catalog,
    client: &Client,
    f: &Function,
    location: Location,
) -> Result<(), Nack> {
    let Some(device) = closed(&catalog.policy, &client.name, f.devices_at(location)) else {
        return Ok(());
    };
    let (name, node) = (&client.name, device.path.display());
    let what = format!("client {name} may not open {node}, which '{}' needs", f.name);
    Err(by_policy(catalog, NackCode::Denied, client, "", Key::Devices, what))
}

/// The deadline of a grant's calls, ms.
pub(super) fn deadline(
    catalog: &Catalog,
    client: &Client,
    f: &Function,
    wanted: u32,
) -> Result<u32, Nack> {
    let most = catalog.policy.of(&client.name, &f.name).deadline_ms;
    match wanted {
        0 => Ok(f.deadline_ms.min(most)),
        d if d > f.deadline_ms => Err(Nack::new(
            NackCode::BeyondLimit,
            format!("a deadline of {d} ms is beyond the {} ms of '{}'", f.deadline_ms, f.name),
        )),
        d if d > most => {
            let what =
                format!("a deadline of {d} ms is beyond the {most} ms of client {}", client.name);
            let (code, key) = (NackCode::BeyondLimit, Key::DeadlineMs);
            Err(by_policy(catalog, code, client, &f.name, key, what))
        }
        d if f.fixed_deadline && d < f.deadline_ms.min(most) => Err(Nack::new(
            NackCode::BeyondLimit,
            format!(
                "a deadline of {d} ms is too short: calls of '{}' have {} ms, because one that is past its deadline ends the service of all programs of client {}; ask for no deadline",
                f.name,
                f.deadline_ms.min(most),
                client.name
            ),
        )),
        d => Ok(d),
    }
}

/// Whether an app that presents this credential may act for a client: the id
/// of its token, if it has one. `app` is not known where a program merely asks
/// for a window; whoever says hello in it is asked again. With `prove` it must
/// show something even where the client asks its other apps for nothing.
pub fn admit(
    catalog: &Catalog,
    now: u64,
    client: &Client,
    app: Option<&str>,
    credential: &[u8],
    prove: bool,
) -> Result<Option<u64>, Nack> {
    let bad = |sentence: String| Err(Nack::new(NackCode::BadCredential, sentence));
    let prove = prove && client.credential_sha256.is_none();
    let required = catalog.policy.client(&client.name).tokens || prove;
    let given: [u8; 32] = Sha256::digest(credential).into();
    let tokens = catalog.tokens.get(&client.id).map_or(&[][..], Vec::as_slice);
    if prove && tokens.is_empty() {
        let name = &client.name;
        return Err(Nack::new(
            NackCode::Denied,
            format!(
                "client {name} has nothing yet by which callers over the network are known: its operator makes a token (`vfun token add {name}`), gives it a credential, or accepts every caller (`tcp = \"open\"` in its manifest)"
            ),
        ));
    }
    // All are compared, and each whole: what it takes tells nothing of any.
    let token =
        tokens.iter().fold(None, |found, t| if same(&t.sha256, &given) { Some(t) } else { found });
    let usable = token.filter(|t| t.is_of(app) && !t.expired(now));
    if let Some(t) = usable {
        return Ok(Some(t.id));
    }
    let right = match (required, &client.credential_sha256) {
        (false, None) => return Ok(None),
        (false, Some(right)) => same(right, &given),
        (true, _) => false,
    };
    if right {
        return Ok(None);
    }
    let name = &client.name;
    match token {
        Some(t) if t.expired(now) => bad(format!(
            "this token of client {name} has expired: ask the host's operator for another one"
        )),
        Some(t) => bad(format!("this token of client {name} is for apps named '{}'", t.app)),
        None if credential.is_empty() && required => bad(format!(
            "client {name} asks its apps for a token: pass one as the credential (VFUN_TOKEN_FILE); the host's operator makes one with `vfun token add {name}`"
        )),
        None if credential.is_empty() => bad(format!(
            "client {name} asks its apps for a credential: set VFUN_CREDENTIAL or pass one"
        )),
        None if required => bad(format!(
            "this credential is no token of client {name}; it may have been revoked or replaced"
        )),
        None => bad(format!("the credential is not the one of client {name}")),
    }
}

/// In a time that does not depend on where they differ.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let differ = a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y));
    std::hint::black_box(differ) == 0
}

impl Core {
    /// What a client's grants add up to; of one function only, if one is named.
    pub fn charges(&self, client: u32, function: Option<&str>) -> Charges {
        let all = self.grants.of(&GrantKey::Client(client)).into_iter();
        let (buffers, buffer_bytes) = match function {
            None => self.buffers.charged(client),
            Some(_) => (0, 0),
        };
        all.filter_map(|h| self.grants.get(h).ok())
            .filter(|g| function.is_none_or(|f| g.subject.function == f))
            .fold(Charges { buffers, buffer_bytes, ..Charges::default() }, |c, g| Charges {
                channels: c.channels.saturating_add(1),
                bytes: c.bytes.saturating_add(g.subject.shape.bytes()),
                in_flight: c.in_flight.saturating_add(g.subject.shape.cells().depth.get().into()),
                ..c
            })
    }

    /// Whether a client may have one more grant.
    pub(super) fn within_quota(
        &self,
        client: &Client,
        function: &str,
        wanted: &Shape,
    ) -> Result<(), Nack> {
        let policy = &self.catalog.policy;
        let all = self.charges(client.id, None);
        if all.channels >= client.max_grants {
            return Err(Nack::new(
                NackCode::OverQuota,
                format!(
                    "client {} holds {} grants, as many as its manifest allows (max_grants): release one",
                    client.name, all.channels
                ),
            ));
        }
        let of_function = self.charges(client.id, Some(function));
        let bounds: [(Charges, Rules, &str); 2] = [
            (all, policy.client(&client.name), ""),
            (of_function, policy.of(&client.name, function), function),
        ];
        for (held, rules, of) in bounds {
            let whom = match of {
                "" => format!("client {}", client.name),
                f => format!("client {} with '{f}'", client.name),
            };
            let over =
                |key, what| by_policy(&self.catalog, NackCode::OverQuota, client, of, key, what);
            if held.channels >= rules.channels {
                let what = format!(
                    "{whom} holds {} channels of {}: release one",
                    held.channels, rules.channels
                );
                return Err(over(Key::Channels, what));
            }
            let left = rules.bytes.saturating_sub(held.bytes);
            if wanted.bytes() > left {
                let what = format!(
                    "a channel of {} bytes is more than the {left} that {whom} has left of {}: release one, or ask for fewer or smaller cells",
                    wanted.bytes(),
                    rules.bytes
                );
                return Err(over(Key::Bytes, what));
            }
            let left = rules.in_flight.saturating_sub(held.in_flight);
            if u32::from(wanted.cells().depth.get()) > left {
                let what = format!(
                    "{} calls at once are more than the {left} that {whom} has left of {}: release a channel, or ask for less depth",
                    wanted.cells().depth,
                    rules.in_flight
                );
                return Err(over(Key::InFlight, what));
            }
        }
        Ok(())
    }

    /// Whether a client may have a buffer of so many bytes more.
    pub(super) fn within_buffer_quota(&self, client: &Client, bytes: u64) -> Result<(), Nack> {
        readable(&self.catalog)?;
        let most = self.catalog.policy.client(&client.name).buffer_bytes;
        let (buffers, held) = self.buffers.charged(client.id);
        let left = most.saturating_sub(held);
        if bytes <= left {
            return Ok(());
        }
        let (name, ending) = (&client.name, self.buffers.ending_bytes(client.id));
        let ending = match ending {
            0 => String::new(),
            n => format!(" ({n} of them are being given back: try again in a moment)"),
        };
        let what = format!(
            "a buffer of {bytes} bytes is more than the {left} that client {name} has left of {most}: {buffers} buffers of it have {held} bytes{ending}; give one back, or ask for less"
        );
        let (code, key) = (NackCode::OverQuota, Key::BufferBytes);
        Err(by_policy(&self.catalog, code, client, "", key, what))
    }

    /// What another catalog would take from those who have it.
    pub fn effects(&self, catalog: &Catalog) -> Effects {
        let mut effects = Effects::default();
        // It is the manager that cannot say what is right, not the app that is wrong.
        if catalog.policy_unreadable {
            return effects;
        }
        for (handle, s) in self.sessions.iter() {
            let client = self.windows.get(&s.window).and_then(|w| catalog.clients.get(&w.client));
            let Some(client) = client else { continue };
            let known =
                |id| catalog.tokens.get(&client.id).is_some_and(|t| t.iter().any(|t| t.id == id));
            let why = match s.token {
                Some(id) if !known(id) => "its token was revoked",
                None if catalog.policy.client(&client.name).tokens => {
                    "policy asks its app for a token"
                }
                _ => continue,
            };
            effects.sessions.push((handle, why));
        }
        for (handle, g) in self.grants.iter() {
            let gone = effects.sessions.iter().any(|(s, _)| *s == g.holder.session);
            if gone || matches!(g.stage, Stage::Closing { .. }) {
                continue;
            }
            let rules = catalog.policy.of(&g.holder.client, &g.subject.function);
            let calls_per_s = rules.calls_per_s;
            if let Some(why) = self.taken(catalog, g) {
                effects.grants.push((handle, why));
            } else if g.terms.calls_per_s != calls_per_s {
                effects.rates.push((handle, calls_per_s));
            }
        }
        effects
    }

    /// Why another catalog takes a grant away, if it does.
    fn taken(&self, catalog: &Catalog, g: &Grant) -> Option<String> {
        let (policy, client) = (&catalog.policy, g.holder.client.as_str());
        let f = g.subject.function.as_str();
        let manifest = catalog.clients.get(&g.holder.client_id);
        if !policy.may_use(client, f) {
            let key = key_of(f);
            let section = policy.section(client, "", key);
            let what = match key {
                Key::Submit => "policy does not let its client submit any more",
                _ => "policy does not list its function any more",
            };
            return Some(format!("{what} ({key} in {section})"));
        }
        if manifest.is_some_and(|c| !c.may_use(f)) {
            return Some("its client's manifest does not list its function any more".into());
        }
        let stays_on_hardware = g.subject.location.is_hardware() && !self.moves(g);
        if stays_on_hardware && !policy.of(client, f).hardware {
            let section = policy.section(client, f, Key::Hardware);
            return Some(format!(
                "policy does not allow hardware any more (hardware in {section})"
            ));
        }
        if stays_on_hardware && manifest.is_some_and(|c| !c.hardware) {
            return Some("its client's manifest does not allow hardware any more".into());
        }
        self.lost_device(catalog, g)
    }

    /// Why a grant may not have its devices any more, if another catalog takes one:
    /// policy, or the manifest of its function. What a function had that is gone
    /// altogether stays until it is released.
    fn lost_device(&self, catalog: &Catalog, g: &Grant) -> Option<String> {
        let policy = &catalog.policy;
        // A move that can be called off is: see `call_off_moves`.
        let coming = g.moving().filter(|m| !m.phase.lingers() && g.callable_off().is_none());
        let of_grant = [g.service(), coming.map(|m| m.service)].into_iter().flatten();
        for s in of_grant.filter_map(|id| self.services.get(&id)) {
            if let Some(why) = unnamed(catalog, s) {
                return Some(why);
            }
            // What may move goes to software, as where hardware is not allowed.
            if !(s.location.is_hardware() && self.moves(g))
                && let Some(why) = not_let(policy, &g.holder.client, s.devices.as_deref())
            {
                return Some(why);
            }
        }
        let location = g.subject.location;
        let moves = location.is_hardware() && self.moves(g);
        let f = catalog.function(g.holder.client_id, &g.subject.function);
        f.filter(|_| g.service().is_none() && !moves)
            .and_then(|f| not_let(policy, &g.holder.client, Some(f.devices_at(location))))
    }

    /// Calls off moves to services that may not have their devices any more.
    fn call_off_moves(&mut self, out: &mut Vec<Action>) {
        let catalog = &self.catalog;
        let lost = |g: &Grant| {
            let coming = g.callable_off().and_then(|m| self.services.get(&m.service));
            coming.is_some_and(|s| lost(catalog, &g.holder.client, s).is_some())
        };
        self.all_of(lost).into_iter().for_each(|grant| self.call_off(grant, out));
    }

    /// Takes what nobody is to keep in the end: hardware from grants that were to move
    /// off it and do not move any more, and devices from services that still start and
    /// that nobody waits for. This looks at what is there, as moves end in many ways.
    pub(super) fn take_what_is_left(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.catalog.policy_unreadable {
            return;
        }
        let stays = |g: &Grant| {
            g.movable() && g.subject.location.is_hardware() && !g.is_over() && !self.moves(g)
        };
        let why = |h: Handle| {
            let g = self.grants.get(h).ok().filter(|g| stays(g))?;
            Some((h, self.taken(&self.catalog, g)?))
        };
        let denied: Vec<_> = self.grants.with_lease().into_iter().filter_map(why).collect();
        for (grant, why) in denied {
            self.take_grant(now, grant, &why, out);
        }
        let starts = self.services.iter().filter(|(_, s)| s.state == ServiceState::Starting);
        let why = |(id, s): (&ServiceId, &Service)| {
            let owner = self.catalog.owner_name(s.owner)?;
            Some((*id, lost(&self.catalog, owner, s)?))
        };
        let nobody =
            |(id, _): &(ServiceId, String)| !self.has_channels(*id) && self.beside(*id).is_empty();
        for (service, why) in starts.filter_map(why).filter(nobody).collect::<Vec<_>>() {
            self.service_failed(now, service, &why, out);
        }
    }

    /// Services that were started by what another catalog said serve on, and get no more
    /// channels: whoever activates now means what their functions are now. Nor does a
    /// service of a client that is gone serve the next one of its name.
    pub(super) fn outdate(&mut self, old: &Catalog) {
        let new = &self.catalog;
        let changed = |s: &Service| {
            new.owner_name(s.owner).is_none()
                || old.terms(s.owner, &s.function) != new.terms(s.owner, &s.function)
        };
        let all = self.services.iter().filter(|(_, s)| changed(s));
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(s) = self.services.get_mut(&id) {
                s.outdated = true;
            }
        }
    }

    /// Makes what is in force hold for those who are there already.
    pub(super) fn apply_policy(&mut self, now: u64, out: &mut Vec<Action>) {
        let effects = self.effects(&self.catalog);
        for (session, why) in effects.sessions {
            self.take_session(now, session, why, out);
        }
        for (grant, why) in effects.grants {
            self.take_grant(now, grant, &why, out);
        }
        if !self.catalog.policy_unreadable {
            self.call_off_moves(out);
        }
        for (grant, calls_per_s) in effects.rates {
            let Some(g) = self.grants.get_mut(grant) else { continue };
            g.terms.calls_per_s = calls_per_s;
            // One that is not opened yet is told when it is.
            let ready = |s| self.services.get(&s).is_some_and(|s| s.state == ServiceState::Ready);
            // Who stands by for it was told the old one.
            let beside = g.moving().map(|m| m.service).filter(|s| g.service() != Some(*s));
            for service in g.service().into_iter().chain(beside).filter(|s| ready(*s)) {
                out.push(Action::SetRate { service, channel: grant, calls_per_s });
            }
        }
    }
}
