//! The manager, as commands ask it: by the one client there is.

pub use vfun_admin::{Client as Admin, ROOT};
