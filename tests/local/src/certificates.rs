//! Certificates for tests, made anew in each.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One who issues certificates.
pub struct Issuer {
    issuer: rcgen::Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub file: PathBuf,
}

/// A certificate and its key.
pub struct Pair {
    /// The certificate.
    pub cert: PathBuf,
    /// The key, which its owner alone may read.
    pub key: PathBuf,
}

fn params(names: &[&str], called: &str) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name.push(DnType::CommonName, called);
    params
}

impl Issuer {
    /// One of this name, with its file in `dir`.
    pub fn new(dir: &Path, name: &str) -> Self {
        let mut params = params(&[], name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        let file = dir.join(format!("{name}.pem"));
        std::fs::write(&file, cert.pem()).expect("written");
        Issuer { issuer: rcgen::Issuer::new(params, key), file }
    }

    /// A certificate for these names or addresses, in `dir` under `called`.
    pub fn issue(&self, dir: &Path, called: &str, names: &[&str]) -> Pair {
        self.issue_as(dir, called, params(names, called))
    }

    /// One that expired long ago.
    pub fn issue_expired(&self, dir: &Path, called: &str, names: &[&str]) -> Pair {
        let mut params = params(names, called);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        self.issue_as(dir, called, params)
    }

    fn issue_as(&self, dir: &Path, called: &str, params: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let pair = Pair {
            cert: dir.join(format!("{called}.pem")),
            key: dir.join(format!("{called}.key")),
        };
        std::fs::write(&pair.cert, cert.pem()).expect("written");
        std::fs::write(&pair.key, key.serialize_pem()).expect("written");
        std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(0o600))
            .expect("its own");
        pair
    }
}
