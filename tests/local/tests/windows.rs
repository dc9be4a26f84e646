//! Further windows that are declared: their files, their names in control windows, and
//! what becomes of them with their VM and their manager.

use std::fs;
use std::path::{Path, PathBuf};
use vfun_admin::{Ask, AskError, Reply, WindowRow};
use vfun_tests_local::Stand;
use vfun_tests_local::raw::Raw;
use vfun_wire::header::{FURTHER_HEAP_OFF, Role, WINDOWS_OFF, WindowEntry, WindowHeader};
use vfun_wire::limits::WINDOWS_MAX;
use vfun_wire::message::{BufferAck, BufferGet, Kind, WindowHere};
use vfun_wire::version::Features;
use vfun_wire::{Nack, NackCode};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

fn client(stand: &Stand, name: &str) {
    let manifest =
        format!("name = \"{name}\"\nwindow = \"1 MiB\"\ntransport = \"ivshmem-plain\"\n");
    stand.add_client(&manifest).unwrap();
}

fn add(stand: &Stand, manifest: &str) -> Result<WindowRow, String> {
    match stand.try_ask(&Ask::AddWindow { manifest: manifest.into(), file: "w.toml".into() }) {
        Ok(Reply::WindowAdded(row)) => Ok(row),
        Ok(Reply::Error { sentence }) | Err(AskError::Refused(sentence)) => Err(sentence),
        other => panic!("{other:?}"),
    }
}

fn declared(name: &str, peer: &str, rest: &str) -> String {
    format!("name = \"{name}\"\npeers = [\"{peer}\"]\nbytes = \"2 MiB\"\n{rest}")
}

fn row(stand: &Stand, name: &str) -> WindowRow {
    match stand.ask(&Ask::Windows) {
        Reply::Windows { windows } => {
            windows.into_iter().find(|w| w.name == name).expect("it is declared")
        }
        other => panic!("{other:?}"),
    }
}

/// All VMs that it is for have it in the tables of their control windows.
fn is_named(stand: &Stand, name: &str) -> bool {
    row(stand, name).peers.iter().all(|p| p.named)
}

/// Its number in each of its VMs.
fn numbers(w: &WindowRow) -> Vec<u16> {
    w.peers.iter().filter_map(|p| p.index).collect()
}

/// Which of its VMs have it, as the manager knows.
fn here(stand: &Stand, name: &str) -> Vec<bool> {
    row(stand, name).peers.iter().map(|p| p.here).collect()
}

fn kill_with_keeper(stand: &mut Stand) {
    let keeper = stand.keeper();
    stand.kill_vfund();
    let _ = std::process::Command::new("kill").args(["-9", &keeper.to_string()]).status();
}

/// The entries of a control window's table that name something.
fn table(control: &Path) -> Vec<WindowEntry> {
    let all = fs::read(control).unwrap();
    let bytes = size_of::<WindowEntry>();
    let entry =
        |n: usize| WindowEntry::read_from_bytes(&all[WINDOWS_OFF + n * bytes..][..bytes]).unwrap();
    (0..WINDOWS_MAX).map(entry).filter(|e| *e != WindowEntry::NONE).collect()
}

fn header(file: &Path) -> WindowHeader {
    WindowHeader::read_from_prefix(&fs::read(file).unwrap()).unwrap().0
}

/// Its page 0.
fn page(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap()[..vfun_wire::PAGE].to_vec()
}

