//! Addresses of sockets, as the connection manager needs them.
#![allow(unsafe_code)]

use crate::errno::{EINVAL, Errno};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Copies the program's address.
///
/// # Safety
/// It is one, of the size that its family has.
pub unsafe fn read(from: *const libc::sockaddr) -> Result<SocketAddr, Errno> {
    if from.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's.
    match unsafe { (*from).sa_family }.into() {
        libc::AF_INET => {
            // SAFETY: as above.
            let v4 = unsafe { from.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { from.cast::<libc::sockaddr_in6>().read_unaligned() };
            Ok(SocketAddr::new(
                Ipv6Addr::from(v6.sin6_addr.s6_addr).into(),
                u16::from_be(v6.sin6_port),
            ))
        }
        // AF_IB and others.
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// As C has it.
pub fn storage(of: SocketAddr) -> libc::sockaddr_storage {
    let mut to = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    match of {
        SocketAddr::V4(v4) => {
            // SAFETY: zeros are numbers.
            let mut at: libc::sockaddr_in = unsafe { MaybeUninit::zeroed().assume_init() };
            at.sin_family = libc::AF_INET as u16;
            at.sin_port = v4.port().to_be();
            at.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            // SAFETY: the storage is larger, and aligned for each.
            unsafe { to.as_mut_ptr().cast::<libc::sockaddr_in>().write(at) };
        }
        SocketAddr::V6(v6) => {
            // SAFETY: zeros are numbers.
            let mut at: libc::sockaddr_in6 = unsafe { MaybeUninit::zeroed().assume_init() };
            at.sin6_family = libc::AF_INET6 as u16;
            at.sin6_port = v6.port().to_be();
            at.sin6_addr.s6_addr = v6.ip().octets();
            // SAFETY: as above.
            unsafe { to.as_mut_ptr().cast::<libc::sockaddr_in6>().write(at) };
        }
    }
    // SAFETY: zeros are numbers, and the rest was written.
    unsafe { to.assume_init() }
}

/// An address of this storage; `None`: there is none in it.
pub fn of_storage(from: &libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: a storage is large enough for each family.
    unsafe { read(std::ptr::from_ref(from).cast()) }.ok()
}

/// As a GID.
pub fn gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Whether the address is this machine's own.
pub fn is_here(ip: IpAddr) -> bool {
    // Only one's own can be bound to.
    ip.is_loopback() || !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
}

/// The address that this machine would use to reach another one.
pub fn source_for(to: SocketAddr) -> Result<IpAddr, Errno> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Sends nothing.
        socket.connect((to.ip(), to.port().max(1)))?;
        socket.local_addr()
    });
    found.map(|at| at.ip()).map_err(|_| Errno(libc::ENETUNREACH))
}

/// The port of an address, in network order.
pub fn wire_port(of: &libc::sockaddr_storage) -> u16 {
    of_storage(of).map_or(0, |at| at.port().to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["10.1.2.3:77", "[fd00::5]:65535", "0.0.0.0:0"] {
            let at: SocketAddr = text.parse().expect("an address");
            assert_eq!(of_storage(&storage(at)), Some(at));
        }
        let none = storage("1.2.3.4:5".parse().expect("an address"));
        assert_eq!(wire_port(&none), 5u16.to_be());
    }

    #[test]
    fn ones_own_addresses_are_known() {
        assert!(is_here("127.0.0.1".parse().expect("an address")));
        assert!(!is_here("203.0.113.9".parse().expect("an address")));
        assert!(!is_here("0.0.0.0".parse().expect("an address")));
        let here = source_for("127.0.0.1:9".parse().expect("an address"));
        assert_eq!(here, Ok("127.0.0.1".parse().expect("an address")));
    }
}
