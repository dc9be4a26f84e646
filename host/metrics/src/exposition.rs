//! The metrics, as OpenMetrics text. `docs/operating.md` lists them.

mod links;
mod nics;
mod ports;

use crate::nics::NicsSeen;
use crate::source::{Look, Source};
use crate::totals::{Key, RdmaSums, Series, Totals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use vfun_admin::counters::{Counters, Times};

/// What the text is, for the HTTP head.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Buckets of service times end at these powers of two, ns: 128 ns to 8.6 s.
/// Every one is also the end of a bucket that services count in.
const OCTAVES: std::ops::RangeInclusive<u32> = 7..=33;

/// Looks, and writes what was seen.
pub fn text(source: &Arc<Source>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("virtfun");
    registry.register_collector(Box::new(Shown(source.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Shown(Arc<Source>);

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let (look, totals) = self.0.look();
        write(encoder, look.as_ref(), &totals, &self.0.nics())
    }
}

struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }
}

#[derive(Clone, Copy)]
enum Value {
    Count(u64),
    Seconds(u64),
}

type Read = fn(&Counters) -> Value;

fn write(
    encoder: DescriptorEncoder,
    look: Option<&Look>,
    totals: &Totals,
    seen: &NicsSeen,
) -> fmt::Result {
    let mut w = Writer(encoder);
    w.gauge("up", "Whether the manager answers", None, f64::from(u8::from(look.is_some())))?;
    let Some(look) = look else { return Ok(()) };
    manager(&mut w, look)?;
    nics::write(&mut w, seen)?;
    ports::write(&mut w, &look.ports)?;
    links::write(&mut w, &look.links, &look.flows)?;
    calls(&mut w, &totals.series())
}

/// What calls did.
fn calls(w: &mut Writer, series: &BTreeMap<Key, Series>) -> fmt::Result {
    {
        let help = "Grants there are";
        let mut to = w.family("grants", help, None, MetricType::Gauge)?;
        for (k, s) in series {
            to.encode_family(&labels(k))?.encode_gauge(&(s.grants as f64))?;
        }
    }
    let counters: [(&str, &str, Option<Unit>, Read); 9] = [
        ("calls", "Calls answered", None, |c| Value::Count(c.calls)),
        ("call_errors", "Calls answered with an error", None, |c| Value::Count(c.errors)),
        ("arguments", "Bytes of arguments taken", Some(Unit::Bytes), |c| Value::Count(c.bytes_in)),
        ("results", "Bytes of results given", Some(Unit::Bytes), |c| Value::Count(c.bytes_out)),
        ("service_sleeps", "Times the service went to sleep", None, |c| Value::Count(c.slept)),
        ("service_rings", "Times the service rang the app awake", None, |c| Value::Count(c.rang)),
        (
            "service_busy",
            "Time the service computed, as far as measured",
            Some(Unit::Seconds),
            |c| Value::Seconds(c.busy_ns),
        ),
        ("service_spun", "Time the service spun", Some(Unit::Seconds), |c| {
            Value::Seconds(c.spun_ns)
        }),
        ("service_asleep", "Time the service slept", Some(Unit::Seconds), |c| {
            Value::Seconds(c.asleep_ns)
        }),
    ];
    for (name, help, unit, read) in &counters {
        let mut to = w.family(name, help, unit.as_ref(), MetricType::Counter)?;
        for (k, s) in series {
            let labels = labels(k);
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            let mut to = to.encode_family(&labels)?;
            match read(&s.counters) {
                Value::Count(n) => to.encode_counter(&n, none)?,
                Value::Seconds(ns) => to.encode_counter(&(ns as f64 / 1e9), none)?,
            }
        }
    }
    rdma(w, series)?;
    service_times(w, series)
}

/// What programs have of their NICs for RDMA.
fn rdma(w: &mut Writer, series: &BTreeMap<Key, Series>) -> fmt::Result {
    type ReadSum = fn(&RdmaSums) -> u64;
    let gauges: [(&str, &str, Option<Unit>, ReadSum); 4] = [
        ("rdma_queue_pairs", "Queue pairs", None, |r| r.queue_pairs),
        ("rdma_regions", "Memory regions", None, |r| r.regions),
        ("rdma_registered", "Bytes of memory regions", Some(Unit::Bytes), |r| r.registered_bytes),
        ("rdma_wrong_keys", "Accesses that no key allowed, of programs that run", None, |r| {
            r.wrong_keys
        }),
    ];
    for (name, help, unit, read) in &gauges {
        let mut to = w.family(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (key, sums) in series.iter().filter_map(|(key, s)| Some((key, s.rdma.as_ref()?))) {
            to.encode_family(&labels(key))?.encode_gauge(&(read(sums) as f64))?;
        }
    }
    Ok(())
}

fn labels(k: &Key) -> [(&'static str, &str); 3] {
    [("client", &k.client), ("app", &k.app), ("function", &k.function)]
}

fn manager(w: &mut Writer, look: &Look) -> fmt::Result {
    let s = &look.status;
    {
        let version = [("version", s.version.as_str())];
        w.family("manager", "The manager", None, MetricType::Info)?.encode_info(&version)?;
    }
    let seconds = Some(&Unit::Seconds);
    let bytes = Some(&Unit::Bytes);
    w.gauge("uptime", "Time since the manager started", seconds, s.uptime_s as f64)?;
    let draining = f64::from(u8::from(s.draining));
    w.gauge("draining", "Whether nothing new is granted", None, draining)?;
    w.gauge("windows", "Windows laid out", None, s.windows as f64)?;
    w.gauge("troubles", "What `vfun status` says is wrong", None, s.troubles.len() as f64)?;
    let h = &s.held_up;
    let held_up = [
        ("held_up_requests", "Requests that had to wait, by windows there are", h.requests),
        ("held_up_bells", "Bells not listened to, by windows there are", h.bells),
        ("held_up_connections", "Connections refused for their rate", h.connections),
        ("held_up_starts", "Starts of services put off or refused for their rate", h.starts),
        ("held_up_records", "Times that a state of a grant was put on record later", h.records),
        ("held_up_log_lines", "Lines of the log left out", h.lines),
        ("open_breakers", "Functions of clients that crash and are not started", h.open_breakers),
    ];
    for (name, help, value) in held_up {
        w.gauge(name, help, None, value as f64)?;
    }
    w.gauge("sessions", "Apps connected", None, s.sessions as f64)?;
    w.gauge("services", "Service processes", None, s.services as f64)?;
    w.gauge("windows_used", "Window memory given out", bytes, s.window_bytes_used as f64)?;
    let resident = s.resident_bytes as f64;
    w.gauge("manager_resident_memory", "The manager's resident memory", bytes, resident)?;
    {
        let help = "Whether a VM is connected, of those with a doorbell";
        let mut to = w.family("client_connected", help, None, MetricType::Gauge)?;
        let vms = look.clients.iter().flat_map(|c| c.vms.iter().map(move |vm| (c, vm)));
        for (c, vm) in vms.filter(|(_, vm)| vm.socket.is_some()) {
            let labels = [("client", c.name.as_str()), ("vm", vm.vm.as_str())];
            to.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(vm.connected)))?;
        }
    }
    // A service is one client's and function's; its grants all tell of it.
    let mut restarts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for g in &look.grants {
        let most = restarts.entry((&g.client, &g.function)).or_default();
        *most = g.restarts.max(*most);
    }
    let help = "Starts of the service after the first, as its grants saw them";
    let mut to = w.family("service_restarts", help, None, MetricType::Gauge)?;
    for ((client, function), n) in restarts {
        let labels = [("client", client), ("function", function)];
        to.encode_family(&labels)?.encode_gauge(&f64::from(n))?;
    }
    Ok(())
}

/// By client and function: apps would multiply thirty lines by theirs.
fn service_times(w: &mut Writer, series: &BTreeMap<Key, Series>) -> fmt::Result {
    let mut sums: BTreeMap<(&str, &str), Counters> = BTreeMap::new();
    for (k, s) in series {
        sums.entry((&k.client, &k.function)).or_default().add(&s.counters);
    }
    let help = "Sampled times of calls in the service; the sum is an estimate from the buckets";
    let unit = Unit::Seconds;
    let mut to = w.family("service_time", help, Some(&unit), MetricType::Histogram)?;
    for ((client, function), c) in sums {
        let labels = [("client", client), ("function", function)];
        let (buckets, count) = octaves(&c.times);
        to.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
            c.times.total_ns() / 1e9,
            count,
            &buckets,
            None,
        )?;
    }
    Ok(())
}

