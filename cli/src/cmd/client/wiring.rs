//! How a client's window gets into its VM: what to give QEMU or libvirt.

use crate::out::{self, Facts};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vfun_admin::ClientRow;
use vfun_wire::limits::VECTORS;

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

/// How a client's VM gets its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// QEMU connects to the manager, which gives it window and doorbells.
    Doorbell(PathBuf),
    /// QEMU maps a file; no doorbells.
    Plain(PathBuf),
}

/// The way of a client; none on the host.
pub fn way(c: &ClientRow) -> Option<Way> {
    let socket = c.socket.clone().map(Way::Doorbell);
    socket.or_else(|| c.window_file.clone().map(Way::Plain))
}

/// What a client's device, character device and memory are called in QEMU and libvirt.
pub fn device_id(client: &str) -> String {
    format!("virtfun-{client}")
}

/// QEMU's arguments for a window.
pub fn qemu(c: &ClientRow) -> Option<[String; 4]> {
    let id = device_id(&c.name);
    // In QEMU's options a comma is doubled.
    let path = |p: &Path| p.display().to_string().replace(',', ",,");
    Some(match way(c)? {
        Way::Doorbell(socket) => [
            "-chardev".into(),
            format!("socket,id={id},path={}", path(&socket)),
            "-device".into(),
            format!("ivshmem-doorbell,id={id},chardev={id},vectors={VECTORS}"),
        ],
        Way::Plain(file) => [
            "-object".into(),
            format!(
                "memory-backend-file,id={id},share=on,mem-path={},size={}",
                path(&file),
                qemu_size(c.window_bytes)
            ),
            "-device".into(),
            format!("ivshmem-plain,id={id}-device,memdev={id}"),
        ],
    })
}

/// A value within an attribute in single quotes.
fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}

/// libvirt's element for it; none if libvirt would not find the file.
pub fn libvirt(c: &ClientRow) -> Option<String> {
    let id = device_id(&c.name);
    Some(match way(c)? {
        Way::Doorbell(socket) => {
            let socket = xml(&socket.display().to_string());
            format!(
                "<shmem name='{id}'>\n  <model type='ivshmem-doorbell'/>\n  <server path='{socket}'/>\n  <msi vectors='{VECTORS}' ioeventfd='on'/>\n</shmem>"
            )
        }
        Way::Plain(file) => {
            if file != Path::new(LIBVIRT_FOLDER).join(&id) {
                return None;
            }
            let (unit, size) = match c.window_bytes {
                b if b.is_multiple_of(1 << 20) => ("M", b >> 20),
                b => ("B", b),
            };
            format!(
                "<shmem name='{id}'>\n  <model type='ivshmem-plain'/>\n  <size unit='{unit}'>{size}</size>\n</shmem>"
            )
        }
    })
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
    if let (Some(object), Some(arguments)) = (value.as_object_mut(), qemu(c)) {
        object.insert("qemu".into(), json!(arguments));
        object.insert("libvirt".into(), json!(libvirt(c)));
    }
    value
}

/// What libvirt's user must be allowed.
fn permission(way: &Way) -> String {
    match way {
        Way::Doorbell(socket) => format!(
            "QEMU runs there as libvirt-qemu, a member of group kvm: the manager gives the socket to\n  that group. Its folders must let that user through: `namei -l {}` shows them.\n",
            quoted(&socket.display().to_string())
        ),
        Way::Plain(file) => format!(
            "QEMU runs there as another user, who must be let at the window, once a boot of the host:\n\n    setfacl -m u:libvirt-qemu:rw {}\n",
            quoted(&file.display().to_string())
        ),
    }
}

/// What an app of this client must show, in a word or two.
pub fn proof(c: &ClientRow) -> String {
    let tokens = match c.tokens_valid {
        1 => "1 token".into(),
        n => format!("{n} tokens"),
    };
    match (c.tokens, c.credential, c.tokens_valid) {
        (true, ..) => format!("token ({tokens})"),
        (false, true, 0) => "yes".into(),
        (false, true, _) => format!("yes, or token ({tokens})"),
        (false, false, 0) => "no".into(),
        // Those over TCP show one; others may, to be told apart.
        (false, false, _) => format!("no ({tokens})"),
    }
}

