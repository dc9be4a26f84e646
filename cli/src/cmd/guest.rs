//! `vfun guest`.

use super::client;
use crate::admin::Admin;
use crate::args::Cli;
use crate::fail::{Exit, Failure, Result};
use crate::out;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use vfun_admin::ClientRow;
use vfun_testguest::{Doorbell, Guest, GuestConfig, Kernel, Window};

const AFTER: &str = "\
The guest is a small Linux under QEMU, with KVM if that works here, else emulated. It has busybox, \
vfun and libvfun.so, and the client's window as an ivshmem device with doorbells. The kernel module is \
loaded, if it was built (packaging/kmod.sh does), so that the user `app` may use the window; without it, \
only root may. It needs a manager that runs (vfund --root DIR) and a kernel (packaging/guest-kernel.sh \
fetches one). The client is declared if it is not there.

Examples:
  vfun guest                                         a shell; leave with poweroff or Ctrl-A X
  vfun guest -- vfun call factorial 20
  vfun guest --user app -- vfun call factorial 20    without any right but that of the group vfun
  vfun guest --client vm2 --window 256MiB -- vfun doctor
  vfun guest --file ./my-app -- my-app               take a program along

The exit code is the command's.";

/// Boot a test guest with a window of this host's manager.
///
/// With a command: runs it, prints what it printed, and ends the guest.
/// Without: a shell on this terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The VM's client. One running VM a client.
    #[arg(long, value_name = "NAME", default_value = "guest")]
    client: String,
    /// Size of the window, if the client is not declared yet [default: 64 MiB].
    #[arg(long, value_name = "SIZE")]
    window: Option<String>,
    /// How the window gets into the VM, if the client is not declared yet: with doorbells, or as a plain file [default: ivshmem-doorbell].
    #[arg(long, value_name = "KIND", value_parser = ["ivshmem-doorbell", "ivshmem-plain"])]
    transport: Option<String>,
    /// Whom the command runs as: root, or a user without rights (app).
    #[arg(long, value_name = "USER", default_value = "root", value_parser = ["root", "app"])]
    user: String,
    /// The kernel module to load [default: the one that packaging/kmod.sh built, if it did].
    #[arg(long, value_name = "FILE", conflicts_with = "no_module")]
    module: Option<PathBuf>,
    /// Load no kernel module: only root may use the window then.
    #[arg(long)]
    no_module: bool,
    /// Memory of the guest, MiB [default: 256, and room for what it takes along].
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
    /// Virtual processors.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u32,
    /// A network card; the host's loopback is 10.0.2.2 behind it.
    #[arg(long)]
    net: bool,
    /// A file or folder to take along, to /usr/bin or as FILE:PATH. May be given again.
    #[arg(long = "file", value_name = "FILE[:PATH]")]
    files: Vec<String>,
    /// How long a command may run, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// A command: one word is a script for sh, several are a program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Boots it.
pub fn run(cli: &Cli, args: &Args) -> Result<ExitCode> {
    let admin = Admin::of(cli);
    let (row, added) =
        client::ensure(&admin, &args.client, args.window.as_deref(), args.transport.as_deref())?;
    if added {
        out::note(format!(
            "Declared client '{}' with a window of {}.",
            row.name,
            out::bytes(row.window_bytes)
        ));
    } else if args.window.is_some() {
        out::note(format!(
            "Client '{}' is there already: its window of {} is used.",
            row.name,
            out::bytes(row.window_bytes)
        ));
    }
    let mut config = config(args, &row)?;
    let timeout = Duration::from_secs(args.timeout);
    if args.command.is_empty() {
        let status = vfun_testguest::interactive(&config)?;
        return Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)));
    }
    config.max_life = timeout + Duration::from_secs(300);
    let guest = Guest::boot(&config)?;
    out::note(format!("Booted in {} ({}).", out::duration(guest.boot_time()), guest.accel()));
    let output = guest.run(&as_user(&args.user, script(&args.command)), timeout)?;
    let shut = guest.shutdown(Duration::from_secs(20));
    if cli.json {
        out::json(&serde_json::json!({
            "status": output.status,
            "stdout": String::from_utf8_lossy(&output.stdout),
            "stderr": String::from_utf8_lossy(&output.stderr),
            "truncated": output.truncated,
        }))?;
    } else {
        out::raw(&output.stdout)?;
        out::note(String::from_utf8_lossy(&output.stderr).trim_end());
    }
    if output.truncated {
        out::note("The command printed more than is kept; the rest was lost.");
    }
    if let Err(e) = shut {
        out::note(format!("The guest did not power off by itself: {e}"));
    }
    Ok(ExitCode::from(u8::try_from(output.status).unwrap_or(1)))
}

