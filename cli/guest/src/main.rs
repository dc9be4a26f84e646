//! `vfun-guest`: what `vfun guest` runs: a small virtual machine for trying
//! things out.

#![forbid(unsafe_code)]

mod bonded;

use bonded::Bonded;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use vfun_admin::{ClientRow, Transport};
use vfun_cli::admin::Admin;
use vfun_cli::args::Command;
use vfun_cli::cmd::client;
use vfun_cli::cmd::guest::Args;
use vfun_cli::cmd::nics::Competing;
use vfun_cli::fail::{Exit, Failure, Result};
use vfun_cli::out::{self, Output};
use vfun_cli::programs;
use vfun_testguest::{Accel, Doorbell, Guest, GuestConfig, GuestError, Kernel, Window};

/// Free places for further windows of a guest with `--qmp`: a VM in the midst of a chain has a
/// direct link on either side.
const FURTHER_WINDOWS: u32 = 2;

fn main() -> ExitCode {
    vfun_cli::run_alone("guest", |cli| match &cli.command {
        Command::Guest(args) => Some(run(cli.host().root(), cli.output(), args)),
        _ => None,
    })
}

fn failed(e: GuestError) -> Failure {
    Failure::new(Exit::Failed, e.to_string())
}

/// Boots the guest, with its client's window, and runs what was asked for in it.
fn run(root: &Path, output: Output, args: &Args) -> Result<ExitCode> {
    if args.kernel {
        let kernel = Kernel::find().map_err(failed)?;
        out::line(format!("{} in {}", kernel.version(), kernel.dir().display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    // First what can be refused: the client stays declared.
    if let Some(bridge) = &args.bridge {
        bonded::check(bridge)?;
    }
    if let Some(socket) = &args.qmp {
        check_qmp(socket)?;
    }
    if let Some(pool) = &args.pool {
        Competing::check(root, pool)?;
    }
    let row = declared(&Admin::at(root), args)?;
    let mut config = config(args, &row)?;
    let bonded = match &args.bridge {
        Some(bridge) => Some(Bonded::give(&mut config, args, bridge)?),
        None => None,
    };
    let _competing = match (&args.pool, &bonded) {
        (Some(pool), Some(b)) => Some(Competing::declare(root, &args.client, pool, &b.nic)?),
        _ => None,
    };
    if args.command.is_empty() {
        let status = vfun_testguest::interactive(&config).map_err(failed)?;
        return Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)));
    }
    command(output, args, config)
}

/// The client, and of one with several VMs the one that is meant; declared if it is not there.
fn declared(admin: &Admin, args: &Args) -> Result<ClientRow> {
    let (row, added) =
        client::ensure(admin, &args.client, args.window.as_deref(), args.transport.as_deref())?;
    if added {
        out::note(format!(
            "Declared client '{}' with a window of {}.",
            row.shown(),
            out::bytes(row.window_bytes)
        ));
    } else if args.window.is_some() {
        out::note(format!(
            "Client '{}' is there already: its window of {} is used.",
            row.shown(),
            out::bytes(row.window_bytes)
        ));
    }
    Ok(row)
}

/// Boots the guest for one command, and ends it.
fn command(output: Output, args: &Args, mut config: GuestConfig) -> Result<ExitCode> {
    let timeout = Duration::from_secs(args.timeout);
    config.max_life = timeout + Duration::from_secs(300);
    let guest = Guest::boot(&config).map_err(failed)?;
    out::note(format!("Booted in {} ({}).", out::duration(guest.boot_time()), guest.accel()));
    if guest.accel() == Accel::Tcg {
        out::note(emulated());
    }
    let done = guest.run(&as_user(&args.user, script(&args.command)), timeout).map_err(failed)?;
    let shut = guest.shutdown(Duration::from_secs(20));
    if output.is_json() {
        out::json(&serde_json::json!({
            "status": done.status,
            "stdout": String::from_utf8_lossy(&done.stdout),
            "stderr": String::from_utf8_lossy(&done.stderr),
            "truncated": done.truncated,
        }))?;
    } else {
        out::raw(&done.stdout)?;
        out::note(String::from_utf8_lossy(&done.stderr).trim_end());
    }
    if done.truncated {
        out::note("The command printed more than is kept; the rest was lost.");
    }
    if let Err(e) = shut {
        out::note(format!("The guest did not power off by itself: {e}"));
    }
    Ok(ExitCode::from(u8::try_from(done.status).unwrap_or(1)))
}

/// The library under each name that leads to it: programs that are linked with
/// it ask for the one that has its ABI's version.
fn names(library: &Path) -> Vec<(PathBuf, String)> {
    let beside = library.parent().into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    let of_library = beside.filter_map(|e| Some((e.path(), e.file_name().into_string().ok()?)));
    of_library
        .filter(|(_, name)| name.starts_with("libvfun.so"))
        .map(|(path, name)| (path, format!("/usr/lib/{name}")))
        .collect()
}

/// Why there is no KVM.
fn emulated() -> String {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/kvm");
    let why = match (std::env::var_os("VFUN_TEST_ACCEL"), opened) {
        (Some(asked), _) if asked == "tcg" => "VFUN_TEST_ACCEL asks for it".to_owned(),
        (_, Err(e)) => format!("/dev/kvm cannot be opened: {e}"),
        (_, Ok(_)) => {
            "/dev/kvm can be opened, but a guest that was tried with it did not boot".into()
        }
    };
    format!("The guest is emulated, which is slow: {why}.")
}

