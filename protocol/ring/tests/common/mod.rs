//! A channel in plain memory, and operations on it against an obvious model.
//! The property tests and the fuzz targets share these files.
#![allow(dead_code)]

pub mod caller_ops;
pub mod memory;
pub mod server_ops;
