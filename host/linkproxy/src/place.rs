//! What addresses and TLS files name.

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;
use vfun_tls::Line;

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or a number, and a port.
    pub at: String,
    pub tls: bool,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no address: write tcp:HOST:PORT or tls:HOST:PORT, with [ ] around a number of IPv6"
            )
        };
        let (way, at) = text.split_once(':').ok_or_else(wrong)?;
        let tls = match way {
            "tcp" => false,
            // Open vSwitch calls it so.
            "tls" | "ssl" => true,
            _ => return Err(wrong()),
        };
        let (host, port) = at.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Address { at: at.to_owned(), tls })
    }
}

/// Files for one side.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub ca: Option<PathBuf>,
}

/// How the switch is let in.
pub struct SwitchSide {
    pub listener: TcpListener,
    tls: Option<vfun_tls::Server>,
}

impl SwitchSide {
    /// # Errors
    /// A sentence.
    pub fn open(address: &Address, files: &TlsFiles) -> Result<Self, String> {
        let tls = match (address.tls, &files.cert, &files.key) {
            (false, ..) => None,
            (true, Some(cert), Some(key)) => {
                let read = vfun_tls::Server::read(cert, key, files.ca.as_deref());
                Some(read.map_err(|e| e.to_string())?)
            }
            (true, ..) => {
                return Err("with --listen tls: give --tls-cert and --tls-key, too".into());
            }
        };
        let listener = TcpListener::bind(&address.at).map_err(|e| {
            format!("cannot listen on {}: {e}. Choose an address of this machine and a free port with --listen.", address.at)
        })?;
        Ok(SwitchSide { listener, tls })
    }

    /// # Errors
    /// A sentence: no TLS with it.
    pub fn accept(&self, tcp: TcpStream, until: Instant) -> Result<Line, String> {
        match &self.tls {
            None => Ok(Line::plain(tcp)),
            Some(tls) => Line::accept(tcp, tls, until)
                .map_err(|e| format!("no TLS with it: {}", vfun_tls::of_caller(&e))),
        }
    }
}

/// How the controller is reached.
pub struct ControllerSide {
    pub address: Address,
    tls: Option<vfun_tls::Client>,
}

impl ControllerSide {
    /// # Errors
    /// A sentence: what is wrong with the files.
    pub fn of(address: Address, name: Option<&str>, files: &TlsFiles) -> Result<Self, String> {
        if !address.tls {
            return Ok(ControllerSide { address, tls: None });
        }
        let Some(ca) = &files.ca else {
            return Err("with --controller tls: give --controller-ca, too: the certificates that its own may be from".into());
        };
        let host = address.at.rsplit_once(':').map_or("", |(host, _)| host);
        let identity = files.cert.as_deref().zip(files.key.as_deref());
        let read = vfun_tls::Client::read(ca, name.unwrap_or(host), identity);
        let tls = Some(read.map_err(|e| e.to_string())?);
        Ok(ControllerSide { address, tls })
    }

    /// # Errors
    /// A sentence.
    pub fn connect(&self, until: Instant) -> Result<Line, String> {
        let at = &self.address.at;
        let named = |e: std::io::Error| format!("the controller {at} is not reached: {e}");
        let mut last = None;
        for one in at.to_socket_addrs().map_err(named)? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&one, left) {
                Ok(tcp) => return self.shake(tcp, until),
                Err(e) => last = Some(e),
            }
        }
        Err(last.map_or_else(|| format!("the controller {at} is not reached"), named))
    }

    fn shake(&self, tcp: TcpStream, until: Instant) -> Result<Line, String> {
        match &self.tls {
            None => Ok(Line::plain(tcp)),
            Some(tls) => Line::connect(tcp, tls, until).map_err(|e| {
                format!("no TLS with the controller {}: {}", self.address.at, of_controller(&e))
            }),
        }
    }
}

/// Words of the library name options of another program.
fn of_controller(e: &std::io::Error) -> String {
    let text = vfun_tls::of_gateway(e);
    text.replace("VFUN_TLS_CA", "--controller-ca")
        .replace("VFUN_TLS_NAME", "--controller-name")
        .replace("VFUN_TLS_CERT and VFUN_TLS_KEY", "--controller-cert and --controller-key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_what_is_none_is_refused() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("tcp:127.0.0.1:6653").unwrap().at, "127.0.0.1:6653");
        assert!(read("ssl:[::1]:6653").unwrap().tls && read("tls:a.b:1").unwrap().tls);
        for wrong in
            ["", "tcp", "tcp:", "tcp:6653", "udp:a:1", "tcp:a:b", "tcp:a:70000", "tcp::6653"]
        {
            assert!(read(wrong).unwrap_err().contains("tcp:HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn files_that_are_missing_are_named() {
        let at = |text: &str| text.parse::<Address>().unwrap();
        let none = TlsFiles::default();
        let why = SwitchSide::open(&at("tls:127.0.0.1:0"), &none).err().unwrap();
        assert!(why.contains("--tls-cert"), "{why}");
        let why = ControllerSide::of(at("tls:127.0.0.1:1"), None, &none).err().unwrap();
        assert!(why.contains("--controller-ca"), "{why}");
        let missing = TlsFiles { ca: Some("/nowhere/ca.pem".into()), ..TlsFiles::default() };
        let why = ControllerSide::of(at("tls:127.0.0.1:1"), None, &missing).err().unwrap();
        assert!(why.contains("/nowhere/ca.pem"), "{why}");
    }
}
