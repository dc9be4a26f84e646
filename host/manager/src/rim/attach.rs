//! Which programs on the host get a window: one question, one answer.

use super::{Daemon, Kind, wiring};
use crate::core::Refusal;
use crate::core::catalog::{Client, ClientKind, OverTcp};
use crate::fair::{Rate, Rates};
use crate::in_flight;
use crate::limits::*;
use rustix::event::epoll::{self, EventFlags};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use vfun_admin::Transport;
use vfun_rim::methods::*;
use vfun_window::fdpass;
use vfun_wire::attach::{ATTACH_MAGIC, Attach, AttachAck};
use vfun_wire::{Nack, NackCode, names};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// So many clients are named to a user that may act for them: a refusal has 512 bytes.
const CLIENTS_NAMED: usize = 3;

/// Why a user may not act for this client, and for which it may.
fn not_for<'a>(uid: u32, name: &str, all: impl Iterator<Item = &'a Client>) -> String {
    let may = all.filter(|c| c.kind == ClientKind::Host && c.uids.contains(&uid));
    let may: Vec<_> = may.map(|c| format!("'{}'", c.name)).take(CLIENTS_NAMED).collect();
    let what = match may.is_empty() {
        false => format!("it may act for {}: name it, by --client or VFUN_CLIENT", may.join(", ")),
        true => format!(
            "the host's operator can declare a client for it, `vfun client add NAME --kind host --uid {uid}`, which it then names by --client or VFUN_CLIENT"
        ),
    };
    format!("user {uid} may not act for client '{name}': {what}")
}

/// Who is counted when windows are given: a program by its user, a caller over the
/// network by the client it acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CountedUser {
    User(u32),
    Remote(u32),
}

/// How fast users get windows: each by itself, and trusted ones faster.
pub(super) struct Attaches {
    strangers: Rates<CountedUser>,
    own: Rates<CountedUser>,
}

impl Attaches {
    pub fn new() -> Self {
        Attaches { strangers: Rates::new(ATTACHES), own: Rates::new(OWN_ATTACHES) }
    }

    /// Whether this one gets a window now, or the rate that it has used up, and for how
    /// many milliseconds. Callers over the network are never trusted.
    fn take(&mut self, now: u64, who: CountedUser) -> Result<(), (Rate, u64)> {
        let (rates, rate) = match who {
            CountedUser::User(uid) if trusted(uid) => (&mut self.own, OWN_ATTACHES),
            _ => (&mut self.strangers, ATTACHES),
        };
        match rates.take(now, who) {
            true => Ok(()),
            false => Err((rate, rates.wait(now, &who))),
        }
    }

    /// How often one got none.
    pub fn refused(&self) -> u64 {
        self.strangers.refused() + self.own.refused()
    }
}

/// A question that is well formed.
struct AttachQuestion<'a> {
    client: &'a str,
    credential: &'a [u8],
    /// On behalf of a caller over the network.
    remote: bool,
}

impl<'a> AttachQuestion<'a> {
    fn of(ask: &'a Attach) -> Result<Self, Nack> {
        let malformed = |s: &str| Nack::new(NackCode::Malformed, s);
        if ask.magic.get() != ATTACH_MAGIC || ask.reserved != [0; 5] || ask.remote > 1 {
            return Err(malformed("this is not a VirtFun attach request"));
        }
        let credential = ask
            .credential
            .get(..usize::from(ask.credential_len.get()))
            .ok_or_else(|| malformed("the credential is longer than its room"))?;
        let client = if ask.client.iter().all(|b| *b == 0) {
            "host"
        } else {
            names::decode(&ask.client).map_err(|e| malformed(&format!("the client's name: {e}")))?
        };
        Ok(AttachQuestion { client, credential, remote: ask.remote == 1 })
    }
}

/// A connection that has not said who it is.
pub(super) struct Pending {
    stream: UnixStream,
    uid: u32,
    got: Vec<u8>,
    since: Instant,
}

