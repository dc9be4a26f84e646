//! The rows, in SQLite.

use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Duration;
pub use vfun_admin::audit::{Query, Row};

/// Rows kept of what people did: some ten a day for a dozen years. A row takes
/// 200 to 900 bytes.
pub const ROWS_OF_PEOPLE: u32 = 50_000;
/// Rows kept of refusals, and of what clients submitted and removed: apart, so that
/// nobody can push the others out.
pub const ROWS_OF_REFUSALS: u32 = 50_000;
/// Rows between two trims.
const TRIM_EVERY: i64 = 1024;
/// Rows in one answer.
pub const ROWS_READ_MAX: u32 = 1000;
/// How long a writer and a reader wait for each other.
const PATIENCE: Duration = Duration::from_millis(250);

/// The audit log's database.
pub struct Store(Connection);

impl Store {
    /// Opens or makes it.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -512)?;
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS audit (id INTEGER PRIMARY KEY AUTOINCREMENT,
                 at_ms INTEGER NOT NULL, uid INTEGER, pid INTEGER, command TEXT NOT NULL,
                 what TEXT NOT NULL, client TEXT NOT NULL, app TEXT NOT NULL,
                 function TEXT NOT NULL, outcome TEXT NOT NULL, code TEXT NOT NULL,
                 sentence TEXT NOT NULL, missing INTEGER NOT NULL) STRICT;
             CREATE INDEX IF NOT EXISTS audit_outcome ON audit (outcome, id);",
        )?;
        crate::record::add_vm(&db, "audit")?;
        Ok(Store(db))
    }

    /// Appends rows, all or none.
    pub fn append(&mut self, rows: &[Row]) -> rusqlite::Result<()> {
        let t = self.0.transaction()?;
        let mut trim = false;
        {
            let mut q = t.prepare_cached(
                "INSERT INTO audit (at_ms, uid, pid, command, what, client, app, function, outcome,
                     code, sentence, missing, vm) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            )?;
            for r in rows {
                let id = q.insert(params![
                    r.at_ms,
                    r.uid,
                    r.pid,
                    r.command,
                    r.what,
                    r.client,
                    r.app,
                    r.function,
                    r.outcome,
                    r.code,
                    r.sentence,
                    r.missing as i64,
                    r.vm
                ])?;
                trim |= id % TRIM_EVERY == 0;
            }
        }
        t.commit()?;
        match trim {
            true => self.trim(ROWS_OF_PEOPLE, ROWS_OF_REFUSALS),
            false => Ok(()),
        }
    }

    /// Forgets the oldest beyond so many.
    fn trim(&self, people: u32, refusals: u32) -> rusqlite::Result<()> {
        // What clients cause pushes nothing out that people did.
        for (which, keep) in [
            ("NOT IN ('refused', 'submitted', 'removed')", people),
            ("= 'refused'", refusals),
            ("IN ('submitted', 'removed')", refusals),
        ] {
            self.0.execute(
                &format!(
                    "DELETE FROM audit WHERE outcome {which} AND id <= (SELECT id FROM audit
                         WHERE outcome {which} ORDER BY id DESC LIMIT 1 OFFSET ?)"
                ),
                [keep],
            )?;
        }
        Ok(())
    }

    /// Rows, newest first; after a number, oldest first.
    pub fn read(&self, q: &Query) -> rusqlite::Result<Vec<Row>> {
        let order = if q.after.is_some() { "ASC" } else { "DESC" };
        let mut s = self.0.prepare_cached(&format!(
            "SELECT id, at_ms, uid, pid, command, what, client, app, function, outcome, code,
                 sentence, missing, vm FROM audit
             WHERE id > ?1 AND at_ms >= ?2 AND (?3 IS NULL OR client = ?3)
                 AND (?6 IS NULL OR vm = ?6)
                 AND (NOT ?4 OR outcome = 'refused')
             ORDER BY id {order} LIMIT ?5"
        ))?;
        let (after, since) = (q.after.unwrap_or(0), q.since_ms.unwrap_or(i64::MIN));
        let limit = q.limit.min(ROWS_READ_MAX);
        s.query_map(params![after, since, q.client, q.refused, limit, q.vm], |r| {
            Ok(Row {
                id: r.get(0)?,
                at_ms: r.get(1)?,
                uid: r.get(2)?,
                pid: r.get(3)?,
                command: r.get(4)?,
                what: r.get(5)?,
                client: r.get(6)?,
                vm: r.get(13)?,
                app: r.get(7)?,
                function: r.get(8)?,
                outcome: r.get(9)?,
                code: r.get(10)?,
                sentence: r.get(11)?,
                missing: r.get::<_, i64>(12)? as u64,
            })
        })?
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_kept_to_its_own_bound_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Store::open(&dir.path().join("a.db")).unwrap();
        let row = |i: i64, outcome: &str| Row {
            at_ms: i,
            client: format!("vm{}", i % 2),
            outcome: outcome.into(),
            ..Row::default()
        };
        let rows: Vec<_> =
            (0..100).map(|i| row(i, if i < 10 { "done" } else { "refused" })).collect();
        s.append(&rows).unwrap();
        s.trim(5, 20).unwrap();
        let read = |q: &Query| s.read(&Query { limit: 1000, ..q.clone() }).unwrap();
        let all = read(&Query::default());
        assert_eq!(all.len(), 25);
        assert_eq!((all[0].at_ms, all[24].at_ms), (99, 5), "a flood pushed nobody out");
        assert_eq!(read(&Query { refused: true, ..Query::default() }).len(), 20);
        assert_eq!(read(&Query { client: Some("vm1".into()), ..Query::default() }).len(), 13);
        assert_eq!(read(&Query { since_ms: Some(95), ..Query::default() }).len(), 5);
        let after = read(&Query { after: Some(all[2].id), ..Query::default() });
        assert_eq!(after.iter().map(|r| r.at_ms).collect::<Vec<_>>(), [98, 99]);
        // What clients bring and remove pushes out neither, and does not pile up.
        let brought = |i: i64| row(i, if i % 2 == 0 { "submitted" } else { "removed" });
        s.append(&(100..200).map(brought).collect::<Vec<_>>()).unwrap();
        s.trim(5, 20).unwrap();
        let all = s.read(&Query { limit: 1000, ..Query::default() }).unwrap();
        let of = |outcome: &str| all.iter().filter(|r| r.outcome == outcome).count();
        assert_eq!((of("done"), of("refused"), of("submitted") + of("removed")), (5, 20, 20));
    }
}
