//! Each transport of VMs through the whole suite, in a real guest.

use vfun_admin::{ClientRow, Transport};
use vfun_testguest::{Doorbell, Guest, GuestConfig, Window};
use vfun_tests_conform::{End, Memory, Place, Reports, Said, WithoutHeader, declare, run};
use vfun_tests_local::{Stand, programs};
use vfun_tests_vm::module::module;
use vfun_tests_vm::{LONG, boot, config};

struct InGuest {
    guest: Guest,
    endpoint: &'static str,
    with_module: bool,
}

impl End for InGuest {
    fn app(&self, words: &[&str]) -> Said {
        let script = format!("VFUN_ENDPOINT={} vfun-conform {}", self.endpoint, words.join(" "));
        match self.guest.run(&script, LONG) {
            Ok(out) => Said { status: out.status, text: out.text() },
            // Its machine was reset.
            Err(e) => Said { status: -1, text: e.to_string() },
        }
    }

    fn shell(&self, script: &str) {
        self.guest.run_ok(script, LONG).unwrap_or_else(|e| panic!("{e}\n{}", self.guest.console()));
    }

    fn die(&self) {
        self.guest.reset().unwrap_or_else(|e| panic!("{e}\n{}", self.guest.console()));
    }

    fn without_header(&self, transport: Transport) -> WithoutHeader {
        // The module takes a window whose header is wrong for one that was laid out anew.
        match (self.with_module, transport.in_file()) {
            (true, _) => WithoutHeader::Either,
            (false, true) => WithoutHeader::End,
            (false, false) => WithoutHeader::GoOn,
        }
    }

    fn is_missed_by_heartbeat(&self, transport: Transport) -> bool {
        !self.with_module && !transport.row().sees_app_end
    }

    fn memory(&self, client: &ClientRow) -> Option<Memory> {
        Some(match &client.window_file {
            Some(file) => Memory::open(file, client.transport.row().origin),
            None => Memory::of_process(self.guest.pid(), &format!("memfd:virtfun-{}", client.name)),
        })
    }
}

const CLIENT: &str = "vm1";

/// Gives a guest its window.
fn wire(config: &mut GuestConfig, row: &ClientRow) {
    let file = || row.window_file.clone().expect("a file");
    let bytes = row.transport.row().origin + row.window_bytes;
    match row.transport {
        Transport::IvshmemDoorbell => {
            config.doorbells.push(Doorbell::new(row.socket.clone().expect("a socket")));
        }
        Transport::IvshmemPlain => config.windows.push(Window { path: file(), size: bytes }),
        Transport::Pmem => config.pmems.push(Window { path: file(), size: bytes }),
        Transport::Host | Transport::Dir => panic!("{} is not for guests", row.transport),
    }
}

fn conform(transport: Transport, endpoint: &'static str, wakes: &'static str, with_module: bool) {
    let mut stand = Stand::start();
    let row = declare(&stand, CLIENT, transport);
    let mut config = config(&format!("conform-{endpoint}"), vec![]);
    wire(&mut config, &row);
    config.cpus = 2;
    config.files.push((programs().join("vfun-conform"), "/usr/bin/vfun-conform".into()));
    config.kernel_module = with_module.then(|| module().to_owned());
    let guest = boot(&config);
    let end = InGuest { guest, endpoint, with_module };
    let reports = Reports { kind: endpoint, wakes };
    run(Place { stand: &mut stand, client: CLIENT.into(), transport, end: &end, reports });
}

#[test]
fn the_module_conforms() {
    conform(Transport::IvshmemDoorbell, "module", "woken by a doorbell", true);
}

#[test]
fn ivshmem_doorbell_conforms() {
    conform(Transport::IvshmemDoorbell, "ivshmem", "rings, is not rung", false);
}

#[test]
fn ivshmem_plain_conforms() {
    conform(Transport::IvshmemPlain, "ivshmem", "no doorbell", false);
}

#[test]
fn pmem_conforms() {
    conform(Transport::Pmem, "pmem", "no doorbell", false);
}
