//! Who is there and what is offered, by manifests as an operator would write them.

use std::path::Path;
use vfun_core::Catalog;
use vfun_core::manifest;

/// Functions that apps ask for.
pub const FUNCTIONS: &[&str] = &["add", "mul", "fast", "moving"];

/// Guests: clientID, client, VM, whether programs on the host, apps, whether hostile. Two
/// are VMs of one client.
pub const GUESTS: [(u32, &str, &str, bool, u64, bool); 7] = [
    (1, "vm1", "vm1", false, 3, false),
    (3, "programs", "", true, 1, false),
    (3, "programs", "", true, 1, false),
    (4, "vm2", "vm2", false, 2, false),
    (1, "vm1", "b", false, 2, false),
    (2, "evilvm", "evilvm", false, 0, true),
    (5, "evilprogram", "", true, 0, true),
];

/// What an operator may change.
pub struct Change {
    pub deadline_ms: u32,
    pub without_mul: bool,
    pub max_grants: u32,
}

impl Default for Change {
    fn default() -> Self {
        Change { deadline_ms: 1_000, without_mul: false, max_grants: 16 }
    }
}

/// All of it.
pub fn catalog(change: &Change) -> Catalog {
    let exe = std::env::current_exe().expect("a program has a file");
    let library = exe.display();
    let mut catalog = Catalog::default();
    for (id, name) in [(1, "add"), (2, "mul"), (3, "fast"), (4, "moving")] {
        if name == "mul" && change.without_mul {
            continue;
        }
        let mut text = format!(
            "name = \"{name}\"\nversion = \"1.2\"\nlibrary = \"{library}\"\ndeadline_ms = {}\n",
            change.deadline_ms
        );
        if name == "fast" {
            text += &format!(
                "[hardware]\nlocation = \"fpga-simulated\"\nlibrary = \"{library}\"\ninstances = 2\n"
            );
        }
        if name == "moving" {
            text += &format!(
                "[hardware]\nlocation = \"fpga-simulated\"\nlibrary = \"{library}\"\ninstances = 2\nleased = true\n"
            );
        }
        let f = manifest::function(Path::new("f.toml"), &text, Path::new("/"), id);
        let f = f.unwrap_or_else(|e| panic!("{e}"));
        catalog.functions.insert(name.into(), f);
    }
    for (id, name, _, host, ..) in GUESTS {
        let kind = if host { "host" } else { "vm" };
        let mut text = format!(
            "name = \"{name}\"\nkind = \"{kind}\"\nwindow = \"1 MiB\"\nfunctions = [\"*\"]\nhardware = true\nmax_grants = {}\n",
            change.max_grants
        );
        let vms = GUESTS.iter().filter(|g| g.0 == id && !g.3);
        text.extend(vms.map(|(_, _, vm, ..)| format!("[vm.{vm}]\n")));
        let c = manifest::client(Path::new("c.toml"), &text, id);
        let c = c.unwrap_or_else(|e| panic!("{e}"));
        catalog.clients.insert(id, c);
    }
    catalog
}
