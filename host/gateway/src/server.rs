//! Accepts connections, within a limit, a thread each.

use crate::connection::Connection;
use crate::limits::CONNECTIONS_MAX;
use crate::output::Output;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vfun_wire::{Nack, NackCode};

/// A gateway to one manager.
pub struct Gateway {
    socket: PathBuf,
    open: Arc<AtomicUsize>,
}

/// Counts a connection for as long as it lives.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Gateway {
    /// To the manager whose socket this is.
    pub fn new(socket: PathBuf) -> Self {
        Gateway { socket, open: Arc::default() }
    }

    /// Serves whoever connects, for ever.
    pub fn serve(&self, listener: &TcpListener) {
        match listener.local_addr() {
            Ok(at) => tracing::info!("gateway listens on {at}"),
            Err(e) => tracing::warn!("gateway listens, on an address that cannot be told: {e}"),
        }
        loop {
            match listener.accept() {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(e) => {
                    // Out of descriptors, most likely: connections that end free some.
                    tracing::warn!("a connection could not be accepted: {e}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let place = Place(self.open.clone());
        if self.open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            tracing::warn!(%peer, "refused: {CONNECTIONS_MAX} connections are open already");
            let sentence = format!(
                "the gateway has {CONNECTIONS_MAX} connections already: try again when one has ended"
            );
            // Into the empty socket buffer of a new connection: this cannot block.
            Output::refuse(&stream, &Nack::new(NackCode::NoCapacity, sentence));
            return;
        }
        let socket = self.socket.clone();
        let serve = move || {
            let _place = place;
            Connection::new(stream, peer, socket).run();
        };
        if let Err(e) = std::thread::Builder::new().name("vfun-caller".into()).spawn(serve) {
            tracing::warn!(%peer, "refused: no thread for it: {e}");
        }
    }
}
