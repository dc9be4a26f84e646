//! `vfun submit`.

use crate::carried;
use crate::connect::{Host, Who};
use crate::fail::{self, Failure, Result};
use crate::out::{self, Output, Table};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfun::{OwnFunction, Submission};

const AFTER: &str = "\
The module has the interface of vfun_driver.h and imports nothing; docs/wasm.md shows how to make
one in C or Rust. The function is my.NAME, for this client alone, until it is removed:
  vfun submit double.wasm --signature '(n: u64) -> u64'
  vfun call my.double 21
  vfun submit --list
  vfun submit --remove my.double
A module that carries a manifest (made with #[vfunction] or vfun_function.h) brings its signature,
memory and deadline along. The host's policy must allow it: submit = true in [client.NAME].";

/// Bring a WebAssembly module of your own, and call it like any function.
///
/// Works on the host, in a guest and over TCP. The host checks and compiles the module in a
/// sandbox of this client.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER, override_usage = "vfun submit [OPTIONS] FILE.wasm\n       vfun submit --list\n       vfun submit --remove NAME")]
pub struct Args {
    /// The module; - for standard input.
    #[arg(value_name = "FILE.wasm", required_unless_present_any = ["list", "remove"])]
    file: Option<PathBuf>,
    /// Its name, instead of the one in the module.
    #[arg(long, value_name = "NAME", requires = "file")]
    name: Option<String>,
    /// What its arguments and results are, such as '(n: u64) -> u64'.
    #[arg(long, value_name = "SIGNATURE", requires = "file")]
    signature: Option<String>,
    /// Most memory of each channel's instance [default: 16MiB].
    #[arg(long, value_name = "SIZE", requires = "file", value_parser = size)]
    memory: Option<u64>,
    /// How long a call may take, ms [default: 1000].
    #[arg(long, value_name = "MS", requires = "file", value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    deadline_ms: Option<u32>,
    /// Replace another module of this name. The same module is compiled again.
    #[arg(long, requires = "file")]
    replace: bool,
    /// List what this client submitted.
    #[arg(long, conflicts_with_all = ["file", "remove"])]
    list: bool,
    /// Remove a function. Grants that have it keep it until they are released.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    remove: Option<String>,
    #[command(flatten)]
    who: Who,
}

fn size(text: &str) -> std::result::Result<u64, String> {
    vfun_policy::size(text)
}

pub fn run(host: &Host, output: Output, args: &Args) -> Result<()> {
    let session = host.session(&args.who)?;
    if args.list {
        let all = session.submitted_modules()?;
        if all.is_empty() && !output.is_json() {
            out::note("This client has submitted nothing: vfun submit FILE.wasm");
        }
        return output.show(&all.iter().map(object).collect::<Vec<_>>(), || render(&all));
    }
    if let Some(name) = &args.remove {
        let gone = session.withdraw_module(name)?;
        return output.show(&object(&gone), || format!("{} is no longer offered\n", gone.name));
    }
    let file = args.file.as_deref().ok_or_else(|| Failure::usage("which module?"))?;
    let module = read(file)?;
    let carried = Carried::of(file, &module);
    let mut s = Submission::new(&module).replace(args.replace);
    if let Some(name) = &args.name {
        s = s.name(name);
    }
    if let Some(signature) = args.signature.as_ref().or(carried.signature.as_ref()) {
        s = s.signature(signature);
    }
    if let Some(memory) = args.memory.or(carried.memory) {
        s = s.memory(memory);
    }
    if let Some(ms) = args.deadline_ms.or(carried.deadline_ms) {
        s = s.deadline(Duration::from_millis(ms.into()));
    }
    let done = session.submit_module(&s)?;
    if output.is_json() {
        let mut value = object(&done.function);
        value["already_there"] = done.already_there.into();
        value["replaced"] = done.replaced.into();
        value["renewed"] = done.renewed.into();
        return out::json(&value);
    }
    let f = &done.function;
    let how = match &done {
        d if d.already_there => "is offered already".to_owned(),
        d if d.renewed => {
            format!("was offered already, and was compiled again in {}", compiled(f))
        }
        d if d.replaced => {
            format!("is offered in the other one's place, compiled in {}", compiled(f))
        }
        _ => format!("is offered, compiled in {}", compiled(f)),
    };
    out::text(&format!("{} {} {how}\n", f.name, f.version))
}

/// What a module made with `#[vfunction]` or `vfun_function.h` says of itself.
#[derive(Default)]
struct Carried {
    signature: Option<String>,
    memory: Option<u64>,
    deadline_ms: Option<u32>,
}

impl Carried {
    /// Nothing, of one that carries no manifest.
    fn of(file: &Path, module: &[u8]) -> Self {
        let text = carried::manifest(file, module).unwrap_or_default();
        let Ok(table) = text.parse::<toml::Table>() else { return Carried::default() };
        let text = |key: &str| Some(table.get(key)?.as_str()?.to_owned());
        let ms = table.get("deadline_ms").and_then(toml::Value::as_integer);
        Carried {
            signature: text("signature"),
            memory: text("memory").and_then(|m| size(&m).ok()),
            deadline_ms: ms.and_then(|ms| u32::try_from(ms).ok()),
        }
    }
}

fn compiled(f: &OwnFunction) -> String {
    out::duration(f.compiled_in)
}

/// The module; of what is far too large for one, so much that the library says so.
fn read(file: &Path) -> Result<Vec<u8>> {
    let most = 64 << 20;
    let mut bytes = vec![];
    match file.to_str() {
        Some("-") => std::io::stdin().take(most).read_to_end(&mut bytes),
        _ => std::fs::File::open(file).and_then(|f| f.take(most).read_to_end(&mut bytes)),
    }
    .map_err(|e| fail::file(file, "read", &e))?;
    Ok(bytes)
}

fn digest(f: &OwnFunction) -> String {
    f.sha256.iter().map(|b| format!("{b:02x}")).collect()
}

fn object(f: &OwnFunction) -> serde_json::Value {
    json!({
        "name": f.name, "version": f.version.to_string(), "sha256": digest(f),
        "module_bytes": f.module_bytes, "memory_bytes": f.memory_bytes,
        "deadline_ms": f.deadline.as_millis() as u64, "max_args": f.max_args,
        "max_result": f.max_result, "fingerprint": format!("{:016x}", f.signature),
        "submitted_at": f.submitted_at, "compile_us": f.compiled_in.as_micros() as u64,
    })
}

fn render(all: &[OwnFunction]) -> String {
    let mut table = Table::new(&[
        "NAME",
        "VERSION",
        ">MODULE",
        ">MEMORY",
        ">DEADLINE",
        ">COMPILED IN",
        "SUBMITTED",
        "SHA256",
    ]);
    for f in all {
        table.row([
            f.name.clone(),
            f.version.to_string(),
            out::bytes(f.module_bytes.into()),
            out::bytes(f.memory_bytes),
            out::duration(f.deadline),
            compiled(f),
            out::timestamp(f.submitted_at.saturating_mul(1000).min(i64::MAX as u64) as i64),
            digest(f)[..16].to_owned(),
        ]);
    }
    table.render()
}
