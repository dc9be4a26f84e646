//! `vfun window`: further windows of VMs.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use crate::toml_file;
use crate::vmm::{self, quoted};
use serde_json::json;
use std::path::PathBuf;
use vfun_admin::{Ask, WindowPeer, WindowRow};

/// What to do with further windows.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Args),
    /// Take a window away, with the buffers in it. Detach it from its VMs first.
    #[command(visible_alias = "rm")]
    Remove {
        /// The window's name.
        name: String,
    },
    /// List windows, and which VMs have each.
    #[command(visible_alias = "ls")]
    List,
    /// Show a window, and what to give QEMU or libvirt.
    Show {
        /// The window's name.
        name: String,
    },
}

/// Declare a further window: memory for buffers of a VM, or a link, which two VMs share.
///
/// Its file is made at once; `vfun attach --window NAME` plugs it into a VM while that
/// runs. The VM needs the kernel module for it. Each of the two VMs of a link can read and
/// write all that is in the link; the host lays nothing out there.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Its name: letters, digits, '.', '_' and '-'.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Take everything from this manifest (TOML) instead of options.
    #[arg(short, long, value_name = "FILE", exclusive = true)]
    file: Option<PathBuf>,
    /// The VM that gets it: CLIENT, or CLIENT/VM. Given twice: the two VMs that share it.
    #[arg(long, value_name = "VM", required_unless_present = "file")]
    vm: Vec<String>,
    /// Its size: a power of two from 1 MiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    size: String,
    /// Pages of its file; one buffer is contiguous up to such a page.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = ["4KiB", "2MiB"])]
    pages: String,
}

impl Args {
    fn manifest(&self) -> toml::Table {
        let mut t = toml::Table::new();
        t.insert("name".into(), self.name.clone().unwrap_or_default().into());
        t.insert("peers".into(), self.vm.clone().into());
        t.insert("bytes".into(), self.size.clone().into());
        t.insert("pages".into(), self.pages.clone().into());
        t
    }
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add(args) => {
            let (text, file) = match &args.file {
                Some(file) => {
                    let text = toml_file::read(file, toml_file::WINDOW)?;
                    (text, std::path::absolute(file).unwrap_or_else(|_| file.clone()))
                }
                None => (args.manifest().to_string(), PathBuf::from("command line")),
            };
            show(output, &admin.add_window(text, file)?)
        }
        Sub::Remove { name } => output.done(admin.tell(&Ask::RemoveWindow { name: name.clone() })?),
        Sub::List => {
            let windows = admin.windows()?;
            output.show(&windows, || render(&windows))
        }
        Sub::Show { name } => show(output, &find(admin, name)?),
    }
}

/// The window of this name.
pub fn find(admin: &Admin, name: &str) -> Result<WindowRow> {
    admin.window(name)?.ok_or_else(|| {
        Failure::new(Exit::Refused, format!("there is no window '{name}'")).advise(format!(
            "`vfun window add {name} --vm VM` declares it; `vfun window list` shows them"
        ))
    })
}

fn show(output: Output, w: &WindowRow) -> Result<()> {
    if w.is_made() {
        return output.show(w, || of_manager(w));
    }
    let window = vmm::further(w);
    let object = || {
        let mut value = serde_json::to_value(w).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("qemu".into(), json!(window.qemu()));
            object.insert("libvirt".into(), json!(window.libvirt().map(|shmem| shmem.xml)));
        }
        value
    };
    output.show(&object(), || text(w, &window))
}

/// Where it is now.
fn state(w: &WindowRow) -> String {
    let of_each = |p: &WindowPeer| format!("{}: {}", p.vm, of_peer(p));
    match (&w.trouble, w.peers.as_slice()) {
        (Some(why), _) => format!("not there: {why}"),
        (None, [only]) => of_peer(only).into(),
        (None, peers) => peers.iter().map(of_each).collect::<Vec<_>>().join("; "),
    }
}

/// Whether a VM has it.
fn of_peer(p: &WindowPeer) -> &'static str {
    match (p.here, p.named) {
        (true, _) => "in its VM",
        (false, true) => "ready to be attached",
        (false, false) => "waits for its VM",
    }
}

