//! A client with two VMs, without a guest: policy is the client's, the windows are the
//! VMs', and nothing of one VM can be named in the other.

use std::path::{Path, PathBuf};
use vfun::{FunctionRequest, Session};
use vfun_admin::{Ask, ClientRow, Reply};
use vfun_tests_local::Stand;
use vfun_tests_local::raw::{Raw, negotiate};
use vfun_tests_local::vm::{device, qemu};
use vfun_wire::message::{Kind, NegotiateAck};
use vfun_wire::{Nack, NackCode};
use zerocopy::{FromBytes, IntoBytes};

const WEB: &str = "name = \"web\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";
const OTHER: &str = "name = \"other\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n";

fn add_vm(stand: &Stand, vm: &str, transport: Option<&str>) -> ClientRow {
    let transport = transport.map(str::to_owned);
    let ask = Ask::AddVm { client: "web".into(), vm: vm.into(), window: None, transport };
    match stand.ask(&ask) {
        Reply::ClientAdded(row) => row,
        other => panic!("{other:?}"),
    }
}

fn remove_vm(stand: &Stand, vm: &str) -> Result<Reply, vfun_admin::AskError> {
    stand.try_ask(&Ask::RemoveVm { client: "web".into(), vm: vm.into() })
}

fn client(stand: &Stand) -> ClientRow {
    let found = stand.manager().client("web");
    found.expect("an answer").expect("it is there")
}

/// The file of a VM's window.
fn file(stand: &Stand, name: &str) -> PathBuf {
    stand.root().join(format!("virtfun-{name}"))
}

/// An app in the VM that has this window as a device.
struct App {
    session: Session,
    _folder: tempfile::TempDir,
}

fn app(window: &Path, name: &str) -> App {
    let folder = tempfile::tempdir().unwrap();
    device(folder.path(), window);
    let options = vfun::ConnectOptions::new(name).endpoint(vfun::Endpoint::Ivshmem(None));
    let session = options.pci_devices(folder.path()).connect().unwrap();
    App { session, _folder: folder }
}

fn echo(app: &App) -> vfun::Function {
    let small = FunctionRequest::new("echo").depth(2).cell_bytes(4096);
    app.session.negotiate(&small).unwrap().activate().unwrap()
}

fn vms_of_grants(stand: &Stand) -> Vec<String> {
    let mut all: Vec<_> = stand.grants().iter().map(|g| g.owner()).collect();
    all.sort();
    all
}

#[test]
fn a_second_vm_has_a_window_of_its_own_and_quota_is_the_clients() {
    let stand = Stand::start();
    stand.add_client(&format!("{WEB}max_grants = 3\n")).unwrap();
    stand.add_client(OTHER).unwrap();
    let web = app(&file(&stand, "web"), "app");
    let calls = echo(&web);
    // Added while the first one calls: its window comes, the first one's stays.
    let b = add_vm(&stand, "b", None);
    assert_eq!((b.vm.as_deref(), b.window_file), (Some("b"), Some(file(&stand, "web@b"))));
    assert!(stand.root().join("vmcli/web/window").exists());
    assert!(stand.root().join("vmcli/web/window@b").exists());
    assert_eq!(calls.call(b"x").unwrap(), b"x");
    let b = app(&file(&stand, "web@b"), "app");
    let other = app(&file(&stand, "other"), "app");
    let (of_b, of_other) = (echo(&b), echo(&other));
    for f in [&calls, &of_b, &of_other] {
        assert_eq!(f.call(b"x").unwrap(), b"x");
    }
    assert_eq!(vms_of_grants(&stand), ["other", "web", "web/b"]);
    // Isolation of services is between clients.
    let mut pids: Vec<_> = stand.grants().iter().map(|g| (g.pid, g.client.clone())).collect();
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 2);
    // One application, whichever VM it is in.
    assert_eq!(web.session.info().app_id, b.session.info().app_id);
    let third = b.session.negotiate(&FunctionRequest::new("sum")).unwrap();
    for app in [&web, &b] {
        let e = app.session.negotiate(&FunctionRequest::new("sum")).err().unwrap();
        assert!(e.to_string().contains("holds 3 grants"), "{e}");
    }
    drop(other.session.negotiate(&FunctionRequest::new("sum")).unwrap());
    drop(third);
    // What is recorded names the VM.
    let history = stand.manager().history(100).unwrap();
    assert!(history.iter().any(|r| r.vm.as_deref() == Some("b") && r.client == "web"));
    let tree = stand.root().join("vmcli/web/app-echo");
    let shown: Vec<_> = std::fs::read_dir(tree).unwrap().flatten().collect();
    assert_eq!(shown.len(), 2, "a file for each VM's grant");
}

/// Asks with a handle, and expects a refusal of it.
fn refused(raw: &mut Raw, kind: Kind, session: u64, handle: u64) {
    let e: Nack = raw.ask(kind, session, &handle.to_le_bytes()).unwrap_err();
    assert_eq!(e.code, NackCode::BadHandle, "{kind}: {e}");
}

