//! How a client's window gets into its VM.

use crate::out::{self, Facts};
use serde_json::{Value, json};
use std::path::Path;
use vfun_manager::admin::ClientRow;

/// The only folder in which libvirt looks for the memory of an ivshmem-plain device.
const LIBVIRT_FOLDER: &str = "/dev/shm";

/// A size as QEMU takes it.
fn qemu_size(bytes: u64) -> String {
    match bytes {
        b if b.is_multiple_of(1 << 20) => format!("{}M", b >> 20),
        b if b.is_multiple_of(1 << 10) => format!("{}K", b >> 10),
        b => b.to_string(),
    }
}

/// QEMU's arguments for a window.
pub fn qemu(name: &str, file: &Path, bytes: u64) -> [String; 4] {
    // In QEMU's options a comma is doubled.
    let path = file.display().to_string().replace(',', ",,");
    [
        "-object".into(),
        format!(
            "memory-backend-file,id=virtfun-{name},share=on,mem-path={path},size={}",
            qemu_size(bytes)
        ),
        "-device".into(),
        format!("ivshmem-plain,memdev=virtfun-{name}"),
    ]
}

/// libvirt's element for it; none if libvirt would not find the file.
pub fn libvirt(name: &str, file: &Path, bytes: u64) -> Option<String> {
    if file != Path::new(LIBVIRT_FOLDER).join(format!("virtfun-{name}")) {
        return None;
    }
    let (unit, size) = match bytes {
        b if b.is_multiple_of(1 << 20) => ("M", b >> 20),
        b => ("B", b),
    };
    Some(format!(
        "<shmem name='virtfun-{name}'>\n  <model type='ivshmem-plain'/>\n  <size unit='{unit}'>{size}</size>\n</shmem>"
    ))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match word.chars().all(plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// For programs: the row, with the arguments.
pub fn object(c: &ClientRow) -> Value {
    let mut value = serde_json::to_value(c).unwrap_or_default();
    if let (Some(object), Some(file)) = (value.as_object_mut(), &c.window_file) {
        object.insert("qemu".into(), json!(qemu(&c.name, file, c.window_bytes)));
        object.insert("libvirt".into(), json!(libvirt(&c.name, file, c.window_bytes)));
    }
    value
}

/// For people.
pub fn text(c: &ClientRow) -> String {
    let yes = |b: bool| if b { "yes" } else { "no" };
    let mut facts = Facts::new()
        .fact("client", format!("{} (id {}, {})", c.name, c.id, c.kind))
        .fact("functions", if c.functions == ["*"] { "all".into() } else { c.functions.join(", ") })
        .fact("most grants", c.max_grants.to_string())
        .fact("over TCP", yes(c.tcp))
        .fact("credential", yes(c.credential));
    let window = out::bytes(c.window_bytes);
    let Some(file) = &c.window_file else {
        facts = facts.fact("window", format!("{window} for each program"));
        return facts.render();
    };
    facts = facts.fact("window", format!("{window} in {}", file.display()));
    let [a, b, c1, d] = qemu(&c.name, file, c.window_bytes).map(|w| quoted(&w));
    let shown = quoted(&file.display().to_string());
    let libvirt = match libvirt(&c.name, file, c.window_bytes) {
        Some(xml) => {
            let indented: String = xml.lines().map(|l| format!("    {l}\n")).collect();
            format!(
                "libvirt, in <devices>:\n\n{indented}\n  QEMU runs there as another user, who must be let at the window, once a boot of the host:\n\n    setfacl -m u:libvirt-qemu:rw {shown}\n"
            )
        }
        None => format!(
            "libvirt finds windows in {LIBVIRT_FOLDER} only: start vfund with --window-dir {LIBVIRT_FOLDER}, or give the\ndomain the arguments above as <qemu:commandline>.\n"
        ),
    };
    format!(
        "{}\nQEMU, run by the manager's own user or by root:\n\n    {a} {b} \\\n    {c1} {d}\n\n{libvirt}\nIn the VM, as root: vfun doctor\n",
        facts.render()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file: &str, bytes: u64) -> ClientRow {
        ClientRow {
            id: 3,
            name: "vm1".into(),
            kind: "vm".into(),
            window_bytes: bytes,
            transport: "ivshmem-plain".into(),
            window_file: Some(file.into()),
            socket: None,
            connected: false,
            functions: vec!["*".into()],
            max_grants: 128,
            tcp: false,
            credential: true,
        }
    }

    #[test]
    fn qemu_and_libvirt_get_the_same_window() {
        assert_eq!(
            text(&row("/dev/shm/virtfun-vm1", 64 << 20)),
            "client       vm1 (id 3, vm)\n\
             functions    all\n\
             most grants  128\n\
             over TCP     no\n\
             credential   yes\n\
             window       64 MiB in /dev/shm/virtfun-vm1\n\
             \n\
             QEMU, run by the manager's own user or by root:\n\
             \n\
             \x20   -object memory-backend-file,id=virtfun-vm1,share=on,mem-path=/dev/shm/virtfun-vm1,size=64M \\\n\
             \x20   -device ivshmem-plain,memdev=virtfun-vm1\n\
             \n\
             libvirt, in <devices>:\n\
             \n\
             \x20   <shmem name='virtfun-vm1'>\n\
             \x20     <model type='ivshmem-plain'/>\n\
             \x20     <size unit='M'>64</size>\n\
             \x20   </shmem>\n\
             \n\
             \x20 QEMU runs there as another user, who must be let at the window, once a boot of the host:\n\
             \n\
             \x20   setfacl -m u:libvirt-qemu:rw /dev/shm/virtfun-vm1\n\
             \n\
             In the VM, as root: vfun doctor\n"
        );
    }

    #[test]
    fn odd_places_are_quoted_and_kept_from_libvirt() {
        let shown = text(&row("/tmp/a,b c/virtfun-vm1", 1 << 20));
        assert!(shown.contains("'memory-backend-file,id=virtfun-vm1,share=on,mem-path=/tmp/a,,b c/virtfun-vm1,size=1M'"), "{shown}");
        assert!(
            shown.contains("libvirt finds windows in /dev/shm only") && !shown.contains("<shmem")
        );
        let host = ClientRow { window_file: None, kind: "host".into(), ..row("", 1 << 20) };
        assert!(text(&host).contains("1 MiB for each program") && !text(&host).contains("QEMU"));
        assert!(object(&host).get("qemu").is_none());
        assert_eq!(object(&row("/dev/shm/virtfun-vm1", 1 << 20))["qemu"][2], "-device");
    }
}
