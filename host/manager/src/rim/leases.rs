//! Who holds which VF, for people.

use super::Daemon;
use crate::admin::{DeviceRow, KeptOff, LeaseRow, LeasesView, Reply};
use crate::core::Grant;
use std::collections::BTreeMap;
use vfun_wire::Handle;

impl Daemon {
    /// Who holds which VF, and why.
    pub(super) fn leases_view(&self) -> LeasesView {
        let now = self.now();
        let (functions, clients) =
            (&self.rim.core.catalog().functions, &self.rim.core.catalog().clients);
        let all: BTreeMap<Handle, &Grant> = self.rim.core.grants().collect();
        let devices = self.rim.core.devices(now).into_iter().map(|d| DeviceRow {
            function: d.function.to_owned(),
            location: functions
                .values()
                .filter_map(|f| f.hardware.as_ref())
                .find(|h| h.leased && h.device == d.function)
                .map_or(String::new(), |h| h.location.to_string()),
            vfs: d.vfs,
            kept_off: d
                .kept_off
                .iter()
                .map(|((client, vf), f)| KeptOff {
                    vf: *vf,
                    client: clients
                        .get(client)
                        .map_or_else(|| client.to_string(), |c| c.name.clone()),
                    times: f.times,
                    ms: f.until.saturating_sub(now),
                })
                .collect(),
            trouble: d.trouble.map(str::to_owned),
            grants: d
                .grants
                .iter()
                .filter_map(|(handle, s)| {
                    let g = all.get(handle)?;
                    Some(LeaseRow {
                        grant: handle.to_string(),
                        number: handle.0,
                        client: g.holder.client.clone(),
                        vm: g.holder.vm.clone(),
                        app: g.holder.app.clone(),
                        location: g.subject.location.text().into(),
                        vf: s.vf,
                        moving: g.moving().map(|m| m.phase),
                        switches: g.switches(),
                        since_ms: now.saturating_sub(s.since_ms),
                        per_s: s.per_s,
                        score: s.score,
                        boost: s.boost,
                        reason: s.reason,
                        why: s.reason.to_string(),
                    })
                })
                .collect(),
            next: d.next.moves,
        });
        LeasesView { settings: *self.rim.core.lease_settings(), devices: devices.collect() }
    }

    /// Leases VFs in another way until the manager starts anew.
    pub(super) fn change_leases(
        &mut self,
        policy: Option<vfun_leases::Policy>,
        interval_ms: Option<u64>,
        min_hold_ms: Option<u64>,
    ) -> Reply {
        let old = *self.rim.core.lease_settings();
        let settings = vfun_leases::Settings {
            policy: policy.unwrap_or(old.policy),
            interval_ms: interval_ms.unwrap_or(old.interval_ms),
            min_hold_ms: min_hold_ms.unwrap_or(old.min_hold_ms),
            ..old
        };
        match self.rim.core.set_leases(settings) {
            Ok(()) => Reply::Done {
                sentence: format!(
                    "VFs are leased by '{}', each {} ms, for at least {} ms",
                    settings.policy, settings.interval_ms, settings.min_hold_ms
                ),
            },
            Err(sentence) => Reply::Error { sentence },
        }
    }
}