#[test]
fn no_handle_of_one_vm_means_anything_in_the_other() {
    let stand = Stand::start();
    stand.add_client(WEB).unwrap();
    add_vm(&stand, "b", None);
    let first = app(&file(&stand, "web"), "app");
    let calls = echo(&first);
    let mut web = Raw::of_file(&file(&stand, "web"));
    let mut b = Raw::of_file(&file(&stand, "web@b"));
    let (of_web, of_b) = (web.hello(), b.hello());
    let ack = web.ask(Kind::Negotiate, of_web, negotiate("echo").as_bytes()).unwrap();
    let grant = NegotiateAck::read_from_bytes(&ack).unwrap().grant.get();
    web.ask(Kind::Activate, of_web, &grant.to_le_bytes()).unwrap();
    for kind in [Kind::Activate, Kind::Stats, Kind::Release] {
        refused(&mut b, kind, of_b, grant);
        refused(&mut b, kind, of_web, grant);
    }
    refused(&mut b, Kind::Goodbye, of_web, 0);
    refused(&mut b, Kind::KeepAlive, of_web, 0);
    // A reset of the second VM is not the first one's.
    b.ask(Kind::Reset, 0, &[0; 8]).unwrap();
    assert_eq!(calls.call(b"x").unwrap(), b"x");
    web.ask(Kind::Stats, of_web, &grant.to_le_bytes()).unwrap();
    web.ask(Kind::Release, of_web, &grant.to_le_bytes()).unwrap();
}

#[test]
fn each_vm_has_a_socket_and_its_end_is_no_other_ones() {
    let stand = Stand::start();
    stand.add_client("name = \"web\"\nwindow = \"1 MiB\"\n[vm.web]\n[vm.b]\n").unwrap();
    let (web, b) = (qemu(&stand, "web"), qemu(&stand, "web@b"));
    assert_eq!((web.first, b.first, stand.totals().0), (0, 0, 2));
    assert_eq!(qemu(&stand, "web").first, -2, "there is one VM of this name already");
    assert!(stand.log().contains("`vfun client add web --vm NAME`"), "{}", stand.log());
    let connected = |s: &Stand| client(s).vms.iter().map(|v| v.connected).collect::<Vec<_>>();
    assert_eq!(connected(&stand), [true, true]);
    drop(b.socket);
    stand.until("it is gone", |s| s.totals().0 == 1);
    assert_eq!(connected(&stand), [true, false]);
    let again = qemu(&stand, "web@b");
    assert_eq!(again.first, 0);
    // One that connects again and again keeps no other one out.
    drop(again.socket);
    let refused = (0..100).any(|_| qemu(&stand, "web@b").first == -2);
    assert!(refused, "its rate is bounded");
    drop(web.socket);
    stand.until("it can come again", |s| qemu(s, "web").first == 0);
}

#[test]
fn another_manager_goes_on_with_the_windows_of_all_vms() {
    let mut stand = Stand::start();
    stand.add_client(WEB).unwrap();
    add_vm(&stand, "b", None);
    add_vm(&stand, "c", Some("ivshmem-doorbell"));
    let apps = [app(&file(&stand, "web"), "one"), app(&file(&stand, "web@b"), "two")];
    let functions = apps.each_ref().map(echo);
    let vm = qemu(&stand, "web@c");
    let windows = stand.totals().0;
    let goes_on = |stand: &Stand| {
        assert_eq!((stand.totals().0, stand.totals().2), (windows, 2));
        assert_eq!(vms_of_grants(stand), ["web", "web/b"]);
        for f in &functions {
            assert_eq!(f.call(b"x").unwrap(), b"x");
        }
        assert_eq!(qemu(stand, "web@c").first, -2, "its VM is connected");
    };
    stand.kill_vfund();
    stand.start_vfund();
    goes_on(&stand);
    let pid = rustix::process::Pid::from_raw(stand.pid() as i32).unwrap();
    let generation = stand.status().generation;
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    stand.until(
        "another one",
        |s| matches!(s.try_ask(&Ask::Status), Ok(Reply::Status(s)) if s.generation > generation),
    );
    goes_on(&stand);
    // A VM that its manifest does not name any more ends, whoever goes on; another one
    // that it names now is there.
    stand.kill_vfund();
    let manifest = stand.root().join("admin/clients/web.toml");
    let mut text: toml::Table = std::fs::read_to_string(&manifest).unwrap().parse().unwrap();
    let vms = text.get_mut("vm").and_then(|vms| vms.as_table_mut()).unwrap();
    vms.remove("b").unwrap();
    vms.insert("d".into(), toml::Table::new().into());
    std::fs::write(&manifest, text.to_string()).unwrap();
    let root = stand.root().to_owned();
    let lock = |vm: &str| root.join(format!(".virtfun-{vm}.owner"));
    assert!(file(&stand, "web@b").exists() && lock("web@b").exists());
    stand.start_vfund();
    assert!(file(&stand, "web@d").exists());
    assert!(!file(&stand, "web@b").exists() && !lock("web@b").exists(), "as if it was removed");
    assert!(lock("web").exists());
    stand.until("b's grants end", |s| vms_of_grants(s) == ["web"]);
    assert_eq!(functions[0].call(b"x").unwrap(), b"x");
    drop(vm.socket);
}

