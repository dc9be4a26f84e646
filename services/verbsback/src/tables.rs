//! All that the NIC's thread and control calls change, one at a time.

use crate::address;
use crate::arena::Arenas;
use crate::channel::NicChannel;
use crate::connections;
use crate::context::{Living, NicContext, Which};
use crate::errno::Errno;
use crate::events::{self, Rung};
use crate::nic::At;
use crate::quota::Quota;
use crate::station::{NicEngine, Station};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use vfun_remoting_host::Events;
use vfun_sdk::service::QueuesCounts;
use vfun_verbs::ProgramFacts;
use vfun_verbs_nic::cm::Cm;
use vfun_verbs_nic::{Engine, ProgramCounts, Ran, Slab, limits};
use vfun_window::Bell;
use vfun_wire::PAGE;

/// Where the pages of doorbells are in both sides: behind the channel's head.
pub const BELLS_AT: usize = PAGE;
/// Where parts begin in both sides.
const PARTS_AT: usize = 2 * PAGE;

/// A channel of queues of this process.
struct OfferedChannel {
    key: u64,
    channel: Arc<dyn NicChannel>,
    /// A context has it, or had it.
    used: bool,
}

/// The NIC's tables.
pub struct Tables {
    pub engine: NicEngine,
    pub contexts: Slab<NicContext>,
    pub stations: Slab<Station>,
    pub cm: Cm,
    /// The context of each of the engine's programs, by its number.
    by_program: Vec<Option<u32>>,
    channels: Vec<OfferedChannel>,
    /// Channels came or went since the NIC's thread looked.
    pub channels_changed: bool,
    /// Given to queues, one after the other.
    pub numbers: u32,
    /// What a VM may have.
    pub quota: Quota,
    /// The client that the NIC is for.
    pub client: String,
    rung: Rung,
}

/// Numbers that nobody can guess: the standard library's hashers have random keys.
fn random() -> impl FnMut() -> u64 + Send + 'static {
    let (secret, mut count) = (RandomState::new(), 0u64);
    move || {
        count += 1;
        secret.hash_one(count)
    }
}

impl Tables {
    /// Those of a client, with nothing in them.
    pub fn of(client: &str, quota: Quota) -> Self {
        Tables {
            quota,
            client: client.to_owned(),
            engine: Engine::new(random()),
            contexts: Slab::new("programs", limits::PROGRAMS),
            stations: Slab::new("connections", limits::PROGRAMS),
            cm: Cm::default(),
            by_program: vec![],
            channels: vec![],
            channels_changed: false,
            numbers: 0,
            rung: Rung::default(),
        }
    }

    /// Does what there is to do, and tells programs.
    pub fn run(&mut self, now: u64) -> Ran {
        let mut ran = self.engine.run(now);
        let rejects = self.cm.run(now);
        ran.until = [ran.until, rejects].into_iter().flatten().min();
        self.tell();
        ran
    }

    /// Tells programs what happened.
    pub fn tell(&mut self) {
        while let Some(event) = self.engine.take_event() {
            let program = events::whose(&event).number() as usize;
            let context = self.by_program.get(program).copied().flatten();
            if let Some(context) = context.and_then(|at| self.contexts.get(at)) {
                events::tell(&event, context, &mut self.rung);
            }
        }
        self.rung.ring();
        while let Some((owner, event)) = self.cm.take_event() {
            if let Some(context) = self.contexts.get(owner) {
                connections::tell(&event, context);
            }
        }
    }

    /// A channel came.
    pub fn add_channel(&mut self, key: u64, channel: Arc<dyn NicChannel>) {
        self.channels.push(OfferedChannel { key, channel, used: false });
        self.channels_changed = true;
    }

    /// A channel has ended: the engine touches nothing of it any more.
    pub fn end_channel(&mut self, key: u64) {
        self.channels.retain(|offered| offered.key != key);
        self.channels_changed = true;
        let of_it = self.contexts.places(|context| context.channel == key);
        for at in of_it {
            self.end_living(at);
        }
    }

