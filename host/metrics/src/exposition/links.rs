//! The metrics of direct links, and of rules past which frames went.

use super::Writer;
use crate::limits::{LINK_FLOWS_SHOWN, OTHER};
use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;
use vfun_admin::links::{FlowRow, FlowsView, LinkRow, ProxyRow};

/// Bridge, table, priority, match and cookie, as texts.
type RuleLabels = [String; 5];

/// Frames and bytes past each rule. Of a rule that came in the place of another one both are one
/// series; those beyond the limit are one, too.
fn by_rule(flows: &[FlowRow]) -> BTreeMap<RuleLabels, (u64, u64)> {
    let mut sums: BTreeMap<RuleLabels, (u64, u64)> = BTreeMap::new();
    for flow in flows {
        let labels = [
            flow.bridge.clone(),
            flow.table.to_string(),
            flow.priority.to_string(),
            flow.matches(),
            format!("{:#x}", flow.cookie),
        ];
        let is_room = sums.len() < LINK_FLOWS_SHOWN || sums.contains_key(&labels);
        let labels = if is_room { labels } else { [OTHER; 5].map(str::to_owned) };
        let sum = sums.entry(labels).or_default();
        *sum = (sum.0.saturating_add(flow.frames), sum.1.saturating_add(flow.bytes));
    }
    sums
}

/// Writes them; nothing where there are none.
pub(super) fn write(w: &mut Writer, links: &[LinkRow], flows: &FlowsView) -> fmt::Result {
    let joined: Vec<(&LinkRow, &str)> =
        links.iter().filter_map(|l| Some((l, l.to.as_ref()?.tap.as_str()))).collect();
    if !joined.is_empty() {
        of_links(w, &joined)?;
    }
    let rules = by_rule(&flows.flows);
    if !rules.is_empty() {
        of_rules(w, &rules)?;
    }
    of_proxies(w, &flows.proxies)
}

type LinkCount = (&'static str, &'static str, Option<Unit>, fn(&(u64, u64)) -> u64);

fn of_links(w: &mut Writer, joined: &[(&LinkRow, &str)]) -> fmt::Result {
    let counts: [LinkCount; 2] = [
        ("link_frames", "Frames past the switch", None, |c| c.0),
        ("link", "Bytes of these", Some(Unit::Bytes), |c| c.1),
    ];
    for (name, help, unit, read) in &counts {
        let mut to = w.family(name, help, unit.as_ref(), MetricType::Counter)?;
        for (link, receiver) in joined {
            let from = &link.from;
            let labels = [
                ("client", from.client.as_str()),
                ("vm", &from.vm),
                ("port", &from.port),
                ("to", *receiver),
            ];
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_family(&labels)?.encode_counter(&read(&(link.frames, link.bytes)), none)?;
        }
    }
    Ok(())
}

fn of_rules(w: &mut Writer, rules: &BTreeMap<RuleLabels, (u64, u64)>) -> fmt::Result {
    let counts: [LinkCount; 2] = [
        ("link_flow_frames", "Frames past a rule of a switch", None, |c| c.0),
        ("link_flow", "Bytes of these", Some(Unit::Bytes), |c| c.1),
    ];
    for (name, help, unit, read) in &counts {
        let mut to = w.family(name, help, unit.as_ref(), MetricType::Counter)?;
        for ([bridge, table, priority, matches, cookie], sum) in rules {
            let labels = [
                ("bridge", bridge.as_str()),
                ("table", table),
                ("priority", priority),
                ("match", matches),
                ("cookie", cookie),
            ];
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_family(&labels)?.encode_counter(&read(sum), none)?;
        }
    }
    Ok(())
}

fn of_proxies(w: &mut Writer, proxies: &[ProxyRow]) -> fmt::Result {
    type OfProxy = fn(&ProxyRow) -> u64;
    let counts: [(&str, &str, OfProxy); 4] = [
        ("link_proxy_corrected", "Messages to controllers whose counts were corrected", |p| {
            p.corrected
        }),
        ("link_proxy_uncorrected", "Messages whose counts could not be corrected", |p| {
            p.uncorrected
        }),
        ("link_proxy_held", "Changes of rules that waited for links", |p| p.held),
        ("link_proxy_let_go", "Changes of rules that did not wait for all links", |p| p.let_go),
    ];
    for (name, help, read) in counts.iter().filter(|_| !proxies.is_empty()) {
        let mut to = w.family(name, help, None, MetricType::Counter)?;
        for proxy in proxies {
            let labels = [("bridge", proxy.bridge.as_str())];
            let none: Option<&Exemplar<NoLabelSet, f64>> = None;
            to.encode_family(&labels)?.encode_counter(&read(proxy), none)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cookie: u64, frames: u64) -> FlowRow {
        FlowRow {
            bridge: "br0".into(),
            table: 0,
            priority: 9,
            cookie,
            in_port: Some(1),
            made: (0, 0),
            frames,
            bytes: 60 * frames,
            ports: vec![],
        }
    }

    #[test]
    fn rules_of_one_name_are_one_series_and_those_beyond_the_limit_too() {
        let sums = by_rule(&[row(7, 5), row(7, 6), row(8, 1)]);
        let labels = ["br0", "0", "9", "in_port=1", "0x7"].map(str::to_owned);
        assert_eq!((sums.len(), sums.get(&labels)), (2, Some(&(11, 660))));
        let many: Vec<FlowRow> = (0..LINK_FLOWS_SHOWN as u64 + 20).map(|n| row(n, 1)).collect();
        let sums = by_rule(&many);
        assert_eq!(sums.len(), LINK_FLOWS_SHOWN + 1);
        assert_eq!(sums.get(&[OTHER; 5].map(str::to_owned)), Some(&(20, 1200)));
    }
}
