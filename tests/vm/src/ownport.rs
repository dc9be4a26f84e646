//! A program in a VM that has a port of it by itself, and answers pings.

use crate::fakehost::ports::answer;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfun::{ConnectOptions, Endpoint, Port, Result};
use vfun_packet::layout::UP;
use vfun_packet::layout::header::{FRAME, STATE};
use vfun_packet::{Memory as _, Receiver, Ring, Sender};

const LONGEST: usize = 1518;
/// Between two looks whether the port goes on.
const LOOK: Duration = Duration::from_millis(100);
/// While nothing comes.
const NAP: Duration = Duration::from_millis(1);

/// Says that it has the port, and answers for this address until the port is over; says why then.
pub fn serve(name: &str, address: Ipv4Addr) -> Result<()> {
    let session = ConnectOptions::new("own-port").endpoint(Endpoint::Module(None)).connect()?;
    let port = session.port(Some(name))?;
    println!("has {} of {}", name, session.ports().len());
    let ring = Ring::new(port.info().ring_bytes.into()).expect("a ring");
    let memory = port.memory().clone();
    let mut to = Sender::new(memory.clone(), ring);
    let mut from = Receiver::new(memory, ring);
    to.memory().store(FRAME, LONGEST as u64, Ordering::Relaxed);
    to.memory().store(STATE, UP, Ordering::Release);
    port.ring();
    let (mut frame, mut looked) = (vec![0; LONGEST], Instant::now());
    loop {
        let came = turn(&port, address, (&mut to, &mut from), &mut frame);
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if let Err(e) = port.check() {
                println!("over: {e}");
                return Ok(());
            }
        }
        if !came {
            std::thread::sleep(NAP);
        }
    }
}

/// Takes what is there, and answers it.
fn turn<M: vfun_packet::Memory>(
    port: &Port,
    address: Ipv4Addr,
    (to, from): (&mut Sender<M>, &mut Receiver<M>),
    frame: &mut [u8],
) -> bool {
    let mut came = false;
    while let Some(bytes) = from.next(frame) {
        came = true;
        // Of ARP and of IPv4, the address that is asked for.
        let at = if frame[12..14] == [8, 6] { 38..42 } else { 30..34 };
        let is_for_us = bytes >= at.end && frame[at] == address.octets();
        if let Some(answer) = answer(&frame[..bytes]).filter(|_| is_for_us) {
            let _ = to.put(&answer);
        }
    }
    from.take();
    if to.publish() && to.must_ring() {
        port.ring();
    }
    came
}
