//! A queue in plain memory, and operations on it against an obvious model. The
//! property tests and the fuzz targets share these files.
#![allow(dead_code)]

pub mod consumer_ops;
pub mod memory;
pub mod producer_ops;
