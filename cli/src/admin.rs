//! Questions to the manager's admin socket.

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