/// The client's window, with doorbells or without.
fn window(row: &ClientRow) -> Result<(Vec<Window>, Vec<Doorbell>)> {
    match (&row.window_file, &row.socket) {
        (_, Some(socket)) => Ok((vec![], vec![Doorbell::new(socket)])),
        (Some(path), None) => {
            Ok((vec![Window { path: path.clone(), size: row.window_bytes }], vec![]))
        }
        (None, None) => Err(Failure::new(
            Exit::Usage,
            format!("client '{}' is of kind {}: it has no window for a VM", row.name, row.kind),
        )
        .advise("name another client with --client; it is declared if it is not there")),
    }
}

/// The kernel module to load: it drives devices with doorbells only.
fn module(args: &Args, doorbells: bool) -> Result<Option<PathBuf>> {
    if args.no_module || (!doorbells && args.module.is_none()) {
        return Ok(None);
    }
    if let Some(file) = &args.module {
        return Ok(Some(file.clone()));
    }
    let built = Kernel::find()?.kernel_module();
    if !built.is_file() {
        out::note(format!(
            "The kernel module is not built ({}), so that only root may use the window: packaging/kmod.sh builds it.",
            built.display()
        ));
        return Ok(None);
    }
    Ok(Some(built))
}

fn config(args: &Args, row: &ClientRow) -> Result<GuestConfig> {
    let (windows, doorbells) = window(row)?;
    let kernel_module = module(args, !doorbells.is_empty())?;
    let me = std::env::current_exe().map_err(|e| {
        Failure::new(Exit::Failed, format!("this program cannot find itself to take it along: {e}"))
    })?;
    let mut files = vec![(me.clone(), "/usr/bin/vfun".to_owned())];
    let library = me.with_file_name("libvfun.so");
    if library.is_file() {
        files.push((library, "/usr/lib/libvfun.so".into()));
    }
    for file in &args.files {
        files.push(along(file)?);
    }
    let bytes: u64 =
        files.iter().filter_map(|(f, _)| std::fs::metadata(f).ok()).map(|m| m.len()).sum();
    // An initramfs lies in memory twice while it is unpacked.
    let memory = args.memory.unwrap_or(256 + 3 * (bytes >> 20) as u32);
    let name: String = args
        .client
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(24)
        .collect();
    Ok(GuestConfig {
        windows,
        doorbells,
        kernel_module,
        files,
        memory_mib: memory,
        cpus: args.cpus,
        net: args.net,
        ..GuestConfig::new(&name)
    })
}

/// `FILE` or `FILE:PATH`.
fn along(text: &str) -> Result<(PathBuf, String)> {
    let (file, to) = match text.rsplit_once(':') {
        Some((file, to)) if to.starts_with('/') => (Path::new(file), to.to_owned()),
        _ => {
            let file = Path::new(text);
            let name = file
                .file_name()
                .and_then(|n| n.to_str())
                .ok_or_else(|| Failure::usage(format!("--file {text}: it has no name")))?;
            (file, format!("/usr/bin/{name}"))
        }
    };
    match file.exists() {
        true => Ok((file.to_owned(), to)),
        false => Err(Failure::usage(format!("--file {}: there is no such file", file.display()))),
    }
}

/// A command for the guest's shell.
fn script(command: &[String]) -> String {
    match command {
        [one] => one.clone(),
        several => several
            .iter()
            .map(|w| format!("'{}'", w.replace('\'', r"'\''")))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// A script as somebody without rights.
fn as_user(user: &str, script: String) -> String {
    match user {
        "root" => script,
        user => format!("su {user} -c '{}'", script.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_guest_as_they_are() {
        let words = |w: &[&str]| script(&w.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(words(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(words(&["echo", "a b", "it's"]), r"'echo' 'a b' 'it'\''s'");
        assert_eq!(as_user("root", "id".into()), "id");
        assert_eq!(as_user("app", "echo 'a b'".into()), r"su app -c 'echo '\''a b'\'''");
    }

    #[test]
    fn files_say_where_they_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("app");
        std::fs::write(&file, "").unwrap();
        let text = file.to_str().unwrap();
        assert_eq!(along(text).unwrap().1, "/usr/bin/app");
        assert_eq!(along(&format!("{text}:/opt/x")).unwrap(), (file.clone(), "/opt/x".into()));
        assert!(along("/no/such").unwrap_err().what.contains("no such file"));
    }
}
