//! The disk on which modules are kept: slow, full, spoiled.

use super::{Clients, call, names, refused};
use crate::failure::Disk;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun::SubmitCode;
use vfun_admin::Ask;
use vfun_tests_local::{Stand, args, number};

/// A file that a writer waits at until somebody reads it: a disk that is slow.
pub struct Stuck(PathBuf);

impl Stuck {
    pub fn at(path: PathBuf) -> Self {
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        Stuck(path)
    }

    /// Lets the writer go on. What it wrote is lost, and it is told so.
    pub fn release(&self) {
        use std::io::Read;
        let mut lost = vec![];
        std::fs::File::open(&self.0).unwrap().read_to_end(&mut lost).unwrap();
    }
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_slow_disk_holds_up_who_submits_and_nobody_else() {
    let c = Clients::new();
    let (a, b) = (c.of("a"), c.of("b"));
    a.submit_module(&c.module("double")).unwrap();
    let stuck = Stuck::at(c.folder("a").join("holding.part"));
    // It gives up, as nobody says that its module is kept; the list is not
    // written meanwhile.
    let (code, sentence) = refused(a.submit_module(&c.module("triple").name("triple")));
    assert!(code == SubmitCode::HostTrouble && sentence.contains("no answer"), "{sentence}");
    let (code, sentence) = refused(a.submit_module(&c.module("triple").name("triple")));
    assert!(code == SubmitCode::TooFast && sentence.contains("on its way"), "{sentence}");
    assert_eq!(refused(a.withdraw_module("double")).0, SubmitCode::TooFast);
    // All else goes on: the manager, who was there before, and who comes now.
    c.stand.status();
    assert_eq!(call(&a, "my.double", 4), 8);
    assert_eq!(a.submitted_modules().unwrap().len(), 1);
    assert_eq!(number(&b.function("factorial").unwrap().call(&args(5, 1)).unwrap()), 120);
    assert_eq!(names(&c.of("b")), ["submit"]);
    // An operator's order waits for its turn, and is done then.
    std::thread::scope(|s| {
        let remove = || {
            let (name, client) = ("my.double".into(), Some("a".into()));
            c.stand.ask(&Ask::RemoveFunction { name, client })
        };
        let removed = s.spawn(remove);
        assert_eq!(names(&a), ["my.double", "submit"]);
        stuck.release();
        removed.join().unwrap();
    });
    assert_eq!(names(&a), ["submit"], "neither what was removed nor what was not kept");
    a.submit_module(&c.module("triple").name("triple")).unwrap();
    assert_eq!(call(&a, "my.triple", 4), 12);
}

/// A small disk in a client's folder.
fn mounted(at: &Path) -> Option<Disk> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(at).unwrap();
    Disk::mount(at, "size=1m,mode=700")
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_full_disk_refuses_a_module_and_loses_nothing() {
    let mut disk = None;
    let c =
        Clients::on(|| Stand::prepared(&[], |root| disk = mounted(&root.join("admin/modules"))));
    let Some(disk) = disk else {
        eprintln!("SKIPPED: a tmpfs cannot be mounted here (it takes root)");
        return;
    };
    let (a, b) = (c.of("a"), c.of("b"));
    a.submit_module(&c.module("double")).unwrap();
    let all = |c: &Clients| {
        let mut all: Vec<_> = std::fs::read_dir(c.folder("a")).unwrap().flatten().collect();
        all.sort_by_key(|e| e.file_name());
        all.into_iter().map(|e| (e.path(), std::fs::read(e.path()).unwrap())).collect::<Vec<_>>()
    };
    let before = all(&c);
    let filler = disk.fill();
    let full = |r: Result<_, vfun::Error>| {
        let (code, sentence) = refused(r);
        assert!(code == SubmitCode::HostTrouble && sentence.contains("disk is full"), "{sentence}");
    };
    // A new one, another in the place of one, the same one anew.
    full(a.submit_module(&c.module("triple").name("triple")));
    // The module fits, and its code does not.
    let room = std::fs::metadata(&filler).unwrap().len() - 4096;
    std::fs::File::options().write(true).open(&filler).unwrap().set_len(room).unwrap();
    full(a.submit_module(&c.module("triple").name("triple")));
    assert_eq!(all(&c), before, "nothing is left of what was begun");
    std::fs::remove_file(&filler).unwrap();
    let filler = disk.fill();
    full(a.submit_module(&c.module("triple").replace(true)));
    full(a.submit_module(&c.module("double").replace(true)));
    full(b.submit_module(&c.module("double")));
    let (code, _) = refused(a.withdraw_module("double"));
    assert_eq!(code, SubmitCode::HostTrouble);
    assert_eq!(all(&c), before, "not a byte is lost, and nothing is left of what was refused");
    assert!(a.submit_module(&c.module("double")).unwrap().already_there, "this needs no room");
    assert_eq!(call(&a, "my.double", 21), 42);
    assert!(c.stand.log().contains("disk is full"), "its operator hears of it");
    std::fs::remove_file(filler).unwrap();
    a.submit_module(&c.module("triple").name("triple")).unwrap();
    b.submit_module(&c.module("double")).unwrap();
    assert_eq!((call(&a, "my.triple", 5), call(&b, "my.double", 5)), (15, 10));
    drop((a, b, c));
    drop(disk);
}

/// Lets one bit of a file be another.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

fn truncate(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

#[test]
#[ignore = "needs `make wasm`"]
fn what_is_spoiled_is_compiled_anew_when_it_comes_again() {
    let mut c = Clients::new();
    let a = c.of("a");
    a.submit_module(&c.module("double")).unwrap();
    type Spoil = fn(&Path);
    let ways: [(&str, Spoil); 5] = [
        ("code", truncate),
        ("code", flip),
        ("wasm", truncate),
        ("wasm", flip),
        ("wasm", |p| std::fs::remove_file(p).unwrap()),
    ];
    for (kind, spoil) in ways {
        let files = c.files("a", kind);
        let [file] = &files[..] else { panic!("one {kind}") };
        let right = std::fs::read(file).unwrap();
        spoil(file);
        let again = a.submit_module(&c.module("double")).unwrap();
        assert!(again.renewed && !again.already_there && !again.replaced, "{kind}: {again:?}");
        let files = [c.files("a", "wasm"), c.files("a", "code")].concat();
        assert_eq!(files.len(), 2, "what is spoiled is gone: {files:?}");
        assert!(kind == "code" || std::fs::read(file).unwrap() == right);
        c.without_services();
        assert_eq!(call(&a, "my.double", 21), 42);
        assert!(a.submit_module(&c.module("double")).unwrap().already_there);
    }
    // Code of another build of the program, which is not run.
    drop(a);
    c.stand.kill_vfund();
    let list = c.folder("a").join("holding.json");
    let text = std::fs::read_to_string(&list).unwrap();
    let mut held: serde_json::Value = serde_json::from_str(&text).unwrap();
    let program = held["modules"]["my.double"]["code"]["program"].take();
    assert!(program.as_str().is_some_and(|p| !p.is_empty()), "{text}");
    held["modules"]["my.double"]["code"]["program"] = "another build".into();
    std::fs::write(&list, held.to_string()).unwrap();
    c.stand.start_vfund();
    let a = c.of("a");
    assert_eq!(call(&a, "my.double", 3), 6);
    // No service of the manager before, of which this one does not know what it is.
    c.without_services();
    assert!(a.submit_module(&c.module("double")).unwrap().renewed);
    assert!(std::fs::read_to_string(&list).unwrap().contains(program.as_str().unwrap()));
    assert!(a.submit_module(&c.module("double")).unwrap().already_there);
}

#[test]
#[ignore = "needs `make wasm`"]
fn a_list_that_cannot_be_read_is_named_kept_and_nobody_elses_trouble() {
    let mut c = Clients::new();
    for client in ["a", "b"] {
        c.of(client).submit_module(&c.module("double")).unwrap();
    }
    let list = c.folder("a").join("holding.json");
    let right = std::fs::read(&list).unwrap();
    let half = right[..right.len() / 2].to_vec();
    for wrong in [None, Some(half), Some(b"{}}".to_vec()), Some(vec![0xff; 9]), Some(vec![])] {
        stop(&mut c.stand);
        std::fs::remove_file(&list).unwrap();
        match &wrong {
            // What no program can read as a file, whoever it runs as.
            None => std::fs::create_dir(&list).unwrap(),
            Some(bytes) => std::fs::write(&list, bytes).unwrap(),
        }
        let inode = std::fs::metadata(&list).unwrap().ino();
        c.stand.start_vfund();
        let troubles = c.stand.status().troubles;
        let named = |t: &String| t.contains("client a") && t.contains(list.to_str().unwrap());
        assert!(troubles.iter().any(named), "{troubles:?}");
        let (a, b) = (c.of("a"), c.of("b"));
        assert_eq!(names(&a), ["submit"]);
        for (code, sentence) in [
            refused(a.submitted_modules()),
            refused(a.submit_module(&c.module("double"))),
            refused(a.submit_module(&c.module("triple").replace(true))),
            refused(a.withdraw_module("double")),
        ] {
            assert_eq!(code, SubmitCode::HostTrouble);
            assert!(sentence.contains("cannot read its list"), "{sentence}");
            assert!(!sentence.contains('/'), "a guest hears of no path: {sentence}");
        }
        let (name, client) = ("my.double".into(), Some("a".into()));
        let e = c.stand.try_ask(&Ask::RemoveFunction { name, client }).unwrap_err().to_string();
        assert!(e.contains(list.to_str().unwrap()), "{e}");
        // Others do not notice.
        b.submit_module(&c.module("triple").replace(true)).unwrap();
        assert_eq!(call(&b, "my.double", 2), 6);
        b.submit_module(&c.module("double").replace(true)).unwrap();
        // It is as it was, and so is what it may have named.
        assert_eq!(std::fs::metadata(&list).unwrap().ino(), inode);
        assert!(wrong.is_none_or(|w| std::fs::read(&list).unwrap() == w));
        assert_eq!((c.files("a", "wasm").len(), c.files("a", "code").len()), (1, 1));
        drop((a, b));
        if list.is_dir() {
            std::fs::remove_dir(&list).unwrap();
        }
        std::fs::write(&list, &right).unwrap();
    }
    // Mended: all is there.
    stop(&mut c.stand);
    c.stand.start_vfund();
    assert!(c.stand.status().troubles.is_empty());
    assert_eq!(call(&c.of("a"), "my.double", 2), 4);
}

/// In order, so that nothing of it is left to be taken over.
pub fn stop(stand: &mut Stand) {
    stand.ask(&Ask::Stop);
    stand.until("it to end", |s| s.try_ask(&Ask::Status).is_err());
    while !stand.vfund_died() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
#[ignore = "needs `make wasm`"]
fn files_of_no_function_are_swept() {
    let mut c = Clients::new();
    let a = c.of("a");
    let count = |c: &Clients| ["wasm", "code", "part"].map(|kind| c.files("a", kind).len());
    a.submit_module(&c.module("double")).unwrap();
    a.submit_module(&c.module("triple").name("triple")).unwrap();
    a.withdraw_module("triple").unwrap();
    assert_eq!(count(&c), [1, 1, 0]);
    // When nothing is on the list any more.
    a.withdraw_module("double").unwrap();
    assert_eq!(count(&c), [0, 0, 0]);
    // At a start: where the list is empty, and where it is not there.
    for with_list in [true, false] {
        let held = a.submit_module(&c.module("double")).unwrap();
        assert!(!held.already_there && count(&c) == [1, 1, 0]);
        c.stand.kill_vfund();
        let list = c.folder("a").join("holding.json");
        std::fs::remove_file(&list).unwrap();
        if with_list {
            std::fs::write(&list, r#"{"modules":{}}"#).unwrap();
        }
        std::fs::write(c.folder("a").join("half.part"), "half").unwrap();
        std::fs::write(c.folder("a").join("note"), "an operator's own").unwrap();
        c.stand.start_vfund();
        assert_eq!(count(&c), [0, 0, 0]);
        assert!(c.folder("a").join("note").is_file());
        assert_eq!(names(&a), ["submit"]);
        // Of a service of the manager before no code is kept.
        c.without_services();
    }
    a.submit_module(&c.module("double")).unwrap();
    assert_eq!(call(&a, "my.double", 3), 6);
}
