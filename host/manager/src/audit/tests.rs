use super::*;
use std::time::Instant;
use vfun_wire::{Nack, NackCode};

fn refusal(client: &str) -> Refusal {
    Refusal {
        client: client.into(),
        vm: None,
        app: "a".into(),
        function: "f".into(),
        nack: Nack::new(NackCode::Denied, "no"),
    }
}

fn all(a: &mut Audit) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![];
    loop {
        let after = Some(rows.last().map_or(0, |r| r.id));
        match a.read(&Query { limit: 1000, after, ..Query::default() }) {
            Ok(more) if !more.is_empty() => rows.extend(more),
            _ => return rows,
        }
    }
}

#[test]
fn deeds_and_refusals_are_found_again_and_a_flood_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.db");
    let a = Audit::open(&path).unwrap();
    let me = Who::of(rustix::process::getuid().as_raw(), std::process::id() as i32);
    assert!(me.command.contains("vfun_manager"), "{me:?}");
    a.did(&me, "client add vm1".into(), "vm1", Ok(()));
    a.did(&me, "client add vm2".into(), "vm2", Err("it is there"));
    (0..500).for_each(|_| a.refused(None, &refusal("vm1")));
    let mut beyond = refusal("vm1");
    beyond.nack = Nack::new(NackCode::OverQuota, "enough");
    a.refused(None, &beyond);
    a.refused(Some(7), &refusal(""));
    drop(a); // writes what waits
    let rows = all(&mut Audit::open(&path).unwrap());
    let told: u64 = rows
        .iter()
        .filter(|r| r.client == "vm1" && r.what == "refused")
        .map(|r| r.missing + u64::from(!r.sentence.is_empty()))
        .sum();
    assert_eq!(told, 501, "each is there or counted");
    let kind = NackCode::OverQuota.text();
    assert!(rows.iter().any(|r| r.code == kind && r.sentence == "enough"), "behind a flood");
    assert!(rows.len() < 40, "{}", rows.len());
    let deed = rows.iter().find(|r| r.what == "client add vm2").unwrap();
    assert_eq!((deed.outcome.as_str(), deed.sentence.as_str()), ("failed", "it is there"));
    assert_eq!(deed.pid, Some(std::process::id() as i32));
    let r = rows.iter().find(|r| r.uid == Some(7)).unwrap();
    assert_eq!((r.code.as_str(), r.function.as_str()), ("denied", "f"));
}

#[test]
fn a_broken_database_holds_up_nobody_and_what_is_missing_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none/audit.db");
    let mut a = Audit::open(&path).unwrap();
    let who = Who::default();
    for i in 0..3 * WAITING_MAX {
        a.did(&who, format!("{i}"), "", Ok(()));
    }
    assert!(a.read(&Query::default()).is_err());
    std::fs::create_dir(dir.path().join("none")).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        a.did(&who, "at last".into(), "", Ok(()));
        let rows = all(&mut a);
        let (mut there, mut lost) = (0, 0);
        for r in &rows {
            match r.outcome.as_str() {
                "lost" => lost += r.missing,
                _ => there += 1,
            }
        }
        if lost > 0 && there > 0 && rows.iter().any(|r| r.what == "at last") {
            assert!(lost + there >= 3 * WAITING_MAX as u64, "{lost} {there}");
            return;
        }
        assert!(Instant::now() < until, "{lost} {there}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_done_is_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut a = Audit::open(&dir.path().join("audit.db")).unwrap();
    for n in 0..20 {
        let what = format!("client add vm{n}");
        a.did(&Who::default(), what.clone(), "", Ok(()));
        let rows = a.read(&Query { limit: 1, ..Query::default() }).unwrap();
        assert_eq!(rows.first().map(|r| &r.what), Some(&what));
    }
}