/// Its number in each VM.
fn numbers(w: &WindowRow) -> String {
    let numbers = w.peers.iter().filter_map(|p| p.index);
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

fn facts(w: &WindowRow) -> String {
    let of = if w.peers.len() == 1 { "VM" } else { "VMs" };
    let facts = Facts::new()
        .fact("window", format!("{} ({}) of {of} {}", w.name, w.role, w.vms()))
        .fact("size", format!("{} in pages of {}", out::bytes(w.bytes), out::bytes(w.page)))
        .fact("file", file(w))
        .fact("number", numbers(w))
        .fact("state", state(w));
    format!("{}\n", facts.render())
}

/// Where its memory is.
fn file(w: &WindowRow) -> String {
    match w.is_made() {
        true => "none: memory without a name".into(),
        false => w.file.display().to_string(),
    }
}

/// One that the manager made for direct links.
fn of_manager(w: &WindowRow) -> String {
    facts(w)
        + "The manager made it for direct links (vfun links). It plugs it in, and takes it out some time after the last link.\n"
}

fn text(w: &WindowRow, window: &vmm::Window<'_>) -> String {
    let mut text = facts(w);
    if let Some([a, b, c, d]) = window.qemu().map(|all| all.map(|word| quoted(&word))) {
        text += &format!(
            "QEMU, run by the manager's own user or by root:\n\n    {a} {b} \\\n    {c} {d}\n\n"
        );
    }
    text += &match window.libvirt() {
        Some(shmem) => {
            let indented: String = shmem.xml.lines().map(|l| format!("    {l}\n")).collect();
            format!("libvirt, in <devices>:\n\n{indented}\n  {}\n", window.permission())
        }
        None => format!("{}\n", window.not_by_libvirt()),
    };
    text + &format!(
        "A VM that runs already: vfun attach DOMAIN --window {0}, or vfun attach --qmp SOCKET --window {0}\n",
        w.name
    )
}

fn render(windows: &[WindowRow]) -> String {
    let mut table = Table::new(&[
        "NAME", "ROLE", "VM", ">NUMBER", ">SIZE", ">PAGES", ">BUFFERS", "STATE", "FILE",
    ]);
    for w in windows {
        table.row([
            w.name.clone(),
            w.role.clone(),
            w.vms(),
            numbers(w),
            out::bytes(w.bytes),
            out::bytes(w.page),
            w.buffers.to_string(),
            state(w),
            file(w),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(page: u64, file: &str) -> WindowRow {
        WindowRow {
            name: "bulk".into(),
            role: "data".into(),
            bytes: 64 << 20,
            page,
            file: file.into(),
            peers: vec![peer("web/b", 1, false)],
            buffers: 0,
            trouble: None,
        }
    }

    fn peer(vm: &str, index: u16, here: bool) -> WindowPeer {
        WindowPeer { vm: vm.into(), index: Some(index), named: true, here }
    }

    #[test]
    fn a_link_is_shown_with_both_vms() {
        let peers = vec![peer("db", 1, true), peer("web/b", 3, false)];
        let link = WindowRow { role: "link".into(), peers, ..row(4096, "/dev/shm/virtfun_bulk") };
        let states = "db: in its VM; web/b: ready to be attached";
        let said = text(&link, &vmm::further(&link));
        for part in ["bulk (link) of VMs db and web/b", "1, 3", states] {
            assert!(said.contains(part), "no {part} in:\n{said}");
        }
        let list = render(&[link]);
        assert!(list.contains("db and web/b") && list.contains(states), "{list}");
    }

    #[test]
    fn a_window_is_shown_with_what_vmms_are_told() {
        let w = row(4096, "/dev/shm/virtfun_bulk");
        let said = text(&w, &vmm::further(&w));
        for part in [
            "memory-backend-file,id=virtfun_bulk,share=on,mem-path=/dev/shm/virtfun_bulk,size=64M",
            "ivshmem-plain,id=virtfun_bulk-device,memdev=virtfun_bulk",
            "<shmem name='virtfun_bulk'>\n      <model type='ivshmem-plain'/>\n      <size unit='M'>64</size>",
            "vfun attach DOMAIN --window bulk",
            "ready to be attached",
        ] {
            assert!(said.contains(part), "no {part} in:\n{said}");
        }
        // libvirt knows no other folder.
        let huge = row(2 << 20, "/dev/hugepages/virtfun_bulk");
        let window = vmm::further(&huge);
        assert_eq!(window.libvirt(), None);
        assert!(text(&huge, &window).contains("mem-path=/dev/hugepages/virtfun_bulk"));
    }

    #[test]
    fn a_manifest_says_what_the_options_say() {
        let args = Args {
            name: Some("bulk".into()),
            file: None,
            vm: vec!["web/b".into(), "db".into()],
            size: "64MiB".into(),
            pages: "2MiB".into(),
        };
        let t = args.manifest();
        let peers = [0, 1].map(|n| t["peers"][n].as_str());
        assert_eq!(peers, [Some("web/b"), Some("db")]);
        assert_eq!((t["bytes"].as_str(), t["pages"].as_str()), (Some("64MiB"), Some("2MiB")));
    }

    #[test]
    fn a_window_of_the_manager_is_not_plugged_in_by_hand() {
        let made = WindowRow { name: "link:7".into(), role: "link".into(), ..row(4096, "") };
        assert!(made.is_made() && made.device_id() == "virtfun.link-7");
        let text = of_manager(&made);
        assert!(text.contains("for direct links") && !text.contains("vfun attach"), "{text}");
        assert!(text.contains("memory without a name"), "{text}");
        assert!(!row(4096, "/dev/shm/x").is_made());
    }
}
