//! Who did what to this host, and who was refused what: a database of its own,
//! `admin/audit.db`, written by a thread of its own, so that neither a slow nor
//! a broken disk holds up the manager.
//!
//! What cannot be written is counted, and the next line that can be written
//! says how much is missing. Refusals are recorded so often for each client
//! and no more: a guest that asks a thousand times a second for what it may not
//! have makes a few lines and a number.

mod pace;
mod store;

pub use store::{Query, Row};

use crate::core::Refusal;
use pace::Pace;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::Store;

/// Rows that wait for the disk; what comes then is counted. A thousand rows
/// are a megabyte at most.
const WAITING_MAX: usize = 1024;
/// Rows written at once.
const BATCH: usize = 256;
/// How long a reader waits for the rows before its question: a disk that works writes a
/// batch in a few ms, and one that hangs must not hold up the manager.
const READ_WAIT: Duration = Duration::from_millis(200);
/// How long the manager waits for the last rows when it ends.
const LAST_ROWS: Duration = Duration::from_secs(2);

/// Somebody who asks through the admin socket, as the kernel tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// User that the process runs as.
    pub uid: u32,
    /// Number of the process, as the manager sees it.
    pub pid: i32,
    /// The program it runs, if that can be seen.
    pub command: String,
}

impl Who {
    /// The process at the other end. Its program is what it is now: a claim,
    /// unlike the user.
    pub fn of(uid: u32, pid: i32) -> Self {
        let at = |file: &str| Path::new("/proc").join(pid.to_string()).join(file);
        let command = std::fs::read_link(at("exe"))
            .map(|p| p.display().to_string())
            .or_else(|_| std::fs::read_to_string(at("comm")).map(|c| c.trim_end().to_owned()))
            .unwrap_or_default();
        Who { uid, pid, command }
    }
}

/// Hands rows of the audit log to the thread that writes them.
pub struct Audit {
    to: Option<SyncSender<Message>>,
    pace: Arc<Mutex<Pace>>,
    done: Receiver<()>,
    reader: Option<Store>,
    path: std::path::PathBuf,
}

// Nearly all of them are rows.
#[allow(clippy::large_enum_variant)]
enum Message {
    Row(Row),
    /// Something was left out: say so after a while.
    LeftOut,
    /// Dropped when all rows before it are written.
    Written(SyncSender<()>),
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

fn lock(pace: &Mutex<Pace>) -> std::sync::MutexGuard<'_, Pace> {
    // Numbers only: right whoever died while he had it.
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Audit {
    /// Opens it. A database that cannot be opened is tried again with each row.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let (to, from) = sync_channel(WAITING_MAX);
        let (end, done) = sync_channel(1);
        let pace = Arc::new(Mutex::new(Pace::default()));
        let (path, theirs) = (path.to_owned(), pace.clone());
        let writer = AuditWriter { path: path.clone(), store: None, pace: theirs, said: None };
        std::thread::Builder::new().name("audit".into()).spawn(move || {
            writer.run(&from);
            let _ = end.send(());
        })?;
        Ok(Audit { to: Some(to), pace, done, reader: None, path })
    }

    /// Somebody did something, or tried to.
    pub fn did(&self, who: &Who, what: String, client: &str, outcome: Result<(), &str>) {
        self.put(Row {
            at_ms: now_ms(),
            uid: Some(who.uid),
            pid: Some(who.pid),
            command: who.command.clone(),
            what,
            client: client.into(),
            outcome: if outcome.is_ok() { "done" } else { "failed" }.into(),
            sentence: outcome.err().unwrap_or("").into(),
            ..Row::default()
        });
    }

    /// An app of a client changed something that is its client's own.
    pub fn of_client(
        &self,
        (client, vm): (&str, Option<&str>),
        app: &str,
        function: &str,
        what: String,
        outcome: &str,
    ) {
        self.put(Row {
            at_ms: now_ms(),
            what,
            client: client.into(),
            vm: vm.map(str::to_owned),
            app: app.into(),
            function: function.into(),
            outcome: outcome.into(),
            ..Row::default()
        });
    }

