//! ssh: one connection that stays open. Lines go to the VM, and `cat` sends them back.

use super::{ROOT, VM, host, longest, serve as start};
use crate::module::ok;
use crate::pinger::Count;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use vfun_testguest::Guest;

/// Time between two lines.
const EVERY: Duration = Duration::from_millis(10);
/// Where the VM's keys are, in the programs' root: the server's and the user's.
const KEYS: [&str; 2] = ["/etc/ssh/host", "/etc/ssh/user"];

pub fn serve(guest: &Guest, _: Duration) {
    for key in KEYS {
        let make = format!("chroot {ROOT} /usr/bin/ssh-keygen -q -t ed25519 -N '' -f {key}");
        ok(guest, &format!("test -e {ROOT}{key} || {make}"));
    }
    let [server, user] = KEYS;
    let words = format!(
        "/usr/sbin/sshd -D -e -f /dev/null -o HostKey={server} -o AuthorizedKeysFile={user}.pub \
         -o StrictModes=no -o PidFile=none -o ListenAddress=0.0.0.0"
    );
    start(guest, &words, 22);
}

fn connect(key: &std::path::Path) -> Child {
    host("/usr/bin/ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"])
        .args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"])
        // It ends where nothing comes for a minute, rather than never.
        .args(["-o", "ServerAliveInterval=20", "-o", "ServerAliveCountMax=3"])
        .arg("-i")
        .arg(key)
        .args([&format!("root@{VM}"), "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ssh starts")
}

pub fn run(guest: &Guest, long: Duration) -> Result<Count, String> {
    // Nobody else may read it: ssh looks.
    let mut key = tempfile::NamedTempFile::new().unwrap();
    writeln!(key, "{}", ok(guest, &format!("cat {ROOT}{}", KEYS[1]))).unwrap();
    let mut ssh = connect(key.path());
    let (mut input, output) = (ssh.stdin.take().unwrap(), ssh.stdout.take().unwrap());
    let began = Instant::now();
    let back = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.map(|line| (line, began.elapsed().as_secs_f64())).collect::<Vec<_>>()
    });
    let mut sent = 0;
    while began.elapsed() < long && writeln!(input, "{sent}").is_ok() {
        sent += 1;
        std::thread::sleep(EVERY);
    }
    drop(input);
    let mut errors = String::new();
    let _ = ssh.stderr.take().unwrap().read_to_string(&mut errors);
    let status = ssh.wait().unwrap();
    let back = back.join().expect("it only reads");
    if !status.success() {
        return Err(format!("ssh ended after {} of {sent} lines: {status}: {errors}", back.len()));
    }
    let right = back.iter().enumerate().filter(|(n, (line, _))| *line == n.to_string()).count();
    let gap = longest(back.into_iter().map(|(_, at)| at).collect());
    Ok(Count { sent, lost: sent - right, gap, ..Count::default() })
}
