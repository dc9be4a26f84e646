//! Prints what holds for frames of some ports of a bridge, whenever it changes.
//!
//! `verdicts RUNDIR BRIDGE TYPE INTERFACE...`, for example
//! `verdicts /run/openvswitch br0 dpdk eth1 eth2`.

use vfun_links::{OurPort, Places, watch};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [run, bridge, kind, interfaces @ ..] = &words[..] else {
        eprintln!("usage: verdicts RUNDIR BRIDGE TYPE INTERFACE...");
        std::process::exit(2);
    };
    let run = std::path::PathBuf::from(run);
    let places = Places { database: run.join("db.sock"), run, bridge: bridge.clone() };
    let port = |interface: &String| OurPort {
        interface: interface.clone(),
        kind: kind.clone(),
        devargs: None,
        mtu: 1500,
    };
    let (_watch, changes) = watch(places, interfaces.iter().map(port).collect());
    for change in changes {
        println!("{}: {}", change.from, change.verdict);
    }
}
