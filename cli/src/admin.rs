//! Questions to the manager's admin socket.

use crate::args::Cli;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use vfun_admin::Client;

/// Where the manager keeps everything unless told otherwise.
pub const ROOT: &str = "/var/lib/virtfun";

/// The manager of a root.
#[derive(Clone, Debug)]
pub struct Admin {
    root: PathBuf,
    client: Client,
}

impl Admin {
    /// The one that the command line names.
    pub fn of(cli: &Cli) -> Self {
        Self::at(cli.root.as_deref().unwrap_or(Path::new(ROOT)))
    }
    /// The one with this root.
    pub fn at(root: &Path) -> Self {
        Admin { root: root.to_owned(), client: Client::at(root) }
    }
    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Deref for Admin {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}