#[test]
fn a_vm_is_added_while_the_window_of_another_one_is_down() {
    let stand = Stand::start();
    stand.add_client(WEB).unwrap();
    let first = file(&stand, "web");
    // Of another size it is left alone until somebody removes it or makes it empty.
    let length = |bytes| {
        std::fs::File::options().write(true).open(&first).unwrap().set_len(bytes).unwrap();
    };
    length(4096);
    let is_down = |s: &Stand| {
        let troubles = s.status().troubles;
        troubles.iter().any(|t| t.contains("the window of client web is down"))
    };
    stand.until("it is taken down", is_down);
    add_vm(&stand, "b", None);
    let b = app(&file(&stand, "web@b"), "app");
    assert_eq!(echo(&b).call(b"x").unwrap(), b"x");
    assert_eq!(std::fs::metadata(&first).unwrap().len(), 4096, "nobody touched it");
    length(0);
    stand.until("it is laid out anew", |s| !is_down(s));
    assert_eq!(echo(&app(&first, "app")).call(b"x").unwrap(), b"x");
    // One that is removed while it is down leaves nothing that is tried again.
    length(4096);
    stand.until("it is taken down again", is_down);
    remove_vm(&stand, "web").unwrap();
    assert!(!is_down(&stand) && !first.exists());
    assert_eq!(echo(&b).call(b"x").unwrap(), b"x");
}

#[test]
fn a_vm_comes_and_goes_and_the_others_of_its_client_stay() {
    let stand = Stand::start();
    let e = remove_vm(&stand, "web").unwrap_err();
    assert!(e.to_string().contains("there is no client 'web'"), "{e}");
    stand.add_client(WEB).unwrap();
    let first = app(&file(&stand, "web"), "app");
    let calls = echo(&first);
    let e = remove_vm(&stand, "web").unwrap_err();
    assert!(e.to_string().contains("the only VM of client 'web'"), "{e}");
    add_vm(&stand, "b", None);
    let e = remove_vm(&stand, "c").unwrap_err();
    assert!(e.to_string().contains("no VM 'c': it has web/b, web"), "{e}");
    let b = app(&file(&stand, "web@b"), "app");
    let of_b = echo(&b);
    // How a VM is wired stays while it is there.
    let ask = |window: &str| Ask::AddVm {
        client: "web".into(),
        vm: "b".into(),
        window: Some(window.into()),
        transport: None,
    };
    let e = stand.try_ask(&ask("2 MiB")).unwrap_err();
    assert!(e.to_string().contains("`vfun client remove web --vm b`"), "{e}");
    stand.ask(&ask("1 MiB"));
    assert_eq!(of_b.call(b"x").unwrap(), b"x");
    remove_vm(&stand, "b").unwrap();
    assert!(!file(&stand, "web@b").exists());
    stand.until("b's grants end", |s| vms_of_grants(s) == ["web"]);
    assert_eq!(
        (calls.call(b"x").unwrap(), vms_of_grants(&stand)),
        (b"x".to_vec(), vec!["web".into()])
    );
    // One that comes under its name has nothing of it. A whole manifest says which there are.
    let all = format!("{WEB}[vm.web]\n[vm.b]\n[vm.a]\n");
    stand.add_client(&all).unwrap();
    assert_eq!(client(&stand).vms.len(), 3);
    assert_eq!(echo(&app(&file(&stand, "web@b"), "app")).call(b"y").unwrap(), b"y");
    stand.add_client(WEB).unwrap();
    assert_eq!(client(&stand).vms.len(), 1);
    assert!(!file(&stand, "web@a").exists() && file(&stand, "web").exists());
    assert_eq!(calls.call(b"x").unwrap(), b"x");
    // One that cannot be given its window leaves all as it was.
    std::fs::create_dir(file(&stand, "web@z")).unwrap();
    let e = stand.add_client(&format!("{WEB}[vm.web]\n[vm.y]\n[vm.z]\n")).unwrap_err();
    assert!(e.to_string().contains("virtfun-web@z"), "{e}");
    assert_eq!((client(&stand).vms.len(), file(&stand, "web@y").exists()), (1, false));
    let e = stand.add_client("name = \"web\"\nkind = \"host\"\n").unwrap_err();
    assert!(e.to_string().contains("another window, kind or transport"), "{e}");
    let e = stand.try_ask(&Ask::AddVm {
        client: "host".into(),
        vm: "x".into(),
        window: None,
        transport: None,
    });
    assert!(e.unwrap_err().to_string().contains("of kind \"host\""));
    assert_eq!(calls.call(b"x").unwrap(), b"x");
}
