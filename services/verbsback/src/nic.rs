//! The NIC of this process, as control calls see it.

use crate::address::{self, SM_LID};
use crate::channel::NicChannel;
use crate::context::{NicContext, Which};
use crate::errno::{Errno, status};
use crate::generated::{vfun_nic_gid, vfun_nic_info, vfun_nic_opened, vfun_nic_port};
use crate::limits::READS;
use crate::quota::{Quota, Wants};
use crate::station::{NicEngine, Station};
use crate::tables::{BELLS_AT, Tables};
use crate::turns::{Turn, Turns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfun_queue::limits::DEPTH_MAX;
use vfun_remoting_host::Events;
use vfun_sdk::service::QueuesCounts;
use vfun_verbs::flags::access;
use vfun_verbs::limits::{INLINE_MAX, MESSAGE_MAX, QPS_OF_PROGRAM, SGES_MAX};
use vfun_verbs_nic::{Address, ProgramId, limits};
use vfun_window::Bell;

/// The version of the control calls (`VFUN_NIC_VERSION`).
const VERSION: u32 = 1;

/// What the NIC's thread and control calls share.
pub struct NicShared {
    pub tables: Turns<Tables>,
    /// The NIC's thread sleeps, or is about to. Changes in a turn only.
    pub asleep: AtomicBool,
    /// Wakes it.
    pub waker: Bell,
    pub stops: AtomicBool,
    /// Keys of channels that came.
    keys: AtomicU64,
}

/// The NIC. Its clones are one NIC.
#[derive(Clone)]
pub struct Nic(pub(crate) Arc<NicShared>);

/// What a control call of a living context changes.
pub struct At<'a> {
    pub engine: &'a mut NicEngine,
    pub context: &'a mut NicContext,
    pub station: &'a mut Station,
    pub program: ProgramId,
    pub numbers: &'a mut u32,
}

impl Nic {
    /// The NIC of a client, with nothing in it, and no thread yet.
    ///
    /// # Errors
    /// The system has no bell for it.
    pub fn new(client: &str, quota: Quota) -> std::io::Result<Self> {
        Ok(Nic(Arc::new(NicShared {
            tables: Turns::new(Tables::of(client, quota)),
            asleep: AtomicBool::new(false),
            waker: Bell::new()?,
            stops: AtomicBool::new(false),
            keys: AtomicU64::new(0),
        })))
    }

    /// Ends the NIC's thread, after its turn.
    pub fn stop(&self) {
        self.0.stops.store(true, Ordering::SeqCst);
        self.0.waker.ring();
    }

