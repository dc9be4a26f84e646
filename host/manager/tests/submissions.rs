//! What a service that was taken over may say of a module, and hand over as one.

use proptest::prelude::*;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use vfun_core::policy::{Layered, Policy};
use vfun_core::submitted::{Holding, Pace, Wanted};
use vfun_manager::submitted::store;
use vfun_manager::submitted::writer::{Task, TaskOutcome};
use vfun_submit::limits::MODULE_BYTES_MAX;
use vfun_submit::{Answer, Code, Outcome, is_own};
use vfun_supervise::submitted::CODE_BYTES_MAX;
use vfun_supervise::{FromService, ModuleRequest, Offered};
use vfun_wire::limits::{CELL_BYTES_MAX, DEADLINE_MS_MAX};

fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn offered(name: &str) -> Offered {
    Offered {
        name: name.into(),
        version: 1 << 16,
        max_args: 64,
        max_result: 8,
        signature: String::new(),
        memory_bytes: 1 << 20,
        deadline_ms: 1000,
        replace: false,
        module_bytes: 6,
        sha256: digest(b"module"),
        code_bytes: 4,
        code_sha256: digest(b"code"),
        compile_us: 1,
    }
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0u64..100, (0u32..64).prop_map(|n| 1 << n), Just(u64::MAX)]
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,80}",
        "my\\.[a-z./-]{0,70}",
        "[0-9a-fA-F]{60,66}",
        "\\(n: u64(\\[[0-9]{0,12}\\])?\\) -> u(8|64)",
        Just("../../../etc/passwd".to_owned()),
    ]
}

fn any_offered() -> impl Strategy<Value = Offered> {
    ((words(), words(), words(), words()), proptest::array::uniform8(numbers()), any::<bool>())
        .prop_map(|((name, signature, sha256, code_sha256), n, replace)| Offered {
            name,
            version: n[0] as u32,
            max_args: n[1] as u32,
            max_result: n[2] as u32,
            signature,
            memory_bytes: n[3],
            deadline_ms: n[4] as u32,
            replace,
            module_bytes: n[5],
            sha256,
            code_bytes: n[6],
            code_sha256,
            compile_us: n[7] as u32,
        })
}

/// Most of what is random is wrong in its first field: this is wrong in few.
fn nearly_right() -> impl Strategy<Value = Offered> {
    (any_offered(), any::<u16>(), "[a-d]").prop_map(|(odd, mask, name)| {
        let mut o = offered(&format!("my.{name}"));
        let odd_one = |bit: u16| mask & (1 << bit) != 0 && mask & (1 << 15) == 0;
        macro_rules! some {
            ($($bit:literal $field:ident)*) => { $(if odd_one($bit) { o.$field = odd.$field; })* };
        }
        some!(0 name 1 signature 2 sha256 3 code_sha256 4 memory_bytes 5 deadline_ms
              6 module_bytes 7 code_bytes 8 max_args 9 max_result);
        (o.version, o.replace, o.compile_us) = (odd.version, odd.replace, odd.compile_us);
        o
    })
}

