//! A download by FTP: vsftpd in the VM sends a file, at a bounded rate, and curl takes it.

use super::{ROOT, VM, host, longest, serve as start};
use crate::module::ok;
use crate::pinger::Count;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};
use vfun_testguest::Guest;

/// Bytes a second. The server bounds them: a slow reader would hide gaps, as data waits in
/// its buffers.
const RATE: u64 = 250_000;
/// The file has numbers, each in a line of its own, from this one on.
const FIRST: u64 = 1_000_000;
/// Bytes of a line.
const LINE: u64 = 8;
const CONFIG: &str = "\
listen=YES
background=NO
anonymous_enable=YES
local_enable=NO
no_anon_password=YES
anon_root=/srv/ftp
secure_chroot_dir=/run/vsftpd/empty
trans_chunk_size=4096
";

fn lines(long: Duration) -> u64 {
    long.as_secs() * RATE / LINE
}

pub fn serve(guest: &Guest, long: Duration) {
    let last = FIRST + lines(long) - 1;
    ok(guest, &format!("seq {FIRST} {last} > {ROOT}/srv/ftp/numbers"));
    let config = format!("{CONFIG}anon_max_rate={RATE}");
    ok(guest, &format!("echo '{config}' > {ROOT}/etc/vsftpd.conf"));
    start(guest, "/usr/sbin/vsftpd /etc/vsftpd.conf", 21);
}

pub fn run(_: &Guest, long: Duration) -> Result<Count, String> {
    let mut curl = host("/usr/bin/curl")
        .args(["--silent", "--show-error"])
        // It ends where nothing comes for a minute, rather than never.
        .args(["--speed-limit", "1", "--speed-time", "60"])
        .arg(format!("ftp://{VM}/numbers"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("curl starts");
    let mut output = curl.stdout.take().unwrap();
    let (began, mut bytes, mut moments) = (Instant::now(), vec![], vec![]);
    let mut some = [0; 65536];
    while let Ok(n @ 1..) = output.read(&mut some) {
        bytes.extend_from_slice(&some[..n]);
        moments.push(began.elapsed().as_secs_f64());
    }
    let out = curl.wait_with_output().unwrap();
    let whole = lines(long) * LINE;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Err(format!("curl ended after {} of {whole} bytes: {why}", bytes.len()));
    }
    let text: String = (FIRST..FIRST + lines(long)).map(|n| format!("{n}\n")).collect();
    if text.as_bytes() != bytes {
        return Err(format!("curl got {} bytes that are not the {whole} of the file", bytes.len()));
    }
    Ok(Count { sent: bytes.len(), lost: 0, gap: longest(moments), ..Count::default() })
}
