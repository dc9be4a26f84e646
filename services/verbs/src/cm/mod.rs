//! The connection manager (CM) of a tenant: how two programs find each other by address and port, and tell
//! each other their queue pairs. It is pure, as the engine is, and touches no queue pair.
//!
//! | active | passive |
//! |---|---|
//! | `connect` | event *connect request*, with a new id |
//! | event *connect response* | `accept` |
//! | `establish` | event *established* |
//!
//! Of datagrams there is no establishing: the response is all. Either side ends a
//! connection, and both are told. Ports belong to a VM: its programs share its address.

mod early;
mod id;
#[cfg(test)]
mod model;

use early::{Early, Place};
pub use id::{CmData, CmEvent, CmKind, CmOffer, CmSpace, Home};
use id::{CmId, State};

use crate::limits::{CM_BACKLOG, CM_EVENTS, CM_IDS, CM_IDS_OF_HOME, CM_IDS_OF_PROGRAM};
use crate::refused::Refused;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Whose an id is: the NIC's user gives programs their numbers.
pub type Owner = u32;
/// The ports that are given to who does not ask for one, as Linux gives them.
const FREE_PORTS: std::ops::RangeInclusive<u16> = 32768..=60999;
/// Reasons of a rejection (InfiniBand, table 104).
const NO_RESOURCES: i32 = 3;
const NO_SERVICE: i32 = 8;
const BY_CONSUMER: i32 = 28;
/// `-ETIMEDOUT`: nobody has the address.
const NOBODY: i32 = -110;

/// One less of them.
fn count_down<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, of: K) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

/// The connection manager.
#[derive(Default)]
pub struct Cm {
    ids: BTreeMap<u32, CmId>,
    ports: HashMap<Place, u32>,
    /// Ids of each program.
    counts: HashMap<Owner, usize>,
    /// Ids of each VM.
    home_counts: HashMap<Home, usize>,
    /// Homes of programs, by how many programs have them.
    homes: HashMap<Home, u32>,
    next: u32,
    next_port: u16,
    told: VecDeque<(Owner, CmEvent)>,
    early: Early,
    /// Events that nobody took in time.
    lost: u64,
}

const NO_ID: Refused = Refused::NoSuch("connection");
const WRONG_STATE: Refused = Refused::Invalid("the connection is in another state");

impl Cm {
    /// A program of this VM comes.
    pub fn add_home(&mut self, home: Home) {
        *self.homes.entry(home).or_default() += 1;
    }

    /// It goes; its ids were ended before ([`Cm::end_owner`]).
    pub fn remove_home(&mut self, home: Home) {
        if let Some(count) = self.homes.get_mut(&home) {
            *count -= 1;
            if *count == 0 {
                self.homes.remove(&home);
            }
        }
    }

    /// The next event, and whose it is. Nobody is told of ids that have gone.
    pub fn take_event(&mut self) -> Option<(Owner, CmEvent)> {
        while let Some((owner, event)) = self.told.pop_front() {
            let request = self.ids.get(&event.other).map(|of| &of.state);
            match request {
                _ if !self.ids.contains_key(&event.id) => {}
                None if event.other != 0 => {}
                Some(State::Withdrawn { .. }) => self.drop_id(event.other),
                _ => return Some((owner, event)),
            }
        }
        None
    }

    /// How many ids there are, and how many events were lost.
    pub fn counts(&self) -> (usize, u64) {
        (self.ids.len(), self.lost)
    }

    fn tell(&mut self, owner: Owner, event: CmEvent) {
        match self.told.len() < CM_EVENTS {
            true => self.told.push_back((owner, event)),
            false => self.lost += 1,
        }
    }

    fn own(&mut self, owner: Owner, id: u32) -> Result<&mut CmId, Refused> {
        self.ids.get_mut(&id).filter(|of| of.owner == owner && of.taken).ok_or(NO_ID)
    }

