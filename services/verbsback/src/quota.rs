//! What the programs of one VM may have of the NIC together. The client's manifest says it in `[rdma]`.

use crate::context::{NicContext, Which};
use crate::errno::Errno;
use crate::tables::Tables;
use std::collections::BTreeMap;
use vfun_verbs_nic::cm::Home;

/// What a VM may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub programs: u64,
    pub queue_pairs: u64,
    pub regions: u64,
    /// Bytes of its regions; memory that is in two of them counts twice. None: no bound. A program may claim
    /// any number of bytes until its region is complete.
    pub memory: Option<u64>,
}

impl Default for Quota {
    /// As much as the NIC has.
    fn default() -> Self {
        Quota { programs: u64::MAX, queue_pairs: u64::MAX, regions: u64::MAX, memory: None }
    }
}

impl Quota {
    /// From the settings that the manager gives the service.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn of(settings: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut quota = Quota::default();
        let known = [
            ("programs", &mut quota.programs),
            ("queue_pairs", &mut quota.queue_pairs),
            ("regions", &mut quota.regions),
        ];
        for (name, place) in known {
            if let Some(most) = number(settings, name)? {
                *place = most;
            }
        }
        quota.memory = number(settings, "memory")?;
        Ok(quota)
    }
}

fn number(settings: &BTreeMap<String, String>, name: &str) -> Result<Option<u64>, String> {
    let wrong = |text: &String| format!("the setting {name} is a number, not '{text}'");
    settings.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// What a program wants to make.
#[derive(Clone, Copy, Debug)]
pub enum Wants {
    QueuePair,
    /// Of so many bytes.
    Region(u64),
}

impl Tables {
    fn of_home(&self, home: Home) -> impl Iterator<Item = &NicContext> {
        self.contexts.iter().map(|(_, context)| context).filter(move |c| c.home == home)
    }

    /// Whether one more program of a VM may come.
    ///
    /// # Errors
    /// [`Errno::QUOTA`].
    pub fn may_come(&self, home: Home) -> Result<(), Errno> {
        let there = self.of_home(home).count() as u64;
        if there < self.quota.programs { Ok(()) } else { Err(Errno::QUOTA) }
    }

    /// Whether the VM of a context may have one more of these.
    ///
    /// # Errors
    /// [`Errno::QUOTA`].
    pub fn may_have(&self, native: usize, wants: Wants) -> Result<(), Errno> {
        let of = self.contexts.get(Which::of(native).context).ok_or(Errno::INVALID)?;
        let sum = |count: fn(&NicContext) -> usize| self.of_home(of.home).map(count).sum::<usize>();
        let fits = match wants {
            Wants::QueuePair => (sum(|c| c.qps.count()) as u64) < self.quota.queue_pairs,
            Wants::Region(bytes) => {
                let there: u128 = self.of_home(of.home).map(|c| c.region_bytes).sum();
                (sum(|c| c.regions.count()) as u64) < self.quota.regions
                    && self.quota.memory.is_none_or(|most| there + u128::from(bytes) <= most.into())
            }
        };
        if fits { Ok(()) } else { Err(Errno::QUOTA) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers() {
        let settings = |name: &str, text: &str| BTreeMap::from([(name.into(), text.into())]);
        assert_eq!(Quota::of(&BTreeMap::new()), Ok(Quota::default()));
        let two = Quota { queue_pairs: 2, ..Quota::default() };
        assert_eq!(Quota::of(&settings("queue_pairs", "2")), Ok(two));
        assert!(Quota::of(&settings("memory", "64 MiB")).unwrap_err().contains("memory"));
    }
}
