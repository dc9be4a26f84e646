//! The client: asks a manager through its admin socket.

use crate::WindowRow;
use crate::audit::{Query, Row};
use crate::history::HistoryRow;
use crate::line::{self, LineError};
use crate::links::{FlowsAsk, FlowsView};
use crate::policy::View;
use crate::ports::PortRow;
use crate::tokens::{Fresh, Kept};
use crate::{
    Ask, ClientRow, DrainOf, FunctionRow, GrantRow, LeasesView, Progress, Reply, SandboxView,
    ServiceRow, Status,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a manager keeps everything unless told otherwise.
pub const ROOT: &str = "/var/lib/virtfun";

/// Why an admin request failed.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("the manager does not answer on {}: {source}. Is vfund running with this root? Start it with `vfund --root DIR`, or name its root with --root or VFUN_ROOT", socket.display())]
    NotRunning {
        /// Where it should listen.
        socket: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// It hung up or spoke nonsense.
    #[error("the manager's answer could not be read: {0}")]
    Unreadable(String),
    /// Its answer is one to another question.
    #[error("the manager answered another question: {0:?}. Use programs of the manager's version")]
    Strange(Box<Reply>),
    /// It refused.
    #[error("{0}")]
    Refused(String),
}

impl AskError {
    /// Whether a manager may be there, which this user may not ask.
    pub fn is_denied(&self) -> bool {
        matches!(self, AskError::NotRunning { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

type Result<T> = std::result::Result<T, AskError>;

/// A manager's admin socket. Each question is a connection of its own, so any
/// thread may ask at any time.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    patience: Duration,
}

/// Gives what the expected answer carries, or says that it is another one.
macro_rules! expect {
    ($reply:expr, $pattern:pat => $found:expr) => {
        match $reply {
            $pattern => Ok($found),
            other => Err(AskError::Strange(Box::new(other))),
        }
    };
}

impl Client {
    /// The manager with this root.
    pub fn at(root: &Path) -> Self {
        Self::of_socket(root.join("admin/vfund.sock"))
    }
    /// The manager that listens here.
    pub fn of_socket(socket: PathBuf) -> Self {
        Client { socket, patience: line::PATIENCE }
    }
    /// The same, which is asked by who can wait only so long for an answer.
    pub fn with_patience(self, patience: Duration) -> Self {
        Client { patience, ..self }
    }
    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
    /// The policy file that it reads.
    pub fn policy_file(&self) -> PathBuf {
        self.socket.with_file_name("policy.toml")
    }

    /// Asks, and waits for the answer: up to 30 s, unless it was made with another patience. A refusal is an error.
    pub fn ask(&self, question: &Ask) -> Result<Reply> {
        match line::ask_within(&self.socket, question, self.patience) {
            Ok(Reply::Error { sentence }) => Err(AskError::Refused(sentence)),
            Ok(reply) => Ok(reply),
            Err(LineError::NotRunning(source)) => {
                Err(AskError::NotRunning { socket: self.socket.clone(), source })
            }
            Err(LineError::Unreadable(why)) => Err(AskError::Unreadable(why)),
        }
    }

    /// Tells it to do something; what it did, in a sentence.
    pub fn tell(&self, order: &Ask) -> Result<String> {
        expect!(self.ask(order)?, Reply::Done { sentence } => sentence)
    }
    /// The manager at a glance.
    pub fn status(&self) -> Result<Status> {
        expect!(self.ask(&Ask::Status)?, Reply::Status(status) => status)
    }
    /// Functions on offer.
    pub fn functions(&self) -> Result<Vec<FunctionRow>> {
        expect!(self.ask(&Ask::Functions)?, Reply::Functions { functions } => functions)
    }
    /// Clients declared.
    pub fn clients(&self) -> Result<Vec<ClientRow>> {
        expect!(self.ask(&Ask::Clients)?, Reply::Clients { clients } => clients)
    }
    /// A client by name.
    pub fn client(&self, name: &str) -> Result<Option<ClientRow>> {
        Ok(self.clients()?.into_iter().find(|c| c.name == name))
    }
    /// Ports of VMs.
    pub fn ports(&self) -> Result<Vec<PortRow>> {
        expect!(self.ask(&Ask::Ports)?, Reply::Ports { ports } => ports)
    }
    /// Direct links between ports of VMs.
    pub fn links(&self) -> Result<Vec<crate::links::LinkRow>> {
        expect!(self.ask(&Ask::Links)?, Reply::Links { links } => links)
    }
    /// What went past rules of switches.
    pub fn link_flows(&self, bridge: Option<String>) -> Result<FlowsView> {
        let question = Ask::LinkFlows(FlowsAsk::Sums { bridge });
        expect!(self.ask(&question)?, Reply::LinkFlows(view) => view)
    }
    /// Has the links of a bridge come back for so long; how many have not come back yet.
    pub fn hold_links(&self, bridge: String, ms: u64) -> Result<usize> {
        let question = Ask::LinkFlows(FlowsAsk::Hold { bridge, ms });
        expect!(self.ask(&question)?, Reply::LinksHeld { direct } => direct)
    }
    /// Further windows that are declared.
    pub fn windows(&self) -> Result<Vec<WindowRow>> {
        expect!(self.ask(&Ask::Windows)?, Reply::Windows { windows } => windows)
    }
    /// A further window by name.
    pub fn window(&self, name: &str) -> Result<Option<WindowRow>> {
        Ok(self.windows()?.into_iter().find(|w| w.name == name))
    }
    /// Declares a further window by its manifest's text; `file` is named in errors.
    pub fn add_window(&self, manifest: String, file: PathBuf) -> Result<WindowRow> {
        expect!(self.ask(&Ask::AddWindow { manifest, file })?, Reply::WindowAdded(row) => row)
    }
    /// Grants, with live counters.
    pub fn grants(&self) -> Result<Vec<GrantRow>> {
        expect!(self.ask(&Ask::Grants)?, Reply::Grants { grants } => grants)
    }
    /// Services that run.
    pub fn services(&self) -> Result<Vec<ServiceRow>> {
        expect!(self.ask(&Ask::Services)?, Reply::Services { services } => services)
    }
    /// Which layers of the sandbox services get.
    pub fn sandbox(&self) -> Result<SandboxView> {
        expect!(self.ask(&Ask::Sandbox)?, Reply::Sandbox(view) => view)
    }
    /// Who holds which VF, and why.
    pub fn leases(&self) -> Result<LeasesView> {
        expect!(self.ask(&Ask::Leases)?, Reply::Leases(view) => view)
    }
    /// At most `limit` lines of the history, newest first.
    pub fn history(&self, limit: u32) -> Result<Vec<HistoryRow>> {
        expect!(self.ask(&Ask::History { limit })?, Reply::History { rows } => rows)
    }
    /// How far a drain is.
    pub fn draining(&self, of: &DrainOf) -> Result<Progress> {
        expect!(self.ask(&Ask::Draining { of: of.clone() })?, Reply::Draining(p) => p)
    }
    /// The policy in force; of one client only, if one is named.
    pub fn policy(&self, client: Option<String>) -> Result<View> {
        expect!(self.ask(&Ask::Policy { client })?, Reply::Policy(view) => view)
    }
    /// Makes a token, or one in the place of another.
    pub fn make_token(&self, order: &Ask) -> Result<Fresh> {
        expect!(self.ask(order)?, Reply::TokenMade(fresh) => fresh)
    }
    /// Tokens; of one client only, if one is named.
    pub fn tokens(&self, client: Option<String>) -> Result<Vec<Kept>> {
        expect!(self.ask(&Ask::Tokens { client })?, Reply::Tokens { tokens } => tokens)
    }
    /// Lines of the audit log.
    pub fn audit(&self, query: Query) -> Result<Vec<Row>> {
        expect!(self.ask(&Ask::Audit(query))?, Reply::Audit { rows } => rows)
    }
    /// Declares a client by its manifest's text; `file` is named in errors.
    pub fn add_client(&self, manifest: String, file: PathBuf) -> Result<ClientRow> {
        expect!(self.ask(&Ask::AddClient { manifest, file })?, Reply::ClientAdded(row) => row)
    }
}
