//! Folders in which services write: how much they hold is counted now and then, by a process of
//! its own that becomes the user of each, as the manager may not read them.

use super::Daemon;
use crate::core::ServiceId;
use crate::limits::{FOLDERS_LOOK, FOLDERS_TIME, FOLDERS_WAIT};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_jail::folders;

/// Counts of folders: the last one, and the one under way.
pub(super) struct Counts {
    last: Instant,
    running: Option<(Child, Vec<ServiceId>)>,
}

impl Counts {
    /// None yet.
    pub fn new() -> Self {
        Counts { last: Instant::now(), running: None }
    }
}

impl Daemon {
    /// Counts, and ends services whose folders hold too much.
    pub(super) fn look_after_folders(&mut self) {
        match &mut self.counts.running {
            None if self.counts.last.elapsed() < FOLDERS_LOOK => {}
            None => self.begin_to_count(),
            Some((child, _)) => {
                let ended = child.try_wait().is_ok_and(|s| s.is_some());
                if !ended && self.counts.last.elapsed() < FOLDERS_TIME {
                    return;
                }
                let (mut child, of) = self.counts.running.take().expect("just seen");
                if !ended {
                    tracing::warn!("folders of services could not be counted: it takes too long");
                    let _ = child.kill();
                    let _ = child.wait();
                    return;
                }
                let mut said = String::new();
                if let Some(out) = &mut child.stdout {
                    let _ = out.read_to_string(&mut said);
                }
                self.end_the_full(&of, &said);
            }
        }
    }

    pub(super) fn folders_patience(&self) -> Option<Duration> {
        match (&self.counts.running, self.rim.services.is_empty()) {
            (Some(_), _) => Some(FOLDERS_WAIT),
            (None, true) => None,
            (None, false) => Some(FOLDERS_LOOK.saturating_sub(self.counts.last.elapsed())),
        }
    }

    /// Each service that writes, with its user and folders.
    fn writers(&self) -> BTreeMap<ServiceId, (u32, Vec<PathBuf>)> {
        let me = rustix::process::geteuid().as_raw();
        let catalog = self.rim.core.catalog();
        let writer = |(id, p): (&ServiceId, &crate::process::Process)| {
            let f = catalog.functions.get(&p.sandbox.function)?;
            let fill = |w: &String| folders::fill(w, &self.config.writes, &p.sandbox.client).into();
            let all: Vec<PathBuf> = f.writes.iter().map(fill).collect();
            (!all.is_empty()).then(|| (*id, (p.sandbox.meant.user.unwrap_or(me), all)))
        };
        self.rim.services.iter().filter_map(writer).collect()
    }

    fn begin_to_count(&mut self) {
        self.counts.last = Instant::now();
        let mut command = Command::new(&self.config.jail_program);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).arg("--count");
        let mut of = vec![];
        for (id, (user, folders)) in self.writers() {
            for folder in folders {
                command.arg(user.to_string()).arg(folder);
                of.push(id);
            }
        }
        if of.is_empty() {
            return;
        }
        match command.spawn() {
            Ok(child) => self.counts.running = Some((child, of)),
            Err(e) => tracing::warn!("folders of services could not be counted: {e}"),
        }
    }

    /// Each line has the number of a folder, and what is wrong with it.
    fn end_the_full(&mut self, of: &[ServiceId], said: &str) {
        for (n, why) in said.lines().filter_map(|line| line.split_once(' ')) {
            let id = n.parse().ok().and_then(|n: usize| of.get(n));
            if let Some((id, process)) = id.and_then(|id| Some((id, self.rim.services.get(id)?))) {
                tracing::warn!(service = id, "is ended: {why}");
                process.kill();
            }
        }
    }
}
