//! Accepts connections, a thread each; [`Door`] keeps to the limits.

use crate::certificates::Certificates;
use crate::connection::Connection;
use crate::door::Door;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A gateway to one manager.
pub struct Gateway {
    socket: PathBuf,
    certificates: Option<Arc<Certificates>>,
    door: Arc<Door>,
}

impl Gateway {
    /// To the manager whose socket this is.
    pub fn new(socket: PathBuf) -> Self {
        Gateway { socket, certificates: None, door: Arc::default() }
    }

    /// The same, for callers by TLS only.
    pub fn with_tls(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(Arc::new(certificates));
        self
    }

    /// Serves whoever connects, for ever.
    pub fn serve(&self, listener: &TcpListener) {
        match listener.local_addr() {
            Ok(at) => {
                let how = if self.certificates.is_some() { " for callers by TLS" } else { "" };
                tracing::info!("gateway listens on {at}{how}");
            }
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
        let known = match stream.try_clone() {
            Ok(known) => known,
            Err(e) => return tracing::warn!(%peer, "refused: no descriptor for it: {e}"),
        };
        let greeting = Door::greeting(&self.door, peer.ip().to_canonical(), known);
        let connection = Connection::new(
            stream,
            peer,
            self.socket.clone(),
            self.door.clone(),
            self.certificates.clone(),
        );
        let serve = move || connection.run(greeting);
        if let Err(e) = std::thread::Builder::new().name("vfun-caller".into()).spawn(serve) {
            tracing::warn!(%peer, "refused: no thread for it: {e}");
        }
    }
}