    fn insert(&mut self, of: CmId) -> Result<u32, Refused> {
        let own = self.counts.get(&of.owner).copied().unwrap_or_default();
        let all_of_home = self.home_counts.get(&of.home).copied().unwrap_or_default();
        let is_room = own < CM_IDS_OF_PROGRAM && all_of_home < CM_IDS_OF_HOME;
        if !is_room || self.ids.len() >= CM_IDS {
            return Err(Refused::Limit("connections"));
        }
        self.counts.insert(of.owner, own + 1);
        self.home_counts.insert(of.home, all_of_home + 1);
        // A number comes again after 2^32 others.
        loop {
            self.next = self.next.wrapping_add(1);
            if self.next != 0 && !self.ids.contains_key(&self.next) {
                break;
            }
        }
        self.ids.insert(self.next, of);
        Ok(self.next)
    }

    /// A new id of a program in this VM: its number.
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub fn make(&mut self, owner: Owner, home: Home, space: CmSpace) -> Result<u32, Refused> {
        self.insert(CmId { owner, home, space, port: 0, taken: true, state: State::Idle })
    }

    /// Gives an id a port: this one, or a free one for 0.
    ///
    /// # Errors
    /// [`Refused::Busy`]: another one of the VM has it. [`Refused::Invalid`]: it has one.
    pub fn bind(&mut self, owner: Owner, id: u32, port: u16) -> Result<u16, Refused> {
        let of = self.own(owner, id)?;
        if of.port != 0 || of.state != State::Idle {
            return Err(WRONG_STATE);
        }
        let (home, space) = (of.home, of.space);
        let port = match port {
            0 => self.free_port(home, space)?,
            port => port,
        };
        if self.ports.contains_key(&(home, space, port)) {
            return Err(Refused::Busy("another program of this VM has the port"));
        }
        self.ports.insert((home, space, port), id);
        self.own(owner, id)?.port = port;
        Ok(port)
    }

    fn free_port(&mut self, home: Home, space: CmSpace) -> Result<u16, Refused> {
        for _ in FREE_PORTS {
            let next = self.next_port.wrapping_add(1);
            self.next_port = if FREE_PORTS.contains(&next) { next } else { *FREE_PORTS.start() };
            if !self.ports.contains_key(&(home, space, self.next_port)) {
                return Ok(self.next_port);
            }
        }
        Err(Refused::Limit("ports"))
    }

