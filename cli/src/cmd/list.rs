//! `vfun list`.

use crate::connect::{Host, Who};
use crate::fail::Result;
use crate::out::{self, Output, Table};
use serde_json::json;
use vfun::signature::Signature;
use vfun::{FunctionInfo, Session};

/// List the functions offered to this client.
///
/// Works on the host, in a guest and over TCP. The manager's own view of all
/// functions is `vfun function list`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    who: Who,
}

pub fn run(host: &Host, output: Output, args: &Args) -> Result<()> {
    let session = host.session(&args.who)?;
    let functions: Vec<Offer> = session
        .list()?
        .into_iter()
        .map(|f| Offer { signature: signature(&session, &f), f })
        .collect();
    if output.is_json() {
        return out::json(&json!({
            "path": session.describe(),
            "transport": session.info().transport.as_str(),
            "client": session.info().client,
            "functions": functions.iter().map(object).collect::<Vec<_>>(),
        }));
    }
    out::note(session.describe());
    if functions.is_empty() {
        out::note(
            "No function is offered to this client. On the host: vfun function add FILE, and see the client's `functions`.",
        );
    }
    out::text(&render(&functions))
}

/// A function and its signature.
struct Offer {
    f: FunctionInfo,
    signature: Option<Signature>,
}

/// None too where the host is too old to say, or took it away just now.
fn signature(session: &Session, f: &FunctionInfo) -> Option<Signature> {
    session.describe_function(&f.name).ok()?.signature
}

fn locations(f: &FunctionInfo) -> Vec<&'static str> {
    f.locations.iter().map(|l| l.text()).collect()
}

/// Who brought a function: its name says so.
fn origin(f: &FunctionInfo) -> &'static str {
    match f.name.starts_with("my.") {
        true => "submitted",
        false => "host",
    }
}

fn object(o: &Offer) -> serde_json::Value {
    let f = &o.f;
    json!({
        "signature": o.signature.as_ref().map(|s| s.to_string()),
        "fingerprint": o.signature.as_ref().map(|s| format!("{:016x}", s.fingerprint())),
        "origin": origin(f), "name": f.name, "id": f.function_id, "version": f.version.to_string(),
        "locations": locations(f), "max_args": f.max_args, "max_result": f.max_result,
        "deadline_ms": f.deadline.as_millis() as u64,
    })
}

fn render(functions: &[Offer]) -> String {
    let mut table = Table::new(&[
        "NAME",
        "VERSION",
        "ORIGIN",
        ">ID",
        "RUNS ON",
        ">MAX ARGUMENTS",
        ">MAX RESULTS",
        ">DEADLINE",
        "SIGNATURE",
    ]);
    for Offer { f, signature } in functions {
        table.row([
            f.name.clone(),
            f.version.to_string(),
            origin(f).into(),
            f.function_id.to_string(),
            locations(f).join(", "),
            out::bytes(f.max_args.into()),
            out::bytes(f.max_result.into()),
            out::duration(f.deadline),
            signature.as_ref().map_or("-".into(), |s| s.of_function("").to_string()),
        ]);
    }
    table.render()
}