proptest! {
    #[test]
    fn whatever_a_service_says_is_refused_or_within_every_limit(
        all in proptest::collection::vec(prop_oneof![nearly_right(), any_offered()], 1..24),
        modules in 1u32..4,
        bytes in 1u64..200_000_000,
    ) {
        let default = Layered {
            modules: Some(modules), modules_bytes: Some(bytes), ..Layered::default()
        };
        let policy = Policy { default, ..Policy::default() };
        let mut held = Holding::default();
        for o in all {
            let Ok(wanted) = Wanted::check(o) else { continue };
            let o = wanted.offered.clone();
            prop_assert!(is_own(&o.name) && vfun_wire::names::check(&o.name).is_ok());
            prop_assert!(o.sha256.len() == 64 && !o.sha256.contains(['/', '.']));
            prop_assert!(o.code_sha256.len() == 64 && !o.code_sha256.contains(['/', '.']));
            prop_assert!(o.module_bytes <= u64::from(MODULE_BYTES_MAX));
            prop_assert!(o.code_bytes <= CODE_BYTES_MAX);
            prop_assert!(o.max_args <= CELL_BYTES_MAX && o.max_result <= CELL_BYTES_MAX);
            prop_assert!((1..=DEADLINE_MS_MAX).contains(&o.deadline_ms));
            if let Ok(Outcome::Accepted | Outcome::Replaced | Outcome::Renewed) = held.admit(&wanted, &policy, "vm") {
                held.put(wanted, "build", "app", 1);
            }
        }
        prop_assert!(held.modules.len() <= modules as usize);
        let on_disk: u64 =
            held.modules.values().map(|k| k.offered.module_bytes + k.offered.code_bytes).sum();
        prop_assert!(on_disk <= bytes);
        // What is kept is a function each, no two with one id, and is told and read back.
        let (functions, wrong) = held.functions();
        prop_assert!(wrong.is_empty() && functions.len() == held.modules.len());
        let ids: std::collections::BTreeSet<_> = functions.values().map(|f| f.id).collect();
        prop_assert_eq!(ids.len(), functions.len());
        let answer = Answer { outcome: Outcome::Listed, entries: held.entries() };
        prop_assert_eq!(Answer::decode(&answer.encode().unwrap()).unwrap(), answer);
        let text = serde_json::to_string(&held).unwrap();
        prop_assert_eq!(serde_json::from_str::<Holding>(&text).unwrap(), held);
    }

    #[test]
    fn any_packet_is_a_message_or_none(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "\\PC{0,80}",
    ) {
        let _ = serde_json::from_slice::<FromService>(&bytes);
        let wish = ModuleRequest::Remove { name: text };
        let message = FromService::Submission { ask: u64::MAX, channel: 0, wish };
        let json = serde_json::to_vec(&message).unwrap();
        prop_assert_eq!(serde_json::from_slice::<FromService>(&json).unwrap(), message);
    }
}

fn memory(bytes: &[u8]) -> OwnedFd {
    let file = vfun_window::memfd("test", 1 << 16).unwrap();
    File::from(file.try_clone().unwrap()).write_all(bytes).unwrap();
    file
}

#[test]
fn files_that_are_not_what_was_said_are_refused() {
    let o = offered("my.f");
    let file = memory(b"modulecode and more");
    assert_eq!(store::read(&file, &o).unwrap(), (b"module".to_vec(), b"code".to_vec()));
    let no_code = Offered { code_bytes: 0, ..o.clone() };
    assert_eq!(store::read(&file, &no_code).unwrap().1, b"");
    // Other bytes, fewer bytes, bytes beyond the end.
    let refused = |file: &dyn AsFd, o: &Offered| {
        let e = store::read(file.as_fd(), o).unwrap_err();
        assert_eq!(e.code, Code::Malformed, "{}", e.sentence);
    };
    refused(&memory(b"modulEcode"), &o);
    refused(&memory(b"modulecodE"), &o);
    refused(&memory(b""), &o);
    refused(&file, &Offered { module_bytes: 1 << 20, ..o.clone() });
    // No memory file of a fixed size: a file on a disk, a socket, an open-ended one.
    let mut disk = tempfile::tempfile().unwrap();
    disk.write_all(b"modulecode").unwrap();
    disk.rewind().unwrap();
    refused(&disk, &o);
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    refused(&socket, &o);
    let open = rustix::fs::memfd_create("open", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    File::from(open.try_clone().unwrap()).write_all(b"modulecode").unwrap();
    refused(&open, &o);
}

#[test]
fn a_pace_is_kept_and_forgotten() {
    let mut pace = Pace::default();
    for now in 0..3 {
        pace.take(now, 7, 3).unwrap();
    }
    let e = pace.take(1_000, 7, 3).unwrap_err();
    assert!(e.code == Code::TooFast && e.sentence.contains("in 59 s"), "{}", e.sentence);
    pace.take(1_000, 8, 3).unwrap();
    pace.take(60_000, 7, 3).unwrap();
}

#[test]
fn lists_are_read_back_and_leftovers_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("vm1");
    assert_eq!(store::load(&dir).unwrap(), Holding::default());
    let mut held = Holding::default();
    held.put(Wanted::check(offered("my.f")).unwrap(), "build", "app", 1);
    std::fs::create_dir(&dir).unwrap();
    for file in [store::module_file(&dir, &digest(b"module")), dir.join("stray.part")] {
        std::fs::write(file, "x").unwrap();
    }
    store::save(&dir, &held).unwrap();
    assert_eq!(store::load(&dir).unwrap(), held);
    std::fs::write(dir.join("note"), "an operator's own").unwrap();
    let other = store::module_file(&dir, &digest(b"another"));
    std::fs::write(&other, "x").unwrap();
    store::sweep(&dir, &[&held]);
    assert!(!dir.join("stray.part").exists() && !other.exists());
    assert!(dir.join("note").exists() && dir.join("holding.json").exists());
    assert!(store::module_file(&dir, &digest(b"module")).exists());
    std::fs::write(dir.join("holding.json"), "{").unwrap();
    assert!(store::load(&dir).unwrap_err().contains("holding.json"));
    store::forget(&dir).unwrap();
    store::forget(&dir).unwrap();
    assert!(!dir.exists());
}

