//! What is kept across restarts, in SQLite: ids of names, the window
//! generation, grants and their history, running services.

use crate::core::GrantRecord;
use crate::numbers::Numbers;
use rusqlite::{Connection, OptionalExtension, params};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfun_admin::history::HistoryRow;

/// Rows of history kept; older ones go. A row is about 150 bytes.
pub const HISTORY_ROWS: u32 = 100_000;

/// Rows between two trims: each is a millisecond's work.
const TRIM_EVERY: i64 = 1024;

/// How long a lock of somebody else's is waited for: the manager has one thread.
const BUSY: Duration = Duration::from_millis(20);

/// The database, and the last peer of each client, for when there is none.
pub struct Records(Connection, RefCell<BTreeMap<String, u16>>);

/// A service process of an earlier manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftService {
    /// Its process id then.
    pub pid: i32,
    /// Start time of that process, so that a pid used again is not mistaken for it.
    pub started: u64,
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// A peer's number where nobody can say which were given: VMs connect a few
/// times in their lives, so those that were are small; and two managers that
/// must guess do not guess alike.
fn far_from_all() -> u16 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    0x8000 + (now % 0x7000) as u16
}

/// Gives a table its column of VMs; one of managers of clients with one VM has none.
pub fn add_vm(db: &Connection, table: &str) -> rusqlite::Result<()> {
    let has = "SELECT count(*) FROM pragma_table_info(?) WHERE name = 'vm'";
    if db.query_row(has, [table], |r| r.get::<_, i64>(0))? == 0 {
        db.execute(&format!("ALTER TABLE {table} ADD COLUMN vm TEXT"), [])?;
    }
    Ok(())
}

