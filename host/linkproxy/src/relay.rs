//! Connections: each one of the switch gets one of its own to the controller. If either ends, both do.

use crate::correct::{FromController, FromSwitch, connection};
use crate::limits::{CONNECT, CONNECTIONS_MAX, READ_BYTES, SILENCE_TO_ASK, WRITE};
use crate::manager::Manager;
use crate::message::{Kind, Message, Messages};
use crate::place::{ControllerSide, SwitchSide};
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vfun_tls::Line;

/// The proxy of one bridge.
pub struct Proxy {
    manager: Arc<Manager>,
    switch: SwitchSide,
    controller: ControllerSide,
    open: AtomicUsize,
    last: AtomicU64,
    /// The bridge's number (datapath id), once it was said: another bridge has other rules.
    bridge: Mutex<Option<u64>>,
}

impl Proxy {
    pub fn new(manager: Arc<Manager>, switch: SwitchSide, controller: ControllerSide) -> Arc<Self> {
        let (open, last, bridge) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        Arc::new(Proxy { manager, switch, controller, open, last, bridge })
    }

    /// Serves for ever.
    pub fn serve(self: &Arc<Self>) {
        for tcp in self.switch.listener.incoming() {
            match tcp {
                Ok(tcp) => self.begin(tcp),
                Err(e) => {
                    tracing::error!("a connection could not be taken: {e}");
                    std::thread::sleep(crate::limits::HOLD_LOOK);
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, tcp: TcpStream) {
        if self.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            self.open.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(
                "{CONNECTIONS_MAX} connections are open, which is the most: one more is closed"
            );
            return;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let proxy = self.clone();
        let begun = std::thread::Builder::new().name("switch".into()).spawn(move || {
            let why = proxy.relay(number, tcp).err().unwrap_or_else(|| "it ended".into());
            tracing::info!(connection = number, "closed: {why}");
            proxy.open.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(e) = begun {
            self.open.fetch_sub(1, Ordering::Relaxed);
            tracing::error!("no thread can be started: {e}");
        }
    }

    /// One connection, to its end.
    fn relay(self: &Arc<Self>, number: u64, tcp: TcpStream) -> Result<(), String> {
        let named = |e: io::Error| e.to_string();
        let from = tcp.peer_addr().map_err(named)?;
        let until = Instant::now() + CONNECT;
        let switch = self.switch.accept(tcp, until)?;
        let controller = self.controller.connect(until)?;
        for tcp in [switch.tcp(), controller.tcp()] {
            tcp.set_nodelay(true).map_err(named)?;
            tcp.set_write_timeout(Some(WRITE)).map_err(named)?;
            let of_kernel = |e: rustix::io::Errno| named(e.into());
            sockopt::set_socket_keepalive(tcp, true).map_err(of_kernel)?;
            sockopt::set_tcp_keepidle(tcp, SILENCE_TO_ASK).map_err(of_kernel)?;
        }
        tracing::info!(
            connection = number,
            "the switch {from} is connected to the controller {}",
            self.controller.address.at
        );
        let lines = Arc::new([switch, controller]);
        let (down, up) = connection(self.manager.tally.clone());
        let (proxy, theirs) = (self.clone(), lines.clone());
        let other = std::thread::Builder::new().name("controller".into());
        let other = other.spawn(move || {
            let ended = proxy.pass_down(&theirs, &down);
            close(&theirs);
            ended
        });
        let other = other.map_err(named)?;
        self.manager.tally.connections.fetch_add(1, Ordering::Relaxed);
        self.manager.tell();
        let ended = self.pass_up(&lines, up, number);
        close(&lines);
        self.manager.tally.connections.fetch_sub(1, Ordering::Relaxed);
        self.manager.tell();
        let theirs = other.join().map_err(|_| "its other direction failed".to_owned())?;
        let of = |who: &str, why: String| format!("{who}: {why}");
        ended.map_err(|e| of("the switch", e)).and(theirs.map_err(|e| of("the controller", e)))
    }

    fn pass_down(&self, lines: &[Line; 2], pass: &FromController) -> Result<(), String> {
        let [switch, controller] = lines;
        each_message(controller, |message| {
            if message.kind() == Kind::Changes {
                self.manager.before_change();
            }
            pass.pass(message, &self.manager).iter().try_for_each(|out| send(switch, out))
        })
    }

    fn pass_up(&self, lines: &[Line; 2], mut pass: FromSwitch, number: u64) -> Result<(), String> {
        let [switch, controller] = lines;
        let mut is_strange = false;
        each_message(switch, |message| {
            if message.kind() == Kind::Features {
                self.check_bridge(&message)?;
                let is_known = message.version().is_some();
                if !std::mem::replace(&mut is_strange, !is_known) && !is_known {
                    tracing::warn!(
                        connection = number,
                        "version {:#04x} of OpenFlow is spoken, and counts of 1.0 and 1.3 alone are corrected: set the bridge's column `protocols`",
                        message.number()
                    );
                }
            }
            pass.pass(message, &self.manager).map_or(Ok(()), |out| send(controller, &out))
        })
    }

    /// Each bridge says its number at the begin.
    fn check_bridge(&self, features: &Message) -> Result<(), String> {
        let Some(said) = features.u64(crate::message::HEADER) else { return Ok(()) };
        let mut bridge = self.bridge.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *bridge.get_or_insert(said);
        if known != said {
            return Err(format!(
                "it is the bridge {said:016x}, and this proxy is for {known:016x}, which came first: start a proxy for each bridge; if this bridge has a new number, start the proxy again"
            ));
        }
        Ok(())
    }
}

fn close(lines: &[Line; 2]) {
    for line in lines {
        let _ = line.tcp().shutdown(Shutdown::Both);
    }
}

fn send(line: &Line, Message(bytes): &Message) -> Result<(), String> {
    for piece in line.sealed(bytes) {
        let written = piece.and_then(|piece| line.tcp().write_all(&piece));
        written.map_err(|e| format!("what is sent on is not taken: {e}"))?;
    }
    Ok(())
}

/// Takes messages until the connection ends.
fn each_message(
    line: &Line,
    mut take: impl FnMut(Message) -> Result<(), String>,
) -> Result<(), String> {
    let (mut messages, mut room) = (Messages::default(), vec![0; READ_BYTES]);
    loop {
        let read = match line.recv(&mut room, true) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                continue;
            }
            Err(e) => return Err(vfun_tls::of_line(&e)),
        };
        messages.push(&room[..read]);
        while let Some(message) = messages.take()? {
            take(message)?;
        }
    }
}
