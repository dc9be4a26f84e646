//! The numbers that must outlive the database: a manager's generation, ids of
//! names, and the ids that VMs had as peers. They are written beside it each time
//! one of them changes, which is seldom, so that a database that broke costs
//! its history and nothing else.

use crate::record::Records;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far a generation jumps when the database was lost: handles of grants
/// rise by themselves, by one each time a place is used again, and what was
/// noted beside the database says nothing of these.
pub const JUMP: u32 = 1 << 24;
/// Where clocks begin that stand in for a generation that nobody knows: 2024.
const EPOCH_S: u64 = 1_704_067_200;

/// Numbers of functions and clients, which stay the same over managers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// The last manager's generation.
    pub generation: u32,
    /// What each number is of: kind, name and number.
    pub ids: Vec<(String, String, u32)>,
    /// Key of the client's peers, and the last one.
    pub peers: Vec<(String, i64)>,
}

/// What was found where the database should be.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The database.
    Whole,
    /// A broken one or none: made anew with the same numbers. A sentence for people.
    Mended(String),
    /// The same, and the numbers are gone, too: what an earlier manager left
    /// cannot be told apart by them any more. A sentence for people.
    Lost(String),
    /// Nothing: this is a new root.
    New,
}

/// Where they are, beside the database.
pub fn beside(database: &Path) -> PathBuf {
    database.with_file_name("numbers.json")
}

fn load(path: &Path) -> Option<Numbers> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Writes them; whole or not at all.
pub fn save(path: &Path, numbers: &Numbers) -> io::Result<()> {
    let part = path.with_extension("part");
    std::fs::write(&part, serde_json::to_vec(numbers).expect("plain data"))?;
    std::fs::rename(&part, path)
}

fn is_broken(e: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(e.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// Moves a broken database away, with what SQLite has beside it.
fn move_aside(database: &Path) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let to = with(database, &format!(".broken-{now}"));
    std::fs::rename(database, &to)?;
    for end in ["-wal", "-shm"] {
        let _ = std::fs::rename(with(database, end), with(&to, end));
    }
    Ok(to)
}

fn lost(what: &str, database: &Path) -> String {
    let numbers = beside(database);
    format!("{what}, and {} too: all windows and services begin again", numbers.display())
}

/// Opens the database of a root that was used before or not. One that is
/// broken is moved aside and made anew; one that cannot be written is an error:
/// without it two managers could give out the same numbers.
pub fn open(database: &Path, used_before: bool) -> rusqlite::Result<(Records, Found)> {
    let there = database.exists();
    let opened = Records::open(database).and_then(|r| r.check().map(|()| r));
    let (records, what) = match opened {
        Ok(r) if r.has_generation()? && r.begins_anew()? => {
            // It was lost, and the manager that found that did not finish its start.
            return Ok((r, Found::Lost(lost("the database was lost", database))));
        }
        Ok(r) if r.has_generation()? => return Ok((r, Found::Whole)),
        Ok(r) if !there && !used_before => return Ok((r, Found::New)),
        Ok(r) => (r, format!("the database {} was missing or empty", database.display())),
        Err(e) if is_broken(&e) => {
            let to = move_aside(database).map_err(|_| e)?;
            (
                Records::open(database)?,
                format!("the database was broken: it is {} now", to.display()),
            )
        }
        Err(e) => return Err(e),
    };
    match load(&beside(database)) {
        Some(mut numbers) => {
            numbers.generation = numbers.generation.saturating_add(JUMP);
            records.seed(&numbers, false)?;
            Ok((
                records,
                Found::Mended(format!(
                    "{what}; ids and generations are kept, history begins again"
                )),
            ))
        }
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
            let generation = now.saturating_sub(EPOCH_S).min(u64::from(u32::MAX - JUMP)) as u32;
            records.seed(&Numbers { generation, ..Numbers::default() }, true)?;
            Ok((records, Found::Lost(lost(&what, database))))
        }
    }
}

