//! Control requests: negotiate, activate, release and the rest.

mod cell;
mod decode;
mod exchange;

pub(crate) use decode::{code, description, exact, function_info, grant_info, hello, stats};
pub(crate) use exchange::WindowControl;

use crate::error::Result;
use crate::tcp::Connection;
use crate::transport::{Module, Window};
use std::sync::Arc;
use std::time::Duration;
use vfun_wire::limits::CONTROL_TIMEOUT_MS;
use vfun_wire::message::Kind;

/// How long a request waits for its answer, unless said otherwise.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(CONTROL_TIMEOUT_MS);

/// The way requests take.
pub(crate) enum Control {
    /// Through the window's control cells.
    Window(WindowControl),
    /// By the guest's kernel module, which uses these cells for this process.
    Module(Arc<Module>, Arc<Window>),
    /// As frames over a connection to a gateway.
    Tcp(Arc<Connection>),
}

impl Control {
    /// Makes one request and waits for its ack, whose private body is returned.
    pub fn request(
        &self,
        kind: Kind,
        session: u64,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        match self {
            Control::Window(w) => w.request(kind, session, body, timeout),
            Control::Module(m, window) => m.request(window, kind, body, timeout),
            Control::Tcp(c) => c.request(kind, body, timeout),
        }
    }
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(body: &[u8]) {
    let _ = decode::hello(body);
    let _ = decode::grant_info(body, "f", vfun_wire::kind::ChannelKind::Calls);
    let _ = decode::stats(body, "stats");
    let _ = decode::description(body, "f");
    if let Ok((entry, _)) = zerocopy::FromBytes::read_from_prefix(body) {
        let _ = decode::function_info(&entry);
    }
}
