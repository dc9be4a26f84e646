//! Hands by libvirt, asked through `virsh`: libvirt then knows of the device.

mod xml;

use super::{Device, Hands, SaidByVm};
use crate::child::{self, ChildTrouble, Said};
use crate::limits::{LOOK_AT_LEAVING, LOOK_AT_VM, VIRSH_CHANGE, VIRSH_DOUBT, VIRSH_LOOK};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use vfun_nics::{VfId, VmFound};

/// For so long libvirt is asked often whether a VF has left.
const LEAVES_SOON: Duration = Duration::from_secs(10);

/// Hands of a domain.
pub struct Libvirt {
    domain: String,
    /// VFs of which a plug may still be under way in libvirt, and since when.
    in_doubt: BTreeMap<VfId, Instant>,
    /// VFs that were asked to leave, and when.
    leaving: BTreeMap<VfId, Instant>,
    said: Vec<SaidByVm>,
}

/// Whether libvirt has the device.
enum Presence {
    Plugged,
    Not,
}

impl Libvirt {
    /// `noted`: VFs of which an earlier process may have begun a plug.
    pub fn new(domain: String, noted: Vec<VfId>) -> Self {
        let now = Instant::now();
        let in_doubt = noted.into_iter().map(|vf| (vf, now)).collect();
        Libvirt { domain, in_doubt, leaving: BTreeMap::new(), said: vec![] }
    }

    fn virsh(&self, words: &[&str], stdin: &str, at_most: Duration) -> Result<Said, ChildTrouble> {
        let words: Vec<&str> = std::iter::once("--quiet").chain(words.iter().copied()).collect();
        child::run("virsh", &words, stdin, at_most)
    }

    /// The running domain's description; none if it does not run.
    fn description(&self) -> Result<Option<String>, String> {
        let look = |words: &[&str]| {
            self.virsh(words, "", VIRSH_LOOK).map_err(|trouble| trouble.to_string())
        };
        let state = look(&["domstate", "--", &self.domain])?;
        if !state.ok {
            // virsh says the same of a domain that is not there and of a connection that
            // broke: a list of all domains tells which.
            let list = look(&["list", "--all", "--uuid", "--name"])?;
            return match list.ok && !lists(&list.stdout, &self.domain) {
                true => Ok(None),
                false => Err(format!("virsh domstate: {}", state.stderr)),
            };
        }
        match state.stdout.as_str() {
            "shut off" => return Ok(None),
            // QEMU may be kept after a crash.
            "running" | "idle" | "paused" | "in shutdown" | "crashed" | "pmsuspended" => {}
            other => return Err(format!("libvirt does not know the domain's state: '{other}'")),
        }
        let xml = look(&["dumpxml", "--", &self.domain])?;
        match xml.ok {
            true => Ok(Some(xml.stdout)),
            false => Err(format!("virsh dumpxml: {}", xml.stderr)),
        }
    }

    /// Ends doubts where that is possible. A domain does one change at a time: one that asks
    /// for the device, and finds none long after the plug was begun, comes after it.
    fn settle(&mut self, plugged: &[VfId]) {
        self.in_doubt.retain(|vf, _| !plugged.contains(vf));
        let old: Vec<VfId> = self
            .in_doubt
            .iter()
            .filter(|(_, since)| since.elapsed() >= VIRSH_DOUBT)
            .map(|(vf, _)| vf.clone())
            .collect();
        for vf in old {
            if let Ok(Presence::Not) = self.detach(&vf) {
                self.in_doubt.remove(&vf);
            }
        }
    }

    fn detach(&self, vf: &VfId) -> Result<Presence, String> {
        let alias = xml::alias(vf);
        let words = ["detach-device-alias", "--live", "--", &self.domain, &alias];
        let said = self.virsh(&words, "", VIRSH_CHANGE).map_err(|t| t.to_string())?;
        let has = |part: &str| said.stderr.contains(part);
        match said.ok || has("in the process of unplug") {
            true => Ok(Presence::Plugged),
            false if has("no device found") || has("device not found") => Ok(Presence::Not),
            false => Err(format!("virsh detach-device-alias: {}", said.stderr)),
        }
    }
}

