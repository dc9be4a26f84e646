//! `vfun-hostile`: does to its window whatever a client can. On the host it gets
//! one by the manager's socket; in a guest it maps the device.
//!
//!   vfun-hostile --attack NAME|all --seed N --seconds S --socket host.sock [--client NAME]
//!   vfun-hostile --attack NAME|all --seed N --seconds S --pci [ADDRESS]
//!
//! It prints what it did, one line an attack, and always succeeds if it could
//! begin: what came of it is for the other side to say.

#![forbid(unsafe_code)]

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use vfun_tests_hostile::attack::{ATTACKS, Attack, Others};
use vfun_tests_hostile::steps::{self, Step};
use vfun_tests_hostile::window::Place;

/// Attacks the host through a window.
#[derive(Parser)]
struct Args {
    /// Which attack; `all` for each in turn, `list` to see them.
    #[arg(long, required_unless_present_any = ["step", "idle"], default_value = "")]
    attack: String,
    /// Instead: go as far as this step of a session and die there.
    #[arg(long, conflicts_with = "attack")]
    step: Option<String>,
    /// Say so there in this file, and stay: somebody else will end this machine.
    #[arg(long, requires = "step")]
    stay: Option<PathBuf>,
    /// Instead: be a neighbour that is idle, but keeps so many threads busy.
    #[arg(long, conflicts_with_all = ["attack", "step"])]
    idle: Option<u32>,
    /// The same seed does the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For how long, each.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The manager's socket for programs on the host.
    #[arg(long, conflicts_with_all = ["pci", "file"])]
    socket: Option<PathBuf>,
    /// The client to act for there.
    #[arg(long, default_value = "host")]
    client: String,
    /// An ivshmem device of this machine; without an address the only one.
    #[arg(long, num_args = 0..=1, default_missing_value = "", conflicts_with = "file")]
    pci: Option<String>,
    /// A plain window's file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// The gateway, to be flooded too.
    #[arg(long)]
    tcp: Option<String>,
    /// A VM's socket, to be flooded too.
    #[arg(long)]
    vm_socket: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.attack == "list" {
        for a in ATTACKS {
            println!("{:<14} {}", a.name, a.what);
        }
        return ExitCode::SUCCESS;
    }
    let place = match (args.socket, args.pci, args.file) {
        (Some(socket), None, None) => Place::Host { socket, client: args.client },
        (None, Some(address), None) => Place::Pci((!address.is_empty()).then_some(address)),
        (None, None, Some(file)) => Place::File(file),
        _ => {
            eprintln!("vfun-hostile: name a window: --socket, --pci or --file");
            return ExitCode::from(2);
        }
    };
    if let Some(step) = args.step {
        let Some(step) = Step::named(&step) else {
            eprintln!("vfun-hostile: no such step: {step}");
            return ExitCode::from(2);
        };
        let held = match step.reach(&place) {
            Ok(held) => held,
            Err(e) => {
                eprintln!("vfun-hostile: {e}");
                return ExitCode::FAILURE;
            }
        };
        if let Some(file) = args.stay {
            let said = std::fs::write(file, step.name());
            std::thread::sleep(Duration::from_secs(600));
            drop(held);
            return said.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
        }
        steps::die();
    }
    if let Some(threads) = args.idle {
        return idle(&place, threads, Duration::from_secs_f64(args.seconds));
    }
    let guest = matches!(place, Place::Pci(_));
    let chosen: Vec<&Attack> = match args.attack.as_str() {
        "all" => ATTACKS.iter().filter(|a| !guest || a.in_guests).collect(),
        names => {
            let found: Option<Vec<_>> = names.split(',').map(Attack::named).collect();
            match found {
                Some(found) => found,
                None => {
                    eprintln!("vfun-hostile: no such attack: {names}; --attack list shows them");
                    return ExitCode::from(2);
                }
            }
        }
    };
    let others = Others { tcp: args.tcp, vm_socket: args.vm_socket };
    for attack in chosen {
        println!("attack {} seed {} begins", attack.name, args.seed);
        let time = Duration::from_secs_f64(args.seconds);
        let r = attack.run(&place, &others, args.seed, time);
        println!(
            "attack {} seed {} seconds {}: rounds {} deeds {} windows {} refused {}",
            attack.name, args.seed, args.seconds, r.rounds, r.deeds, r.windows, r.refused
        );
    }
    ExitCode::SUCCESS
}

/// Has a window and a session, and spins beside without touching them.
fn idle(place: &Place, threads: u32, time: Duration) -> ExitCode {
    let held = Step::Greeted.reach(place);
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < until {
                    for _ in 0..1000 {
                        std::hint::spin_loop();
                    }
                }
            });
        }
    });
    if held.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
