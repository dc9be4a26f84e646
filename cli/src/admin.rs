//! Questions to the manager's admin socket.

use crate::args::Cli;
use crate::fail::{Exit, Failure, Result};
use std::path::{Path, PathBuf};
use vfun_manager::admin::{
    self, Ask, ClientRow, FunctionRow, GrantRow, Progress, Reply, ServiceRow, Status,
};
use vfun_manager::audit::{Query, Row};
use vfun_manager::core::DrainOf;
use vfun_manager::policy::tokens::{Fresh, Kept};
use vfun_manager::policy::view::View;

/// Where the manager keeps everything unless told otherwise.
pub const ROOT: &str = "/var/lib/virtfun";

/// The manager of a root.
#[derive(Clone, Debug)]
pub struct Admin {
    root: PathBuf,
}

fn strange(reply: &Reply) -> Failure {
    Failure::new(Exit::Unreachable, format!("the manager answered another question: {reply:?}"))
        .advise("use a vfun of the manager's version")
}

impl Admin {
    /// The one that the command line names.
    pub fn of(cli: &Cli) -> Self {
        Self::at(cli.root.as_deref().unwrap_or(Path::new(ROOT)))
    }
    /// The one with this root.
    pub fn at(root: &Path) -> Self {
        Admin { root: root.to_owned() }
    }
    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Where it answers questions.
    pub fn socket(&self) -> PathBuf {
        self.root.join("admin/vfund.sock")
    }

    /// Asks.
    pub fn ask(&self, question: &Ask) -> Result<Reply> {
        Ok(admin::ask(&self.socket(), question)?)
    }

    /// Tells it to do something; what it did.
    pub fn tell(&self, order: &Ask) -> Result<String> {
        match self.ask(order)? {
            Reply::Done { sentence } => Ok(sentence),
            other => Err(strange(&other)),
        }
    }

    /// The manager at a glance.
    pub fn status(&self) -> Result<Status> {
        match self.ask(&Ask::Status)? {
            Reply::Status(status) => Ok(status),
            other => Err(strange(&other)),
        }
    }
    /// Functions on offer.
    pub fn functions(&self) -> Result<Vec<FunctionRow>> {
        match self.ask(&Ask::Functions)? {
            Reply::Functions { functions } => Ok(functions),
            other => Err(strange(&other)),
        }
    }
    /// Clients.
    pub fn clients(&self) -> Result<Vec<ClientRow>> {
        match self.ask(&Ask::Clients)? {
            Reply::Clients { clients } => Ok(clients),
            other => Err(strange(&other)),
        }
    }
    /// A client by name.
    pub fn client(&self, name: &str) -> Result<Option<ClientRow>> {
        Ok(self.clients()?.into_iter().find(|c| c.name == name))
    }
    /// Grants.
    pub fn grants(&self) -> Result<Vec<GrantRow>> {
        match self.ask(&Ask::Grants)? {
            Reply::Grants { grants } => Ok(grants),
            other => Err(strange(&other)),
        }
    }
    /// Services that run.
    pub fn services(&self) -> Result<Vec<ServiceRow>> {
        match self.ask(&Ask::Services)? {
            Reply::Services { services } => Ok(services),
            other => Err(strange(&other)),
        }
    }
    /// Which layers of the sandbox services get.
    pub fn sandbox(&self) -> Result<vfun_manager::admin::SandboxView> {
        match self.ask(&Ask::Sandbox)? {
            Reply::Sandbox(view) => Ok(view),
            other => Err(strange(&other)),
        }
    }
    /// Who holds which VF, and why.
    pub fn leases(&self) -> Result<vfun_manager::admin::LeasesView> {
        match self.ask(&Ask::Leases)? {
            Reply::Leases(view) => Ok(view),
            other => Err(strange(&other)),
        }
    }
    /// History, newest first.
    pub fn history(&self, limit: u32) -> Result<Vec<vfun_manager::record::HistoryRow>> {
        match self.ask(&Ask::History { limit })? {
            Reply::History { rows } => Ok(rows),
            other => Err(strange(&other)),
        }
    }
    /// How far a drain is.
    pub fn draining(&self, of: &DrainOf) -> Result<Progress> {
        match self.ask(&Ask::Draining { of: of.clone() })? {
            Reply::Draining(progress) => Ok(progress),
            other => Err(strange(&other)),
        }
    }
    /// The policy in force; of one client only, if one is named.
    pub fn policy(&self, client: Option<String>) -> Result<View> {
        match self.ask(&Ask::Policy { client })? {
            Reply::Policy(view) => Ok(view),
            other => Err(strange(&other)),
        }
    }
    /// Makes a token.
    pub fn make_token(&self, order: &Ask) -> Result<Fresh> {
        match self.ask(order)? {
            Reply::TokenMade(fresh) => Ok(fresh),
            other => Err(strange(&other)),
        }
    }
    /// Tokens; of one client only, if one is named.
    pub fn tokens(&self, client: Option<String>) -> Result<Vec<Kept>> {
        match self.ask(&Ask::Tokens { client })? {
            Reply::Tokens { tokens } => Ok(tokens),
            other => Err(strange(&other)),
        }
    }
    /// Lines of the audit log.
    pub fn audit(&self, query: Query) -> Result<Vec<Row>> {
        match self.ask(&Ask::Audit(query))? {
            Reply::Audit { rows } => Ok(rows),
            other => Err(strange(&other)),
        }
    }
    /// Declares a client.
    pub fn add_client(&self, manifest: String, file: PathBuf) -> Result<ClientRow> {
        match self.ask(&Ask::AddClient { manifest, file })? {
            Reply::ClientAdded(row) => Ok(row),
            other => Err(strange(&other)),
        }
    }
}
