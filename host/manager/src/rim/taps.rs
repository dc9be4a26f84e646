//! The host's ends of VMs' ports: tap devices, and ports of switches with DPDK
//! ([`switchports`](super::switchports)). A thread of their own makes them and puts them into
//! bridges and switches, which may take seconds. It compares what is declared with what is
//! there, again and again, so that what failed is tried again and what somebody took away comes
//! back.

use super::ovs::Ovs;
use super::switchports::SwitchPorts;
use crate::core::catalog::Catalog;
use crate::core::ports::{Port, PortWay};
use crate::limits::TAPS_LOOK;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use vfun_hostnet::netdev::Netdev;
use vfun_hostnet::taps::{self, Before};

/// Bytes of a root's path in the mark on a device: the kernel takes 255 bytes in all.
const ROOT_BYTES: usize = 150;
/// Between the mark and the bridge of Linux in which this manager has put the device.
const IN_BRIDGE: &str = "; in the bridge ";
/// The same for a bridge of Open vSwitch.
const IN_SWITCH: &str = "; in Open vSwitch's ";

/// Where this manager has put a device.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PutInto {
    Bridge(String),
    Switch(String),
}

impl PutInto {
    fn name(&self) -> &str {
        match self {
            PutInto::Bridge(name) | PutInto::Switch(name) => name,
        }
    }
}

/// What is written on devices of the manager with this root, and of no other manager.
fn mark_of(root: &Path) -> String {
    let path = root.display().to_string();
    if path.len() <= ROOT_BYTES {
        return format!("port of VirtFun, {path}");
    }
    let hash = Sha256::digest(path.as_bytes());
    let digits: String = hash.iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("port of VirtFun, root {digits}")
}

/// What stands behind a mark on a device; none of one that has another mark or none.
fn behind_mark<'a>(mark: &str, alias: &'a str) -> Option<&'a str> {
    let rest = alias.strip_prefix(mark)?;
    let own = rest.is_empty() || rest.starts_with(IN_BRIDGE) || rest.starts_with(IN_SWITCH);
    own.then_some(rest)
}

/// What is wrong with tap devices, by their names; nothing of those that are as they should be.
type TapTrouble = Arc<Mutex<BTreeMap<String, String>>>;

/// A port, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredPort {
    pub client: u32,
    pub vm: String,
    pub port: Port,
}

/// Ports by their devices. Of two with one device the first one has it.
type DeclaredPorts = BTreeMap<String, DeclaredPort>;

/// The tap devices that this manager looks after.
pub(super) struct Taps {
    /// What is written on devices that this manager makes, and those before it with its root.
    mark: String,
    /// It may make devices and change switches.
    may_change: bool,
    /// Where drivers of switches connect.
    socket: PathBuf,
    declared: DeclaredPorts,
    trouble: TapTrouble,
    /// To the thread; none before there is a port.
    tell: Option<Sender<DeclaredPorts>>,
    /// The catalog was looked at since it changed.
    followed: bool,
}

impl Taps {
    /// Of the manager with this root.
    pub fn new(root: &Path, socket: PathBuf, may_change: bool) -> Self {
        Taps {
            mark: mark_of(root),
            may_change,
            socket,
            declared: BTreeMap::new(),
            trouble: TapTrouble::default(),
            tell: None,
            followed: false,
        }
    }

    /// There is another catalog.
    pub fn catalog_changed(&mut self) {
        self.followed = false;
    }

    /// Has the thread follow a catalog, if it may be another one than at the last look.
    pub fn follow(&mut self, catalog: &Catalog) {
        if std::mem::replace(&mut self.followed, true) {
            return;
        }
        self.declared = declared(catalog);
        let is_own =
            |tap: &String| behind_mark(&self.mark, &Netdev::of_host(tap).alias()).is_some();
        let left_over = || Netdev::all().iter().any(is_own);
        if self.tell.is_none() && self.declared.is_empty() && !left_over() {
            return;
        }
        if self.tell.is_none() {
            self.tell = self.begin();
        }
        if let Some(tell) = &self.tell {
            // A thread that is gone has said so.
            let _ = tell.send(self.declared.clone());
        }
    }

