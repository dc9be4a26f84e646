//! Windows that the manager makes for links by itself. The test is the process that plugs windows
//! into VMs, and the VMs' QEMUs.

use super::*;
use crate::core::catalog::VmId;
use crate::rim::verdicts::Verdicts;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use vfun_admin::WindowRow;
use vfun_links::relay::{
    FromLinks, PACKET_BYTES, PlugAnswer, PlugAt, PlugOrder, PlugOutcome, PlugWay, ToLinks,
};

/// Of both VMs somebody says how they are reached.
const REACHED: &str = "name = \"web\"\n\
    [vm.a]\nqmp = \"/run/a.qmp\"\n[vm.a.ports.eth1]\nway = \"dpdk\"\ntap = \"a1\"\nring = \"64 KiB\"\n\
    [vm.b]\nlibvirt = \"dom-b\"\n[vm.b.ports.eth1]\nway = \"dpdk\"\ntap = \"b1\"\nring = \"64 KiB\"\n";

/// What of these lines is about VM A.
const ONLY_A: &str = "[vm.a]\nqmp = \"/run/a.qmp\"\n[vm.a.ports.eth1]\nway = \"dpdk\"\ntap = \"a1\"\nring = \"64 KiB\"\n";

/// A rig with the process that plugs.
struct Plugging {
    rig: Rig,
    process: OwnedFd,
    /// Windows in VMs, with the connections of their QEMUs.
    has: Vec<(PlugAt, String, UnixStream)>,
    /// What comes of orders to take a window out.
    out: PlugOutcome,
    orders: Vec<PlugOrder>,
}

impl Plugging {
    fn new(idle_ms: u64) -> Self {
        let mut rig = Rig::with(REACHED);
        rig.m.config.link_settings.idle_ms = idle_ms;
        rig.m.verdicts = Some(Verdicts::default());
        let (flags, kind) = (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, SocketType::SEQPACKET);
        let (ours, process) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let watched = crate::rim::Kind::LinksSocket;
        rig.m.watch(&ours, watched, 0, rustix::event::epoll::EventFlags::IN).unwrap();
        rig.m.links_started(ours);
        Plugging { rig, process, has: vec![], out: PlugOutcome::Done, orders: vec![] }
    }

    /// Takes words of the manager, and does what they say.
    fn serve(&mut self) {
        let mut bytes = [0; PACKET_BYTES];
        while let Ok((n, _)) = fdpass::receive(&self.process, &mut bytes) {
            if n == 0 {
                return;
            }
            let ToLinks::Plug(order) = serde_json::from_slice(&bytes[..n]).unwrap() else {
                continue;
            };
            self.orders.push(order.clone());
            let outcome = match &order.way {
                PlugWay::Served { socket } => {
                    let stream = UnixStream::connect(socket).unwrap();
                    self.has.push((order.vmm, order.id, stream));
                    PlugOutcome::Done
                }
                PlugWay::Out => {
                    let out = self.out.clone();
                    if out == PlugOutcome::Done {
                        self.has.retain(|(vmm, id, _)| (vmm, id) != (&order.vmm, &order.id));
                    }
                    out
                }
                PlugWay::File { .. } => panic!("no file is made"),
            };
            // The QEMU takes it before the process says so.
            self.rig.m.accept_all_made();
            let answer = FromLinks::Plugged(PlugAnswer { order: order.order, outcome });
            let answer = serde_json::to_vec(&answer).unwrap();
            fdpass::send(&self.process, &answer, &[]).unwrap();
        }
    }

    fn until(&mut self, what: impl Fn(&Plugging) -> bool) {
        for _ in 0..20_000 {
            if what(self) {
                return;
            }
            self.rig.pump();
            self.serve();
        }
        panic!("it does not come: {:?} {:?}", self.rig.row(), self.orders);
    }

    /// The window that the manager made, as people see it.
    fn made(&self) -> Option<WindowRow> {
        self.rig.m.further_rows().into_iter().find(WindowRow::is_made)
    }

    /// The switch joins the ports, and both VMs take the window.
    fn linked(&mut self) {
        self.rig.joined(true);
        self.until(|p| p.has.len() == 2);
        self.rig.plug(true);
        self.until(|p| p.rig.row().state == "direct");
    }

    fn orders_out(&self) -> usize {
        self.orders.iter().filter(|order| order.way == PlugWay::Out).count()
    }
}

/// What a QEMU reads before it has its device: numbers, and the memory.
fn taken(stream: &UnixStream) -> (Vec<i64>, OwnedFd) {
    let (mut numbers, mut memory, mut bytes) = (vec![], None, [0; 8]);
    while memory.is_none() {
        let (n, fds) = fdpass::receive(stream, &mut bytes).unwrap();
        assert_eq!(n, 8);
        numbers.push(i64::from_le_bytes(bytes));
        memory = fds.into_iter().next();
    }
    (numbers, memory.unwrap())
}