impl Daemon {
    pub(super) fn accept_programs(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            let stream = match self.host_listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) => return self.refuse_for_want_of_descriptors(&e),
            };
            if self.pending.len() >= PENDING_MAX {
                continue; // dropped: the caller sees the hang-up
            }
            let Ok(cred) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
            // The socket is open to every user: strangers keep nobody else waiting.
            let uid = cred.uid.as_raw();
            let strangers = self.pending.values().filter(|p| p.uid == uid).count();
            if !trusted(uid) && strangers >= PENDING_PER_USER {
                continue;
            }
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let id = self.fresh_id();
            if self.watch(&stream, Kind::Pending, id, EventFlags::IN | EventFlags::RDHUP).is_ok() {
                let pending = Pending { stream, uid, got: vec![], since: Instant::now() };
                self.pending.insert(id, pending);
            }
        }
    }

    /// Without a free descriptor a connection can be neither accepted nor
    /// refused, and would be announced again at once, for ever. The spare one
    /// is given up for long enough to take it and hang up.
    pub(super) fn refuse_for_want_of_descriptors(&mut self, e: &io::Error) {
        use rustix::io::Errno;
        if !matches!(Errno::from_io_error(e), Some(Errno::MFILE | Errno::NFILE)) {
            return;
        }
        self.spare = None;
        let _ = self.host_listener.accept();
        let _ = self.admin_listener.accept();
        self.switches.turn_away();
        self.vm_sockets.values().for_each(wiring::ivshmem_doorbell::Socket::turn_away);
        self.links.turn_away();
        self.spare = spare();
        if self.may_say("the manager's descriptors") {
            tracing::warn!("a connection was refused: the manager is out of file descriptors");
        }
    }

    pub(super) fn drop_late_pending(&mut self) {
        self.pending.retain(|_, p| p.since.elapsed() < PENDING_TIME);
    }

    pub(super) fn read_pending(&mut self, id: u32) {
        let Some(p) = self.pending.get_mut(&id) else { return };
        let want = size_of::<Attach>() - p.got.len();
        let mut room = vec![0; want];
        match p.stream.read(&mut room) {
            Ok(0) => {
                self.pending.remove(&id);
                return;
            }
            Ok(n) => p.got.extend_from_slice(&room[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                self.pending.remove(&id);
                return;
            }
        }
        if p.got.len() < size_of::<Attach>() {
            return;
        }
        let p = self.pending.remove(&id).expect("just seen");
        let _ = epoll::delete(&self.epoll, &p.stream);
        let ask = Attach::read_from_bytes(&p.got).expect("as long as it is");
        if let Err(nack) = self.attach(id, p.stream.try_clone(), p.uid, &ask) {
            self.note_refused_attach(p.uid, &ask, &nack);
            if self.may_say(&format!("user {}", p.uid)) {
                tracing::info!(uid = p.uid, "attach refused: {nack}");
            }
            let _ = fdpass::send(&p.stream, refusal(&nack).as_bytes(), &[]);
        }
    }

    /// Decides on a question, and hands a window over.
    fn attach(
        &mut self,
        id: u32,
        stream: io::Result<UnixStream>,
        uid: u32,
        ask: &Attach,
    ) -> Result<(), Nack> {
        let asked = AttachQuestion::of(ask)?;
        let (client, proven) = self.may_attach(uid, &asked)?;
        let who = match asked.remote {
            true => CountedUser::Remote(client.id),
            false => CountedUser::User(uid),
        };
        self.has_room_for(&client, who)?;
        stream
            .and_then(|stream| wiring::host::hand_over(self, id, stream, &client, proven))
            .map_err(|e| {
                let why = in_flight::words(&e);
                no_capacity(format!("the window could not be made: {why}"))
            })
    }

    /// The client that somebody may act for, and whether each app in its window must
    /// show who it is.
    fn may_attach(&self, uid: u32, asked: &AttachQuestion<'_>) -> Result<(Client, bool), Nack> {
        let denied = |why: String| Err(Nack::new(NackCode::Denied, why));
        let name = asked.client;
        let Some(client) = self.rim.core.catalog().client(name) else {
            return denied(format!(
                "there is no client '{name}' on this host: `vfun client add {name} --kind host` declares one for its programs"
            ));
        };
        let trusted = trusted(uid);
        if !trusted && !client.uids.contains(&uid) {
            return denied(not_for(uid, name, self.rim.core.catalog().clients.values()));
        }
        if asked.remote && client.tcp == OverTcp::Nobody {
            return denied(format!(
                "client '{name}' may not be used over the network: set `tcp = true` in its manifest"
            ));
        }
        if client.kind == ClientKind::Vm && !asked.remote && !trusted {
            return denied(format!("'{name}' is a VM's client"));
        }
        // Who has not shown what the client asks for uses up nothing of its own.
        let prove = asked.remote && client.tcp == OverTcp::Proven;
        let catalog = self.rim.core.catalog();
        crate::core::admit(catalog, self.now(), client, None, asked.credential, prove)?;
        Ok((client.clone(), prove))
    }

    /// Whether one more program's window may be made now.
    fn has_room_for(&mut self, client: &Client, who: CountedUser) -> Result<(), Nack> {
        let name = &client.name;
        let now = self.now();
        if let Err((rate, wait)) = self.attaches.take(now, who) {
            return Err(no_capacity(format!(
                "client '{name}' was given {} windows in a row and gets {} a second: try again in {wait} ms",
                rate.burst, rate.per_s
            )));
        }
        let of_programs = self.rim.windows.values().filter(|w| w.transport == Transport::Host);
        let (all, mine) = of_programs
            .fold((0, 0), |(all, mine), w| (all + 1, mine + usize::from(w.client == client.id)));
        if all >= HOST_WINDOWS_MAX || mine >= HOST_WINDOWS_PER_CLIENT {
            return Err(no_capacity(format!(
                "client '{name}' has {mine} programs with windows on this host, all clients together {all}: as many as there may be ({HOST_WINDOWS_PER_CLIENT} and {HOST_WINDOWS_MAX})"
            )));
        }
        if self.ringers_hang(&wiring::Owner::program(client.id)) {
            return Err(no_capacity(format!(
                "threads that rang windows of client '{name}' hang, as only a service can make them that tampers with its bells: end its services"
            )));
        }
        Ok(())
    }

    /// Notes who may not act for whom. Names that are no client's are not noted:
    /// they would be whatever the caller makes up.
    fn note_refused_attach(&self, uid: u32, ask: &Attach, nack: &Nack) {
        if !matches!(nack.code, NackCode::Denied | NackCode::BadCredential) {
            return;
        }
        let name = names::decode(&ask.client).ok();
        let client = name.and_then(|n| self.rim.core.catalog().client(n));
        let refusal = Refusal {
            client: client.map_or(String::new(), |c| c.name.clone()),
            vm: None,
            app: String::new(),
            function: String::new(),
            nack: nack.clone(),
        };
        self.audit.refused(Some(uid), &refusal);
    }
}

