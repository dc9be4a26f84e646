//! Further windows that are declared: their files, their names in control windows, and
//! what becomes of them with their VM and their manager.

use std::fs;
use std::path::Path;
use vfun_admin::{Ask, AskError, Reply, WindowRow};
use vfun_tests_local::Stand;
use vfun_tests_local::raw::Raw;
use vfun_wire::Nack;
use vfun_wire::header::{FURTHER_HEAP_OFF, Role, WINDOWS_OFF, WindowEntry, WindowHeader};
use vfun_wire::limits::WINDOWS_MAX;
use vfun_wire::message::{BufferAck, BufferGet, Kind, WindowHere};
use vfun_wire::version::Features;
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

#[test]
fn a_window_is_named_by_its_key_and_lives_as_long_as_it_is_declared() {
    let mut stand = Stand::start();
    client(&stand, "vm1");
    let control = stand.root().join("virtfun-vm1");
    assert_eq!(table(&control), []);
    let one = add(&stand, &declared("one", "vm1", "")).unwrap();
    let two = add(&stand, &declared("two", "vm1", "pages = \"4 KiB\"")).unwrap();
    assert_eq!((one.index, two.index), (Some(1), Some(2)));
    stand.until("both to be named", |s| row(s, "one").named && row(s, "two").named);
    assert!(!row(&stand, "one").here, "no guest has it");
    let entries = table(&control);
    for (w, e) in [(&one, entries[0]), (&two, entries[1])] {
        let h = header(&w.file);
        h.check(2 << 20, Role::Data).unwrap();
        assert_eq!((e.index.get(), e.key), (w.index.unwrap(), h.key));
        assert_eq!((e.role, e.heap().from), (h.role, FURTHER_HEAP_OFF as u64));
    }
    assert_ne!(entries[0].key, entries[1].key);

    // A manager that is killed leaves all as it is; with the keeper, it is made anew.
    stand.kill_vfund();
    stand.start_vfund();
    assert_eq!(table(&control), entries);
    assert!(row(&stand, "one").named && row(&stand, "two").index == Some(2));
    let keeper = stand.keeper();
    stand.kill_vfund();
    let _ = std::process::Command::new("kill").args(["-9", &keeper.to_string()]).status();
    stand.start_vfund();
    stand.until("both to be named again", |s| row(s, "one").named && row(s, "two").named);
    let anew = table(&control);
    assert_eq!(anew.len(), 2);
    assert!(anew.iter().all(|e| entries.iter().all(|old| old.key != e.key)), "keys are used again");

    // Its VM goes, and comes again.
    stand.ask(&Ask::RemoveClient { name: "vm1".into() });
    stand.until("the file to go", |_| !one.file.exists());
    stand.until("it to be missed", |s| row(s, "one").trouble.is_some());
    client(&stand, "vm1");
    stand.until("it to be named", |s| row(s, "one").named && row(s, "one").trouble.is_none());
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
    refused(&declared("w", "vm1\", \"vm2", ""), "no links");
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
    assert!(first.file.exists() && row(&stand, "first").named);
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
    assert!(one.file.exists() && row(&stand, "one").named, "half of it went");
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