#[test]
fn a_window_is_named_by_its_key_and_lives_as_long_as_it_is_declared() {
    let mut stand = Stand::start();
    client(&stand, "vm1");
    let control = stand.root().join("virtfun-vm1");
    assert_eq!(table(&control), []);
    let one = add(&stand, &declared("one", "vm1", "")).unwrap();
    let two = add(&stand, &declared("two", "vm1", "pages = \"4 KiB\"")).unwrap();
    assert_eq!((numbers(&one), numbers(&two)), (vec![1], vec![2]));
    stand.until("both to be named", |s| is_named(s, "one") && is_named(s, "two"));
    assert_eq!(row(&stand, "one").here(), 0, "no guest has it");
    let entries = table(&control);
    for (w, e) in [(&one, entries[0]), (&two, entries[1])] {
        let h = header(&w.file);
        h.check(2 << 20, Role::Data).unwrap();
        assert_eq!((vec![e.index.get()], e.key), (numbers(w), h.key));
        assert_eq!((e.role, e.heap().from), (h.role, FURTHER_HEAP_OFF as u64));
    }
    assert_ne!(entries[0].key, entries[1].key);

    // A manager that is killed leaves all as it is; with the keeper, it is made anew.
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(table(&control), entries);
    assert!(is_named(&stand, "one") && numbers(&row(&stand, "two")) == [2]);
    kill_with_keeper(&mut stand);
    stand.start_vfund();
    stand.until("both to be named again", |s| is_named(s, "one") && is_named(s, "two"));
    let anew = table(&control);
    assert_eq!(anew.len(), 2);
    assert!(anew.iter().all(|e| entries.iter().all(|old| old.key != e.key)), "keys are used again");

    // Its VM goes, and comes again.
    stand.ask(&Ask::RemoveClient { name: "vm1".into() });
    stand.until("the file to go", |_| !one.file.exists());
    stand.until("it to be missed", |s| row(s, "one").trouble.is_some());
    client(&stand, "vm1");
    stand.until("it to be named", |s| is_named(s, "one") && row(s, "one").trouble.is_none());
    stand.ask(&Ask::RemoveWindow { name: "one".into() });
    assert!(!one.file.exists() && two.file.exists());
    let left: Vec<u16> = table(&control).iter().map(|e| e.index.get()).collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn what_cannot_be_declared_is_refused_with_what_to_do() {
    let stand = Stand::start();
    client(&stand, "vm1");
    let refused = |manifest: &str, says: &str| {
        let e = add(&stand, manifest).unwrap_err();
        assert!(e.contains(says), "{e}");
    };
    refused(&declared("w", "vm2", ""), "there is no VM vm2");
    refused(&declared("w", "vm1/b", ""), "there is no VM vm1/b");
    refused(&declared("w", "host", ""), "there is no VM host");
    refused(&declared("w", "vm1\", \"vm2", ""), "there is no VM vm2");
    refused(&declared("w", "vm1\", \"vm1/vm1", ""), "w.toml:2: VM vm1 is there twice");
    refused(&declared("w", "vm1\", \"vm2\", \"vm3", ""), "the two VMs that share it");
    refused("name = \"w\"\npeers = [\"vm1\"]\nbytes = \"1000\"", "w.toml:3");
    // Where the host has huge pages to spare it works; else it says how to get some.
    if let Err(e) = add(&stand, &declared("huge", "vm1", "pages = \"2 MiB\"")) {
        assert!(e.contains("sysctl vm.nr_hugepages="), "{e}");
    }
    add(&stand, &declared("w", "vm1", "")).unwrap();
    add(&stand, &declared("w", "vm1", "")).expect("the same again changes nothing");
    refused(&declared("w", "vm1", "pages = \"2 MiB\""), "remove it first");
    // What somebody else put in its place is left alone.
    fs::write(stand.root().join("virtfun_theirs"), "theirs").unwrap();
    refused(&declared("theirs", "vm1", ""), "remove the file");
    match stand.try_ask(&Ask::RemoveWindow { name: "nobody".into() }) {
        Ok(Reply::Error { sentence }) | Err(AskError::Refused(sentence)) => {
            assert!(sentence.contains("no window 'nobody'"), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_whose_manifest_cannot_be_written_is_as_it_was() {
    let stand = Stand::start();
    client(&stand, "vm1");
    let control = stand.root().join("virtfun-vm1");
    let first = add(&stand, &declared("first", "vm1", "")).unwrap();
    let before = table(&control);
    for name in ["first", "second"] {
        // A folder where the manifest is written to.
        fs::create_dir(stand.root().join(format!("admin/windows/{name}.part"))).unwrap();
        let e = add(&stand, &declared(name, "vm1", "")).unwrap_err();
        assert!(e.contains("could not be written"), "{e}");
    }
    assert_eq!(table(&control), before, "the first one was made anew");
    assert!(first.file.exists() && is_named(&stand, "first"));
    assert!(!stand.root().join("virtfun_second").exists());
}

#[test]
fn a_manifest_that_cannot_be_removed_or_has_anothers_name_is_said() {
    let mut stand = Stand::start();
    client(&stand, "vm1");
    let manifests = stand.root().join("admin/windows");
    let one = add(&stand, &declared("one", "vm1", "")).unwrap();
    // A folder with something in it is not removed as a file is.
    let manifest = manifests.join("one.toml");
    fs::remove_file(&manifest).unwrap();
    fs::create_dir_all(manifest.join("in-the-way")).unwrap();
    match stand.try_ask(&Ask::RemoveWindow { name: "one".into() }) {
        Ok(Reply::Error { sentence }) | Err(AskError::Refused(sentence)) => {
            assert!(sentence.contains("window one stays"), "{sentence}");
            assert!(sentence.contains("admin/windows/one.toml"), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
    assert!(one.file.exists() && is_named(&stand, "one"), "half of it went");
    fs::remove_dir_all(&manifest).unwrap();
    stand.ask(&Ask::RemoveWindow { name: "one".into() });
    assert!(!one.file.exists());

    fs::write(manifests.join("copy.toml"), declared("two", "vm1", "")).unwrap();
    stand.kill_vfund();
    stand.start_vfund();
    let said = stand.log();
    let says = |l: &str| l.contains("copy.toml") && l.contains("'two'") && l.contains("two.toml");
    assert!(said.lines().any(says), "{said}");
    assert!(matches!(stand.ask(&Ask::Windows), Reply::Windows { windows } if windows.is_empty()));
}

/// Says as a guest's kernel module does that a window is here, or no more.
fn says(app: &mut Raw, file: &Path, here: u16) -> Result<(), Nack> {
    let said = WindowHere { key: header(file).key, here: U16::new(here), reserved: [0; 6] };
    app.ask(Kind::Window, 0, said.as_bytes()).map(drop)
}

/// The number of the window in which an app of the module gets a buffer.
fn buffer(app: &mut Raw) -> u16 {
    let session = app.hello_with(Features::BUFFERS.with(Features::WINDOWS));
    let (grant, bytes, align) = (U64::ZERO, U64::new(8192), U64::ZERO);
    let get = BufferGet { grant, bytes, align, flags: U32::ZERO, reserved: U32::ZERO };
    let ack = app.ask(Kind::BufferGet, session, get.as_bytes()).unwrap();
    BufferAck::read_from_bytes(&ack).unwrap().range.window.get()
}

#[test]
fn no_buffer_lies_in_a_window_that_was_not_taken_up() {
    let mut stand = Stand::start();
    client(&stand, "vm1");
    let one = add(&stand, &declared("one", "vm1", "")).unwrap();
    let mut app = Raw::of_file(&stand.root().join("virtfun-vm1"));
    says(&mut app, &one.file, 1).unwrap();
    assert_eq!(buffer(&mut app), 1);
    stand.kill_vfund();
    // Neither its memory nor its manifest is there any more.
    fs::File::options().write(true).open(&one.file).unwrap().set_len(0).unwrap();
    fs::remove_file(stand.root().join("admin/windows/one.toml")).unwrap();
    stand.start_vfund();
    assert!(stand.log().contains("could not be taken up"), "{}", stand.log());
    assert_eq!(buffer(&mut app), 0, "{}", stand.log());
}

/// A manager, the VMs vm1 and vm2, of which vm2 has a data window besides, a link of
/// both, and the control windows of both.
fn linked() -> (Stand, WindowRow, [PathBuf; 2]) {
    let stand = Stand::start();
    ["vm1", "vm2"].iter().for_each(|vm| client(&stand, vm));
    add(&stand, &declared("bulk", "vm2", "")).unwrap();
    let link = add(&stand, &declared("pair", "vm2\", \"vm1", "")).unwrap();
    stand.until("both to be named", |s| is_named(s, "bulk") && is_named(s, "pair"));
    let controls = ["vm1", "vm2"].map(|vm| stand.root().join(format!("virtfun-{vm}")));
    (stand, link, controls)
}

/// What a control window's table says of the window in a file.
fn entry(control: &Path, further: &Path) -> Option<(u16, u16)> {
    let key = header(further).key;
    let found = table(control).into_iter().find(|e| e.key == key);
    found.map(|e| (e.index.get(), e.role.get()))
}

/// What its two VMs have in a link, far behind its header.
const THEIRS: (u64, &[u8]) = (1 << 20, b"what two VMs share");

fn theirs(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap()[THEIRS.0 as usize..][..THEIRS.1.len()].to_vec()
}

fn write(file: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset).unwrap();
}

#[test]
fn a_link_has_one_key_in_both_vms_and_stays_when_one_of_them_starts_again() {
    let (stand, link, controls) = linked();
    let role = Role::Link.to_wire();
    let is_linked = || controls.each_ref().map(|c| entry(c, &link.file));
    assert_eq!((link.role.as_str(), numbers(&link)), ("link", vec![1, 2]));
    assert_eq!(is_linked(), [Some((1, role)), Some((2, role))]);
    let (first, first_page) = (header(&link.file), page(&link.file));
    first.check(2 << 20, Role::Link).unwrap();
    write(&link.file, THEIRS.0, THEIRS.1);

    // The VM's control window goes and another one comes: the guest spoilt it.
    let (data, before) = (row(&stand, "bulk").file, header(&controls[1]).generation);
    let data_before = header(&data);
    write(&controls[1], 0, &[0; 64]);
    let anew = |s: &Stand| {
        let h = header(&controls[1]);
        h.generation.get() > before.get() && is_named(s, "pair") && is_named(s, "bulk")
    };
    stand.until("its control window to be laid out anew", anew);
    assert_ne!(header(&data).key, data_before.key, "a data window is laid out anew with it");
    assert_eq!(is_linked(), [Some((1, role)), Some((2, role))]);
    assert_eq!((page(&link.file), theirs(&link.file)), (first_page, THEIRS.1.to_vec()));

    // It goes with one of its VMs, and not with anything else.
    stand.ask(&Ask::RemoveWindow { name: "bulk".into() });
    assert!(link.file.exists() && is_named(&stand, "pair"));
    stand.ask(&Ask::RemoveClient { name: "vm1".into() });
    stand.until("the file to go", |_| !link.file.exists());
    assert_eq!(table(&controls[1]), []);
    stand.until("it to be missed", |s| row(s, "pair").trouble.is_some());
    client(&stand, "vm1");
    stand.until("it to be named", |s| is_named(s, "pair"));
    assert_eq!(numbers(&row(&stand, "pair")), [1, 1]);
    assert_ne!(header(&link.file).key, first.key);
    assert_ne!(theirs(&link.file), THEIRS.1);
    stand.ask(&Ask::RemoveWindow { name: "pair".into() });
    assert!(!link.file.exists());
    controls.iter().for_each(|c| assert_eq!(table(c), []));
}

#[test]
fn each_vm_of_a_link_says_by_itself_that_it_is_here_and_no_buffer_lies_there() {
    let (mut stand, link, controls) = linked();
    client(&stand, "vm3");
    let mut apps = controls.each_ref().map(|c| Raw::of_file(c));
    says(&mut apps[0], &link.file, 1).unwrap();
    assert_eq!(here(&stand, "pair"), [true, false]);
    says(&mut apps[1], &link.file, 1).unwrap();
    let data = row(&stand, "bulk").file;
    says(&mut apps[1], &data, 1).unwrap();
    // Number 1 in vm2 is a data window, in vm1 it is the link.
    assert_eq!(apps.each_mut().map(buffer), [0, 1]);
    // Another VM that has got hold of its key is not one of the two.
    let mut other = Raw::of_file(&stand.root().join("virtfun-vm3"));
    let refused = says(&mut other, &link.file, 1).unwrap_err();
    assert_eq!(refused.code, NackCode::Stale);
    says(&mut apps[0], &link.file, 0).unwrap();
    assert_eq!(here(&stand, "pair"), [false, true]);

    let tables = controls.each_ref().map(|c| table(c));
    let (first, pages) = (header(&link.file), [&link.file, &data].map(|f| page(f)));
    write(&link.file, THEIRS.0, THEIRS.1);
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(here(&stand, "pair"), [false, true]);
    assert_eq!(controls.each_ref().map(|c| table(c)), tables);
    assert_eq!([&link.file, &data].map(|f| page(f)), pages);
    assert_eq!(theirs(&link.file), THEIRS.1);
    says(&mut apps[0], &link.file, 1).unwrap();
    assert_eq!(here(&stand, "pair"), [true, true]);
    assert_eq!(apps.each_mut().map(buffer), [0, 1]);

    // Without the keeper it is made anew: what was in it may be of other VMs.
    kill_with_keeper(&mut stand);
    stand.start_vfund();
    stand.until("it to be named again", |s| is_named(s, "pair"));
    assert_eq!(here(&stand, "pair"), [false, false]);
    assert_ne!(header(&link.file).key, first.key);
    assert_ne!(theirs(&link.file), THEIRS.1, "it was not emptied");
}

#[test]
fn windows_of_huge_pages_of_two_managers_are_two_files() {
    let stands = [Stand::start(), Stand::start()];
    let pages = vfun_tests_local::huge::HugePages::take(3);
    let made = stands.each_ref().map(|stand| {
        client(stand, "vm1");
        add(stand, &declared("huge", "vm1", "pages = \"2 MiB\""))
    });
    match (pages, made) {
        (Ok(_pages), [Ok(a), Ok(b)]) => {
            assert_ne!(a.file, b.file);
            stands[0].ask(&Ask::RemoveWindow { name: "huge".into() });
            assert!(!a.file.exists() && b.file.exists());
            stands[1].ask(&Ask::RemoveWindow { name: "huge".into() });
            assert!(!b.file.exists());
        }
        (Err(why), made) => {
            println!("this machine has no huge pages for it: {why}");
            for e in made.into_iter().filter_map(Result::err) {
                assert!(e.contains("sysctl vm.nr_hugepages="), "{e}");
            }
        }
        (Ok(_pages), made) => panic!("{made:?}"),
    }
}