    fn begin(&self) -> Option<Sender<DeclaredPorts>> {
        let (tell, told) = channel();
        let work = Work {
            mark: self.mark.clone(),
            may_change: self.may_change,
            declared: BTreeMap::new(),
            trouble: self.trouble.clone(),
            at_switch: SwitchPorts::new(&self.mark, &self.socket),
            ovs: Ovs::default(),
            made: BTreeMap::new(),
            down: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("taps".into());
        match thread.spawn(move || work.run(&told)) {
            Ok(_) => Some(tell),
            Err(e) => {
                tracing::error!("no tap device is made for a port: no thread: {e}");
                None
            }
        }
    }

    /// Whether its device is a port's own, and not one that an earlier port has.
    pub fn has(&self, port: &DeclaredPort) -> bool {
        self.declared.get(&port.port.tap) == Some(port)
    }

    /// Whether a port's device is where it is to be, or not this manager's to put there.
    pub fn is_placed(&self, port: &Port) -> bool {
        let alias = Netdev::of_host(&port.tap).alias();
        let own = behind_mark(&self.mark, &alias).filter(|_| self.may_change);
        port.switch.is_none() || own.is_none_or(|place| !place.is_empty())
    }

    /// What is wrong with a port's device, and what to do.
    pub fn trouble_of(&self, port: &DeclaredPort) -> Option<String> {
        let tap = &port.port.tap;
        match self.declared.get(tap) {
            Some(owner) if owner == port => {
                self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get(tap).cloned()
            }
            Some(owner) => Some(format!(
                "the tap device {tap} is that of port {} of VM {}: give this port another `tap`",
                owner.port.name, owner.vm
            )),
            None => None,
        }
    }
}

/// All ports, by client, VM and number.
fn declared(catalog: &Catalog) -> DeclaredPorts {
    let mut all = BTreeMap::new();
    for client in catalog.clients.values() {
        for (vm, ports) in &client.ports {
            for port in ports {
                let (vm, port) = (vm.clone(), port.clone());
                let declared = DeclaredPort { client: client.id, vm, port };
                all.entry(declared.port.tap.clone()).or_insert(declared);
            }
        }
    }
    all
}

/// A sentence for an error of the system with what was done, and what to do.
pub(super) fn advised(tap: &str, e: &io::Error) -> String {
    match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => format!(
            "this manager may not do that ({e}): start vfund with --ports, as root, or make the device: `ip tuntap add dev {tap} mode tap user USER` with the user of vfund"
        ),
        (io::ErrorKind::NotFound, _) => {
            format!("this host has no /dev/net/tun ({e}): `modprobe tun`")
        }
        // EBUSY: somebody has it open.
        (_, Some(16)) => {
            "another program has it open: end that one, or give the port another `tap`".into()
        }
        _ => e.to_string(),
    }
}

/// The thread's own.
struct Work {
    mark: String,
    may_change: bool,
    declared: DeclaredPorts,
    trouble: TapTrouble,
    /// Those that are ports of switches with DPDK.
    at_switch: SwitchPorts,
    ovs: Ovs,
    /// Ports as their devices were made by this manager.
    made: BTreeMap<String, Port>,
    /// Devices that are still to be set up: once, for who sets one down later means it.
    down: BTreeSet<String>,
}

impl Work {
    /// Follows what it is told, and looks again in between. Ends with the manager.
    fn run(mut self, told: &Receiver<DeclaredPorts>) {
        loop {
            match told.recv_timeout(TAPS_LOOK) {
                Ok(declared) => self.declared = declared,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Only the newest counts.
            self.declared = told.try_iter().last().unwrap_or(std::mem::take(&mut self.declared));
            self.look();
        }
    }

    fn look(&mut self) {
        for tap in Netdev::all().into_iter().filter(|_| self.may_change) {
            let is_tap = |d: &DeclaredPort| d.port.way == PortWay::Tap;
            if !self.declared.get(&tap).is_some_and(is_tap) && self.is_own(&tap) {
                self.made.remove(&tap);
                self.say(&tap, self.remove(&tap).err());
            }
        }
        if self.may_change {
            let at_switch = self.declared.values().map(|d| &d.port);
            let at_switch = at_switch.filter(|p| p.way == PortWay::Dpdk && p.switch.is_some());
            self.at_switch.remove_others(&self.ovs, at_switch);
            self.at_switch.look(&self.ovs);
        }
        // First those that need no switch.
        let (taps, others): (Vec<_>, Vec<_>) =
            self.declared.clone().into_iter().partition(|(_, d)| d.port.way == PortWay::Tap);
        for (tap, declared) in taps {
            let made = self.make(&declared.port);
            self.say(&tap, made.err());
        }
        for (name, declared) in others {
            let made = self.at_switch.make(&self.ovs, &declared.port, self.may_change);
            self.say(&name, made.err());
        }
        let mut all = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|tap, _| self.declared.contains_key(tap) || self.is_own(tap));
    }