    /// Somebody was refused something. `uid` if he is known by his socket.
    pub fn refused(&self, uid: Option<u32>, r: &Refusal) {
        let about = match (&*r.client, uid) {
            ("", Some(uid)) => format!("user {uid}"),
            (client, _) => client.to_owned(),
        };
        let missing = match lock(&self.pace).may(now_ms(), &about, r.nack.code) {
            pace::RecordDecision::Yes { missing } => missing,
            pace::RecordDecision::No { first } => {
                if first {
                    self.send(Message::LeftOut);
                }
                return;
            }
        };
        self.put(Row {
            at_ms: now_ms(),
            uid,
            what: "refused".into(),
            client: r.client.clone(),
            vm: r.vm.clone(),
            app: r.app.clone(),
            function: r.function.clone(),
            outcome: "refused".into(),
            code: r.nack.code.text().into(),
            sentence: r.nack.sentence.clone(),
            missing,
            ..Row::default()
        });
    }

    fn put(&self, row: Row) {
        self.send(Message::Row(row));
    }

    fn send(&self, message: Message) {
        let Some(to) = &self.to else { return };
        if let Err(TrySendError::Full(Message::Row(_)) | TrySendError::Disconnected(_)) =
            to.try_send(message)
        {
            lock(&self.pace).lost += 1;
        }
    }

    /// Rows, newest first; with [`Query::after`] oldest first. What was done before is among
    /// them, unless the disk is slow.
    pub fn read(&mut self, query: &Query) -> Result<Vec<Row>, String> {
        let (written, wait) = sync_channel(1);
        if self.to.as_ref().is_some_and(|to| to.try_send(Message::Written(written)).is_ok()) {
            let _ = wait.recv_timeout(READ_WAIT);
        }
        let cannot = |e: rusqlite::Error| format!("the audit log {}: {e}", self.path.display());
        let store = match self.reader.take() {
            Some(s) => s,
            None => Store::open(&self.path).map_err(cannot)?,
        };
        let rows = store.read(query).map_err(cannot)?;
        self.reader = Some(store);
        Ok(rows)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.to = None;
        // A disk that hangs does not keep the manager from ending.
        let _ = self.done.recv_timeout(LAST_ROWS);
    }
}

struct AuditWriter {
    path: std::path::PathBuf,
    store: Option<Store>,
    pace: Arc<Mutex<Pace>>,
    /// When it was last said that nothing can be written.
    said: Option<std::time::Instant>,
}

impl AuditWriter {
    fn run(mut self, from: &Receiver<Message>) {
        let mut left_out = false;
        loop {
            let first = match left_out {
                false => from.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => from.recv_timeout(Duration::from_millis(pace::SUMMARY_MS as u64)),
            };
            let over = matches!(first, Err(RecvTimeoutError::Disconnected));
            let (mut rows, mut waiting) = (vec![], vec![]);
            let mut take = |m: Message| match m {
                Message::Row(row) => rows.push(row),
                Message::LeftOut => left_out = true,
                Message::Written(to) => waiting.push(to),
            };
            if let Ok(m) = first {
                take(m);
            }
            from.try_iter().take(BATCH).for_each(&mut take);
            if left_out {
                let (said, more) = lock(&self.pace).summaries(now_ms(), over);
                left_out = more;
                rows.extend(said.into_iter().map(|(client, code, missing)| Row {
                    code: code.text().into(),
                    at_ms: now_ms(),
                    what: "refused".into(),
                    client,
                    outcome: "refused".into(),
                    missing,
                    ..Row::default()
                }));
            }
            self.write(rows);
            drop(waiting);
            if over {
                return;
            }
        }
    }

    fn write(&mut self, mut rows: Vec<Row>) {
        if rows.is_empty() {
            return;
        }
        let lost = std::mem::take(&mut lock(&self.pace).lost);
        if lost > 0 {
            rows.insert(
                0,
                Row {
                    at_ms: now_ms(),
                    what: "lines that could not be written".into(),
                    outcome: "lost".into(),
                    missing: lost,
                    ..Row::default()
                },
            );
        }
        let written = match self.store.take() {
            Some(s) => Ok(s),
            None => Store::open(&self.path),
        }
        .and_then(|mut s| s.append(&rows).map(|()| s));
        match written {
            Ok(s) => self.store = Some(s),
            Err(e) => {
                let rows = rows.iter().filter(|r| r.outcome != "lost").count() as u64;
                lock(&self.pace).lost += lost + rows;
                if self.said.is_none_or(|t| t.elapsed() > Duration::from_secs(60)) {
                    self.said = Some(std::time::Instant::now());
                    tracing::error!(
                        "the audit log {} cannot be written: {e}; everything goes on, and what is missing there is counted",
                        self.path.display()
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
