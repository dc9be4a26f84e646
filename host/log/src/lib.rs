//! The logs of the manager and of the processes that it starts: lines on standard error.

#![forbid(unsafe_code)]

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// From now on the log is written to standard error; `VFUN_LOG` sets its levels.
pub fn begin() {
    let levels = std::env::var("VFUN_LOG").ok().and_then(|v| v.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        // A full disk must not end a program for want of a line.
        .log_internal_errors(false)
        .finish()
        .with(levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)))
        .init();
}
