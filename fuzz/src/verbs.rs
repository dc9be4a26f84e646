//! The models of the tests of `vfun-verbs-nic`.

#[path = "../../services/verbs/tests/common/mod.rs"]
mod common;

pub use common::hostile::Hostile;
