//! What people and programs ask `vfun-nics`: one JSON request a line on the socket
//! `ROOT/nics/vfun-nics.sock`, one JSON answer a line. `vfun nics` speaks it; so can any
//! script, or a compute agent that plugs by itself.

use crate::orders::{Outcome, PlugOrder};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use vfun_admin::VmName;
use vfun_leases::Policy;
use vfun_nics::declared::{Pool, Rule, Vm};
use vfun_nics::history::HistoryView;
use vfun_nics::view::View;

/// Where `vfun-nics` listens, with this root.
pub fn socket(root: &Path) -> PathBuf {
    root.join("nics/vfun-nics.sock")
}

/// A question, or something to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// All pools, VFs and VMs, and why things are as they are.
    View,
    /// Who used which VF, and what VMs sent, as far as it is remembered.
    History { pool: Option<String> },
    /// The tap of each VM that is declared.
    Taps,
    /// Declares a pool of VFs, or changes the settings of one.
    AddPool { name: String, pool: Pool },
    /// Takes a pool away; VMs give their VFs back first.
    RemovePool { name: String },
    /// Changes how a pool's VFs are given out; what is not named stays.
    SetPool {
        name: String,
        policy: Option<Policy>,
        interval_ms: Option<u64>,
        tenure_ms: Option<u64>,
    },
    /// Declares a VM, or changes its settings. A rule, reserve or cap that it has stays.
    AddVm { name: VmName, vm: Vm },
    /// Takes a VM away; it gives its VF back first.
    RemoveVm { name: VmName },
    /// Pins a VM, bans it, or lets it compete again.
    SetRule { name: VmName, rule: Rule },
    /// Percent of the time that a VM holds a VF at least.
    Reserve { name: VmName, percent: u8 },
    /// Percent of the time that a VM holds a VF at most.
    Cap { name: VmName, percent: u8 },
    /// The VM is going to be migrated: it gives its VF back and gets none.
    Migrate { name: VmName },
    /// That is over.
    MigrationEnded { name: VmName },
    /// What programs that plug by themselves are to do.
    Orders,
    /// Such an order was carried out, or could not be.
    Done { order: u64, outcome: Outcome },
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Ask::View`].
    View(View),
    /// To [`Ask::History`]; times are ms since 1970.
    History(HistoryView),
    /// To [`Ask::Taps`].
    Taps { taps: Vec<(VmName, String)> },
    /// To [`Ask::Orders`].
    Orders { orders: Vec<PlugOrder> },
    /// It is done, or begun: what, in a sentence.
    Done { sentence: String },
    /// It is refused: why and what to do, in a sentence.
    Refused { sentence: String },
}