    /// Notes what is wrong with a device, and says it once.
    fn say(&self, tap: &str, what: Option<String>) {
        let mut all = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            None => _ = all.remove(tap),
            Some(what) => {
                if all.get(tap) != Some(&what) {
                    tracing::warn!("{tap}, the host's end of a port: {what}");
                }
                all.insert(tap.to_owned(), what);
            }
        }
    }

    /// Whether this manager made a device, or one before it.
    fn is_own(&self, tap: &str) -> bool {
        behind_mark(&self.mark, &Netdev::of_host(tap).alias()).is_some()
    }

    /// Where this manager has put a device, as the device itself says.
    fn put_into(&self, tap: &str) -> Option<PutInto> {
        let alias = Netdev::of_host(tap).alias();
        let rest = behind_mark(&self.mark, &alias)?;
        let bridge = rest.strip_prefix(IN_BRIDGE).map(|b| PutInto::Bridge(b.to_owned()));
        bridge.or_else(|| Some(PutInto::Switch(rest.strip_prefix(IN_SWITCH)?.to_owned())))
    }

    fn note_where(&self, tap: &str, put: Option<&PutInto>) -> Result<(), String> {
        let rest = match put {
            None => String::new(),
            Some(PutInto::Bridge(bridge)) => format!("{IN_BRIDGE}{bridge}"),
            Some(PutInto::Switch(bridge)) => format!("{IN_SWITCH}{bridge}"),
        };
        taps::set_alias(tap, &format!("{}{rest}", self.mark))
            .map_err(|e| format!("its alias could not be written: {e}"))
    }

    /// Makes a port's device as it is to be: it is there, in its switch, and up.
    fn make(&mut self, port: &Port) -> Result<(), String> {
        let tap = &port.tap;
        if !Netdev::of_host(tap).is_there() {
            let device = taps::open(tap, Before::Nothing).map_err(|e| advised(tap, &e))?;
            // It goes with the descriptor if any of this fails.
            self.note_where(tap, None)?;
            // The host's own IPv6 is not for the VM.
            taps::without_ipv6(tap)
                .map_err(|e| format!("IPv6 of the host could not be kept off it: {e}"))?;
            taps::keep(&device, true).map_err(|e| advised(tap, &e))?;
            self.down.insert(tap.clone());
        }
        if !Netdev::of_host(tap).is_tap() {
            return Err(format!(
                "an interface {tap} is there that is no tap device: give the port another `tap`"
            ));
        }
        // One that somebody else made is as that one wants it.
        if !self.is_own(tap) || !self.may_change {
            return as_it_is(port);
        }
        let (known, moved) = (self.made.get(tap), self.join(port)?);
        if moved || known.is_some_and(|known| known != port) {
            self.down.insert(tap.clone());
        } else if known.is_some() && !self.down.contains(tap) {
            return Ok(());
        }
        taps::set_mtu(tap, port.mtu).map_err(|e| format!("its MTU {}: {e}", port.mtu))?;
        if self.down.contains(tap) {
            taps::set_up(tap).map_err(|e| format!("it could not be set up: {e}"))?;
            self.down.remove(tap);
        }
        self.made.insert(tap.clone(), port.clone());
        Ok(())
    }

    /// Puts a device of ours into the switch that its port names, and out of another one. Whether it
    /// came into one just now.
    fn join(&self, port: &Port) -> Result<bool, String> {
        let (tap, wanted) = (&port.tap, port.switch.as_deref());
        let mut was = self.put_into(tap);
        if let Some(other) = was.take_if(|was| Some(was.name()) != wanted) {
            leave(&self.ovs, &other, tap)?;
            self.note_where(tap, None)?;
        }
        let Some(switch) = wanted else { return Ok(false) };
        let put = match (Netdev::of_host(switch).is_bridge(), Netdev::of_host(tap).master()) {
            (true, Some(master)) if master == switch => return Ok(false),
            (true, Some(master)) => {
                return Err(format!(
                    "it is in {master}: take it out there, or let its port name that"
                ));
            }
            (true, None) => {
                taps::join(switch, tap)
                    .map_err(|e| format!("it could not be put into the bridge {switch}: {e}"))?;
                PutInto::Bridge(switch.to_owned())
            }
            // Once: its database keeps the port, and who takes it out there means it.
            (false, _) if matches!(was, Some(PutInto::Switch(_))) => return Ok(false),
            (false, _) => {
                self.ovs.change(&["--may-exist", "add-port", switch, tap]).map_err(|e| {
                    format!("{switch} is no bridge of Linux, and Open vSwitch says: {e}")
                })?;
                PutInto::Switch(switch.to_owned())
            }
        };
        self.note_where(tap, Some(&put))?;
        Ok(true)
    }

    /// Removes a device of ours. A service may have it open for a moment more.
    fn remove(&self, tap: &str) -> Result<(), String> {
        if let Some(put) = self.put_into(tap) {
            leave(&self.ovs, &put, tap)?;
            self.note_where(tap, None)?;
        }
        let removed =
            taps::open(tap, Before::Nothing).and_then(|device| taps::keep(&device, false));
        removed.map_err(|e| match e.kind() {
            io::ErrorKind::ResourceBusy => {
                "it goes as soon as the service that has it open has closed it".into()
            }
            _ => format!("it could not be removed, which is tried again: {e}"),
        })
    }
}