impl Records {
    /// Opens or makes the database.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(BUSY)?;
        // The manager alone writes; a lost last millisecond after a power cut
        // costs a line of history, so no fsync is waited for.
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -512)?;
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS ids (kind TEXT NOT NULL, name TEXT NOT NULL, id INTEGER NOT NULL,
                 PRIMARY KEY (kind, name)) STRICT;
             CREATE TABLE IF NOT EXISTS grants (grant_id INTEGER PRIMARY KEY, client_id INTEGER NOT NULL,
                 client TEXT NOT NULL, app_id INTEGER NOT NULL, app TEXT NOT NULL, function_id INTEGER NOT NULL,
                 function TEXT NOT NULL, location TEXT NOT NULL, state TEXT NOT NULL, since_ms INTEGER NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS history (at_ms INTEGER NOT NULL, grant_id INTEGER NOT NULL,
                 client TEXT NOT NULL, app TEXT NOT NULL, function TEXT NOT NULL, location TEXT NOT NULL,
                 state TEXT NOT NULL, why TEXT) STRICT;
             CREATE TABLE IF NOT EXISTS links_off (sender TEXT NOT NULL, receiver TEXT NOT NULL,
                 PRIMARY KEY (sender, receiver)) STRICT;
             CREATE TABLE IF NOT EXISTS services (pid INTEGER PRIMARY KEY, started INTEGER NOT NULL) STRICT;",
        )?;
        for table in ["grants", "history"] {
            add_vm(&db, table)?;
        }
        Ok(Records(db, RefCell::default()))
    }

    /// This manager's generation: larger than that of every manager before it,
    /// and than the generation of every grant that one of them gave, so that
    /// no old handle means anything here.
    pub fn next_generation(&self) -> rusqlite::Result<u32> {
        self.0.query_row(
            "INSERT INTO meta VALUES ('generation',
                 (SELECT max(coalesce(max(grant_id >> 32), 0),
                             coalesce((SELECT value FROM meta WHERE key = 'highest'), 0)) + 1
                  FROM history))
             ON CONFLICT (key) DO UPDATE SET value = max(value + 1, excluded.value) RETURNING value",
            [],
            |r| r.get(0),
        )
    }

    /// The next manager's generation is larger than this one.
    pub fn reserve(&self, generation: u32) -> rusqlite::Result<()> {
        self.0.execute(
            "INSERT INTO meta VALUES ('highest', ?)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value < excluded.value",
            [generation],
        )?;
        Ok(())
    }

    /// Whether this database was made because one was lost, and no manager has
    /// begun anew on it yet.
    pub fn begins_anew(&self) -> rusqlite::Result<bool> {
        let of = "SELECT count(*) FROM meta WHERE key = 'lost'";
        self.0.query_row(of, [], |r| r.get::<_, i64>(0)).map(|n| n > 0)
    }

    /// A manager has begun anew on it.
    pub fn has_begun(&self) -> rusqlite::Result<()> {
        self.0.execute("DELETE FROM meta WHERE key = 'lost'", []).map(drop)
    }

    /// The next id for a VM of this client as a peer of its device's server:
    /// QEMU crashes when one that it has seen comes again, so they only go up,
    /// and start at `first` again after the last of 16 bits.
    ///
    /// A database that takes nothing does not keep a VM away: what it does not
    /// take is remembered here, and counts the next time.
    pub fn next_peer(&self, client: &str, first: u16) -> u16 {
        let key = format!("peer:{client}");
        let mut kept = self.1.borrow_mut();
        let known: rusqlite::Result<Option<u16>> = self
            .0
            .query_row("SELECT value FROM meta WHERE key = ?", [&key], |r| r.get(0))
            .optional();
        let last = match (kept.get(client).copied(), known) {
            (kept, Ok(known)) => kept.max(known),
            (Some(kept), Err(_)) => Some(kept),
            (None, Err(_)) => Some(far_from_all()),
        };
        let next = match last {
            None | Some(u16::MAX) => first,
            Some(last) => last + 1,
        };
        // What cannot be written is remembered, so that this goes on without a database.
        let _ = self.0.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", params![key, next]);
        kept.insert(client.to_owned(), next);
        next
    }

    /// Notes that the direct link of two ports is off, or is not.
    pub fn link_off(&self, from: &str, to: &str, off: bool) -> rusqlite::Result<()> {
        let change = match off {
            true => "INSERT OR REPLACE INTO links_off VALUES (?, ?)",
            false => "DELETE FROM links_off WHERE sender = ? AND receiver = ?",
        };
        self.0.execute(change, [from, to]).map(drop)
    }

    /// The pairs of ports whose direct link is off.
    pub fn links_off(&self) -> rusqlite::Result<Vec<(String, String)>> {
        let mut q = self.0.prepare("SELECT sender, receiver FROM links_off")?;
        q.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
    }

    /// Whether a manager ever had a generation from it.
    pub fn has_generation(&self) -> rusqlite::Result<bool> {
        let of = "SELECT count(*) FROM meta WHERE key = 'generation'";
        self.0.query_row(of, [], |r| r.get::<_, i64>(0)).map(|n| n > 0)
    }

    /// Reads all of it: an error if it is broken.
    pub fn check(&self) -> rusqlite::Result<()> {
        let said: String = self.0.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
        match said.as_str() {
            "ok" => Ok(()),
            _ => Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                Some(said),
            )),
        }
    }

    /// The numbers that must outlive it.
    pub fn numbers(&self) -> rusqlite::Result<Numbers> {
        let generation = "SELECT coalesce(max(value), 0) FROM meta WHERE key = 'generation'";
        let mut ids = self.0.prepare_cached("SELECT kind, name, id FROM ids ORDER BY kind, id")?;
        let mut peers =
            self.0.prepare_cached("SELECT key, value FROM meta WHERE key LIKE 'peer:%'")?;
        Ok(Numbers {
            generation: self.0.query_row(generation, [], |r| r.get(0))?,
            ids: ids
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?,
            peers: peers
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?,
        })
    }

    /// Begins with these; `lost` if they stand in for those that nobody knows,
    /// see [`Self::begins_anew`].
    pub fn seed(&self, n: &Numbers, lost: bool) -> rusqlite::Result<()> {
        self.batch(|r| {
            let meta = "INSERT OR REPLACE INTO meta VALUES (?, ?)";
            if lost {
                r.0.execute(meta, params!["lost", 1])?;
            }
            r.0.execute(meta, params!["generation", n.generation])?;
            for (key, value) in &n.peers {
                r.0.execute(meta, params![key, value])?;
            }
            for (kind, name, id) in &n.ids {
                r.0.execute(
                    "INSERT OR REPLACE INTO ids VALUES (?, ?, ?)",
                    params![kind, name, id],
                )?;
            }
            Ok(())
        })
    }

    /// Does several things, all of them or none.
    pub fn batch(&self, f: impl FnOnce(&Self) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        let transaction = self.0.unchecked_transaction()?;
        f(self)?;
        transaction.commit()
    }

    /// Notes that states of a client's grants are not in the history.
    pub fn left_out(&self, client: &str, states: u64) -> rusqlite::Result<()> {
        let why = format!("{states} changes of this client's grants were left out");
        self.0.execute(
            "INSERT INTO history VALUES (?, 0, ?, '', '', '', 'left out', ?, NULL)",
            params![now_ms(), client, why],
        )?;
        Ok(())
    }

    /// Notes what grants are that go on, without a word in the history: a
    /// manager that was killed may not have noted the last of it.
    pub fn restate(&self, grants: &[GrantRecord]) -> rusqlite::Result<()> {
        let change = "UPDATE grants SET state = ? WHERE grant_id = ?";
        self.batch(|r| {
            for g in grants {
                r.0.execute(change, params![g.state.text(), g.grant.0 as i64])?;
            }
            Ok(())
        })
    }

    /// The id of a client's or function's name: the same for ever, starting at 1.
    pub fn id(&self, kind: &str, name: &str) -> rusqlite::Result<u32> {
        let found = self
            .0
            .query_row("SELECT id FROM ids WHERE kind = ? AND name = ?", [kind, name], |r| r.get(0))
            .optional()?;
        if let Some(id) = found {
            return Ok(id);
        }
        self.0.query_row(
            "INSERT INTO ids SELECT ?1, ?2, coalesce(max(id), 0) + 1 FROM ids WHERE kind = ?1 RETURNING id",
            [kind, name],
            |r| r.get(0),
        )
    }

    /// Notes what a grant became.
    pub fn grant(&self, g: &GrantRecord) -> rusqlite::Result<()> {
        use crate::core::GrantState;
        let (id, now) = (g.grant.0 as i64, now_ms());
        // The history forgets; no handle may come again all the same.
        self.reserve(g.grant.generation())?;
        if g.state == GrantState::Released {
            self.0.execute("DELETE FROM grants WHERE grant_id = ?", [id])?;
        } else {
            self.0.execute(
                "INSERT INTO grants VALUES (?,?,?,?,?,?,?,?,?,?,?)
                 ON CONFLICT (grant_id) DO UPDATE SET state = excluded.state",
                params![
                    id,
                    g.client_id,
                    g.client,
                    g.app_id,
                    g.app,
                    g.function_id,
                    g.function,
                    g.location.text(),
                    g.state.text(),
                    now,
                    g.vm
                ],
            )?;
        }
        self.0.execute(
            "INSERT INTO history VALUES (?,?,?,?,?,?,?,?,?)",
            params![
                now,
                id,
                g.client,
                g.app,
                g.function,
                g.location.text(),
                g.state.text(),
                g.why,
                g.vm
            ],
        )?;
        // Apps decide how fast it grows, so it is kept short while the manager runs.
        if self.0.last_insert_rowid() % TRIM_EVERY == 0 {
            self.trim()?;
        }
        Ok(())
    }

    /// Ends the grants that an earlier manager left, but for those that go on.
    pub fn end_left_grants(&self, go_on: &[GrantRecord]) -> rusqlite::Result<usize> {
        let go_on: Vec<i64> = go_on.iter().map(|g| g.grant.0 as i64).collect();
        let go_on = serde_json::to_string(&go_on).expect("numbers");
        self.0.execute(
            "INSERT INTO history SELECT ?, grant_id, client, app, function, location, 'released',
                 'the manager started anew', vm FROM grants
             WHERE grant_id NOT IN (SELECT value FROM json_each(?))",
            params![now_ms(), go_on],
        )?;
        self.0.execute(
            "DELETE FROM grants WHERE grant_id NOT IN (SELECT value FROM json_each(?))",
            [go_on],
        )
    }

    /// The newest lines of the history, newest first.
    pub fn history(&self, limit: u32) -> rusqlite::Result<Vec<HistoryRow>> {
        let mut q = self.0.prepare_cached(
            "SELECT at_ms, grant_id, client, app, function, location, state, why, vm
             FROM history ORDER BY rowid DESC LIMIT ?",
        )?;
        q.query_map([limit], |r| {
            Ok(HistoryRow {
                at_ms: r.get(0)?,
                grant: vfun_wire::Handle(r.get::<_, i64>(1)? as u64).to_string(),
                client: r.get(2)?,
                vm: r.get(8)?,
                app: r.get(3)?,
                function: r.get(4)?,
                location: r.get(5)?,
                state: r.get(6)?,
                why: r.get(7)?,
            })
        })?
        .collect()
    }

    /// Forgets the oldest history beyond [`HISTORY_ROWS`].
    pub fn trim(&self) -> rusqlite::Result<usize> {
        self.0.execute(
            "DELETE FROM history WHERE rowid <= (SELECT max(rowid) FROM history) - ?",
            [HISTORY_ROWS],
        )
    }

    /// Notes a service process, or that it ended.
    pub fn service(&self, pid: i32, started: Option<u64>) -> rusqlite::Result<()> {
        match started {
            Some(s) => self
                .0
                .execute("INSERT OR REPLACE INTO services VALUES (?,?)", params![pid, s as i64])?,
            None => self.0.execute("DELETE FROM services WHERE pid = ?", [pid])?,
        };
        Ok(())
    }

    /// The services that an earlier manager left.
    pub fn left_services(&self) -> rusqlite::Result<Vec<LeftService>> {
        let mut q = self.0.prepare("SELECT pid, started FROM services")?;
        q.query_map([], |r| {
            Ok(LeftService { pid: r.get(0)?, started: r.get::<_, i64>(1)? as u64 })
        })?
        .collect()
    }

    /// Forgets every service.
    pub fn forget_services(&self) -> rusqlite::Result<usize> {
        self.0.execute("DELETE FROM services", [])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::GrantState;
    use vfun_wire::Handle;
    use vfun_wire::message::Location;

    fn record(state: GrantState) -> GrantRecord {
        GrantRecord {
            grant: Handle::new(3, 4),
            client_id: 1,
            client: "vm1".into(),
            vm: None,
            app_id: 2,
            app: "app".into(),
            function_id: 5,
            function: "sum".into(),
            location: Location::Software,
            state,
            why: None,
        }
    }

    #[test]
    fn ids_last_and_generations_rise_across_openings() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        let (a, b) = {
            let r = Records::open(&path).unwrap();
            assert_eq!(r.next_generation().unwrap(), 1);
            (r.id("client", "a").unwrap(), r.id("client", "b").unwrap())
        };
        let r = Records::open(&path).unwrap();
        assert_eq!(r.next_generation().unwrap(), 2);
        assert_eq!(r.id("client", "b").unwrap(), b);
        assert_eq!(r.id("client", "a").unwrap(), a);
        assert_ne!(a, b);
        assert_eq!(r.id("function", "a").unwrap(), 1, "functions count for themselves");
    }

    #[test]
    fn what_is_off_lasts_until_it_is_let_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.db");
        let r = Records::open(&path).unwrap();
        for (from, to) in [("a", "b"), ("b", "a"), ("a", "b")] {
            r.link_off(from, to, true).unwrap();
        }
        drop(r);
        let r = Records::open(&path).unwrap();
        assert_eq!(r.links_off().unwrap().len(), 2);
        r.link_off("a", "b", false).unwrap();
        assert_eq!(r.links_off().unwrap(), [("b".to_owned(), "a".to_owned())]);
    }

    #[test]
    fn history_tells_what_became_of_a_grant() {
        let dir = tempfile::tempdir().unwrap();
        let r = Records::open(&dir.path().join("v.db")).unwrap();
        r.grant(&record(GrantState::Granted)).unwrap();
        r.grant(&record(GrantState::Active)).unwrap();
        assert_eq!(r.end_left_grants(&[record(GrantState::Active)]).unwrap(), 0);
        assert_eq!(r.end_left_grants(&[]).unwrap(), 1);
        assert_eq!(r.end_left_grants(&[]).unwrap(), 0);
        let h = r.history(10).unwrap();
        assert_eq!(
            h.iter().map(|h| h.state.as_str()).collect::<Vec<_>>(),
            ["released", "active", "granted"]
        );
        assert_eq!(h[0].grant, "3.4");
        assert_eq!(r.next_generation().unwrap(), 5, "beyond grant 3.4");
        r.service(77, Some(5)).unwrap();
        r.service(78, Some(6)).unwrap();
        r.service(77, None).unwrap();
        assert_eq!(r.left_services().unwrap(), [LeftService { pid: 78, started: 6 }]);
        assert_eq!(r.forget_services().unwrap(), 1);
        assert!(r.left_services().unwrap().is_empty());
    }
}
