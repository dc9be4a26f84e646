//! `vfun-metrics`: shows a manager's counters to Prometheus.

#![forbid(unsafe_code)]

use clap::Parser;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use vfun_metrics::http::Answer;
use vfun_metrics::source::Source;
use vfun_metrics::{exposition, http, limits};

/// Shows a manager's counters to Prometheus, at http://ADDR:PORT/metrics.
///
/// The manager starts it (`vfund --metrics ADDR:PORT`); it can also be started
/// by hand, as the manager's own user.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Address to listen on. There is neither encryption nor a password: everybody who
    /// reaches it can read the names of clients, apps and functions.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9733")]
    listen: String,
    /// The manager's admin socket.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/virtfun/admin/vfund.sock")]
    socket: PathBuf,
    /// End when standard input closes: when the process that started this one ends.
    #[arg(long)]
    until_stdin_closes: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    vfun_log::begin();
    let listener = match TcpListener::bind(&args.listen) {
        Ok(listener) => listener,
        Err(e) => {
            eprintln!(
                "vfun-metrics: cannot listen on {}: {e}. Choose an address of this machine and a free port.",
                args.listen
            );
            return ExitCode::FAILURE;
        }
    };
    // What comes from the network from here on finds no right of root's to use.
    if let Err(e) = vfun_privileges::give_up_all() {
        eprintln!("vfun-metrics: it cannot give its privileges up: {e}");
        return ExitCode::FAILURE;
    }
    if let Ok(address) = listener.local_addr()
        && !address.ip().is_loopback()
    {
        tracing::warn!("metrics are shown on {address} to everybody who reaches it");
    }
    if args.until_stdin_closes {
        std::thread::spawn(|| {
            let mut bytes = [0; 64];
            let mut stdin = std::io::stdin().lock();
            while stdin.read(&mut bytes).is_ok_and(|n| n > 0) {}
            std::process::exit(0);
        });
    }
    let source = Arc::new(Source::new(args.socket));
    let looking = source.clone();
    std::thread::spawn(move || {
        loop {
            drop(looking.look());
            std::thread::sleep(limits::LOOK);
        }
    });
    let lent = source.clone();
    std::thread::spawn(move || {
        loop {
            lent.look_at_nics();
            std::thread::sleep(limits::LOOK);
        }
    });
    http::serve(&listener, move |path| match path {
        "/metrics" => match exposition::text(&source) {
            Ok(body) => Answer { status: 200, content_type: exposition::CONTENT_TYPE, body },
            Err(_) => Answer::plain(500, "the metrics could not be written"),
        },
        "/" => Answer::plain(200, "VirtFun's metrics are at /metrics"),
        _ => Answer::plain(404, "there is only /metrics"),
    });
    ExitCode::SUCCESS
}