/// Whether [`open`] and a first generation would succeed now. Changes nothing but
/// the generation, which rises as it does with each manager.
pub fn try_open(database: &Path) -> rusqlite::Result<()> {
    if !database.exists() {
        return Ok(()); // made anew
    }
    let tried = Records::open(database).and_then(|r| match r.has_generation()? {
        true => r.next_generation().map(drop),
        false => Ok(()),
    });
    match tried {
        Err(e) if is_broken(&e) => Ok(()), // moved aside
        tried => tried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(path: &Path, used: bool) -> (Records, Found, u32) {
        let (r, found) = open(path, used).unwrap();
        let generation = r.next_generation().unwrap();
        (r, found, generation)
    }

    #[test]
    fn a_broken_database_costs_its_history_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        let (r, found, first) = begin(&path, false);
        assert_eq!((found, first), (Found::New, 1));
        let vm = r.id("client", "vm1").unwrap();
        let other = r.id("client", "other").unwrap();
        assert_eq!(r.next_peer("vm1", 2), 2);
        save(&beside(&path), &r.numbers().unwrap()).unwrap();
        drop(r);
        for (n, text) in
            ["not a database at all, but long enough to be read as one", ""].iter().enumerate()
        {
            std::fs::write(&path, text.repeat(200)).unwrap();
            let (r, found, generation) = begin(&path, true);
            assert!(matches!(found, Found::Mended(_)), "{n}: {found:?}");
            assert!(generation > JUMP, "no old handle means anything");
            assert_eq!(r.id("client", "other").unwrap(), other);
            assert_eq!(r.id("client", "vm1").unwrap(), vm);
            assert!(r.id("client", "third").unwrap() > other.max(vm));
            assert_eq!(r.next_peer("vm1", 2), 3, "QEMU crashes when one comes again");
        }
        let kept = std::fs::read_dir(dir.path()).unwrap().flatten();
        assert_eq!(
            kept.filter(|f| f.file_name().to_string_lossy().contains(".broken-")).count(),
            1
        );
    }

    #[test]
    fn peers_go_on_without_a_database_and_never_come_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        let (r, ..) = begin(&path, false);
        assert_eq!((r.next_peer("vm1", 2), r.next_peer("vm1", 2)), (2, 3));
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("ALTER TABLE meta RENAME TO away").unwrap();
        assert_eq!(r.next_peer("vm1", 2), 4);
        let far = r.next_peer("vm2", 2);
        assert!(far > 0x8000, "beyond what an earlier manager may have given: {far}");
        assert_eq!(r.next_peer("vm2", 2), far + 1);
        other.execute_batch("ALTER TABLE away RENAME TO meta").unwrap();
        assert_eq!((r.next_peer("vm1", 2), r.next_peer("vm2", 2)), (5, far + 2));
    }

    #[test]
    fn damage_in_the_middle_is_found_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        let (r, ..) = begin(&path, false);
        for i in 0..2000 {
            r.id("client", &format!("client-with-a-name-{i}")).unwrap();
        }
        drop(r);
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let pages = file.metadata().unwrap().len() / 4096;
        for page in 2..pages {
            file.write_at(&[0xa5; 2048], page * 4096 + 1024).unwrap();
        }
        drop(file);
        let (_, found, generation) = begin(&path, true);
        assert!(matches!(found, Found::Lost(_)), "{found:?}");
        assert!(generation > 50_000_000, "the clock stands in for it: {generation}");
        // The manager that found that was killed before it had begun anew.
        let (r, found, later) = begin(&path, true);
        assert!(matches!(found, Found::Lost(_)) && later > generation, "{found:?}");
        r.has_begun().unwrap();
        drop(r);
        assert_eq!(begin(&path, true).1, Found::Whole);
    }

    #[test]
    fn a_database_that_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        std::fs::create_dir(&path).unwrap();
        assert!(open(&path, true).is_err());
        assert!(path.is_dir(), "and left alone");
    }
}