/// Counts below each power of two, and how many in all.
fn octaves(times: &Times) -> (Vec<(f64, u64)>, u64) {
    // A page may hold anything; the sums made of it further on must not wrap.
    let sane = u64::MAX >> 16;
    let ends = OCTAVES.map(|o| 1u64 << o);
    let mut buckets: Vec<(f64, u64)> = ends.map(|e| (e as f64 / 1e9, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (from, n) in times.buckets() {
        let octave = (64 - from.leading_zeros()).clamp(*OCTAVES.start(), *OCTAVES.end() + 1);
        let bucket = &mut buckets[(octave - OCTAVES.start()) as usize].1;
        *bucket = bucket.saturating_add(*n).min(sane);
    }
    let count = buckets.iter().map(|(_, n)| n).sum();
    (buckets, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_wire::channel::time_bucket;

    #[test]
    fn times_fall_into_their_octave() {
        let at = |ns: u64| {
            let (buckets, count) = octaves(&Times::of(|b| u64::from(b == time_bucket(ns))));
            assert_eq!(count, 1);
            buckets.iter().find(|(_, n)| *n == 1).unwrap().0
        };
        assert_eq!(at(3), 128e-9);
        assert_eq!(at(100), 128e-9);
        assert_eq!(at(128), 256e-9);
        assert_eq!(at(255), 256e-9);
        assert_eq!(at(1_000_000), (1u64 << 20) as f64 / 1e9);
        assert_eq!(at(u64::MAX), f64::INFINITY);
        let (_, count) = octaves(&Times::of(|_| u64::MAX));
        assert!(count < u64::MAX);
    }
}
