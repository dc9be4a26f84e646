//! Connections, more than anybody needs, that say nothing, or nonsense.

use super::Field;
use crate::window::{Place, connect as knock};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Connections kept open at once.
const KEPT: usize = 64;

pub(super) fn connect(f: &mut Field) {
    let Place::Host { socket, .. } = f.place.clone() else { return };
    let until = f.round(1_000);
    let mut kept: Vec<OwnedFd> = vec![];
    let mut windows = vec![];
    while Instant::now() < until {
        match f.random.below(6) {
            // Silent.
            0 => kept.extend(knock(&socket).ok()),
            // Nonsense, of any length, and gone.
            1 => {
                if let Ok(fd) = knock(&socket) {
                    let bytes: Vec<u8> =
                        (0..1 + f.random.below(300)).map(|_| f.random.word() as u8).collect();
                    let _ = rustix::net::send(&fd, &bytes, rustix::net::SendFlags::NOSIGNAL);
                    if f.random.below(2) == 0 {
                        kept.push(fd);
                    }
                }
            }
            // Windows, and none given back for a while.
            2 => windows.extend(f.window()),
            3 => {
                if let Some(address) = f.others.tcp.clone()
                    && let Ok(mut stream) = TcpStream::connect(&address)
                {
                    let bytes: Vec<u8> =
                        (0..1 + f.random.below(300)).map(|_| f.random.word() as u8).collect();
                    let _ = stream.write_all(&bytes);
                    kept.push(stream.into());
                }
            }
            4 => {
                if let Some(path) = f.others.vm_socket.clone() {
                    kept.extend(knock(&path).ok());
                }
            }
            // Just a knock.
            _ => drop(knock(&socket)),
        }
        f.report.deeds += 1;
        if kept.len() > KEPT {
            let at = f.random.below(kept.len() as u64) as usize;
            kept.swap_remove(at);
        }
        if windows.len() > KEPT {
            windows.clear();
        }
    }
}