fn keep(file: OwnedFd, o: &Offered, same: Option<&Holding>, program: &str) -> Task {
    let same = same.map(|h| Box::new(h.modules[&o.name].clone()));
    let (offered, program) = (Box::new(o.clone()), program.to_owned());
    Task::Keep { file, offered, same, program, held: Holding::default() }
}

#[test]
fn what_is_whole_is_not_written_again_and_what_is_not_is() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, o) = (dir.path().join("modules/vm1"), offered("my.f"));
    let file = || memory(b"modulecode");
    assert_eq!(keep(file(), &o, None, "build").run(&dir), Ok(TaskOutcome::Written));
    let mut held = Holding::default();
    held.put(Wanted::check(o.clone()).unwrap(), "build", "app", 1);
    let again = |program| keep(file(), &o, Some(&held), program).run(&dir).unwrap();
    assert_eq!(again("build"), TaskOutcome::Whole);
    assert_eq!(again("another build"), TaskOutcome::Written);
    let (module, code) =
        (store::module_file(&dir, &o.sha256), store::code_file(&dir, &o.code_sha256));
    for (path, right) in [(&module, &b"module"[..]), (&code, b"code")] {
        let flipped: Vec<u8> = right.iter().map(|b| b ^ 1).collect();
        for wrong in [&right[1..], &flipped, b"", &[right, b"more"].concat()] {
            std::fs::write(path, wrong).unwrap();
            assert_eq!(again("build"), TaskOutcome::Written, "{wrong:?}");
            assert_eq!(std::fs::read(path).unwrap(), right);
            assert_eq!(again("build"), TaskOutcome::Whole);
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!(again("build"), TaskOutcome::Written);
        // A link is none of ours, whatever is behind it.
        let elsewhere = dir.join("elsewhere");
        std::fs::rename(path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, path).unwrap();
        assert_eq!(again("build"), TaskOutcome::Written);
        assert!(path.symlink_metadata().unwrap().is_file());
    }
}

