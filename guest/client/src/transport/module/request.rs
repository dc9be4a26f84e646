//! Control requests that the module makes for this process. It bears the
//! session's handle itself and checks what the host answers.

use super::{Module, ioctl};
use crate::error::{Error, Result};
use crate::transport::Window;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use vfun_wire::control::ANSWER_BODY;
use vfun_wire::message::Kind;
use vfun_wire::nack::{Nack, NackCode};

impl Module {
    /// Makes one request and waits for its ack, whose private body is returned.
    pub fn request(
        &self,
        window: &Window,
        kind: Kind,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>> {
        let start = Instant::now();
        let mut answer = vec![0; ANSWER_BODY];
        match ioctl::request(self.file.as_fd(), kind.to_wire(), body, &mut answer, timeout) {
            Ok(answered) => {
                answer.truncate(answered.len);
                match answered.acked {
                    true => Ok(answer),
                    false => Err(Error::Refused(Nack::decode(&answer))),
                }
            }
            Err(Errno::STALE) => Err(window.renewed()),
            // There is no session any more, be it that the window is another.
            Err(Errno::NOTCONN | Errno::CANCELED) => {
                window.check_generation()?;
                Err(Error::Closed)
            }
            Err(e) => Err(self.failed(e, kind, start.elapsed())),
        }
    }

    fn failed(&self, e: Errno, kind: Kind, waited: Duration) -> Error {
        match e {
            Errno::NODEV => Error::DeviceGone,
            Errno::TIMEDOUT => Error::ControlTimeout { request: kind.text(), waited },
            Errno::AGAIN => Error::ManagerGone("the kernel module finds that it does not serve"),
            Errno::PROTO => Error::HostNonsense(format!(
                "the kernel module does not believe the answer to '{kind}'"
            )),
            Errno::NOENT => Error::Released,
            Errno::MFILE if kind == Kind::BufferGet => refused(
                NackCode::OverQuota,
                "the kernel module has no room for another buffer of this session: it keeps 256",
            ),
            Errno::MFILE => refused(
                NackCode::OverQuota,
                "the kernel module has no room for another grant of this session",
            ),
            Errno::NXIO => Error::NoWindow(format!(
                "what '{kind}' gave lies in a window that is not in this machine"
            )),
            Errno::BUSY => refused(
                NackCode::WrongState,
                "another thread is activating or giving back the same, or it is active",
            ),
            Errno::OPNOTSUPP => Error::Unsupported("the kernel module does not make this request"),
            e => Error::Device { path: self.path.clone(), source: e.into() },
        }
    }
}

/// What the module refuses as the manager would.
fn refused(code: NackCode, sentence: &str) -> Error {
    Error::Refused(Nack::new(code, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn each_of_the_modules_errors_has_a_name_of_its_own() {
        let module = Module {
            path: "/dev/vfun0".into(),
            file: Arc::new(std::fs::File::open("/dev/null").unwrap().into()),
            bytes: 0,
            vectors: 0,
        };
        let of = |e| module.failed(e, Kind::Activate, Duration::from_millis(7));
        assert!(matches!(of(Errno::NODEV), Error::DeviceGone));
        assert!(of(Errno::TIMEDOUT).to_string().contains("'activate' within 7 ms"));
        assert!(matches!(of(Errno::AGAIN), Error::ManagerGone(_)));
        assert!(matches!(of(Errno::PROTO), Error::HostNonsense(_)));
        assert!(matches!(of(Errno::NOENT), Error::Released));
        assert!(matches!(of(Errno::MFILE), Error::Refused(n) if n.code == NackCode::OverQuota));
        let buffer = module.failed(Errno::MFILE, Kind::BufferGet, Duration::ZERO);
        assert!(buffer.to_string().contains("another buffer"), "{buffer}");
        assert!(matches!(of(Errno::NXIO), Error::NoWindow(_)));
        assert!(matches!(of(Errno::BUSY), Error::Refused(n) if n.code == NackCode::WrongState));
        assert!(of(Errno::FAULT).to_string().contains("/dev/vfun0"));
        // A file that is no device knows nothing of the module's numbers.
        assert!(ioctl::info(module.file.as_fd()).is_err());
        let e = ioctl::request(module.file.as_fd(), 5, &[0; 8], &mut [], Duration::ZERO).err();
        assert_eq!(e, Some(Errno::NOTTY));
    }
}
