//! `vfun service`.

use crate::admin::Admin;
use crate::fail::Result;
use crate::out::{self, Output, Table};
use vfun_admin::ServiceRow;
use vfun_jail::Layer;
use vfun_policy::{Key, Unenforced};

/// What to do with services.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// List the services that run, and which layers of the sandbox each lacks.
    ///
    /// A service is a process that runs one function's driver for one client.
    /// What is shown of its sandbox was read from the kernel.
    #[command(visible_alias = "ls")]
    List,
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    let Sub::List = sub;
    let services = admin.services()?;
    output.show(&services, || render(&services))
}

fn render(services: &[ServiceRow]) -> String {
    let mut table = Table::new(&[
        ">ID",
        "CLIENT",
        "FUNCTION",
        ">PID",
        "USER",
        ">CHANNELS",
        ">CPU",
        ">MEMORY",
        ">THREADS",
        "SANDBOX",
    ]);
    for s in services {
        let sandbox = match s.sandbox.missing.is_empty() {
            true => "complete".to_owned(),
            false => {
                let names: Vec<_> = s.sandbox.missing.iter().map(|m| m.layer.name()).collect();
                let all = Layer::ALL.len();
                format!("{} of {all} layers, without {}", s.sandbox.layers.len(), names.join(", "))
            }
        };
        let host = Unenforced::of(&s.sandbox.missing);
        let bound = |key: Key, value: String| match host.why(key) {
            Some(_) => format!("{value} (not enforced)"),
            None => value,
        };
        table.row([
            s.id.to_string(),
            s.client.clone(),
            s.function.clone(),
            s.pid.to_string(),
            s.user.map_or_else(|| "the manager's".into(), |u| u.to_string()),
            s.channels.to_string(),
            s.limits.cpu_percent.map_or_else(|| "any".into(), |p| bound(Key::Cpu, format!("{p}%"))),
            bound(Key::Memory, out::bytes(s.limits.memory_bytes)),
            bound(Key::Threads, s.limits.threads.to_string()),
            sandbox,
        ]);
    }
    let mut text = table.render();
    // Why is the same for all of a host, so it is said once.
    let mut said = std::collections::BTreeSet::new();
    for m in services.iter().flat_map(|s| &s.sandbox.missing) {
        if said.insert(m.layer) {
            text.push_str(&format!("{}: {}\n", m.layer, m.why));
        }
    }
    for (id, note) in services.iter().filter_map(|s| Some((s.id, s.note.as_ref()?))) {
        text.push_str(&format!("service {id}: {note}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_jail::{Limits, Missing, Standing};

    fn row() -> ServiceRow {
        ServiceRow {
            id: 1,
            client: "vm1".into(),
            function: "echo".into(),
            pid: 77,
            channels: 2,
            user: Some(1_900_000_001),
            limits: Limits::default(),
            sandbox: Standing::default(),
            note: Some("OpenCL device 'x': arguments and results are copied".into()),
        }
    }

    #[test]
    fn what_lacks_is_said_with_the_reason() {
        let mut row = row();
        assert!(render(std::slice::from_ref(&row)).contains("complete"));
        let text = render(std::slice::from_ref(&row));
        assert!(
            text.contains("\nservice 1: OpenCL device 'x': arguments and results are copied\n")
        );
        row.sandbox.missing.push(Missing::new(Layer::Landlock, "the kernel has none"));
        let text = render(&[row.clone(), row]);
        assert!(text.contains("without landlock"), "{text}");
        assert!(!text.contains("not enforced"), "{text}");
        assert_eq!(text.matches("landlock: the kernel has none").count(), 1, "{text}");
    }

    #[test]
    fn a_bound_that_nothing_keeps_is_marked() {
        let mut row = row();
        row.limits.cpu_percent = Some(20);
        assert!(!render(std::slice::from_ref(&row)).contains("not enforced"));
        row.sandbox.missing.push(Missing::new(Layer::CgroupCpu, "no right to make groups"));
        let text = render(&[row]);
        assert!(text.contains(" 20% (not enforced) "), "{text}");
    }
}
