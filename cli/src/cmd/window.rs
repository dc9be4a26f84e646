//! `vfun window`: further windows of VMs.

use crate::admin::Admin;
use crate::fail::{self, Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use crate::vmm::{self, quoted};
use serde_json::json;
use std::path::PathBuf;
use vfun_admin::{Ask, WindowRow};

/// What to do with further windows.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    Add(Args),
    /// Take a window away, with the buffers in it. Detach it from its VM first.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
    },
    /// List windows, and which VM has each.
    #[command(visible_alias = "ls")]
    List,
    /// Show a window, and what to give QEMU or libvirt.
    Show {
        /// Its name.
        name: String,
    },
}

/// Declare a further window of a VM: memory beside its control window, for buffers.
///
/// Its file is made at once; `vfun attach --window NAME` plugs it into the VM while that
/// runs. The VM needs the kernel module for it.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Its name: letters, digits, '.', '_' and '-'.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Take everything from this manifest (TOML) instead of options.
    #[arg(short, long, value_name = "FILE", exclusive = true)]
    file: Option<PathBuf>,
    /// The VM that gets it: CLIENT, or CLIENT/VM.
    #[arg(long, value_name = "VM", required_unless_present = "file")]
    vm: Option<String>,
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
        let text = |s: &Option<String>| toml::Value::from(s.clone().unwrap_or_default());
        t.insert("name".into(), text(&self.name));
        t.insert("peers".into(), vec![text(&self.vm)].into());
        t.insert("bytes".into(), self.size.clone().into());
        t.insert("pages".into(), self.pages.clone().into());
        t
    }
}

/// Does it.
pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add(args) => {
            let (text, file) = match &args.file {
                Some(file) => {
                    let text =
                        std::fs::read_to_string(file).map_err(|e| fail::file(file, "read", &e))?;
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
    let window = vmm::further(w);
    let object = || {
        let mut value = serde_json::to_value(w).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("qemu".into(), json!(window.qemu()));
            object.insert("libvirt".into(), json!(window.libvirt()));
        }
        value
    };
    output.show(&object(), || text(w, &window))
}

/// Where it is now.
fn state(w: &WindowRow) -> String {
    match (&w.trouble, w.here, w.named) {
        (Some(why), ..) => format!("not there: {why}"),
        (None, true, _) => "in its VM".into(),
        (None, false, true) => "ready to be attached".into(),
        (None, false, false) => "waits for its VM".into(),
    }
}

fn text(w: &WindowRow, window: &vmm::Window<'_>) -> String {
    let facts = Facts::new()
        .fact("window", format!("{} ({}) of VM {}", w.name, w.role, w.vm))
        .fact("size", format!("{} in pages of {}", out::bytes(w.bytes), out::bytes(w.page)))
        .fact("file", w.file.display().to_string())
        .fact("state", state(w));
    let mut text = format!("{}\n", facts.render());
    if let Some([a, b, c, d]) = window.qemu().map(|all| all.map(|word| quoted(&word))) {
        text += &format!(
            "QEMU, run by the manager's own user or by root:\n\n    {a} {b} \\\n    {c} {d}\n\n"
        );
    }
    text += &match window.libvirt() {
        Some(xml) => {
            let indented: String = xml.lines().map(|l| format!("    {l}\n")).collect();
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
    let mut table =
        Table::new(&["NAME", "VM", ">NUMBER", ">SIZE", ">PAGES", ">BUFFERS", "STATE", "FILE"]);
    for w in windows {
        table.row([
            w.name.clone(),
            w.vm.clone(),
            w.index.map_or_else(String::new, |n| n.to_string()),
            out::bytes(w.bytes),
            out::bytes(w.page),
            w.buffers.to_string(),
            state(w),
            w.file.display().to_string(),
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
            vm: "web/b".into(),
            role: "data".into(),
            bytes: 64 << 20,
            page,
            file: file.into(),
            index: Some(1),
            named: true,
            here: false,
            buffers: 0,
            trouble: None,
        }
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
            vm: Some("web/b".into()),
            size: "64MiB".into(),
            pages: "2MiB".into(),
        };
        let t = args.manifest();
        assert_eq!(t["peers"][0].as_str(), Some("web/b"));
        assert_eq!((t["bytes"].as_str(), t["pages"].as_str()), (Some("64MiB"), Some("2MiB")));
    }
}
