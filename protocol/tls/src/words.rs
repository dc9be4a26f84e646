//! What went wrong with TLS, in words that say what to do.

use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
use std::io;

fn inner(e: &io::Error) -> Option<&Error> {
    e.get_ref()?.downcast_ref()
}

/// Why a caller could not shake hands with a gateway, for the caller.
pub fn of_gateway(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if inner(e).is_none() => {
            "it hung up in the TLS handshake: perhaps it does not speak TLS (tcp:HOST:PORT is \
             for those), or has no place left"
                .into()
        }
        _ => of_line(e),
    }
}

/// Why a connection to a gateway ended, with TLS or without, for the caller.
pub fn of_line(e: &io::Error) -> String {
    let Some(tls) = inner(e) else { return e.to_string() };
    match tls {
        Error::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer | Bad::BadSignature => "its certificate is from none of the issuers \
                that VFUN_TLS_CA names: name the right file, or do not trust it"
                .into(),
            Bad::Expired | Bad::ExpiredContext { .. } => {
                "its certificate has expired: its operator must make a new one".into()
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                "its certificate is not valid yet: see whether this machine's clock is right".into()
            }
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => format!(
                "its certificate is for another name: name one of its own by VFUN_TLS_NAME, or \
                 have it made with this one ({bad})"
            ),
            other => format!("its certificate will not do: {other}"),
        },
        Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => "it takes only callers with a certificate of its own issuers, and not expired: name one \
              by VFUN_TLS_CERT and VFUN_TLS_KEY"
            .into(),
        Error::InvalidMessage(_) | Error::AlertReceived(Alert::UnexpectedMessage) => {
            "it does not speak TLS: use tcp:HOST:PORT, or start vfund with --tcp-tls-cert".into()
        }
        other => format!("TLS: {other}"),
    }
}

/// Why a gateway could not talk to a caller, for the gateway's log.
pub fn of_caller(e: &io::Error) -> String {
    match inner(e) {
        Some(Error::NoCertificatesPresented) => {
            "it showed no certificate, which --tcp-tls-client-ca asks for".into()
        }
        Some(Error::InvalidCertificate(bad)) => format!("its certificate will not do: {bad}"),
        Some(Error::AlertReceived(alert)) => {
            format!("it does not take this gateway's certificate or TLS ({alert:?})")
        }
        Some(other) => format!("TLS: {other}"),
        None if e.kind() == io::ErrorKind::UnexpectedEof => "it hung up in the handshake".into(),
        None => e.to_string(),
    }
}
