//! Every limit of the metrics process, with its reason.

use std::time::Duration;

/// Connections at once: a few scrapers and a person with curl. One more is
/// hung up on.
pub const CONNECTIONS_MAX: usize = 16;
/// Longest request head, bytes: a scraper's is some 300.
pub const HEAD_BYTES: usize = 8 << 10;
/// Most header lines of a request.
pub const HEADERS_MAX: usize = 64;
/// How long a connection may take from its start to its end.
pub const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Apps of one client that have series of their own, for as long as this
/// process lives; the names are the guest's to choose, so further ones are
/// counted together, as [`OTHER`].
pub const APPS_PER_CLIENT: usize = 64;
/// Functions that one client submitted and that have series of their own, as long
/// and for the same reason: twice as many as it may have at once where policy says
/// nothing.
pub const OWN_PER_CLIENT: usize = 32;
/// Rules of switches that have series of their own: as many as a person reads. Most switches with links
/// have some ten of them.
pub const LINK_FLOWS_SHOWN: usize = 256;
/// The app that stands for all beyond [`APPS_PER_CLIENT`], and the function for
/// all beyond [`OWN_PER_CLIENT`]; nothing can have this name.
pub const OTHER: &str = "(other)";
/// After so long what `vfun-nics` said last is not shown any more: three looks.
pub const NICS_OLD: Duration = Duration::from_secs(15);
/// Between two looks while nobody asks: what a grant did after the last look
/// before its end is not counted.
pub const LOOK: Duration = Duration::from_secs(5);
