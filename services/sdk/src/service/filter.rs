//! The list of system calls that this process may make: installed as the
//! manager passed it, for all threads, for good. Calls that are not on it end
//! the process; most of them by a signal, whose handler tells which it was.
#![allow(unsafe_code)]

use libc::{c_int, c_void, siginfo_t, sock_filter, sock_fprog};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use vfun_supervise::EXIT_FORBIDDEN;

/// `si_code` of a signal that a list sent.
const SYS_SECCOMP: c_int = 1;
/// Where `siginfo_t` has the call's number: after three numbers, padding and
/// an address. The C library's type does not name it.
const CALL_AT: usize = 24;

/// Whether the handler is in place.
static TELLING: AtomicBool = AtomicBool::new(false);

/// Installs a list; an empty one is none.
pub fn install(words: &[u64]) -> io::Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    let program: Vec<sock_filter> = words
        .iter()
        .map(|w| sock_filter {
            code: (w >> 48) as u16,
            jt: (w >> 40) as u8,
            jf: (w >> 32) as u8,
            k: *w as u32,
        })
        .collect();
    let len = u16::try_from(program.len())
        .map_err(|_| io::Error::other("it is longer than the kernel takes"))?;
    // Once: from the first list on nobody may, this code included.
    if !TELLING.swap(true, Ordering::AcqRel) {
        tell_of_forbidden_calls()?;
    }
    let program = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives through the call, and
    // checks it; it can only take calls away.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match done {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has another list"))),
    }
}

fn tell_of_forbidden_calls() -> io::Result<()> {
    // SAFETY: the handler below only makes system calls that may be made in
    // one; the struct is all zeros but for what is set, as the call wants it.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = forbidden as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that are put together without an allocator.
struct Line {
    bytes: [u8; 128],
    len: usize,
}

impl Line {
    fn put(&mut self, text: &[u8]) {
        for &b in text {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = b;
                self.len += 1;
            }
        }
    }
    fn number(&mut self, n: u32) {
        let mut digits = [0; 10];
        let (mut n, mut at) = (n, digits.len());
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.put(&digits[at..]);
    }
    fn of(before: &[u8], n: u32, after: &[u8]) -> Self {
        let mut line = Line { bytes: [0; 128], len: 0 };
        line.put(before);
        line.number(n);
        line.put(after);
        line
    }
    /// Writes it at once. What does not get through is lost.
    fn write(&self, fd: c_int) {
        // SAFETY: the bytes are this struct's own, and so many of them.
        unsafe { libc::write(fd, self.bytes.as_ptr().cast(), self.len) };
    }
}

extern "C" fn forbidden(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a whole siginfo_t, which has 128 bytes.
    let (code, call) =
        unsafe { ((*info).si_code, info.cast::<u8>().add(CALL_AT).cast::<u32>().read_unaligned()) };
    if code != SYS_SECCOMP {
        return;
    }
    Line::of(b"vfun-service: the driver made system call ", call, b", which is not on its list\n")
        .write(2);
    // The same as `FromService::Forbidden`, which needs an allocator.
    Line::of(b"{\"from\":\"forbidden\",\"call\":", call, b"}").write(0);
    super::exit::now(EXIT_FORBIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_supervise::FromService;

    #[test]
    fn the_last_word_is_a_message() {
        for call in [0, 9, 41, 435, u32::MAX] {
            let l = Line::of(b"{\"from\":\"forbidden\",\"call\":", call, b"}");
            let said: FromService = serde_json::from_slice(&l.bytes[..l.len]).unwrap();
            assert_eq!(said, FromService::Forbidden { call });
        }
    }

    #[test]
    fn nonsense_is_refused_and_nothing_is_nothing() {
        install(&[]).unwrap();
        assert!(install(&vec![0; 1 << 17]).is_err());
    }
}
