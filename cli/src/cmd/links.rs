//! `vfun links`: direct links between ports of VMs, past the switch.

use crate::admin::Admin;
use crate::fail::{Exit, Failure, Result};
use crate::out::{self, Facts, Output, Table};
use serde::Serialize;
use vfun_admin::links::{FlowsView, LinkPort, LinkRow};
use vfun_admin::{Ask, OfVm};

/// Show direct links: frames from one VM's port to another one's go past the switch.
///
/// Both ports are in one bridge of an Open vSwitch with DPDK (`vfun port add --way dpdk`), whose rules send all frames
/// of the one to the other, unchanged. Then the manager makes the link, if it runs with --links, in memory that the two VMs share: it plugs such a window in by itself where the manifests say how (qmp or libvirt), or
/// takes one that was declared (`vfun window add NAME --vm A --vm B`). It takes the link back some milliseconds after the rules change. Ports are named as on the host.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Show rules of the switch past which frames go, and how many: the switch's own counts of a
    /// rule (`ovs-ofctl dump-flows`) miss these.
    #[arg(long)]
    flows: bool,
    #[command(subcommand)]
    sub: Option<Sub>,
}

/// What to do with links.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// List ports, and where the frames of each go.
    #[command(visible_alias = "ls")]
    List {
        /// Only from ports of this client, or of one VM of it.
        #[arg(long, value_name = "CLIENT[/VM]")]
        client: Option<OfVm>,
    },
    /// Say whether frames go past the switch from one port to another, and why not.
    Explain {
        /// The port that sends.
        from: String,
        /// The port that receives.
        to: String,
    },
    /// Send frames from one port to another through the switch, whatever its rules are.
    Off {
        /// The port that sends.
        from: String,
        /// The port that receives.
        to: String,
    },
    /// Let frames go past the switch again, where its rules allow it.
    On {
        /// The port that sends.
        from: String,
        /// The port that receives.
        to: String,
    },
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    match &args.sub {
        None if args.flows => {
            let said = FlowsSaid { view: admin.link_flows(None)?, links: admin.links()? };
            output.show(&said, || said.text())
        }
        None => list(admin, output, None),
        Some(Sub::List { client }) => list(admin, output, client.as_ref()),
        Some(Sub::Explain { from, to }) => {
            let said = explained(admin.links()?, from, to)?;
            output.show(&said, || text(&said))
        }
        Some(Sub::Off { from, to }) => turn(admin, output, (from, to), true),
        Some(Sub::On { from, to }) => turn(admin, output, (from, to), false),
    }
}

fn turn(admin: &Admin, output: Output, (from, to): (&str, &str), off: bool) -> Result<()> {
    output.done(admin.tell(&Ask::LinkOff { from: from.into(), to: to.into(), off })?)
}

fn list(admin: &Admin, output: Output, of: Option<&OfVm>) -> Result<()> {
    if let Some(of) = of {
        crate::cmd::client::declared(admin, of)?;
    }
    let mut links = admin.links()?;
    links.retain(|l| of.is_none_or(|of| of.has(&l.from.client, Some(&l.from.vm))));
    output.show(&links, || render(&links))
}

/// A port, as a person knows it.
fn shown(port: &LinkPort) -> String {
    format!("{} {}", vfun_admin::vm::owner(&port.client, Some(&port.vm)), port.port)
}

fn render(links: &[LinkRow]) -> String {
    if links.is_empty() {
        return "no VM has a port of a switch with DPDK: `vfun port add VM NAME --way dpdk --switch BRIDGE` gives it one\n".into();
    }
    let mut table = Table::new(&["FROM", "PORT", "TO", "STATE", ">FRAMES", ">BYTES", "WHY"]);
    for l in links {
        table.row([
            shown(&l.from),
            l.from.tap.clone(),
            l.to.as_ref().map(|to| to.tap.clone()).unwrap_or_default(),
            l.state.clone(),
            out::count(l.frames),
            out::bytes(l.bytes),
            l.why.clone(),
        ]);
    }
    table.render()
}

/// What went past rules of switches.
#[derive(Serialize)]
struct FlowsSaid {
    #[serde(flatten)]
    view: FlowsView,
    /// To say whose frames count for no rule.
    links: Vec<LinkRow>,
}

impl FlowsSaid {
    fn text(&self) -> String {
        let mut text = match self.view.flows.is_empty() {
            true => "no frame went past a rule of a switch\n".into(),
            false => self.table(),
        };
        for link in &self.links {
            if let Some(why) = &link.not_attributable {
                let to = link.to.as_ref().map_or("", |to| to.tap.as_str());
                text += &format!(
                    "\n! frames from {} to {to} are not attributable: {why}\n",
                    link.from.tap
                );
            }
        }
        for p in &self.view.proxies {
            let held = match p.strict {
                true => format!("; {} changes held, {} let go early", p.held, p.let_go),
                false => String::new(),
            };
            text += &format!(
                "\n= vfun-links-proxy is in the path of {}: {} messages corrected, {} not{held}\n",
                p.bridge, p.corrected, p.uncorrected
            );
        }
        text
    }

    fn table(&self) -> String {
        let columns =
            ["BRIDGE", ">TABLE", ">PRIORITY", "MATCH", "COOKIE", ">DIRECT", ">BYTES", "NOW FROM"];
        let mut table = Table::new(&columns);
        for f in &self.view.flows {
            table.row([
                f.bridge.clone(),
                f.table.to_string(),
                f.priority.to_string(),
                f.matches(),
                format!("{:#x}", f.cookie),
                out::count(f.frames),
                out::bytes(f.bytes),
                f.ports.join(" "),
            ]);
        }
        table.render()
    }
}

