//! The subcommands, one a file.

pub mod attach;
pub mod audit;
pub mod bench;
pub mod bindgen;
pub mod call;
pub mod client;
pub mod completions;
pub mod doctor;
pub mod function;
pub mod guest;
pub mod history;
pub mod leases;
pub mod list;
pub mod man;
pub mod new;
pub mod policy;
pub mod ps;
pub mod revoke;
pub mod service;
pub mod stats;
pub mod status;
pub mod submit;
pub mod switch;
pub mod token;
pub mod top;
pub mod window;