    /// From now on requests come to its port; at most `backlog` at once that nobody has answered, or as many as
    /// there may be for 0.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: it has no port, or another use.
    pub fn listen(&mut self, owner: Owner, id: u32, backlog: u32) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        if of.port == 0 || of.state != State::Idle {
            return Err(WRONG_STATE);
        }
        let backlog = if backlog == 0 { CM_BACKLOG } else { backlog.min(CM_BACKLOG) };
        of.state = State::Listening { backlog, waiting: 0 };
        let at = (of.home, of.space, of.port);
        self.listened(id, at);
        Ok(())
    }

    /// Asks who listens at a port of a VM. What comes of it is told by events, in any case.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: the id has another use.
    pub fn connect(
        &mut self,
        owner: Owner,
        id: u32,
        (to, port): (Home, u16),
        (offer, data): (CmOffer, CmData),
    ) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        if of.state != State::Idle {
            return Err(WRONG_STATE);
        }
        let from = of.clone();
        let place = (to, from.space, port);
        let asked = match self.ports.get(&place).copied() {
            Some(listener) if self.listens(listener) => self
                .request(listener, (id, &from), (&offer, &data))
                .map(|peer| State::Connecting { peer }),
            _ if self.homes.contains_key(&to) => self.wait_for_listener(id, place, offer, data),
            _ => Err((CmKind::Unreachable, NOBODY)),
        };
        match asked {
            Ok(state) => self.set_state(id, state),
            Err((kind, status)) => self.tell_end(id, kind, (status, CmData::default())),
        }
        Ok(())
    }

    fn listens(&self, id: u32) -> bool {
        self.ids.get(&id).is_some_and(|of| matches!(of.state, State::Listening { .. }))
    }

    fn set_state(&mut self, id: u32, state: State) {
        if let Some(of) = self.ids.get_mut(&id) {
            of.state = state;
        }
    }

    /// Tells who listens; the id that stands for the request.
    fn request(
        &mut self,
        listener: u32,
        (id, from): (u32, &CmId),
        (offer, data): (&CmOffer, &CmData),
    ) -> Result<u32, (CmKind, i32)> {
        let no_service = (CmKind::Rejected, NO_SERVICE);
        let of = self.ids.get_mut(&listener).ok_or(no_service)?;
        let State::Listening { backlog, waiting } = &mut of.state else { return Err(no_service) };
        if waiting >= backlog {
            return Err((CmKind::Rejected, NO_RESOURCES));
        }
        *waiting += 1;
        let (owner, home, space, port) = (of.owner, of.home, of.space, of.port);
        let state = State::Requested { peer: id, listener };
        let made = CmId { owner, home, space, port, taken: false, state };
        let request = self.insert(made).map_err(|_| {
            self.answered(listener);
            (CmKind::Rejected, NO_RESOURCES)
        })?;
        let event = CmEvent {
            other: request,
            offer: offer.clone(),
            data: data.clone(),
            peer_port: from.port,
            ..CmEvent::of(CmKind::ConnectRequest, listener)
        };
        self.tell(owner, event);
        Ok(request)
    }

    /// A request at this listener waits no more.
    fn answered(&mut self, listener: u32) {
        if let Some(CmId { state: State::Listening { waiting, .. }, .. }) =
            self.ids.get_mut(&listener)
        {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// The program takes up the id of a request that it was told of.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]: there is none, or who asked has gone.
    pub fn take(&mut self, owner: Owner, id: u32) -> Result<(), Refused> {
        let of = self.ids.get_mut(&id).filter(|of| of.owner == owner && !of.taken).ok_or(NO_ID)?;
        if let State::Withdrawn { .. } = of.state {
            self.drop_id(id);
            return Err(NO_ID);
        }
        of.taken = true;
        Ok(())
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: it is none, or who asked has gone.
    pub fn accept(
        &mut self,
        owner: Owner,
        id: u32,
        offer: CmOffer,
        data: CmData,
    ) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        let State::Requested { peer, listener } = of.state else { return Err(WRONG_STATE) };
        let datagram = of.space == CmSpace::Udp;
        of.state = if datagram { State::Over } else { State::Accepted { peer } };
        self.answered(listener);
        let active = self.ids.get_mut(&peer).ok_or(NO_ID)?;
        active.state = if datagram { State::Over } else { State::Answered { peer: id } };
        let owner = active.owner;
        let kind = if datagram { CmKind::Established } else { CmKind::ConnectResponse };
        self.tell(owner, CmEvent { offer, data, ..CmEvent::of(kind, peer) });
        Ok(())
    }

    /// The active side is ready: the passive one is told.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: it was not accepted.
    pub fn establish(&mut self, owner: Owner, id: u32) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        let State::Answered { peer } = of.state else { return Err(WRONG_STATE) };
        of.state = State::Connected { peer };
        let passive = self.ids.get_mut(&peer).ok_or(NO_ID)?;
        passive.state = State::Connected { peer: id };
        let owner = passive.owner;
        self.tell(owner, CmEvent::of(CmKind::Established, peer));
        Ok(())
    }

    /// Rejects a request, or an answer.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: there is nothing to reject.
    pub fn reject(&mut self, owner: Owner, id: u32, data: CmData) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        let peer = match of.state {
            State::Requested { peer, listener } => {
                of.state = State::Over;
                self.answered(listener);
                peer
            }
            State::Answered { peer } => {
                of.state = State::Over;
                peer
            }
            _ => return Err(WRONG_STATE),
        };
        self.tell_end(peer, CmKind::Rejected, (BY_CONSUMER, data));
        Ok(())
    }

    /// Ends a connection: both sides are told. One that is over stays so.
    ///
    /// # Errors
    /// [`Refused::Invalid`]: there was none.
    pub fn disconnect(&mut self, owner: Owner, id: u32) -> Result<(), Refused> {
        let of = self.own(owner, id)?;
        match of.state {
            State::Connected { peer } | State::Accepted { peer } | State::Answered { peer } => {
                of.state = State::Over;
                self.tell(owner, CmEvent::of(CmKind::Disconnected, id));
                self.tell_end(peer, CmKind::Disconnected, (0, CmData::default()));
                Ok(())
            }
            State::Over => Ok(()),
            _ => Err(WRONG_STATE),
        }
    }

    /// It is over for this id, which is told.
    fn tell_end(&mut self, id: u32, kind: CmKind, (status, data): (i32, CmData)) {
        if let Some(of) = self.ids.get_mut(&id) {
            of.state = State::Over;
            let owner = of.owner;
            self.tell(owner, CmEvent { status, data, ..CmEvent::of(kind, id) });
        }
    }

    /// Ends an id. Its peer is told; requests that nobody has taken are rejected.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn end(&mut self, owner: Owner, id: u32) -> Result<(), Refused> {
        self.own(owner, id)?;
        self.drop_id(id);
        Ok(())
    }

    fn drop_id(&mut self, id: u32) {
        let Some(of) = self.ids.remove(&id) else { return };
        count_down(&mut self.counts, of.owner);
        count_down(&mut self.home_counts, of.home);
        if self.ports.get(&(of.home, of.space, of.port)) == Some(&id) {
            self.ports.remove(&(of.home, of.space, of.port));
        }
        let none = CmData::default;
        match of.state {
            State::Idle | State::Early | State::Over => {}
            State::Listening { waiting: 0, .. } => {}
            State::Listening { .. } => self.reject_requests_of(id),
            State::Withdrawn { listener } => self.answered(listener),
            State::Connecting { peer } => self.withdraw(peer),
            State::Requested { peer, listener } => {
                self.answered(listener);
                self.tell_end(peer, CmKind::Rejected, (BY_CONSUMER, none()));
            }
            State::Accepted { peer } | State::Answered { peer } | State::Connected { peer } => {
                self.tell_end(peer, CmKind::Disconnected, (0, none()));
            }
        }
    }

    /// Who asked has gone. Who has taken the request finds out when it accepts.
    fn withdraw(&mut self, request: u32) {
        let Some(of) = self.ids.get_mut(&request) else { return };
        let State::Requested { listener, .. } = of.state else { return };
        if of.taken {
            of.state = State::Over;
            self.answered(listener);
        } else {
            of.state = State::Withdrawn { listener };
        }
    }

    /// A listener is gone: those who asked it and were not taken are rejected.
    fn reject_requests_of(&mut self, gone: u32) {
        let untaken = |(_, of): &(&u32, &CmId)| match of.state {
            State::Requested { listener, .. } => !of.taken && listener == gone,
            State::Withdrawn { listener } => listener == gone,
            _ => false,
        };
        let requests: Vec<u32> = self.ids.iter().filter(untaken).map(|(id, _)| *id).collect();
        requests.into_iter().for_each(|id| self.drop_id(id));
    }

    /// A program has gone, and all its ids with it.
    pub fn end_owner(&mut self, owner: Owner) {
        let own = self.ids.iter().filter(|(_, of)| of.owner == owner);
        // Its listeners last: no request waits at them any more, which each would look for among all ids.
        let is_listener = |of: &CmId| matches!(of.state, State::Listening { .. });
        let (listeners, others): (Vec<_>, Vec<_>) =
            own.map(|(id, of)| (*id, is_listener(of))).partition(|(_, listens)| *listens);
        others.into_iter().chain(listeners).for_each(|(id, _)| self.drop_id(id));
    }
}
