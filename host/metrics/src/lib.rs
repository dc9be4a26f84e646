//! Shows a manager's counters to Prometheus.
//!
//! A process of its own, so that nothing from the network is read in the
//! manager. It asks the manager's admin interface as `vfun` does and shows the
//! same rows ([`vfun_admin`]).
//!
//! [`nics`] asks `vfun-nics` what it lends. [`totals`] makes counters of grants, which come and go, into counters that
//! only rise; [`exposition`] writes them as OpenMetrics text; [`http`] hands
//! that out.

#![forbid(unsafe_code)]

pub mod exposition;
pub mod http;
pub mod limits;
pub mod nics;
pub mod source;
pub mod totals;