/// Gives the guest its window, as its transport has it.
fn wire(config: &mut GuestConfig, row: &ClientRow) -> Result<()> {
    let size = row.transport.row().origin + row.window_bytes;
    let file = row.window_file.clone().map(|path| Window { path, size });
    match (row.transport, file, &row.socket) {
        (Transport::IvshmemDoorbell, _, Some(socket)) => {
            config.doorbells.push(Doorbell::new(socket));
        }
        (Transport::IvshmemPlain, Some(window), _) => config.windows.push(window),
        (Transport::Pmem, Some(window), _) => config.pmems.push(window),
        (Transport::Dir, ..) => {
            return Err(Failure::usage(format!(
                "the window of client '{}' is a folder (transport \"dir\"), which QEMU cannot give to a guest",
                row.shown()
            ))
            .advise("a container mounts it: `vfun client show` says how; name another client with --client for a guest"));
        }
        _ => {
            return Err(Failure::usage(format!(
                "client '{}' is of kind {}: it has no window for a VM",
                row.shown(),
                row.kind
            ))
            .advise("name another client with --client; it is declared if it is not there"));
        }
    }
    Ok(())
}

/// The kernel module to load: it drives devices with doorbells only.
fn module(args: &Args, doorbells: bool) -> Result<Option<PathBuf>> {
    if args.no_module || (!doorbells && args.module.is_none()) {
        return Ok(None);
    }
    if let Some(file) = &args.module {
        return Ok(Some(file.clone()));
    }
    let built = Kernel::find().map_err(failed)?.kernel_module();
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
    let kernel_module = module(args, row.transport.row().doorbell)?;
    let vfun = programs::find("vfun").ok_or_else(|| {
        Failure::new(Exit::Failed, "the program vfun is not there to be taken along")
            .advise("build or install it beside vfun-guest")
    })?;
    let beside = vfun.with_file_name("libvfun.so");
    let installed = vfun.with_file_name("../lib/libvfun.so");
    let library = [beside, installed].into_iter().find(|l| l.is_file());
    let mut files = vec![(vfun, "/usr/bin/vfun".to_owned())];
    files.extend(library.iter().flat_map(|l| names(l)));
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
    let mut config = GuestConfig {
        kernel_module,
        files,
        memory_mib: memory,
        cpus: args.cpus,
        net: args.net,
        ..GuestConfig::new(&name)
    };
    if let Some(socket) = &args.qmp {
        reachable(&mut config, socket);
    }
    wire(&mut config, row)?;
    Ok(config)
}

/// QEMU listens for others, and further windows can be plugged in.
fn reachable(config: &mut GuestConfig, socket: &Path) {
    let path = socket.display();
    config.hotplug_ports = FURTHER_WINDOWS;
    config.extra_args.extend(["-qmp".into(), format!("unix:{path},server=on,wait=off")]);
}

/// Refuses a socket that QEMU could not make.
fn check_qmp(socket: &Path) -> Result<()> {
    let shown = socket.display();
    // QEMU splits its options at commas.
    if socket.to_str().is_none_or(|path| path.contains(',')) {
        return Err(Failure::usage(format!(
            "--qmp {shown}: a path in UTF-8 without a comma is needed"
        )));
    }
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_none_or(Path::is_dir) {
        true => Ok(()),
        false => Err(Failure::usage(format!("--qmp {shown}: its folder is not there"))
            .advise("make the folder first, or name a socket in another one")),
    }
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
    fn a_control_socket_is_refused_before_anything_is_declared() {
        let why = |path: &str| check_qmp(Path::new(path)).unwrap_err().what;
        assert!(why("/tmp/a,b").contains("without a comma"));
        assert!(why("/nowhere/at/all/x").contains("its folder is not there"));
        check_qmp(Path::new("/tmp/x")).unwrap();
        check_qmp(Path::new("x")).unwrap();
    }

    #[test]
    fn words_reach_the_guest_as_they_are() {
        let words = |w: &[&str]| script(&w.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(words(&["ls | wc -l"]), "ls | wc -l");
        assert_eq!(words(&["echo", "a b", "it's"]), r"'echo' 'a b' 'it'\''s'");
        assert_eq!(as_user("root", "id".into()), "id");
        assert_eq!(as_user("app", "echo 'a b'".into()), r"su app -c 'echo '\''a b'\'''");
    }

    #[test]
    fn a_guest_gets_its_window_as_its_transport_has_it() {
        let row = |transport: Transport, host: bool| {
            let socket = transport == Transport::IvshmemDoorbell;
            let file = transport.in_file().then_some("/w");
            let row = serde_json::json!({
                "id": 1, "name": "vm1", "kind": if host { "host" } else { "vm" }, "vm": "vm1",
                "window_bytes": 4 << 20, "transport": transport, "window_file": file,
                "socket": socket.then_some("/s"), "connected": false, "functions": [],
                "max_grants": 1, "tcp": false, "tcp_open": false, "credential": false,
                "tokens": false, "tokens_valid": 0,
            });
            serde_json::from_value::<ClientRow>(row).unwrap()
        };
        let wired = |transport: Transport| {
            let mut config = GuestConfig::new("x");
            wire(&mut config, &row(transport, transport == Transport::Host)).map(|()| {
                let sizes = |all: &[Window]| all.iter().map(|w| w.size >> 20).collect::<Vec<_>>();
                (config.doorbells.len(), sizes(&config.windows), sizes(&config.pmems))
            })
        };
        assert_eq!(wired(Transport::IvshmemDoorbell).unwrap(), (1, vec![], vec![]));
        assert_eq!(wired(Transport::IvshmemPlain).unwrap(), (0, vec![4], vec![]));
        assert_eq!(wired(Transport::Pmem).unwrap(), (0, vec![], vec![6]), "and what is before it");
        for (transport, says) in [(Transport::Dir, "is a folder"), (Transport::Host, "no window")] {
            let e = wired(transport).unwrap_err();
            assert!(e.exit == Exit::Usage && e.what.contains(says), "{e:?}");
        }
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
