//! `vfun-gateway`: serves callers that reach the host over TCP.

#![forbid(unsafe_code)]

use clap::Parser;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use vfun_gateway::{Certificates, Gateway, TlsFiles};

/// Serves vFunctions to callers over TCP.
///
/// The manager starts it (`vfund --tcp ADDR:PORT`); it can also be started by
/// hand. To the manager it is an ordinary program on the host: every connection
/// gets a window of the client that it names, if that client's manifest says
/// `tcp = true`, and gives it back when it ends. Calls are copied; for shared
/// memory run the caller on the host or in a VM with a window.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Address to listen on, such as 127.0.0.1:7733. Without TLS
    /// keep it to a network that you trust.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: String,
    /// The manager's socket.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/virtfun/host.sock")]
    socket: PathBuf,
    /// Accept callers by TLS only, and show them this certificate (PEM, with the
    /// chain up to its issuer). Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM, not encrypted). Not every user may be able to read it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only callers that show a certificate of one of these issuers (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Only check whether the TLS files can be used.
    #[arg(long)]
    check: bool,
    /// End when standard input closes: when the process that started this one ends.
    #[arg(long)]
    until_stdin_closes: bool,
}

fn failed(sentence: &str) -> ExitCode {
    eprintln!("vfun-gateway: {sentence}");
    ExitCode::FAILURE
}

fn listen(address: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|e| {
        format!(
            "cannot listen on {address}: {e}. Choose an address of this machine and a free port with --listen."
        )
    })
}

fn main() -> ExitCode {
    let args = Args::parse();
    vfun_log::begin();
    // Callers are let in only below, without any right of root's.
    let listener = match (!args.check).then(|| listen(&args.listen)).transpose() {
        Ok(listener) => listener,
        Err(sentence) => return failed(&sentence),
    };
    if let Err(e) = vfun_privileges::give_up_all() {
        return failed(&format!("it cannot give its privileges up: {e}"));
    }
    let mut gateway = Gateway::new(args.socket);
    // As they are read again later, too: without root's right to read every file.
    if let (Some(cert), Some(key)) = (args.tls_cert, args.tls_key) {
        match Certificates::new(TlsFiles { cert, key, client_ca: args.tls_client_ca }) {
            Ok(certificates) => gateway = gateway.with_tls(certificates),
            Err(e) => return failed(&e.to_string()),
        }
    }
    let Some(listener) = listener else { return ExitCode::SUCCESS };
    if args.until_stdin_closes {
        std::thread::spawn(|| {
            let mut bytes = [0; 64];
            let mut stdin = std::io::stdin().lock();
            while stdin.read(&mut bytes).is_ok_and(|n| n > 0) {}
            // The manager sees each connection's socket close and cleans up.
            std::process::exit(0);
        });
    }
    gateway.serve(&listener);
    ExitCode::SUCCESS
}