/// Whether a user may act for any client.
fn trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::getuid().as_raw()
}

/// A descriptor to give up when there is no other.
pub(super) fn spare() -> Option<std::fs::File> {
    std::fs::File::open("/dev/null").ok()
}

fn no_capacity(why: String) -> Nack {
    Nack::new(NackCode::NoCapacity, why)
}

fn refusal(nack: &Nack) -> AttachAck {
    let body = nack.encode();
    AttachAck {
        magic: U64::new(ATTACH_MAGIC),
        code: U32::new(nack.code.to_wire()),
        sentence_len: body.sentence_len,
        vectors: U16::new(0),
        window_bytes: U64::new(0),
        sentence: body.sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(attaches: &mut Attaches, now: u64, who: CountedUser) -> u32 {
        (0..10_000).take_while(|_| attaches.take(now, who).is_ok()).count() as u32
    }

    #[test]
    fn a_user_is_told_which_client_it_may_act_for() {
        let host = crate::core::manifest::default_host_client(1);
        let of = |name: &str| Client { name: name.into(), uids: vec![1000], ..host.clone() };
        let told = |all: &[Client]| not_for(1000, "host", all.iter());
        assert!(
            told(std::slice::from_ref(&host))
                .contains("vfun client add NAME --kind host --uid 1000")
        );
        let told = told(&[host.clone(), of("joe"), of("web")]);
        assert!(told.ends_with("it may act for 'joe', 'web': name it, by --client or VFUN_CLIENT"));
    }

    #[test]
    fn root_and_the_managers_own_user_have_a_rate_and_it_is_nobody_elses() {
        let mut attaches = Attaches::new();
        let own = rustix::process::getuid().as_raw();
        let stranger = (1..).find(|uid| *uid != own).unwrap();
        assert_eq!(given(&mut attaches, 0, CountedUser::User(0)), OWN_ATTACHES.burst);
        let (rate, wait) = attaches.take(0, CountedUser::User(0)).unwrap_err();
        assert_eq!((rate, wait), (OWN_ATTACHES, 1_000 / u64::from(OWN_ATTACHES.per_s)));
        assert_eq!(given(&mut attaches, 100, CountedUser::User(0)), OWN_ATTACHES.per_s / 10);
        let left = if own == 0 { 0 } else { OWN_ATTACHES.burst };
        assert_eq!(given(&mut attaches, 100, CountedUser::User(own)), left);
        // What root uses up takes nothing from others, nor the other way round; who
        // comes over the network is no user of this host.
        for who in
            [CountedUser::User(stranger), CountedUser::Remote(0), CountedUser::Remote(own.max(1))]
        {
            assert_eq!(given(&mut attaches, 100, who), ATTACHES.burst, "{who:?}");
        }
        assert!(attaches.refused() >= 6);
    }
}
