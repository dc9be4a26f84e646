//! `vfun-nics`: gives the virtual functions of network cards to VMs that run.

#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use vfun_nicd::Settings;

/// Gives the virtual functions (VFs) of network cards to VMs that run.
///
/// The manager starts it (`vfund --nics`), and people use it by `vfun nics`. It decides
/// which VMs hold a VF, plugs VFs in and out by QEMU's control socket or libvirt, and
/// keeps notes of all owners in ROOT/nics. It needs root's rights on the network
/// and the programs of iproute2.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Root of the manager's tree.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/virtfun")]
    root: PathBuf,
    /// End when standard input closes: when the process that started this one ends.
    /// Standard input is the manager's socket in any case.
    #[arg(long)]
    until_stdin_closes: bool,
    /// Where the kernel shows devices; tests have another tree.
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    sys: PathBuf,
    /// Where the kernel's settings are; tests have another tree.
    #[arg(long, value_name = "DIR", default_value = "/proc", hide = true)]
    proc: PathBuf,
    /// Where VFIO's files are; tests have another tree.
    #[arg(long, value_name = "DIR", default_value = "/dev", hide = true)]
    dev: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    vfun_log::begin();
    let Args { root, until_stdin_closes, sys, proc, dev } = args;
    match vfun_nicd::run(Settings { root, until_stdin_closes, sys, proc, dev }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("vfun-nics: {why}.");
            ExitCode::FAILURE
        }
    }
}