#[test]
fn two_vms_get_a_window_by_themselves_and_lose_it_when_it_is_idle() {
    let mut p = Plugging::new(300);
    p.linked();
    let row = p.made().expect("a window");
    assert_eq!(
        (row.vms().as_str(), row.here(), row.file.as_os_str().len()),
        ("web/a and web/b", 2, 0)
    );
    assert_eq!(p.rig.row().window.as_deref(), Some(&*row.name));
    let at = |vmm: &PlugAt| p.has.iter().find(|(at, ..)| at == vmm).expect("it has it");
    let vmms = [PlugAt::Qmp("/run/a.qmp".into()), PlugAt::Libvirt("dom-b".into())];
    let memory = vmms.each_ref().map(|vmm| {
        let (numbers, memory) = taken(&at(vmm).2);
        assert_eq!(numbers, [0, 1, -1]);
        memory
    });
    let file = |fd: &OwnedFd| std::fs::File::from(fd.try_clone().unwrap()).metadata().unwrap();
    assert_eq!(file(&memory[0]).ino(), file(&memory[1]).ino(), "one memory of both");
    assert_eq!(
        (file(&memory[0]).nlink(), file(&memory[0]).len()),
        (0, row.bytes),
        "it has no name"
    );
    let seals = rustix::fs::fcntl_get_seals(&memory[0]).unwrap();
    let size = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW;
    assert!(seals.contains(size), "{seals:?}");
    assert!(p.rig.m.tree.made_sockets().is_empty(), "nobody else can take it");
    // Nobody takes it away by hand.
    let said = p.rig.m.remove_further(&row.name);
    assert!(matches!(said, crate::admin::Reply::Error { .. }), "{said:?}");

    // A rule that changes for a moment costs no window.
    p.rig.joined(false);
    p.until(|p| p.rig.row().state == "switch");
    p.rig.joined(true);
    p.until(|p| p.rig.row().state == "direct");
    assert_eq!(p.orders_out(), 0);
    // One that stays away ends the link, and the window goes.
    p.rig.joined(false);
    p.until(|p| p.made().is_none());
    assert!(p.rig.row().link.is_none() && p.rig.told(word::FORCE) == 0);
    assert!(p.orders_out() == 2 && p.has.is_empty() && p.rig.m.rim.further.is_empty());
    // It comes again when it is needed: another one.
    p.rig.joined(true);
    p.until(|p| p.has.len() == 2);
    assert_ne!(p.made().expect("another one").name, row.name);
}

#[test]
fn a_vm_that_keeps_a_window_has_no_links_until_it_is_another_one() {
    let mut p = Plugging::new(50);
    p.linked();
    p.out = PlugOutcome::Kept("the VM has not let go of the device within 10 s".into());
    p.rig.m.links_off("a1", "b1", true);
    p.until(|p| !p.rig.m.links.made.stuck.is_empty() && p.orders_out() == 2);
    p.rig.m.links_off("a1", "b1", false);
    p.until(|p| p.rig.row().why.contains("until it is started again"));
    let troubles = p.rig.m.stuck_troubles();
    assert!(
        troubles.len() == 2 && troubles[0].contains("has not let go of window link:"),
        "{troubles:?}"
    );
    // They let go of it late: that is noted, and they have no links all the same.
    p.out = PlugOutcome::Done;
    for made in p.rig.m.links.made.all.values_mut() {
        (0..2).for_each(|vm| made.stays(vm, 0));
    }
    p.until(|p| p.made().is_none());
    (0..20).for_each(|_| p.rig.pump());
    assert!(p.rig.row().why.contains("until it is started again") && p.made().is_none());
    // The next manager knows it.
    let stuck = p.rig.m.links.made.stuck.clone();
    let notes = stuck.iter().map(|(id, name)| (format!("stuck-{id}"), name.clone()));
    p.rig.m.links = Links::default();
    p.rig.m.links.were_left(notes.collect());
    p.rig.m.find_links();
    assert_eq!(p.rig.m.links.made.stuck, stuck);
    p.rig.m.window_gone(p.rig.vms[1].window);
    p.rig.m.window_gone(p.rig.vms[0].window);
    p.until(|p| p.rig.m.links.made.stuck.is_empty());
}

#[test]
fn a_window_in_which_a_vm_was_silent_is_thrown_away() {
    let mut p = Plugging::new(60_000);
    p.linked();
    let name = p.made().unwrap().name;
    p.rig.vms[0].is_stopped = true;
    p.rig.joined(false);
    p.until(|p| p.rig.m.rim.further.is_empty());
    assert_eq!(p.orders_out(), 2);
    p.rig.joined(true);
    p.until(|p| p.made().is_some_and(|row| row.name != name));
    assert!(p.rig.m.links.bars.is_empty());
}