/// Whether a list of domains, each with UUID and name, has this one by either.
fn lists(list: &str, domain: &str) -> bool {
    let mut lines = list.lines().filter_map(|line| line.trim().split_once(' '));
    lines.any(|(uuid, name)| uuid.eq_ignore_ascii_case(domain) || name.trim() == domain)
}

/// Whether a failed `virsh` leaves open what libvirt does: it lost the connection.
fn leaves_open(stderr: &str) -> bool {
    const LOST: [&str; 6] = [
        "End of file",
        "Disconnected",
        "socket is closed",
        "keepalive",
        "onnection reset",
        "roken pipe",
    ];
    LOST.iter().any(|part| stderr.contains(part))
}

impl Hands for Libvirt {
    fn inspect(&mut self) -> VmFound {
        let xml = match self.description() {
            Ok(Some(xml)) => xml,
            Ok(None) => {
                self.in_doubt.clear();
                self.leaving.clear();
                return VmFound::Ended;
            }
            Err(why) => return VmFound::Unknown { why },
        };
        let mut plugged = xml::plugged(&xml);
        self.leaving.retain(|vf, _| plugged.contains(vf));
        self.settle(&plugged);
        // Under way counts as plugged in.
        plugged.extend(self.in_doubt.keys().cloned());
        VmFound::Runs { plugged }
    }

    fn plug(&mut self, device: &Device) -> Result<(), String> {
        let xml = self.description()?.ok_or("the domain does not run")?;
        if xml::plugged(&xml).contains(&device.vf) {
            return Ok(());
        }
        if self.in_doubt.contains_key(&device.vf) {
            return Err("an earlier plug of it may still be under way in libvirt".into());
        }
        let words = ["attach-device", "--live", "--", &self.domain, "/dev/stdin"];
        let failed = match self.virsh(&words, &xml::interface(device)?, VIRSH_CHANGE) {
            Ok(said) if said.ok => return Ok(()),
            Ok(said) => {
                let why = format!("virsh attach-device: {}", said.stderr);
                (leaves_open(&said.stderr), why)
            }
            Err(trouble @ ChildTrouble::Killed(_)) => (true, trouble.to_string()),
            Err(trouble @ (ChildTrouble::NotHere(_) | ChildTrouble::NotStarted(_))) => {
                (false, trouble.to_string())
            }
        };
        if failed.0 {
            self.in_doubt.insert(device.vf.clone(), Instant::now());
        }
        Err(failed.1)
    }

    fn unplug(&mut self, vf: &VfId) -> Result<(), String> {
        match self.detach(vf)? {
            Presence::Plugged => {
                self.leaving.entry(vf.clone()).or_insert_with(Instant::now);
                Ok(())
            }
            Presence::Not if self.in_doubt.contains_key(vf) => {
                Err("a plug of it may still be under way in libvirt".into())
            }
            Presence::Not => {
                self.said.push(SaidByVm::Deleted(vf.clone()));
                Ok(())
            }
        }
    }

    fn line(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn hear(&mut self) -> Vec<SaidByVm> {
        std::mem::take(&mut self.said)
    }

    fn look_again(&self) -> Duration {
        match self.leaving.values().any(|since| since.elapsed() < LEAVES_SOON) {
            true => LOOK_AT_LEAVING,
            false => LOOK_AT_VM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hands::device_id;

    #[test]
    fn a_lost_connection_leaves_open_what_libvirt_does() {
        assert!(leaves_open("error: Disconnected from qemu:///system due to end of file"));
        assert!(leaves_open("error: End of file while reading data: Input/output error"));
        assert!(!leaves_open("error: internal error: No more available PCI slots"));
    }

    #[test]
    fn a_domain_is_listed_by_its_uuid_and_its_name() {
        let list = "6695eb01-f6a4-8304-79aa-97f2502e193f web 1\n\n";
        assert!(lists(list, "web 1") && lists(list, "6695EB01-f6a4-8304-79aa-97f2502e193f"));
        assert!(!lists(list, "web") && !lists("", "web 1"));
    }

    #[test]
    fn devices_are_found_by_the_names_that_they_were_given() {
        let vf = VfId("0000:01:10.0".into());
        assert_eq!(xml::alias(&vf), format!("ua-{}", device_id(&vf)));
    }
}
