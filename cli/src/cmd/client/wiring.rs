//! How a VM gets its window: what to give QEMU or libvirt.

use crate::out::{self, Facts, Table};
use crate::vmm::{self, quoted};
use serde_json::{Value, json};
use vfun_admin::ClientRow;
use vfun_admin::transport::FoundBy;

/// For programs: the row, with the arguments.
pub fn object(c: &ClientRow) -> Value {
    let mut value = serde_json::to_value(c).unwrap_or_default();
    if let (Some(object), Some(window)) = (value.as_object_mut(), vmm::window(c)) {
        object.insert("qemu".into(), json!(window.qemu()));
        object.insert("libvirt".into(), json!(window.libvirt().map(|shmem| shmem.xml)));
    }
    value
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
        (true, true) if !proven => "open: every caller who reaches the gateway".into(),
        (true, _) if !proven && c.tokens_valid == 0 => {
            format!("nobody yet: `vfun token add {}`", c.name)
        }
        (true, _) => "yes".into(),
    }
}

/// What is the client's, whichever of its VMs.
fn facts(c: &ClientRow) -> Facts {
    Facts::new()
        .fact("client", format!("{} (id {}, {})", c.name, c.id, c.kind))
        .fact("functions", if c.functions == ["*"] { "all".into() } else { c.functions.join(", ") })
        .fact("most grants", c.max_grants.to_string())
        .fact("over TCP", over_tcp(c))
        .fact("credential", proof(c))
}

/// For people, a client with all its VMs.
pub fn text_of_all(c: &ClientRow) -> String {
    let mut table = Table::new(&["VM", ">WINDOW", "TRANSPORT", "CONNECTED", "FILE OR SOCKET"]);
    for vm in super::of_each_vm(c) {
        table.row([
            vm.shown(),
            out::bytes(vm.window_bytes),
            vm.transport.name().into(),
            super::connected(&vm),
            vmm::window(&vm).map_or_else(String::new, |w| w.path.display().to_string()),
        ]);
    }
    format!(
        "{}\n{}\nWhat to give QEMU or libvirt for one of them: vfun client show {}\n",
        facts(c).render(),
        table.render(),
        c.vms.last().map_or_else(String::new, |vm| c.of_vm(vm).shown()),
    )
}

/// For people, a client with the VM whose wiring the row shows.
pub fn text(c: &ClientRow) -> String {
    let mut facts = facts(c);
    match c.vms.len() {
        0 | 1 if c.shown() == c.name => {}
        0 | 1 => facts = facts.fact("VM", c.shown()),
        all => facts = facts.fact("VM", format!("{}, one of {all}", c.shown())),
    }
    let size = out::bytes(c.window_bytes);
    let Some(window) = vmm::window(c) else {
        facts = facts.fact("window", format!("{size} for each program"));
        return facts.render();
    };
    let row = c.transport.row();
    let from = match row.found_by {
        FoundBy::Socket => "from",
        FoundBy::File => "in",
    };
    facts = facts
        .fact("window", format!("{size} {from} {}", window.path.display()))
        .fact("transport", format!("{}: {}", row.name, row.summary));
    let mut text = format!("{}\n", facts.render());
    if let Some(arguments) = window.qemu() {
        let [a, b, c, d] = arguments.map(|w| quoted(&w));
        text += &format!(
            "QEMU, run by the manager's own user or by root:\n\n    {a} {b} \\\n    {c} {d}\n\n"
        );
        text += &match window.libvirt() {
            Some(shmem) => {
                let indented: String = shmem.xml.lines().map(|l| format!("    {l}\n")).collect();
                format!("libvirt, in <devices>:\n\n{indented}\n  {}", window.permission())
            }
            None => window.not_by_libvirt().to_owned(),
        };
        text += "\n";
    }
    let others = window.others();
    if !others.is_empty() {
        text += &format!("{others}\n");
    }
    if window.hot_plug().is_some() {
        text += &format!(
            "A VM that runs already: vfun attach DOMAIN --client {0}, or vfun attach --qmp SOCKET --client {0}\n\n",
            c.shown()
        );
    }
    text + "In the VM, as root: vfun doctor\n"
}