/// What is to be done by hand with a device that is not this manager's to change.
fn as_it_is(port: &Port) -> Result<(), String> {
    let tap = &port.tap;
    if !Netdev::of_host(tap).is_up() {
        return Err(format!(
            "it is down, and is not this manager's to change: `ip link set {tap} up`"
        ));
    }
    match (&port.switch, Netdev::of_host(tap).master()) {
        (Some(switch), master)
            if Netdev::of_host(switch).is_bridge() && master.as_ref() != Some(switch) =>
        {
            Err(format!(
                "it is not in {switch}, and is not this manager's to change: `ip link set {tap} master {switch}`"
            ))
        }
        _ => Ok(()),
    }
}

/// Takes a device out of where it was put. A bridge of Linux that is gone has let it go.
fn leave(ovs: &Ovs, put: &PutInto, tap: &str) -> Result<(), String> {
    let left = match put {
        PutInto::Bridge(bridge) if Netdev::of_host(tap).master().as_ref() == Some(bridge) => {
            taps::leave(bridge, tap).map_err(|e| e.to_string())
        }
        PutInto::Bridge(_) => Ok(()),
        // Its database has it also while the switch does not run.
        PutInto::Switch(_) => ovs.change(&["--if-exists", "del-port", tap]),
    };
    left.map_err(|e| {
        format!("it could not be taken out of {}, which is tried again: {e}", put.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_knows_its_own_devices_and_no_others() {
        let mark = mark_of(Path::new("/var/lib/virtfun"));
        for own in [mark.clone(), format!("{mark}{IN_BRIDGE}br0"), format!("{mark}{IN_SWITCH}sw0")]
        {
            assert!(behind_mark(&mark, &own).is_some(), "{own}");
        }
        // A root whose path begins alike.
        let other = mark_of(Path::new("/var/lib/virtfun2"));
        assert_eq!(behind_mark(&mark, &other), None);
        assert_eq!(behind_mark(&mark, &format!("{other}{IN_BRIDGE}br0")), None);
        assert_eq!(behind_mark(&mark, ""), None);
        let long = |last: &str| mark_of(Path::new(&format!("/{}{last}", "x".repeat(300))));
        assert_ne!(long("a"), long("b"));
        let longest =
            format!("{}{IN_SWITCH}{}", mark_of(Path::new(&"x".repeat(ROOT_BYTES))), "b".repeat(15));
        assert!(longest.len() <= 255 && long("a").len() < longest.len());
    }
}
