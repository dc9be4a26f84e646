//! nginx, by wrk.

use super::{Bare, Latency};
use crate::netprograms::{host, said};
use std::time::Duration;

pub const PORT: u16 = 8080;

const CONFIGURATION: &str = "daemon off;
master_process off;
error_log stderr;
pid /tmp/nginx.pid;
events {}
http {
    access_log off;
    # wrk asks by one connection for as long as it runs.
    keepalive_requests 100000000;
    server { listen 8080; location / { root /srv/www; } }
}
";

pub fn prepare(bare: &Bare) {
    bare.writes("/etc/nginx.conf", CONFIGURATION);
    bare.folder_of("/srv/www", 0);
    bare.writes("/srv/www/page", &"x".repeat(1024));
}

pub fn latency(address: &str, long: Duration) -> Result<Latency, String> {
    let (page, s) = (format!("http://{address}:{PORT}/page"), format!("{}s", long.as_secs()));
    let words = ["--latency", "-c", "1", "-t", "1", "--timeout", "10s", "-d", &s, &page];
    let said = said(host("/usr/bin/wrk").args(words))?;
    let latency = (|| {
        let lines = said.lines().map(str::trim);
        let line = |words: &str| lines.clone().find(|line| line.starts_with(words));
        let at = |percent: &str| microseconds(line(percent)?.split_whitespace().nth(1)?);
        let (p50_us, p99_us) = (at("50% ")?, at("99% ")?);
        // "4523 requests in 2.00s, 1.2MB read"
        let requests = lines.clone().find(|line| line.contains(" requests in "))?;
        let answered = requests.split(' ').next()?.parse().ok()?;
        // Lines that are there only if they are not 0.
        let failed = line("Socket errors:").into_iter().chain(line("Non-2xx or 3xx responses:"));
        let failed =
            failed.flat_map(|line| line.split([' ', ',']).filter_map(|w| w.parse::<usize>().ok()));
        let failed = failed.sum();
        Some(Latency { answered, failed, p50_us, p99_us })
    })();
    latency.ok_or_else(|| format!("wrk counted nothing: {said}"))
}

/// Of "412.00us", "1.02ms" or "1.10s".
fn microseconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit = match &text[at..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(text[..at].parse::<f64>().ok()? * unit)
}