#[test]
fn what_keeps_a_window_from_a_vm_is_said() {
    let mut p = Plugging::new(60_000);
    p.rig.joined(true);
    p.until(|p| p.has.len() == 2);
    p.until(|p| p.rig.row().why.contains("kernel module has not said yet"));
    // Asked again, the QEMU has it already.
    let of = (p.rig.m.made_windows().next().unwrap().0, 0);
    let vm = vfun_admin::VmName::new("web", "a");
    let name = p.made().unwrap().name;
    let answer = |m: &mut Daemon, outcome| {
        let of =
            crate::rim::verdicts::PlugOf { vm: vm.clone(), window: name.clone(), goes_in: true };
        m.window_plugged(of, outcome);
    };
    answer(&mut p.rig.m, PlugOutcome::Already);
    p.until(|p| p.rig.row().why.contains("does not take it: is the module loaded?"));
    let no_port = "this QEMU has no free PCIe port that takes devices while it runs";
    answer(&mut p.rig.m, PlugOutcome::Failed(no_port.into()));
    p.until(|p| p.rig.row().why.contains(no_port));
    assert!(p.rig.m.why_not_plugged(of, &p.rig.m.rim.further[&of.0]).contains("in VM web/a"));
    // It is not asked for all the time.
    assert_eq!(p.orders.len(), 2);
    // Without the process nothing can be plugged in, and what is there stays.
    p.rig.plug(true);
    p.until(|p| p.rig.row().state == "direct");
}

#[test]
fn a_plug_that_takes_long_is_not_asked_for_again() {
    let mut p = Plugging::new(60_000);
    p.rig.joined(true);
    // libvirt is slow: nobody answers, for longer than a plug rests.
    for _ in 0..50 {
        p.rig.pump();
        p.rig.m.links.plugs.end_rests();
        p.rig.m.links.changed();
    }
    assert_eq!(p.rig.m.tree.made_sockets().len(), 2, "QEMUs may take it still");
    p.serve();
    assert_eq!((p.orders.len(), p.has.len()), (2, 2));
}

#[test]
fn a_window_that_somebody_took_out_goes_in_again_soon() {
    let mut p = Plugging::new(60_000);
    p.linked();
    let goes = |p: &mut Plugging| {
        p.rig.plug(false);
        for _ in 0..20 {
            p.rig.pump();
            p.serve();
        }
        p.rig.plug(true);
        p.rig.pump();
        p.orders.len()
    };
    assert_eq!(goes(&mut p), 3);
    // One that comes and goes does not have it asked for each time.
    assert_eq!([0; 5].map(|_| goes(&mut p)), [3; 5]);
    p.rig.m.links.plugs.end_rests();
    assert_eq!(goes(&mut p), 4);
}

#[test]
fn so_many_windows_are_made_and_no_more() {
    let mut p = Plugging::new(60_000);
    let vms = ["a", "b"].map(|vm| VmId { client: 1, vm: vm.into() });
    let both = BTreeSet::from([vms.clone()]);
    for _ in 0..vfun_wire::limits::WINDOWS_MAX {
        assert!(p.rig.m.make_windows(&both).is_empty());
    }
    let why = p.rig.m.make_windows(&both).remove(&vms).expect("too many");
    assert!(why.contains("as many as can be"), "{why}");
}

#[test]
fn a_vm_lets_go_of_what_it_shares_with_one_that_is_declared_no_more() {
    let mut p = Plugging::new(60_000);
    p.linked();
    let name = p.made().unwrap().name;
    p.rig.m.push(Event::Catalog(catalog(&REACHED.replace(ONLY_A, ""))));
    p.rig.m.settle();
    p.rig.m.look_after_further();
    p.until(|p| p.orders_out() == 1);
    let order = p.orders.last().unwrap();
    assert_eq!(order.vmm, PlugAt::Libvirt("dom-b".into()));
    assert_eq!(order.id, vfun_admin::window::device_id(&name));
    assert!(p.made().is_none() && p.has.len() == 1);
}

#[test]
fn a_window_that_cannot_be_taken_out_is_shown() {
    let mut p = Plugging::new(50);
    p.linked();
    p.out = PlugOutcome::Failed("libvirt hangs".into());
    p.rig.m.links_off("a1", "b1", true);
    p.until(|p| p.rig.m.stuck_troubles().len() == 2);
    let troubles = p.rig.m.stuck_troubles();
    assert!(troubles[0].contains("is still in VM web/a") && troubles[0].contains("libvirt hangs"));
    // The process ends in the middle: that does not say that a VM has let go of it.
    p.rig.m.links_ended();
    (0..20).for_each(|_| p.rig.pump());
    assert!(p.made().is_some());
}