    pub(crate) fn turn(&self) -> Turn<'_, Tables> {
        self.0.tables.enter()
    }

    /// Changes what the NIC's thread must know of, also if it sleeps.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        let (done, asleep) = self.prepare(change);
        if asleep {
            self.0.waker.ring();
        }
        done
    }

    /// Changes what the NIC's thread need not know of before a program posts work, which wakes it. Whether it sleeps.
    fn prepare<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> (T, bool) {
        let mut turn = self.turn();
        let done = change(&mut turn);
        turn.tell();
        (done, self.0.asleep.load(Ordering::SeqCst))
    }

    /// The same of one context whose channel has not ended.
    pub(crate) fn of<T>(
        &self,
        native: usize,
        change: impl FnOnce(&mut At<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.change(|tables| change(&mut tables.at(native)?))
    }

    /// The same where its VM's quota allows it.
    pub(crate) fn make<T>(
        &self,
        native: usize,
        wants: Wants,
        change: impl FnOnce(&mut At<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.change(|tables| {
            tables.may_have(native, wants)?;
            change(&mut tables.at(native)?)
        })
    }

    /// What the program of a channel did and has; none before it made a context.
    pub fn counts_of_channel(&self, key: u64) -> Option<QueuesCounts> {
        self.turn().counts_of_channel(key)
    }

    /// Memory that a program registers, where its VM's quota allows it. No work waits for a region, so the thread sleeps
    /// on: to wake it takes longer than the call.
    pub(crate) fn register<T>(
        &self,
        native: usize,
        wants: Option<Wants>,
        change: impl FnOnce(&mut At<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let register = |tables: &mut Tables| {
            wants.map_or(Ok(()), |wants| tables.may_have(native, wants))?;
            change(&mut tables.at(native)?)
        };
        self.prepare(register).0
    }

    /// A channel of queues came: its key for [`Nic::end_channel`].
    pub fn add_channel(&self, channel: Arc<dyn NicChannel>) -> u64 {
        let key = self.0.keys.fetch_add(1, Ordering::Relaxed);
        self.change(|tables| tables.add_channel(key, channel));
        key
    }

    /// A channel ends. When this returns, nothing of it is touched any more but its bells.
    pub fn end_channel(&self, key: u64) {
        self.change(|tables| tables.end_channel(key));
    }

    /// A connection begins to use the NIC.
    pub(crate) fn add_station(&self) -> Result<u32, Errno> {
        Ok(self.change(|tables| tables.stations.insert(Station::default()))?)
    }

    /// A connection has ended. One whose buffers the NIC still has keeps its place.
    pub(crate) fn end_station(&self, station: u32) {
        self.change(|tables| {
            if tables.stations.get(station).is_some_and(Station::is_clean) {
                tables.stations.remove(station);
            }
        });
    }

    /// `vfun_nic_open`.
    pub(crate) fn open(
        &self,
        version: u32,
        channel: (u64, [u64; 2]),
        (station, events): (u32, Arc<Events>),
    ) -> Result<(usize, vfun_nic_opened), Errno> {
        if version != VERSION {
            return Err(Errno::UNSUPPORTED);
        }
        self.change(|tables| {
            let at = tables.open(channel, station, events)?;
            let living = tables.contexts[at].living.as_ref().ok_or(Errno::LOST)?;
            let (program_bytes, nic_bytes) = living.channel.sides();
            let opened = vfun_nic_opened {
                program_bells: BELLS_AT as u64,
                nic_bells: BELLS_AT as u64,
                program_bytes: program_bytes as u64,
                nic_bytes: nic_bytes as u64,
            };
            Ok((Which { context: at, place: 0 }.native(), opened))
        })
    }

    /// Ends the context, living or not.
    pub fn vfun_nic_close(&self, context: usize) -> i32 {
        self.change(|tables| tables.close(Which::of(context).context));
        status(Ok(()))
    }

    pub fn vfun_nic_info(&self, context: usize, info: &mut vfun_nic_info) -> i32 {
        let guid = address::guid(&self.turn().client);
        let made = self.of(context, |_| {
            Ok(vfun_nic_info {
                guid,
                region_bytes: u64::MAX,
                message_bytes: MESSAGE_MAX,
                version: VERSION,
                qps: QPS_OF_PROGRAM as u32,
                work_depth: DEPTH_MAX,
                sges: SGES_MAX as u32,
                inline_bytes: INLINE_MAX as u32,
                cqs: limits::CQS as u32,
                cq_depth: DEPTH_MAX,
                mrs: limits::REGIONS as u32,
                pds: limits::PDS as u32,
                srqs: limits::SRQS as u32,
                ahs: limits::AHS as u32,
                reads: READS.into(),
                access: access::ALL,
                reserved: 0,
            })
        });
        status(made.map(|made| *info = made))
    }

    pub fn vfun_nic_port(&self, context: usize, port: &mut vfun_nic_port) -> i32 {
        let address = self.address(context);
        status(address.map(|address| *port = port_of(address.lid)))
    }

    pub fn vfun_nic_gid(&self, context: usize, index: u32, gid: &mut vfun_nic_gid) -> i32 {
        let address = self.address(context).and_then(|a| match index {
            0 => Ok(a),
            _ => Err(Errno::INVALID),
        });
        status(address.map(|address| gid.raw = address.gid))
    }

    fn address(&self, native: usize) -> Result<Address, Errno> {
        self.of(native, |at| Ok(at.context.address))
    }
}

/// Port 1, by the numbers of infiniband/verbs.h.
const fn port_of(lid: u16) -> vfun_nic_port {
    const ACTIVE: u32 = 4;
    const LINK_UP: u32 = 5;
    const MTU_4096: u32 = 5;
    const INFINIBAND: u32 = 1;
    const WIDTH_4X: u32 = 2;
    const SPEED_EDR: u32 = 32;
    vfun_nic_port {
        state: ACTIVE,
        physical_state: LINK_UP,
        max_mtu: MTU_4096,
        active_mtu: MTU_4096,
        gids: 1,
        pkeys: 1,
        capabilities: 0,
        max_message_bytes: MESSAGE_MAX as u32,
        link_layer: INFINIBAND,
        active_width: WIDTH_4X,
        active_speed: SPEED_EDR,
        lid,
        sm_lid: SM_LID,
        pkey: 0xffff,
        reserved: 0,
    }
}
