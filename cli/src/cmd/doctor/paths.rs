//! Which path a session takes, why no other, and whether functions start.

use super::check::Check;
use crate::connect::{Host, Who};
use crate::out;
use std::time::Instant;
use vfun::{ChannelKind, Endpoint, FunctionInfo, FunctionRequest, Session};

/// Looks. With `start`, starts each function once; those that it names take raw lines.
pub fn look(host: &Host, who: &Who, start: Option<&[String]>) -> Vec<Check> {
    let mut checks = vec![];
    let chosen = match host.session(who) {
        Ok(session) => {
            checks.push(Check::ok("path", session.describe()));
            Some(session)
        }
        Err(e) => {
            // Where there is no advice, the manager's sentence says what to do.
            checks.push(Check { mend: e.advice, ..Check::missing("path", e.what) });
            None
        }
    };
    let taken = chosen.as_ref().map(|s| s.info().transport.as_str());
    checks.extend(others(host, who, taken));
    if let Some(session) = chosen {
        checks.push(answers(&session));
        checks.extend(functions(&session, start));
        let _ = session.close();
    }
    checks
}

/// Why the other paths are not taken.
fn others(host: &Host, who: &Who, taken: Option<&str>) -> Vec<Check> {
    let mut checks = vec![];
    let socket = host.root().join("host.sock");
    for endpoint in Endpoint::automatic() {
        let name = endpoint.name();
        let endpoint = match endpoint {
            Endpoint::Host(None) => Endpoint::Host(Some(socket.clone())),
            other => other,
        };
        if taken == Some(name) {
            continue;
        }
        let tried = host.options(who).and_then(|o| Ok(o.endpoint(endpoint).connect()?));
        let why = match tried {
            Ok(_) => "works too, but is not the one asked for or comes after it".into(),
            Err(e) => e.what,
        };
        checks.push(Check::note(&format!("not {name}"), why));
    }
    if taken != Some("tcp") {
        checks.push(Check::note(
            "not tcp",
            "taken only when asked for: --endpoint tcp:HOST:PORT or tls:HOST:PORT",
        ));
    }
    checks
}

fn answers(session: &Session) -> Check {
    match session.ping() {
        Ok(took) => {
            Check::ok("answers", format!("the manager answered in {}", out::duration(took)))
        }
        Err(e) => Check::missing("answers", e.to_string()).mend(e.advice()),
    }
}

fn functions(session: &Session, start: Option<&[String]>) -> Vec<Check> {
    match session.list() {
        Err(e) => vec![Check::missing("functions", e.to_string()).mend(e.advice())],
        Ok(list) if list.is_empty() => vec![
            Check::note(
                "functions",
                format!("none is offered to client {}", session.info().client),
            )
            .mend("on the host: vfun function add FILE, and see the client's `functions`"),
        ],
        Ok(list) => match start {
            Some(floors) => {
                let kind = |f: &FunctionInfo| match floors.contains(&f.name) {
                    true => ChannelKind::Floor,
                    false => ChannelKind::Calls,
                };
                // The agents of VMs alone may open that one.
                let others = list.iter().filter(|f| f.name != vfun_bond::FUNCTION);
                others.map(|f| begin(session, f, kind(f))).collect()
            }
            None => {
                let names: Vec<_> =
                    list.iter().map(|f| format!("{} {}", f.name, f.version)).collect();
                vec![Check::ok("functions", names.join(", "))]
            }
        },
    }
}

/// Starts a function, so that its driver is loaded, and gives it back.
fn begin(session: &Session, f: &FunctionInfo, kind: ChannelKind) -> Check {
    let name = format!("function {}", f.name);
    let begin = Instant::now();
    let request = FunctionRequest::new(&f.name).depth(1).kind(kind);
    let request = if kind == ChannelKind::Floor { request.cell_bytes(0) } else { request };
    let started = session.negotiate(&request).and_then(|grant| {
        let location = grant.info().location;
        grant.activate().map(|function| (location, function))
    });
    match started {
        Ok((location, function)) => {
            let took = begin.elapsed();
            let _ = function.release();
            Check::ok(
                &name,
                format!("{} starts on {location} in {}", f.version, out::duration(took)),
            )
        }
        Err(e) => Check::missing(&name, e.to_string()).mend(format!(
            "see its log in the manager's root: service/{}/{}.log",
            session.info().client,
            f.name
        )),
    }
}