#[test]
fn a_list_that_cannot_be_written_leaves_what_was_and_what_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("vm1");
    let (f, g) = (offered("my.f"), Offered { sha256: digest(b"modulE"), ..offered("my.g") });
    let mut before = Holding::default();
    before.put(Wanted::check(f.clone()).unwrap(), "build", "app", 1);
    keep(memory(b"modulecode"), &f, None, "build").run(&dir).unwrap();
    Task::List { held: before.clone(), before: Holding::default() }.run(&dir).unwrap();
    keep(memory(b"modulEcode"), &g, None, "build").run(&dir).unwrap();
    let mut held = before.clone();
    held.put(Wanted::check(g.clone()).unwrap(), "build", "app", 1);
    // Nothing can be written where a folder is, nor through a link.
    let part = dir.join("holding.part");
    let outside = dir.with_extension("outside");
    std::fs::write(&outside, "as it was").unwrap();
    std::os::unix::fs::symlink(&outside, &part).unwrap();
    let list = || Task::List { held: held.clone(), before: before.clone() }.run(&dir);
    let e = list().unwrap_err();
    assert!(e.code == Code::HostTrouble && e.sentence.contains("its list of"), "{}", e.sentence);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
    assert_eq!(store::load(&dir).unwrap(), before);
    for o in [&f, &g] {
        assert!(store::module_file(&dir, &o.sha256).is_file(), "either list may be the one");
    }
    // The link is out of the way now.
    assert_eq!(list(), Ok(TaskOutcome::Written));
    assert_eq!(store::load(&dir).unwrap(), held);
    // Without the list nothing of it is of use.
    assert_eq!(Task::Sweep { held: Holding::default() }.run(&dir), Ok(TaskOutcome::Written));
    assert!(!store::module_file(&dir, &f.sha256).exists());
    assert_eq!(Task::Forget.run(&dir), Ok(TaskOutcome::Written));
    assert!(!dir.exists());
    // A link in the place of a folder is not followed.
    let elsewhere = dir.with_extension("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("a.part"), "not ours").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    store::sweep(&dir, &[]);
    assert!(store::load(&dir).unwrap_err().contains("is no folder"));
    assert!(keep(memory(b"modulecode"), &f, None, "build").run(&dir).is_err());
    assert_eq!(Task::Forget.run(&dir), Ok(TaskOutcome::Written));
    assert!(elsewhere.join("a.part").exists() && !dir.exists());
}

#[test]
fn what_could_not_be_kept_leaves_nothing_and_takes_nothing_along() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("vm1");
    let (f, g) = (offered("my.f"), Offered { sha256: digest(b"modulE"), ..offered("my.g") });
    let g = Offered { code_sha256: digest(b"codE"), ..g };
    let mut held = Holding::default();
    held.put(Wanted::check(f.clone()).unwrap(), "build", "app", 1);
    keep(memory(b"modulecode"), &f, None, "build").run(&dir).unwrap();
    // The module is written, and its code cannot be.
    let in_the_way = store::code_file(&dir, &g.code_sha256).with_extension("part");
    std::fs::create_dir(&in_the_way).unwrap();
    let (file, program) = (memory(b"modulEcodE"), "build".to_owned());
    let task = Task::Keep { file, offered: Box::new(g), same: None, program, held };
    let e = task.run(&dir).unwrap_err();
    assert!(e.code == Code::HostTrouble && e.sentence.contains("module's code"), "{}", e.sentence);
    assert!(!e.sentence.contains('/'), "a guest hears of no path: {}", e.sentence);
    let all = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let left: std::collections::BTreeSet<_> = all.filter(|p| *p != in_the_way).collect();
    let whole = [store::module_file(&dir, &f.sha256), store::code_file(&dir, &f.code_sha256)];
    assert_eq!(left, whole.into());
}

#[test]
fn what_is_offered_until_the_next_list_is_stays_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("vm1");
    let f = offered("my.f");
    keep(memory(b"modulecode"), &f, None, "build").run(&dir).unwrap();
    let mut before = Holding::default();
    before.put(Wanted::check(f.clone()).unwrap(), "build", "app", 1);
    // The list is written, and the manager has not heard of it: whoever asks for
    // my.f now has its service started.
    let held = Holding::default();
    assert_eq!(Task::List { held: held.clone(), before }.run(&dir), Ok(TaskOutcome::Written));
    assert_eq!(store::load(&dir).unwrap(), held);
    let files = [store::module_file(&dir, &f.sha256), store::code_file(&dir, &f.code_sha256)];
    assert!(files.iter().all(|f| f.is_file()), "a service may be started from them");
    assert_eq!(Task::Sweep { held }.run(&dir), Ok(TaskOutcome::Written));
    assert!(files.iter().all(|f| !f.exists()));
}
