//! Packets that come late are not lost.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use vfun_tests_vm::pinger::Pinger;

const LATE: Duration = Duration::from_millis(20);

/// Sends every second packet back, long after it came.
fn sends_half_back_late() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 8];
        while let Ok((8, from)) = socket.recv_from(&mut bytes) {
            if bytes[0].is_multiple_of(2) {
                std::thread::sleep(LATE * 3);
                let _ = socket.send_to(&bytes, from);
            }
        }
    });
    at
}

#[test]
fn what_comes_late_is_not_lost() {
    let every = Duration::from_millis(50);
    let at = "127.0.0.1:0".parse().unwrap();
    let pinger = Pinger::start(at, sends_half_back_late(), every).patient(LATE);
    let ((), count) = pinger.during(|| std::thread::sleep(every * 20));
    assert!(count.sent > 2, "{count}");
    assert_eq!(count.lost + count.late, count.sent, "{count}");
    assert!(count.lost.abs_diff(count.late) <= 1, "{count}");
}
