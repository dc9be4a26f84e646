//! NICs that QEMU emulates: taps on a bridge of the host.

use super::names::{MARK, port_mac, port_name};
use super::{Provider, VfOwner};
use crate::child;
use crate::limits::IP_TIME;
use crate::netdev::Netdev;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vfun_nics::{PoolName, VfFound, VfId};

/// The taps of a pool, one a VF.
pub struct Emulated {
    pool: PoolName,
    vfs: u16,
    sys: PathBuf,
}

fn ip(words: &[&str]) -> Result<(), String> {
    child::must("ip", words, "", IP_TIME).map(drop)
}

impl Emulated {
    pub fn new(pool: PoolName, vfs: u16, sys: PathBuf) -> Self {
        Emulated { pool, vfs, sys }
    }

    fn ids(&self) -> impl Iterator<Item = VfId> + '_ {
        (0..self.vfs).map(|n| VfId(format!("{}-{n}", self.pool)))
    }

    fn tap(&self, vf: &VfId) -> Netdev {
        Netdev::new(&self.sys, &port_name(vf))
    }

    fn remove(&self, tap: &Netdev) -> Result<(), String> {
        if !tap.is_there() {
            return Ok(());
        }
        if let Some(why) = of_others(tap) {
            return Err(why);
        }
        ip(&["link", "del", "dev", tap.name()])
    }
}

/// Makes a tap with its mark. One process does both, so that none is left unmarked if this
/// one is killed in between.
fn make(tap: &Netdev, user: u32) -> Result<(), String> {
    let name = tap.name();
    let mac = port_mac(name);
    let lines = format!(
        "tuntap add dev {name} mode tap user {user}\nlink set dev {name} alias {MARK} address {mac}\n"
    );
    child::must("ip", &["-batch", "-"], &lines, IP_TIME).map(drop)
}

/// Why an interface that is there is not this program's own.
fn of_others(tap: &Netdev) -> Option<String> {
    let ours = tap.is_tap() && tap.read("ifalias").as_deref() == Some(MARK);
    let name = tap.name();
    (!ours).then(|| {
        format!(
            "another program made the interface {name}: rename it there, or remove it if nobody uses it (ip link del dev {name})"
        )
    })
}

impl Provider for Emulated {
    fn list(&mut self) -> Result<Vec<VfFound>, String> {
        let found = |vf: VfId| {
            let tap = self.tap(&vf);
            let there = tap.is_there();
            let unusable = if there { of_others(&tap) } else { None };
            VfFound { vf, unusable, clean: !there }
        };
        Ok(self.ids().map(found).collect())
    }

    fn prepare(&mut self, vf: &VfId, owner: &VfOwner) -> Result<(), String> {
        if owner.vlan.is_some() || owner.rate_mbit.is_some() {
            return Err("an emulated VF has neither a VLAN nor a bound on its rate; use a pool of a card, or declare the VM without --vlan and --rate".into());
        }
        if !Netdev::new(&self.sys, &owner.bridge).is_bridge() {
            return Err(format!(
                "there is no bridge {} on this host: make it, or declare the VM with another --bridge",
                owner.bridge
            ));
        }
        let tap = self.tap(vf);
        self.remove(&tap)?;
        make(&tap, owner.user.unwrap_or(0))?;
        ip(&["link", "set", "dev", tap.name(), "master", &owner.bridge])?;
        ip(&["link", "set", "dev", tap.name(), "up"])
    }

    fn reset(&mut self, vf: &VfId) -> Result<(), String> {
        self.remove(&self.tap(vf))
    }

    fn packets(&mut self) -> BTreeMap<VfId, u64> {
        self.ids().filter_map(|vf| Some((vf.clone(), self.tap(&vf).packets()?))).collect()
    }
}
