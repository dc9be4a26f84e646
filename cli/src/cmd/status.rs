//! `vfun status`.

use crate::admin::Admin;
use crate::fail::Result;
use crate::out::{self, Facts, Output};
use vfun_admin::links::LinkSettings;
use vfun_admin::{HeldUp, Status};

pub fn run(admin: &Admin, output: Output) -> Result<()> {
    let status = admin.status()?;
    output.show(&status, || render(&status))
}

fn render(s: &Status) -> String {
    let policy = match &s.policy_unreadable {
        None => "in force (vfun policy show)".into(),
        Some(why) => format!("NOTHING NEW IS GRANTED: {why}"),
    };
    Facts::new()
        .fact(
            "manager",
            format!("vfund {}, process {}, up {}", s.version, s.pid, out::age(s.uptime_s)),
        )
        .fact("state", if s.draining { "draining: nothing new is granted" } else { "serving" })
        .fact("policy", policy)
        .fact("root", s.root.display().to_string())
        .fact("generation", s.generation.to_string())
        .fact("windows", format!("{}, {}", s.windows, out::bytes(s.window_bytes_used)))
        .fact("buffers", format!("{}, {}", s.buffers, out::bytes(s.buffer_bytes)))
        .fact("apps", s.sessions.to_string())
        .fact("grants", s.grants.to_string())
        .fact("services", format!("{} ({})", s.services, s.service_program.display()))
        .fact("memory", out::bytes(s.resident_bytes))
        .fact("TCP", s.tcp.clone().unwrap_or_else(|| "off (vfund --tcp ADDR:PORT)".into()))
        .fact("metrics", s.metrics.clone().unwrap_or_else(|| "off (vfund --metrics)".into()))
        .fact("network VFs", if s.nics { "lent (vfun nics list)" } else { "off (vfund --nics)" })
        .fact("switches", switches(s))
        .fact("held up", held_up(&s.held_up))
        .render()
        + &troubles(&s.troubles)
}

fn switches(s: &Status) -> String {
    let LinkSettings { silence_ms, idle_ms } = s.link_settings;
    match s.links {
        true => format!(
            "watched for direct links (vfun links): a VM may be silent for {silence_ms} ms, windows go out after {} s without a link",
            idle_ms.div_ceil(1000)
        ),
        false => "not watched (vfund --links)".into(),
    }
}

/// How often clients were held up for the sake of others.
fn held_up(h: &HeldUp) -> String {
    if *h == HeldUp::default() {
        return "nobody".into();
    }
    format!(
        "requests {}, bells {}, connections {}, starts {}, records {}, lines of the log {}, functions that crash {}",
        h.requests, h.bells, h.connections, h.starts, h.records, h.lines, h.open_breakers
    )
}

fn troubles(all: &[String]) -> String {
    all.iter().map(|t| format!("\nTROUBLE: {t}\n")).collect()
}