#[cfg(test)]
pub(in crate::cmd) mod tests {
    use super::*;

    pub fn row(transport: &str, path: &str, bytes: u64) -> ClientRow {
        let doorbell = transport == "ivshmem-doorbell";
        ClientRow {
            id: 3,
            name: "vm1".into(),
            kind: "vm".into(),
            window_bytes: bytes,
            transport: transport.parse().expect("a transport"),
            window_file: (!doorbell).then(|| path.into()),
            socket: doorbell.then(|| path.into()),
            connected: false,
            vm: Some("vm1".into()),
            vms: vec![],
            functions: vec!["*".into()],
            max_grants: 128,
            tcp: false,
            tcp_open: false,
            credential: true,
            tokens: false,
            tokens_valid: 0,
            rdma: Default::default(),
            links: Default::default(),
            addresses: Default::default(),
            shared_memory: Default::default(),
            vmms: Default::default(),
            ports: Default::default(),
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
        assert!(
            vmm::window(&odd)
                .unwrap()
                .libvirt()
                .unwrap()
                .xml
                .contains("path='/a&amp;&apos;b,c/vm1.sock'")
        );
        assert!(vmm::window(&odd).unwrap().qemu().unwrap()[1].ends_with("path=/a&'b,,c/vm1.sock"));
    }

    #[test]
    fn of_several_vms_each_is_shown_by_its_own_name() {
        let vm = |vm: &str, path: &str| vfun_admin::VmRow {
            vm: vm.into(),
            window_bytes: 1 << 20,
            transport: vfun_admin::Transport::IvshmemPlain,
            window_file: Some(path.into()),
            socket: None,
            connected: false,
        };
        let vms = vec![vm("vm1", "/dev/shm/virtfun-vm1"), vm("b", "/dev/shm/virtfun-vm1@b")];
        let c = ClientRow { vms, ..plain("/dev/shm/virtfun-vm1", 1 << 20) };
        let all = text_of_all(&c);
        for line in [
            "vm1     1 MiB  ivshmem-plain  -          /dev/shm/virtfun-vm1",
            "vm1/b   1 MiB  ivshmem-plain  -          /dev/shm/virtfun-vm1@b",
            "What to give QEMU or libvirt for one of them: vfun client show vm1/b",
        ] {
            assert!(all.lines().any(|l| l == line), "{line}\n{all}");
        }
        let b = c.meant(Some("b")).unwrap();
        let shown = text(&b);
        for part in [
            "VM           vm1/b, one of 2",
            "id=virtfun-vm1.b,share=on,mem-path=/dev/shm/virtfun-vm1@b,",
            "<shmem name='virtfun-vm1@b'>",
            "--client vm1/b",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert_eq!(object(&b)["vm"], "b");
        // Its only VM is named if its name is not the client's.
        let one = ClientRow { vms: c.vms[1..].to_vec(), ..c.clone() };
        assert!(text(&one.meant(None).unwrap()).contains("VM           vm1/b\n"));
        let main = ClientRow { vms: c.vms[..1].to_vec(), ..c.clone() };
        assert!(!text(&main.meant(None).unwrap()).contains("VM   "));
        assert_eq!(c.meant(None).unwrap().vm.as_deref(), Some("vm1"));
        assert_eq!(c.meant(Some("c")).unwrap_err(), ["vm1", "vm1/b"]);
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
            transport: vfun_admin::Transport::Host,
            window_file: None,
            vm: None,
            kind: "host".into(),
            ..plain("", 1 << 20)
        };
        assert!(text(&host).contains("1 MiB for each program") && !text(&host).contains("QEMU"));
        assert!(object(&host).get("qemu").is_none());
        assert_eq!(object(&plain("/dev/shm/virtfun-vm1", 1 << 20))["qemu"][2], "-device");
    }
}
