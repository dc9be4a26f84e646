//! Questions to `vfun-nics`, the allocator of network VFs.

use crate::fail::{self, Exit, Failure, Result};
use crate::machine;
use std::io;
use std::path::{Path, PathBuf};
use vfun_admin::VmName;
use vfun_admin::line::{self, LineError};
use vfun_nicd::ask::{Answer, Ask, socket};
use vfun_nicd::orders::PlugOrder;
use vfun_nics::history::HistoryView;
use vfun_nics::view::View;

/// The allocator of one root.
pub struct Allocator {
    root: PathBuf,
}

impl Allocator {
    pub fn at(root: &Path) -> Self {
        Allocator { root: root.to_owned() }
    }

    fn ask(&self, question: &Ask) -> Result<Answer> {
        let socket = socket(&self.root);
        match line::ask(&socket, question) {
            Ok(Answer::Refused { sentence }) => Err(Failure::new(Exit::Refused, sentence)),
            Ok(answer) => Ok(answer),
            Err(LineError::NotRunning(e)) => Err(self.not_running(&socket, &e)),
            Err(LineError::Unreadable(why)) => Err(Failure::new(
                Exit::Unreachable,
                format!("the answer of vfun-nics could not be read: {why}"),
            )
            .advise("use a vfun of its version, and see the manager's log")),
        }
    }

    fn not_running(&self, socket: &Path, e: &io::Error) -> Failure {
        if e.kind() == io::ErrorKind::PermissionDenied {
            return Failure::new(
                Exit::Unreachable,
                format!("permission denied: {} ({e})", socket.display()),
            )
            .advise("run it as root or as the manager's own user");
        }
        if machine::is_guest(&self.root) {
            return fail::of_the_host();
        }
        Failure::new(
            Exit::Unreachable,
            format!("vfun-nics does not answer on {}: {e}", socket.display()),
        )
        .advise("start vfund with --nics; if its root is another, name it with --root or VFUN_ROOT")
    }

    /// Tells it to do something; what it did, in a sentence.
    pub fn tell(&self, order: &Ask) -> Result<String> {
        match self.ask(order)? {
            Answer::Done { sentence } => Ok(sentence),
            other => Err(strange(&other)),
        }
    }

    /// All pools, VFs and VMs.
    pub fn view(&self) -> Result<View> {
        match self.ask(&Ask::View)? {
            Answer::View(view) => Ok(view),
            other => Err(strange(&other)),
        }
    }

    /// Who used which VF, and what VMs sent, of one pool or of all.
    pub fn history(&self, pool: Option<String>) -> Result<HistoryView> {
        match self.ask(&Ask::History { pool })? {
            Answer::History(history) => Ok(history),
            other => Err(strange(&other)),
        }
    }

    /// The tap of each VM that is declared.
    pub fn taps(&self) -> Result<Vec<(VmName, String)>> {
        match self.ask(&Ask::Taps)? {
            Answer::Taps { taps } => Ok(taps),
            other => Err(strange(&other)),
        }
    }

    /// What programs of others are to do.
    pub fn orders(&self) -> Result<Vec<PlugOrder>> {
        match self.ask(&Ask::Orders)? {
            Answer::Orders { orders } => Ok(orders),
            other => Err(strange(&other)),
        }
    }
}

fn strange(answer: &Answer) -> Failure {
    Failure::new(Exit::Unreachable, format!("vfun-nics answered another question: {answer:?}"))
        .advise("use a vfun of its version")
}
