//! VirtFun's measurements.
//!
//! [`report`] holds what a measurement says and how it is shown: the rows, their
//! statistics, text tables, JSON, CSV and charts. It measures nothing itself.

pub mod report;