    /// Ends what a context has in the engine. Its buffers stay the NIC's until it is closed.
    pub fn end_living(&mut self, context: u32) {
        let living = self.contexts.get_mut(context).and_then(|context| context.living.take());
        if let Some(Living { program, .. }) = living {
            // It is there: only this ends it.
            let _ = self.engine.end_program(program);
            self.by_program[program.number() as usize] = None;
            self.cm.end_owner(context);
            if let Some(of) = self.contexts.get(context) {
                self.cm.remove_home(of.home);
            }
        }
    }

    /// What the program of a channel did and has.
    pub fn counts_of_channel(&self, key: u64) -> Option<QueuesCounts> {
        let its = |of: &&NicContext| of.channel == key && of.living.is_some();
        let context = self.contexts.iter().map(|(_, of)| of).find(its)?;
        let counts = self.engine.program_counts(context.living.as_ref()?.program)?;
        let keyed = || context.regions.iter().map(|(_, of)| of).filter(|of| of.key.is_some());
        let facts = ProgramFacts {
            gid: context.address.gid,
            lid: context.address.lid,
            queue_pairs: context.qps.count() as u32,
            regions: keyed().count() as u32,
            registered_bytes: keyed().fold(0, |sum, of| sum.saturating_add(of.length)),
            connections: context.cms.count() as u32,
            wrong_keys: counts.wrong_keys,
            dropped: counts.dropped,
        };
        let ProgramCounts { done, failed, bytes, .. } = counts;
        Some(QueuesCounts { done, failed, bytes, facts: facts.words() })
    }

    /// What a control call of a living context changes.
    pub fn at(&mut self, native: usize) -> Result<At<'_>, Errno> {
        let context = self.contexts.get_mut(Which::of(native).context);
        let context = context.ok_or(Errno::INVALID)?;
        let program = context.living.as_ref().ok_or(Errno::LOST)?.program;
        let station = self.stations.get_mut(context.station).ok_or(Errno::INVALID)?;
        let (engine, numbers) = (&mut self.engine, &mut self.numbers);
        Ok(At { engine, context, station, program, numbers })
    }

    /// What the programs ring, and whether some cannot.
    pub fn bells(&self) -> (Vec<Bell>, bool) {
        let bells = || self.channels.iter().map(|offered| offered.channel.rung().cloned());
        (bells().flatten().collect(), bells().any(|bell| bell.is_none()))
    }

    /// Makes a context of the channel with this handle and token.
    pub fn open(
        &mut self,
        (handle, token): (u64, [u64; 2]),
        station: u32,
        events: Arc<Events>,
    ) -> Result<u32, Errno> {
        let named = |c: &&OfferedChannel| !c.used && c.channel.is_named(handle, token);
        let offered = self.channels.iter().find(named).ok_or(Errno::INVALID)?;
        let (key, channel) = (offered.key, offered.channel.clone());
        let (program_bytes, nic_bytes) = channel.sides();
        let bells = BELLS_AT..PARTS_AT;
        let bells = channel.memory(bells.clone(), bells).map_err(|_| Errno::LIMIT)?;
        let address = address::of(&self.client, (channel.vm(), channel.address()), station);
        self.may_come(address::home(address.gid))?;
        let program = self.engine.add_program(address, bells)?;
        let from = PARTS_AT as u64;
        let arenas = Arenas::new(from..program_bytes as u64, from..nic_bytes as u64);
        let living = Living { program, channel };
        let context = NicContext::new((key, living), (station, address), events, arenas);
        let home = context.home;
        let at = self.contexts.insert(context).inspect_err(|_| {
            let _ = self.engine.end_program(program);
        })?;
        self.cm.add_home(home);
        let number = program.number() as usize;
        if self.by_program.len() <= number {
            self.by_program.resize(number + 1, None);
        }
        self.by_program[number] = Some(at);
        let taken = self.channels.iter_mut().filter(|offered| offered.key == key);
        taken.for_each(|offered| offered.used = true);
        Ok(at)
    }

    /// Ends a context and all that it has, and lets go of its buffers.
    pub fn close(&mut self, at: u32) {
        self.end_living(at);
        let Some(mut context) = self.contexts.remove(at) else { return };
        let Some(station) = self.stations.get_mut(context.station) else { return };
        for place in context.regions.places(|_| true) {
            let Some(region) = context.regions.remove(place) else { continue };
            station.staged -= region.runs.len();
            for handle in region.buffers {
                station.leaves(&mut self.engine, handle);
            }
        }
    }
}
