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
    /// Bytes of its regions; memory that is in two of them counts twice.
    pub memory: u64,
}

impl Default for Quota {
    /// As much as the NIC has.
    fn default() -> Self {
        Quota { programs: u64::MAX, queue_pairs: u64::MAX, regions: u64::MAX, memory: u64::MAX }
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
            ("memory", &mut quota.memory),
        ];
        for (name, place) in known {
            if let Some(text) = settings.get(name) {
                let wrong = |_| format!("the setting {name} is a number, not '{text}'");
                *place = text.parse().map_err(wrong)?;
            }
        }
        Ok(quota)
    }
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
        let sum = |count: fn(&NicContext) -> u64| self.of_home(of.home).map(count).sum::<u64>();
        let fits = match wants {
            Wants::QueuePair => sum(|c| c.qps.iter().count() as u64) < self.quota.queue_pairs,
            Wants::Region(bytes) => {
                let there = sum(registered);
                sum(|c| c.regions.iter().count() as u64) < self.quota.regions
                    && there.checked_add(bytes).is_some_and(|all| all <= self.quota.memory)
            }
        };
        if fits { Ok(()) } else { Err(Errno::QUOTA) }
    }
}

/// Bytes of a context's regions, also of those that have no key yet.
pub fn registered(context: &NicContext) -> u64 {
    context.regions.iter().fold(0, |sum, (_, region)| sum.saturating_add(region.length))
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
