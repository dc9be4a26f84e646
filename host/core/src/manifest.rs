//! Manifests: how functions and clients are declared. TOML; a wrong one is
//! refused with file, line and reason, and nothing of it is taken.

mod addresses;
mod drivers;
mod links;
mod nics;
mod ports;
mod rdma;
mod shared_memory;
mod vmms;
pub mod window;

use crate::catalog::{Client, ClientKind, Function, OverTcp, Vm};
use crate::limits::{CODE_MEANING_BYTES, CODES_MAX, VMS_PER_CLIENT};
use drivers::{HardwareToml, OwnKeys};
use nics::NicsToml;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use vfun_admin::Transport;
use vfun_jail::Device;
use vfun_jail::constants::{
    DEVICES_MAX, ENVIRONMENT_MAX, READS_MAX, REQUESTS_MAX, VARIABLE_BYTES, WRITES_MAX,
};
use vfun_jail::devices::check_path;
use vfun_jail::folders;
use vfun_kinds::Opens;
pub use vfun_policy::size;
pub use vfun_policy::source::ManifestError;
use vfun_policy::source::Source;
use vfun_policy::{Key, key_of};
use vfun_signature::{Record, Signature};
use vfun_wire::header;
use vfun_wire::limits::*;

/// A signature; an error names the line inside a text of several lines.
fn signature(src: &Source<'_>, text: &Spanned<String>) -> Result<Signature, ManifestError> {
    text.get_ref().parse().map_err(|e: vfun_signature::SignatureError| {
        let start = text.span().start;
        let raw = src.text.get(start..).unwrap_or("");
        let several = ["\"\"\"\n", "'''\n"].iter().any(|q| raw.starts_with(q));
        let before = text.get_ref().bytes().take(e.at).filter(|b| *b == b'\n').count();
        ManifestError {
            file: src.file.to_owned(),
            line: Some(src.at(start) + usize::from(several) + before),
            reason: e.to_string(),
        }
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionToml {
    name: Spanned<String>,
    version: Spanned<String>,
    #[serde(default)]
    summary: String,
    kind: Option<Spanned<String>>,
    library: Option<Spanned<PathBuf>>,
    hardware: Option<HardwareToml>,
    deadline_ms: Option<Spanned<u32>>,
    #[serde(default)]
    fixed_deadline: bool,
    #[serde(default)]
    max_args: Option<Spanned<u32>>,
    #[serde(default)]
    max_result: Option<Spanned<u32>>,
    signature: Option<Spanned<String>>,
    #[serde(default)]
    reads: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    writes: Vec<Spanned<String>>,
    #[serde(default)]
    environment: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    makes_code: bool,
    #[serde(default)]
    devices: Vec<DeviceToml>,
    #[serde(default)]
    codes: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceToml {
    path: Spanned<PathBuf>,
    #[serde(default)]
    ioctls: Vec<Spanned<String>>,
}

/// The devices of a manifest. Whether they are there shows when they are wanted:
/// a device may come and go.
fn devices(src: &Source<'_>, all: &[DeviceToml]) -> Result<Vec<Device>, ManifestError> {
    if let Some(beyond) = all.get(DEVICES_MAX) {
        return Err(
            src.error(&beyond.path, format!("a driver opens at most {DEVICES_MAX} devices"))
        );
    }
    if let Some(beyond) = all.iter().flat_map(|d| &d.ioctls).nth(REQUESTS_MAX) {
        let most = format!("all ioctls together have at most {REQUESTS_MAX} entries");
        return Err(src.error(beyond, most));
    }
    let device = |d: &DeviceToml| {
        check_path(d.path.get_ref()).map_err(|e| src.error(&d.path, format!("devices: {e}")))?;
        let request =
            |r: &Spanned<String>| r.get_ref().parse().map_err(|e: String| src.error(r, e));
        let ioctls = d.ioctls.iter().map(request).collect::<Result<_, _>>()?;
        Ok(Device { path: d.path.get_ref().clone(), ioctls })
    };
    all.iter().map(device).collect()
}

/// What a manifest says of its driver's error codes. Three of them mean the same for
/// all functions (`vfun_driver.h`), and 0 is none.
fn codes(
    src: &Source<'_>,
    all: &BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<BTreeMap<i32, String>, ManifestError> {
    const OF_ALL: [i32; 4] = [0, -1, -2, -4];
    if let Some(beyond) = all.keys().nth(CODES_MAX) {
        return Err(src.error(beyond, format!("at most {CODES_MAX} codes have a meaning here")));
    }
    let code = |(code, means): (&Spanned<String>, &Spanned<String>)| {
        let text = code.get_ref();
        let number = text.parse::<i32>().ok().filter(|n| n.to_string() == *text);
        let number = number.filter(|n| !OF_ALL.contains(n)).ok_or_else(|| {
            src.error(
                code,
                format!(
                    "codes: '{text}' is no code of a function's own: these are 1, 2, ... and -3 (the arguments make no sense); -1, -2 and -4 mean the same for all"
                ),
            )
        })?;
        let text = means.get_ref();
        match (1..=CODE_MEANING_BYTES).contains(&text.len()) && !text.contains(char::is_control) {
            true => Ok((number, text.clone())),
            false => Err(src.error(
                means,
                format!("codes: a meaning is one line of 1 to {CODE_MEANING_BYTES} bytes"),
            )),
        }
    };
    all.iter().map(code).collect()
}

/// The longest arguments or results: those that the manifest says under `key`, or the
/// longest that its signature (`of`) allows.
fn longest(
    src: &Source<'_>,
    said: Option<&Spanned<u32>>,
    of: Option<&Record>,
    key: &str,
) -> Result<u32, ManifestError> {
    let most = of.map_or(CELL_BYTES_MAX, |r| r.max_bytes() as u32);
    let Some(b) = said else { return Ok(most) };
    let n = *b.get_ref();
    if n > CELL_BYTES_MAX {
        return Err(src.error(b, format!("a cell has at most {CELL_BYTES_MAX} bytes")));
    }
    let least = of.map_or(0, Record::min_bytes);
    if n > most || u64::from(n) < least {
        let range = match least == u64::from(most) {
            true => format!("exactly {most}"),
            false => format!("{least} to {most}"),
        };
        return Err(src.error(b, format!("{key} = {n}, but by its signature they have {range} bytes: correct one of them, or leave {key} out")));
    }
    Ok(n)
}

/// Checks the files and directories that a driver reads.
fn check_reads(src: &Source<'_>, reads: &[Spanned<PathBuf>]) -> Result<(), ManifestError> {
    if let Some(beyond) = reads.get(READS_MAX) {
        return Err(src.error(beyond, format!("a driver reads at most {READS_MAX} paths")));
    }
    for path in reads {
        let p = path.get_ref();
        let plain = p
            .components()
            .all(|c| matches!(c, std::path::Component::RootDir | std::path::Component::Normal(_)));
        let wrong = match (p.is_absolute() && plain, p == Path::new("/")) {
            (false, _) => "is no absolute path without '..'",
            (_, true) => "would let the driver read the whole host",
            _ if !p.exists() => "is not there",
            _ => continue,
        };
        return Err(src.error(path, format!("reads: {} {wrong}", p.display())));
    }
    Ok(())
}

/// Checks the folders in which a driver writes. Where they lie shows when they are wanted.
fn check_writes(src: &Source<'_>, writes: &[Spanned<String>]) -> Result<(), ManifestError> {
    if let Some(beyond) = writes.get(WRITES_MAX) {
        return Err(src.error(beyond, format!("a driver writes in at most {WRITES_MAX} folders")));
    }
    let wrong = |path: &Spanned<String>| {
        folders::check(path.get_ref()).map_err(|e| src.error(path, format!("writes: {e}")))
    };
    writes.iter().try_for_each(wrong)
}

/// The environment of a driver's services.
fn environment(
    src: &Source<'_>,
    all: BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<BTreeMap<String, String>, ManifestError> {
    if let Some(beyond) = all.keys().nth(ENVIRONMENT_MAX) {
        let most = format!("environment: at most {ENVIRONMENT_MAX} variables are given");
        return Err(src.error(beyond, most));
    }
    let variable = |(name, value): (Spanned<String>, Spanned<String>)| {
        let (word, text) = (name.get_ref(), value.get_ref());
        let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        if word.is_empty() || word.len() > VARIABLE_BYTES || !word.bytes().all(plain) {
            let named = "is a name of capital letters, digits and '_'";
            return Err(src.error(&name, format!("environment: a variable {named}")));
        }
        if text.len() > VARIABLE_BYTES || text.contains(char::is_control) {
            let value_is = format!("is one line of at most {VARIABLE_BYTES} bytes");
            return Err(src.error(&value, format!("environment: the value of {word} {value_is}")));
        }
        Ok((name.into_inner(), value.into_inner()))
    };
    all.into_iter().map(variable).collect()
}

/// Settings for a driver: what is no text is passed as TOML writes it.
fn settings(all: BTreeMap<String, toml::Value>) -> BTreeMap<String, String> {
    let text = |v| match v {
        toml::Value::String(s) => s,
        other => other.to_string(),
    };
    all.into_iter().map(|(k, v)| (k, text(v))).collect()
}

/// Why a manifest may not give a function this name, if it may not.
fn not_for_manifests(name: &str) -> Option<String> {
    let why = match key_of(name) {
        _ if name == crate::ports::FUNCTION => "that function is built in",
        Key::Submit => {
            "'submit' is built in, and names that begin with 'my.' are those of functions that clients submit"
        }
        _ => return None,
    };
    Some(format!("the name '{name}' is not for manifests: {why}"))
}

/// Reads a function's manifest. Libraries that are not absolute are looked for
/// in `drivers`. Its id is given by the caller.
pub fn function(
    file: &Path,
    text: &str,
    drivers: &Path,
    id: u32,
) -> Result<Function, ManifestError> {
    let src = Source { file, text };
    let mut table = src.table()?;
    let keys = OwnKeys::take(&mut table);
    let t: FunctionToml = src.of_table(table)?;
    let name = src.name(&t.name)?;
    if let Some(why) = not_for_manifests(&name) {
        return Err(src.error(&t.name, why));
    }
    let version = t.version.get_ref().parse().map_err(|e: String| src.error(&t.version, e))?;
    let signature = t.signature.as_ref().map(|s| signature(&src, s)).transpose()?;
    let (software, hardware) =
        drivers::declared(&src, &t, &name, &keys, drivers, signature.as_ref())?;
    let deadline_ms = match &t.deadline_ms {
        None => DEADLINE_MS_DEFAULT,
        Some(d) if (1..=DEADLINE_MS_MAX).contains(d.get_ref()) => *d.get_ref(),
        Some(d) => {
            return Err(src.error(d, format!("a deadline is from 1 to {DEADLINE_MS_MAX} ms")));
        }
    };
    let args = signature.as_ref().map(|s| &s.args);
    let results = signature.as_ref().map(|s| &s.results);
    let max_args = longest(&src, t.max_args.as_ref(), args, "max_args")?;
    let max_result = longest(&src, t.max_result.as_ref(), results, "max_result")?;
    check_reads(&src, &t.reads)?;
    check_writes(&src, &t.writes)?;
    let devices = devices(&src, &t.devices)?;
    // If there is hardware, its driver alone opens devices.
    let opener = hardware.as_ref().map(|h| &h.driver).or(software.as_ref()).map(vfun_kinds::of);
    if let (Some(d), Some(kind)) = (t.devices.first(), opener.filter(|k| k.devices == Opens::Never))
    {
        let never = format!("a function of kind \"{}\" opens no device", kind.word);
        return Err(src.error(&d.path, never));
    }
    let writer = software.as_ref().map(vfun_kinds::of);
    if let (Some(w), Some(kind)) = (t.writes.first(), writer.filter(|k| !k.writes)) {
        let never = format!("writes: a function of kind \"{}\" writes nothing", kind.word);
        return Err(src.error(w, never));
    }
    Ok(Function {
        id,
        name,
        version,
        summary: t.summary,
        software,
        hardware,
        deadline_ms,
        fixed_deadline: t.fixed_deadline,
        max_args,
        max_result,
        settings: settings(t.settings),
        reads: t.reads.into_iter().map(Spanned::into_inner).collect(),
        writes: t.writes.into_iter().map(Spanned::into_inner).collect(),
        environment: environment(&src, t.environment)?,
        makes_code: t.makes_code,
        devices,
        codes: codes(&src, &t.codes)?,
        signature,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientToml {
    name: Spanned<String>,
    #[serde(default = "vm")]
    kind: Spanned<String>,
    window: Option<Spanned<String>>,
    #[serde(default = "all")]
    functions: Vec<Spanned<String>>,
    max_grants: Option<Spanned<u32>>,
    #[serde(default = "yes")]
    hardware: bool,
    #[serde(default)]
    spin: bool,
    transport: Option<Spanned<String>>,
    tcp: Option<Spanned<toml::Value>>,
    credential_sha256: Option<Spanned<String>>,
    #[serde(default)]
    uids: Vec<u32>,
    #[serde(default)]
    vm: BTreeMap<Spanned<String>, VmToml>,
    nics: Option<Spanned<NicsToml>>,
    address: Option<Spanned<String>>,
    shared_memory: Option<Spanned<String>>,
    qmp: Option<Spanned<String>>,
    libvirt: Option<Spanned<String>>,
    rdma: Option<rdma::RdmaToml>,
    #[serde(default)]
    ports: ports::PortsToml,
    links: Option<Spanned<bool>>,
    #[serde(default)]
    links_with: Vec<Spanned<String>>,
}

/// How a VM is wired. What it leaves out is as the client says.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct VmToml {
    window: Option<Spanned<String>>,
    transport: Option<Spanned<String>>,
    nics: Option<Spanned<NicsToml>>,
    address: Option<Spanned<String>>,
    shared_memory: Option<Spanned<String>>,
    qmp: Option<Spanned<String>>,
    libvirt: Option<Spanned<String>>,
    #[serde(default)]
    ports: ports::PortsToml,
}

fn vm() -> Spanned<String> {
    Spanned::new(0..0, "vm".into())
}
fn all() -> Vec<Spanned<String>> {
    vec![Spanned::new(0..0, "*".into())]
}
fn yes() -> bool {
    true
}

/// Grants of a client whose manifest names no number.
pub const MAX_GRANTS_DEFAULT: u32 = 128;

/// Reads a client's manifest. Its id is given by the caller.
pub fn client(file: &Path, text: &str, id: u32) -> Result<Client, ManifestError> {
    let src = Source { file, text };
    let t: ClientToml = src.parse()?;
    let name = src.name(&t.name)?;
    let kind = client_kind(&src, &t.kind)?;
    let (transport, window_bytes) =
        wiring(&src, kind, t.transport.as_ref(), t.window.as_ref(), t.vm.is_empty())?;
    let vms = vms(&src, &name, kind, Vm { name: name.clone(), transport, window_bytes }, &t)?;
    let nics = nics::of_client(&src, &name, kind, &t)?;
    let addresses = addresses::of_client(&src, &name, &t)?;
    let shared_memory = shared_memory::of_client(&src, (&name, kind), &t)?;
    let vmms = vmms::of_client(&src, (&name, kind), &t)?;
    let rdma = rdma::of_client(&src, t.rdma.as_ref(), &addresses)?;
    let ports = ports::of_client(&src, (&name, kind), &t)?;
    let links = links::of_client(&src, (&name, kind), &t)?;
    for f in &t.functions {
        if f.get_ref() != "*" {
            src.name(f)?;
        }
    }
    let max_grants = match &t.max_grants {
        None => MAX_GRANTS_DEFAULT,
        Some(n) if *n.get_ref() > 0 => *n.get_ref(),
        Some(n) => {
            return Err(src.error(
                n,
                "a client that may hold no grant can do nothing: max_grants is at least 1",
            ));
        }
    };
    let credential_sha256 = credential(&src, t.credential_sha256.as_ref())?;
    let tcp = match t.tcp.as_ref().map(|v| (v, v.get_ref())) {
        None | Some((_, toml::Value::Boolean(false))) => OverTcp::Nobody,
        Some((_, toml::Value::Boolean(true))) => OverTcp::Proven,
        Some((_, toml::Value::String(word))) if word == "open" => OverTcp::Open,
        Some((at, _)) => {
            return Err(src.error(
                at,
                "tcp is true (callers with the client's credential or a token), \"open\" (every caller) or false",
            ));
        }
    };
    Ok(Client {
        id,
        name,
        kind,
        window_bytes,
        vms,
        functions: t.functions.into_iter().map(Spanned::into_inner).collect(),
        max_grants,
        hardware: t.hardware,
        spin: t.spin,
        tcp,
        credential_sha256,
        uids: t.uids,
        nics,
        addresses,
        shared_memory,
        vmms,
        rdma,
        ports,
        links,
    })
}

fn credential(
    src: &Source<'_>,
    t: Option<&Spanned<String>>,
) -> Result<Option<[u8; 32]>, ManifestError> {
    let Some(h) = t else { return Ok(None) };
    let wrong = "credential_sha256 is 64 hexadecimal digits: `printf %s SECRET | sha256sum`";
    hex32(h.get_ref()).map(Some).ok_or_else(|| src.error(h, wrong))
}

fn client_kind(src: &Source<'_>, t: &Spanned<String>) -> Result<ClientKind, ManifestError> {
    let found = [ClientKind::Vm, ClientKind::Host].into_iter().find(|k| k.name() == t.get_ref());
    found.ok_or_else(|| {
        src.error(t, format!("kind \"{}\" is not one of \"vm\", \"host\"", t.get_ref()))
    })
}

/// The transport that a manifest names, or that of its kind of client.
fn transport(
    src: &Source<'_>,
    kind: ClientKind,
    named: Option<&Spanned<String>>,
) -> Result<Transport, ManifestError> {
    let Some(field) = named else {
        return Ok(match kind {
            ClientKind::Vm => Transport::VM_DEFAULT,
            ClientKind::Host => Transport::Host,
        });
    };
    let name = field.get_ref();
    Transport::of(kind).find(|t| t.name() == name).ok_or_else(|| {
        let all: Vec<String> = Transport::of(kind).map(|t| format!("\"{t}\"")).collect();
        src.error(
            field,
            format!(
                "transport \"{name}\" is not one of {} (of clients of kind \"{}\")",
                all.join(", "),
                kind.name()
            ),
        )
    })
}

/// Transport and size of the window that some keys name. `both`: they are of one window,
/// so that they must fit together.
fn wiring(
    src: &Source<'_>,
    kind: ClientKind,
    named: Option<&Spanned<String>>,
    window: Option<&Spanned<String>>,
    both: bool,
) -> Result<(Transport, u64), ManifestError> {
    let transport = transport(src, kind, named)?;
    let bytes = match window {
        None => WINDOW_BYTES_DEFAULT,
        Some(w) => window_size(w.get_ref()).map_err(|e| src.error(w, e))?,
    };
    match (window.or(named), fits(transport, bytes)) {
        (Some(at), Err(e)) if both => Err(src.error(at, e)),
        _ => Ok((transport, bytes)),
    }
}

fn window_size(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    header::check_size(bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Whether a window of this size can get into a VM this way.
fn fits(transport: Transport, bytes: u64) -> Result<(), String> {
    let min = transport.row().window_min;
    match bytes < min {
        true => Err(format!(
            "a window of {bytes} bytes is not possible over {transport}: it has at least {min}"
        )),
        false => Ok(()),
    }
}

/// The VMs that a manifest declares: its tables, or the one of a client that names none.
/// `main` has what the client's own keys say.
fn vms(
    src: &Source<'_>,
    client: &str,
    kind: ClientKind,
    main: Vm,
    t: &ClientToml,
) -> Result<Vec<Vm>, ManifestError> {
    match (kind, t.vm.keys().next()) {
        (ClientKind::Vm, None) => return Ok(vec![main]),
        (ClientKind::Vm, Some(_)) => {}
        (ClientKind::Host, None) => return Ok(vec![]),
        (ClientKind::Host, Some(first)) => {
            return Err(src.error(
                first,
                "a client of kind \"host\" has no VMs, its programs run on the host: leave [vm] out, or let kind be \"vm\"",
            ));
        }
    }
    if let Some(beyond) = t.vm.keys().nth(VMS_PER_CLIENT) {
        return Err(src.error(beyond, format!("a client has at most {VMS_PER_CLIENT} VMs")));
    }
    let vm = |(name, own): (&Spanned<String>, &VmToml)| {
        let transport = match &own.transport {
            Some(named) => transport(src, kind, Some(named))?,
            None => main.transport,
        };
        let window_bytes = match &own.window {
            Some(w) => window_size(w.get_ref()).map_err(|e| src.error(w, e))?,
            None => main.window_bytes,
        };
        if let Err(e) = fits(transport, window_bytes) {
            let at = own.window.as_ref().or(own.transport.as_ref()).unwrap_or(name);
            return Err(src.error(at, e));
        }
        Ok(Vm { name: src.name(name)?, transport, window_bytes })
    };
    let mut all: Vec<Vm> = t.vm.iter().map(vm).collect::<Result<_, _>>()?;
    all.sort_by(|a, b| (a.name != client, &a.name).cmp(&(b.name != client, &b.name)));
    Ok(all)
}

/// The client of programs on the host where no manifest declares one.
pub fn default_host_client(id: u32) -> Client {
    Client {
        id,
        name: "host".into(),
        kind: ClientKind::Host,
        window_bytes: 256 << 20,
        vms: vec![],
        functions: vec!["*".into()],
        max_grants: 1024,
        hardware: true,
        // A program on the host could spin by itself.
        spin: true,
        tcp: OverTcp::Nobody,
        credential_sha256: None,
        uids: vec![],
        nics: BTreeMap::new(),
        addresses: BTreeMap::new(),
        shared_memory: BTreeMap::new(),
        vmms: BTreeMap::new(),
        rdma: Default::default(),
        ports: BTreeMap::new(),
        links: Default::default(),
    }
}

fn hex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut out = [0; 32];
    for (i, b) in out.iter_mut().enumerate() {
        *b = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests;