/// What there is to say of two ports.
#[derive(Serialize)]
struct ExplainedLink {
    #[serde(flatten)]
    link: LinkRow,
    /// What was asked for, if the switch joins the port to another one, or to none.
    asked: Option<String>,
}

fn explained(links: Vec<LinkRow>, from: &str, to: &str) -> Result<ExplainedLink> {
    let names: Vec<&str> = links.iter().map(|l| l.from.tap.as_str()).collect();
    for name in [from, to] {
        if !names.contains(&name) {
            let advice = match names.as_slice() {
                [] => "no VM has one: `vfun port add VM NAME --way dpdk --switch BRIDGE`".into(),
                all => format!("there are {}", all.join(", ")),
            };
            let why = format!("no port of a switch with DPDK is called '{name}' on this host");
            return Err(Failure::new(Exit::Refused, why).advise(advice));
        }
    }
    let link = links.into_iter().find(|l| l.from.tap == from).expect("it is among them");
    let is_other = link.to.as_ref().is_none_or(|joined| joined.tap != to);
    Ok(ExplainedLink { link, asked: is_other.then(|| to.to_owned()) })
}

fn text(said: &ExplainedLink) -> String {
    let l = &said.link;
    let mut facts = Facts::new().fact("from", format!("{} ({})", shown(&l.from), l.from.tap));
    facts = match &l.to {
        Some(to) => facts.fact("to", format!("{} ({})", shown(to), to.tap)),
        None => facts.fact("to", "no port gets all of its frames"),
    };
    let way = match l.state.as_str() {
        "direct" => "past the switch",
        "going" | "back" => "partly past the switch: they are about to turn",
        _ => "through the switch",
    };
    facts = facts.fact("frames go", way).fact("state", &l.state);
    if let Some(ms) = l.since_ms {
        facts = facts.fact("since", format!("{}.{:03} s", ms / 1000, ms % 1000));
    }
    if let (Some(number), Some(window)) = (l.link, &l.window) {
        facts = facts.fact("link", format!("{number}, in window {window}, turn {}", l.epoch));
    }
    let direct = format!("{}, {}", out::count(l.frames), out::bytes(l.bytes));
    facts = facts.fact("frames past it", direct);
    if l.forced > 0 {
        facts = facts.fact("ended by force", out::count(l.forced));
    }
    let mut text = facts.render();
    if let Some(asked) = &said.asked {
        text += &format!("\n! the switch does not send all frames of {} to {asked}\n", l.from.tap);
    }
    text + &format!("\n{} {}\n", if l.state == "direct" { "=" } else { "!" }, l.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_admin::links::{FlowRow, ProxyRow};

    fn port(vm: &str, tap: &str) -> LinkPort {
        LinkPort { client: "web".into(), vm: vm.into(), port: "eth1".into(), tap: tap.into() }
    }

    fn row(from: &str, to: Option<&str>, state: &str) -> LinkRow {
        LinkRow {
            from: port("a", from),
            to: to.map(|to| port("b", to)),
            state: state.into(),
            why: "because".into(),
            since_ms: Some(1234),
            link: Some(77),
            window: Some("pair".into()),
            epoch: 3,
            off: false,
            forced: 0,
            frames: 5000,
            bytes: 1 << 20,
            not_attributable: None,
        }
    }

    #[test]
    fn rules_are_shown_with_what_went_past_them_and_what_cannot_be_said() {
        let none = FlowsSaid { view: FlowsView::default(), links: vec![] };
        assert!(none.text().contains("no frame went past"));
        let rule = FlowRow {
            bridge: "br0".into(),
            table: 7,
            priority: 4321,
            cookie: 0x1234,
            in_port: Some(3),
            made: (1, 2),
            frames: 5001,
            bytes: 1 << 20,
            ports: vec!["a1".into()],
        };
        let proxy = ProxyRow { bridge: "br0".into(), corrected: 6, ..ProxyRow::default() };
        let view = FlowsView { flows: vec![rule], proxies: vec![proxy] };
        let not = LinkRow {
            not_attributable: Some("types differ".into()),
            ..row("b1", Some("a1"), "direct")
        };
        let said = FlowsSaid { view, links: vec![not] };
        let text = said.text();
        for word in ["4321", "in_port=3", "0x1234", "5 001", "b1 to a1 are not", "types differ"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.contains("6 messages corrected, 0 not\n"), "{text}");
        let json = serde_json::to_value(&said).unwrap();
        assert_eq!(
            (&json["flows"][0]["frames"], &json["flows"][0]["table"]),
            (&5001.into(), &7.into())
        );
    }

    #[test]
    fn a_list_says_where_frames_go_and_why() {
        let text = render(&[row("a1", Some("b1"), "direct"), row("b1", None, "switch")]);
        assert!(text.contains("b1") && text.contains("direct") && text.contains("because"));
        assert!(render(&[]).contains("--way dpdk"));
    }

    #[test]
    fn two_ports_are_explained_whatever_the_switch_does() {
        let all = || vec![row("a1", Some("b1"), "direct"), row("b1", None, "switch")];
        let said = explained(all(), "a1", "b1").unwrap();
        let direct = text(&said);
        assert!(direct.contains("past the switch") && direct.contains("1.234 s"), "{direct}");
        assert!(!direct.contains("does not send"), "{direct}");
        let not = text(&explained(all(), "b1", "a1").unwrap());
        assert!(not.contains("does not send all frames of b1 to a1"), "{not}");
        assert!(not.contains("through the switch"), "{not}");
        let e = explained(all(), "a1", "x").err().unwrap();
        assert!(e.what.contains("'x'") && e.advice.is_some(), "{e:?}");
    }
}