/// Who may come over TCP.
fn over_tcp(c: &ClientRow) -> String {
    let proven = c.tokens || c.credential;
    match (c.tcp, c.tcp_open) {
        (false, _) => "no".into(),
        (true, true) if !proven => "open: whoever reaches the gateway".into(),
        (true, _) if !proven && c.tokens_valid == 0 => {
            format!("nobody yet: `vfun token add {}`", c.name)
        }
        (true, _) => "yes".into(),
    }
}

/// For people.
pub fn text(c: &ClientRow) -> String {
    let mut facts = Facts::new()
        .fact("client", format!("{} (id {}, {})", c.name, c.id, c.kind))
        .fact("functions", if c.functions == ["*"] { "all".into() } else { c.functions.join(", ") })
        .fact("most grants", c.max_grants.to_string())
        .fact("over TCP", over_tcp(c))
        .fact("credential", proof(c));
    let window = out::bytes(c.window_bytes);
    let (Some(way), Some(arguments)) = (way(c), qemu(c)) else {
        facts = facts.fact("window", format!("{window} for each program"));
        return facts.render();
    };
    facts = match &way {
        Way::Doorbell(socket) => facts
            .fact("window", format!("{window} from {}", socket.display()))
            .fact("transport", "ivshmem-doorbell: both sides sleep when there is nothing to do"),
        Way::Plain(file) => facts
            .fact("window", format!("{window} in {}", file.display()))
            .fact("transport", "ivshmem-plain: no doorbells, both sides look by the clock"),
    };
    let [a, b, c1, d] = arguments.map(|w| quoted(&w));
    let libvirt = match libvirt(c) {
        Some(xml) => {
            let indented: String = xml.lines().map(|l| format!("    {l}\n")).collect();
            format!("libvirt, in <devices>:\n\n{indented}\n  {}", permission(&way))
        }
        None => format!(
            "libvirt finds windows in {LIBVIRT_FOLDER} only: start vfund with --window-dir {LIBVIRT_FOLDER}, or give the\ndomain the arguments above as <qemu:commandline>.\n"
        ),
    };
    format!(
        "{}\nQEMU, run by the manager's own user or by root:\n\n    {a} {b} \\\n    {c1} {d}\n\n{libvirt}\nA VM that runs already: vfun attach DOMAIN --client {}, or vfun attach --qmp SOCKET --client {}\n\nIn the VM, as root: vfun doctor\n",
        facts.render(),
        c.name,
        c.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(transport: &str, path: &str, bytes: u64) -> ClientRow {
        let doorbell = transport == "ivshmem-doorbell";
        ClientRow {
            id: 3,
            name: "vm1".into(),
            kind: "vm".into(),
            window_bytes: bytes,
            transport: transport.into(),
            window_file: (!doorbell).then(|| path.into()),
            socket: doorbell.then(|| path.into()),
            connected: false,
            functions: vec!["*".into()],
            max_grants: 128,
            tcp: false,
            tcp_open: false,
            credential: true,
            tokens: false,
            tokens_valid: 0,
        }
    }

    #[test]
    fn who_must_show_what_is_said() {
        let bare =
            ClientRow { credential: false, tcp: true, ..row("ivshmem-plain", "/w", 1 << 20) };
        assert_eq!(
            (proof(&bare), over_tcp(&bare)),
            ("no".into(), "nobody yet: `vfun token add vm1`".into())
        );
        let open = ClientRow { tcp_open: true, ..bare.clone() };
        assert!(over_tcp(&open).starts_with("open"));
        let held = ClientRow { tokens_valid: 2, ..bare.clone() };
        assert_eq!((proof(&held), over_tcp(&held)), ("no (2 tokens)".into(), "yes".into()));
        let asked = ClientRow { tokens: true, tokens_valid: 1, ..open };
        assert_eq!((proof(&asked), over_tcp(&asked)), ("token (1 token)".into(), "yes".into()));
    }

    fn plain(path: &str, bytes: u64) -> ClientRow {
        row("ivshmem-plain", path, bytes)
    }

    #[test]
    fn a_doorbell_window_comes_from_a_socket() {
        let shown = text(&row("ivshmem-doorbell", "/var/lib/virtfun/ivshmem/vm1.sock", 64 << 20));
        assert_eq!(
            shown,
            "client       vm1 (id 3, vm)\n\
             functions    all\n\
             most grants  128\n\
             over TCP     no\n\
             credential   yes\n\
             window       64 MiB from /var/lib/virtfun/ivshmem/vm1.sock\n\
             transport    ivshmem-doorbell: both sides sleep when there is nothing to do\n\
             \n\
             QEMU, run by the manager's own user or by root:\n\
             \n\
             \x20   -chardev socket,id=virtfun-vm1,path=/var/lib/virtfun/ivshmem/vm1.sock \\\n\
             \x20   -device ivshmem-doorbell,id=virtfun-vm1,chardev=virtfun-vm1,vectors=8\n\
             \n\
             libvirt, in <devices>:\n\
             \n\
             \x20   <shmem name='virtfun-vm1'>\n\
             \x20     <model type='ivshmem-doorbell'/>\n\
             \x20     <server path='/var/lib/virtfun/ivshmem/vm1.sock'/>\n\
             \x20     <msi vectors='8' ioeventfd='on'/>\n\
             \x20   </shmem>\n\
             \n\
             \x20 QEMU runs there as libvirt-qemu, a member of group kvm: the manager gives the socket to\n\
             \x20 that group. Its folders must let that user through: `namei -l /var/lib/virtfun/ivshmem/vm1.sock` shows them.\n\
             \n\
             A VM that runs already: vfun attach DOMAIN --client vm1, or vfun attach --qmp SOCKET --client vm1\n\
             \n\
             In the VM, as root: vfun doctor\n"
        );
        let odd = row("ivshmem-doorbell", "/a&'b,c/vm1.sock", 1 << 20);
        assert!(libvirt(&odd).unwrap().contains("path='/a&amp;&apos;b,c/vm1.sock'"));
        assert!(qemu(&odd).unwrap()[1].ends_with("path=/a&'b,,c/vm1.sock"));
    }

    #[test]
    fn a_plain_window_is_a_file_to_both() {
        let shown = text(&plain("/dev/shm/virtfun-vm1", 64 << 20));
        for line in [
            "window       64 MiB in /dev/shm/virtfun-vm1",
            "    -object memory-backend-file,id=virtfun-vm1,share=on,mem-path=/dev/shm/virtfun-vm1,size=64M \\",
            "    -device ivshmem-plain,id=virtfun-vm1-device,memdev=virtfun-vm1",
            "      <model type='ivshmem-plain'/>",
            "      <size unit='M'>64</size>",
            "    setfacl -m u:libvirt-qemu:rw /dev/shm/virtfun-vm1",
        ] {
            assert!(shown.lines().any(|l| l == line), "{line}\n{shown}");
        }
    }

    #[test]
    fn odd_places_are_quoted_and_kept_from_libvirt() {
        let shown = text(&plain("/tmp/a,b c/virtfun-vm1", 1 << 20));
        assert!(shown.contains("'memory-backend-file,id=virtfun-vm1,share=on,mem-path=/tmp/a,,b c/virtfun-vm1,size=1M'"), "{shown}");
        assert!(
            shown.contains("libvirt finds windows in /dev/shm only") && !shown.contains("<shmem")
        );
        let host = ClientRow {
            transport: "host".into(),
            window_file: None,
            kind: "host".into(),
            ..plain("", 1 << 20)
        };
        assert!(text(&host).contains("1 MiB for each program") && !text(&host).contains("QEMU"));
        assert!(object(&host).get("qemu").is_none());
        assert_eq!(object(&plain("/dev/shm/virtfun-vm1", 1 << 20))["qemu"][2], "-device");
    }
}
