//! Looks at what leased grants do, when it is time to decide who holds a VF.

use super::Daemon;
use crate::admin::{DeviceRow, KeptOff, LeaseRow, LeasesView, Reply};
use crate::core::leases::Usage;
use crate::core::{Event, Grant};
use std::collections::BTreeMap;
use std::time::Duration;
use vfun_wire::Handle;

impl Daemon {
    /// How long until the next decision, if any is to be made.
    pub(super) fn leases_patience(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.core.leases_due()?.saturating_sub(self.now())))
    }

    /// Reads their counters if a decision is due, and lets the core decide.
    pub(super) fn look_at_leases(&mut self) {
        // Of moves that came to nothing, at each turn: whoever comes and goes between
        // two decisions must not leave a descriptor each time.
        let core = &self.core;
        self.batons.retain(|h, _| core.is_moving(*h));
        let now = self.now();
        if self.core.leases_due().is_none_or(|due| due > now) {
            return;
        }
        let values = self
            .core
            .grants()
            .filter(|(_, g)| g.leased)
            .filter_map(|(handle, g)| {
                let c = self.windows.get(&g.window)?.window.counters(&g.told()?);
                Some((handle, Usage { calls: c.calls, errors: c.errors, busy_ns: c.busy_ns }))
            })
            .collect();
        self.events.push_back(Event::Usage { values });
        self.settle();
    }

    /// Who holds which VF, and why.
    pub(super) fn leases_view(&self) -> LeasesView {
        let now = self.now();
        let (functions, clients) = (&self.core.catalog().functions, &self.core.catalog().clients);
        let all: BTreeMap<Handle, &Grant> = self.core.grants().collect();
        let devices = self.core.devices(now).into_iter().map(|d| DeviceRow {
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
                        client: g.client.clone(),
                        app: g.app.clone(),
                        location: g.location.text().into(),
                        vf: s.vf,
                        moving: g.moving.map(|m| m.phase),
                        switches: g.switches,
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
        LeasesView { settings: *self.core.lease_settings(), devices: devices.collect() }
    }

    /// Leases VFs in another way until the manager starts anew.
    pub(super) fn change_leases(
        &mut self,
        policy: Option<vfun_leases::Policy>,
        interval_ms: Option<u64>,
        min_hold_ms: Option<u64>,
    ) -> Reply {
        let old = *self.core.lease_settings();
        let settings = vfun_leases::Settings {
            policy: policy.unwrap_or(old.policy),
            interval_ms: interval_ms.unwrap_or(old.interval_ms),
            min_hold_ms: min_hold_ms.unwrap_or(old.min_hold_ms),
            ..old
        };
        match self.core.set_leases(settings) {
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
