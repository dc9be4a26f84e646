//! Manifests: how functions and clients are declared. TOML; a wrong one is
//! refused with file, line and reason, and nothing of it is taken.

use crate::catalog::{Client, ClientKind, Function, Hardware, OverTcp};
use crate::limits::{
    CODE_MEANING_BYTES, CODES_MAX, WASM_MEMORY_DEFAULT, WASM_MEMORY_MAX, WASM_MEMORY_MIN,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use vfun_jail::Device;
use vfun_jail::constants::{DEVICES_MAX, READS_MAX, REQUESTS_MAX};
use vfun_jail::devices::check_path;
use vfun_kernelmap::{Map, Mapping};
pub use vfun_policy::size;
pub use vfun_policy::source::ManifestError;
use vfun_policy::source::Source;
use vfun_policy::{Key, key_of};
use vfun_signature::{Record, Signature};
use vfun_supervise::Driver;
use vfun_wire::header;
use vfun_wire::limits::*;
use vfun_wire::message::Location;

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
    #[serde(default = "native")]
    kind: Spanned<String>,
    library: Option<Spanned<PathBuf>>,
    memory: Option<Spanned<String>>,
    hardware: Option<HardwareToml>,
    deadline_ms: Option<Spanned<u32>>,
    #[serde(default)]
    max_args: Option<Spanned<u32>>,
    #[serde(default)]
    max_result: Option<Spanned<u32>>,
    signature: Option<Spanned<String>>,
    opencl: Option<Spanned<Map>>,
    #[serde(default)]
    reads: Vec<Spanned<PathBuf>>,
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
struct HardwareToml {
    location: Spanned<String>,
    library: Spanned<PathBuf>,
    instances: Spanned<u32>,
    device: Option<Spanned<String>>,
    leased: Option<Spanned<bool>>,
    usual_gain_us: Option<f64>,
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

/// The module at `path`, if it begins as one. Its service checks the rest.
fn wasm_module(
    src: &Source<'_>,
    at: &Spanned<PathBuf>,
    path: PathBuf,
) -> Result<PathBuf, ManifestError> {
    use std::io::Read;
    let mut begins = vec![];
    let read = std::fs::File::open(&path).and_then(|f| f.take(8).read_to_end(&mut begins));
    match read {
        Ok(_) if begins == *b"\0asm\x01\0\0\0" => Ok(path),
        Ok(_) => Err(src.error(at, format!("{} is not a WebAssembly module", path.display()))),
        Err(e) => Err(src.error(at, format!("{} cannot be read: {e}", path.display()))),
    }
}

fn wasm_memory(src: &Source<'_>, memory: Option<&Spanned<String>>) -> Result<u64, ManifestError> {
    let Some(m) = memory else { return Ok(WASM_MEMORY_DEFAULT) };
    match size(m.get_ref()) {
        Ok(b) if (WASM_MEMORY_MIN..=WASM_MEMORY_MAX).contains(&b) => Ok(b),
        Ok(_) => Err(src.error(
            m,
            format!(
                "the memory of a module's instance is {} KiB to {} MiB",
                WASM_MEMORY_MIN >> 10,
                WASM_MEMORY_MAX >> 20
            ),
        )),
        Err(e) => Err(src.error(m, e)),
    }
}

/// A kernel whose arguments its section takes from the signature.
fn opencl_kernel(
    src: &Source<'_>,
    kernel: PathBuf,
    section: Option<&Spanned<Map>>,
    signature: Option<&Signature>,
) -> Result<Driver, ManifestError> {
    let Some(map) = section else {
        return Err(src.whole(
            "a function of kind \"opencl\" needs a section [opencl]: which kernel, and what its arguments are",
        ));
    };
    let Some(signature) = signature else {
        return Err(src.whole(
            "a function of kind \"opencl\" needs a `signature`, whose arguments become the kernel's",
        ));
    };
    Mapping::new(map.get_ref(), signature).map_err(|e| src.error(map, e.to_string()))?;
    let map = Box::new(map.get_ref().clone());
    Ok(Driver::OpenCl { kernel, signature: signature.to_string(), map })
}

fn native() -> Spanned<String> {
    Spanned::new(0..0, "native".into())
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
    let t: FunctionToml = src.parse()?;
    let name = src.name(&t.name)?;
    if key_of(&name) == Key::Submit {
        return Err(src.error(
            &t.name,
            format!("the name '{name}' is not for manifests: 'submit' is built in, and names that begin with 'my.' are those of functions that clients submit"),
        ));
    }
    let version = t.version.get_ref().parse().map_err(|e: String| src.error(&t.version, e))?;
    let found = |l: &Spanned<PathBuf>| -> Result<PathBuf, ManifestError> {
        let path = drivers.join(l.get_ref());
        if !path.is_file() {
            return Err(src.error(l, format!("there is no driver library {}", path.display())));
        }
        Ok(path)
    };
    let library = |l| Ok(Driver::Native { library: found(l)? });
    if let Some(m) = &t.memory
        && t.kind.get_ref() != "wasm"
    {
        return Err(src.error(m, "`memory` is for kind \"wasm\": policy bounds other drivers"));
    }
    if let Some(map) = &t.opencl
        && t.kind.get_ref() != "opencl"
    {
        return Err(src.error(map, "[opencl] is for kind \"opencl\""));
    }
    let signature = t.signature.as_ref().map(|s| signature(&src, s)).transpose()?;
    let software = match (t.kind.get_ref().as_str(), &t.library) {
        ("native", Some(l)) => Some(library(l)?),
        ("native", None) if t.hardware.is_some() => None,
        ("native", None) => {
            return Err(src.whole("a native function needs `library`, the driver's shared library"));
        }
        ("wasm", Some(l)) => Some(Driver::Wasm {
            module: wasm_module(&src, l, found(l)?)?,
            memory_bytes: wasm_memory(&src, t.memory.as_ref())?,
        }),
        ("wasm", None) => {
            return Err(src.whole("a function of kind \"wasm\" needs `library`, its module"));
        }
        ("opencl", Some(l)) => {
            Some(opencl_kernel(&src, found(l)?, t.opencl.as_ref(), signature.as_ref())?)
        }
        ("opencl", None) => {
            return Err(src.whole(
                "a function of kind \"opencl\" needs `library`, the kernel's source or binary",
            ));
        }
        ("floor", None) => Some(Driver::Floor),
        ("floor", Some(l)) => {
            return Err(src.error(l, "kind \"floor\" is built in and has no library"));
        }
        (other, _) => {
            return Err(src.error(
                &t.kind,
                format!(
                    "kind \"{other}\" is not one of \"native\", \"wasm\", \"opencl\", \"floor\""
                ),
            ));
        }
    };
    let hardware = match &t.hardware {
        None => None,
        Some(h) => {
            let location = match h.location.get_ref().as_str() {
                "gpu" => Location::Gpu,
                "fpga" => Location::Fpga,
                "fpga-simulated" => Location::FpgaSimulated,
                "model-simulated" => Location::ModelSimulated,
                other => {
                    return Err(src.error(
                        &h.location,
                        format!("location \"{other}\" is not one of \"gpu\", \"fpga\", \"fpga-simulated\", \"model-simulated\""),
                    ));
                }
            };
            if *h.instances.get_ref() == 0 {
                return Err(src.error(&h.instances, "hardware has at least one instance"));
            }
            let leased = h.leased.as_ref().filter(|l| *l.get_ref());
            if let Some(l) = leased.filter(|_| software.is_none()) {
                return Err(src.error(
                    l,
                    "a function whose VFs are leased runs in software while it has none: it needs a library of its own",
                ));
            }
            if leased.is_some() && *h.instances.get_ref() > u32::from(vfun_leases::VFS_MAX) {
                return Err(src.error(
                    &h.instances,
                    format!("at most {} VFs of a device are leased", vfun_leases::VFS_MAX),
                ));
            }
            let device = match &h.device {
                None => name.clone(),
                Some(d) if leased.is_none() => {
                    return Err(src.error(d, "only functions whose VFs are leased share a device"));
                }
                Some(d) => {
                    src.name(d)?;
                    d.get_ref().clone()
                }
            };
            Some(Hardware {
                location,
                device,
                driver: library(&h.library)?,
                instances: *h.instances.get_ref(),
                leased: leased.is_some(),
                usual_gain_ns: (h.usual_gain_us.unwrap_or(1.0).clamp(0.0, 1e9) * 1000.0) as u64,
            })
        }
    };
    let deadline_ms = match &t.deadline_ms {
        None => DEADLINE_MS_DEFAULT,
        Some(d) if (1..=DEADLINE_MS_MAX).contains(d.get_ref()) => *d.get_ref(),
        Some(d) => {
            return Err(src.error(d, format!("a deadline is from 1 to {DEADLINE_MS_MAX} ms")));
        }
    };
    if let Some(s) = &t.signature
        && software == Some(Driver::Floor)
    {
        return Err(
            src.error(s, "raw lines (kind \"floor\") carry no arguments and have no signature")
        );
    }
    let bytes = |v: &Option<Spanned<u32>>, of: Option<&Record>, key: &str| {
        let most = of.map_or(CELL_BYTES_MAX, |r| r.max_bytes() as u32);
        match (v, of) {
            (None, _) => Ok(most),
            (Some(b), _) if *b.get_ref() > CELL_BYTES_MAX => {
                Err(src.error(b, format!("a cell has at most {CELL_BYTES_MAX} bytes")))
            }
            (Some(b), Some(r))
                if *b.get_ref() > most || u64::from(*b.get_ref()) < r.min_bytes() =>
            {
                let (n, least) = (*b.get_ref(), r.min_bytes());
                let range = if least == u64::from(most) {
                    format!("exactly {most}")
                } else {
                    format!("{least} to {most}")
                };
                Err(src.error(b, format!("{key} = {n}, but by its signature they have {range} bytes: correct one of them, or leave {key} out")))
            }
            (Some(b), _) => Ok(*b.get_ref()),
        }
    };
    let args = signature.as_ref().map(|s| &s.args);
    let results = signature.as_ref().map(|s| &s.results);
    let (max_args, max_result) =
        (bytes(&t.max_args, args, "max_args")?, bytes(&t.max_result, results, "max_result")?);
    if let Some(beyond) = t.reads.get(READS_MAX) {
        return Err(src.error(beyond, format!("a driver reads at most {READS_MAX} paths")));
    }
    for path in &t.reads {
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
    let devices = devices(&src, &t.devices)?;
    if let (Some(d), kind @ ("wasm" | "floor")) = (t.devices.first(), t.kind.get_ref().as_str()) {
        return Err(src.error(&d.path, format!("a function of kind \"{kind}\" opens no device")));
    }
    let codes = codes(&src, &t.codes)?;
    let settings = t
        .settings
        .into_iter()
        .map(|(k, v)| match v {
            toml::Value::String(s) => (k, s),
            other => (k, other.to_string()),
        })
        .collect();
    Ok(Function {
        id,
        name,
        version,
        summary: t.summary,
        software,
        hardware,
        deadline_ms,
        max_args,
        max_result,
        settings,
        reads: t.reads.into_iter().map(Spanned::into_inner).collect(),
        makes_code: t.makes_code,
        devices,
        codes,
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
    let kind = match t.kind.get_ref().as_str() {
        "vm" => ClientKind::Vm,
        "host" => ClientKind::Host,
        other => {
            return Err(
                src.error(&t.kind, format!("kind \"{other}\" is not one of \"vm\", \"host\""))
            );
        }
    };
    let window_bytes = match &t.window {
        None => WINDOW_BYTES_DEFAULT,
        Some(w) => size(w.get_ref())
            .and_then(|b| header::check_size(b).map(|()| b).map_err(|e| e.to_string()))
            .map_err(|e| src.error(w, e))?,
    };
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
    let doorbell = match t.transport.as_ref().map(|t| (t, t.get_ref().as_str())) {
        None | Some((_, "ivshmem-doorbell")) => true,
        Some((_, "ivshmem-plain")) if kind == ClientKind::Vm => false,
        Some((field, other)) => {
            return Err(src.error(
                field,
                format!(
                    "transport \"{other}\" is not one of \"ivshmem-doorbell\", \"ivshmem-plain\" (of VMs)"
                ),
            ));
        }
    };
    let credential_sha256 = match &t.credential_sha256 {
        None => None,
        Some(h) => Some(hex32(h.get_ref()).ok_or_else(|| {
            src.error(
                h,
                "credential_sha256 is 64 hexadecimal digits: `printf %s SECRET | sha256sum`",
            )
        })?),
    };
    let tcp = match t.tcp.as_ref().map(|v| (v, v.get_ref())) {
        None | Some((_, toml::Value::Boolean(false))) => OverTcp::Nobody,
        Some((_, toml::Value::Boolean(true))) => OverTcp::Proven,
        Some((_, toml::Value::String(word))) if word == "open" => OverTcp::Open,
        Some((at, _)) => {
            return Err(src.error(
                at,
                "tcp is true (callers with the client's credential or a token), \"open\" (whoever comes) or false",
            ));
        }
    };
    Ok(Client {
        id,
        name,
        kind,
        window_bytes,
        functions: t.functions.into_iter().map(Spanned::into_inner).collect(),
        max_grants,
        hardware: t.hardware,
        spin: t.spin,
        doorbell,
        tcp,
        credential_sha256,
        uids: t.uids,
    })
}

/// The client of programs on the host where no manifest declares one.
pub fn default_host_client(id: u32) -> Client {
    Client {
        id,
        name: "host".into(),
        kind: ClientKind::Host,
        window_bytes: 256 << 20,
        functions: vec!["*".into()],
        max_grants: 1024,
        hardware: true,
        // A program on the host could spin by itself.
        spin: true,
        doorbell: true,
        tcp: OverTcp::Nobody,
        credential_sha256: None,
        uids: vec![],
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
mod tests {
    use super::*;

    fn f(text: &str) -> Result<Function, String> {
        function(Path::new("f.toml"), text, Path::new("/nowhere"), 1).map_err(|e| e.to_string())
    }
    fn c(text: &str) -> Result<Client, String> {
        client(Path::new("c.toml"), text, 1).map_err(|e| e.to_string())
    }

    #[test]
    fn codes_of_a_functions_own_have_meanings() {
        let floor = "name = \"x\"\nversion = \"1.0\"\nkind = \"floor\"\n[codes]\n";
        let of = |codes: &str| f(&format!("{floor}{codes}")).map(|f| f.codes);
        let two = of("1 = \"no point is near enough\"\n-3 = \"not a point\"\n").unwrap();
        let expected = [(-3, "not a point"), (1, "no point is near enough")];
        assert!(two.iter().map(|(n, text)| (*n, text.as_str())).eq(expected));
        let many: String = (1..=CODES_MAX + 1).map(|n| format!("{n} = \"x\"\n")).collect();
        for (codes, expect) in [
            ("0 = \"well\"", "f.toml:5: codes: '0' is no code"),
            ("1 = \"x\"\n-1 = \"a bug\"", "f.toml:6: codes: '-1' is no code"),
            ("-2 = \"x\"", "'-2' is no code"),
            ("-4 = \"x\"", "'-4' is no code"),
            ("one = \"x\"", "'one' is no code"),
            ("99999999999 = \"x\"", "is no code"),
            ("01 = \"x\"", "'01' is no code"),
            ("1 = \"\"", "f.toml:5: codes: a meaning is one line"),
            ("1 = \"a\\nb\"", "a meaning is one line"),
            ("1 = 2", "f.toml:5: invalid type"),
            (many.as_str(), "at most 64 codes"),
        ] {
            let e = of(codes).unwrap_err();
            assert!(e.contains(expect), "{e} should say {expect}");
        }
    }

    #[test]
    fn devices_are_below_dev_and_their_requests_are_numbers() {
        let with = |kind: &str, device: &str| {
            f(&format!(
                "name = \"x\"\nversion = \"1.0\"\nkind = \"{kind}\"\n[[devices]]\n{device}\n"
            ))
        };
        for (device, expect) in [
            ("path = \"/etc/passwd\"", "f.toml:5: devices: /etc/passwd is no path below /dev"),
            ("path = \"/dev/../etc/x\"", "is no path below /dev"),
            ("ioctls = []", "missing field `path`"),
            ("path = \"/dev/x\"\nioctls = [\"all\"]", "f.toml:6: 'all' is no request"),
            ("path = \"/dev/x\"", "kind \"floor\" opens no device"),
        ] {
            let e = with("floor", device).unwrap_err();
            assert!(e.contains(expect), "{e} should say {expect}");
        }
    }

    #[test]
    fn wrong_functions_are_refused_with_file_line_and_reason() {
        let floor = "name = \"floor\"\nversion = \"1.0\"\nkind = \"floor\"\n";
        assert_eq!(f(floor).unwrap().software, Some(Driver::Floor));
        for (text, expect) in [
            ("name = \"x\"\nversion = \"1\"\n", "f.toml:2: '1' is not a version"),
            ("name = \"x/y\"\nversion = \"1.0\"\n", "f.toml:1: name 'x/y'"),
            ("name = \"x\"\nversion = \"1.0\"\ncolour = 3\n", "f.toml:3: unknown field"),
            (
                "name = \"x\"\nversion = \"1.0\"\n\nlibrary = \"l.so\"\n",
                "f.toml:4: there is no driver library /nowhere/l.so",
            ),
            ("name = \"x\"\nversion = \"1.0\"\n", "f.toml: a native function needs `library`"),
            ("name = \"x\"\nversion = \"1.0\"\nkind = \"magic\"\n", "f.toml:3: kind \"magic\""),
            ("name = 7\nversion = \"1.0\"\n", "f.toml:1: invalid type"),
            ("version = \"1.0\"\n", "missing field `name`"),
            ("name = \"x\"\nversion", "f.toml:2:"),
        ] {
            let e = f(text).unwrap_err();
            assert!(e.contains(expect), "{e} should say {expect}");
        }
        let e = f(&format!("{floor}deadline_ms = 0\n")).unwrap_err();
        assert!(e.starts_with("f.toml:4: a deadline is"), "{e}");
    }

    #[test]
    fn a_module_is_looked_at_before_it_is_offered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.wasm"), b"\0asm\x01\0\0\0and more").unwrap();
        std::fs::write(dir.path().join("text.wasm"), "(module)").unwrap();
        let f = |more: &str| {
            let text = format!("name = \"x\"\nversion = \"1.0\"\nkind = \"wasm\"\n{more}");
            function(Path::new("f.toml"), &text, dir.path(), 1).map_err(|e| e.to_string())
        };
        let wasm =
            |memory_bytes| Some(Driver::Wasm { module: dir.path().join("m.wasm"), memory_bytes });
        assert_eq!(f("library = \"m.wasm\"\n").unwrap().software, wasm(WASM_MEMORY_DEFAULT));
        let sized = f("library = \"m.wasm\"\nmemory = \"2 MiB\"\n").unwrap();
        assert_eq!(sized.software, wasm(2 << 20));
        for (more, expect) in [
            ("", "f.toml: a function of kind \"wasm\" needs `library`"),
            ("library = \"no.wasm\"\n", "f.toml:4: there is no driver library"),
            ("library = \"text.wasm\"\n", "is not a WebAssembly module"),
            ("library = \"m.wasm\"\nmemory = \"1 KiB\"\n", "f.toml:5: the memory of a module"),
            ("library = \"m.wasm\"\nmemory = \"9 GiB\"\n", "f.toml:5: the memory of a module"),
            ("library = \"m.wasm\"\nmemory = \"much\"\n", "f.toml:5: "),
        ] {
            let e = f(more).unwrap_err();
            assert!(e.contains(expect), "{e} should say {expect}");
        }
        let native = "name = \"x\"\nversion = \"1.0\"\nlibrary = \"m.wasm\"\nmemory = \"1 MiB\"\n";
        let e = function(Path::new("f.toml"), native, dir.path(), 1).unwrap_err().to_string();
        assert!(e.starts_with("f.toml:4: `memory` is for kind"), "{e}");
    }

    #[test]
    fn leased_hardware_that_cannot_be_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        let f = |software: &str, more: &str| {
            let text = format!(
                "name = \"x\"\nversion = \"1.0\"\n{software}\nhardware = {{ location = \"gpu\", library = \"f\", {more} }}\n"
            );
            function(Path::new("f.toml"), &text, dir.path(), 1).map_err(|e| e.to_string())
        };
        let software = "library = \"f\"";
        let of = |more| f(software, more).unwrap().hardware.unwrap().device;
        assert_eq!(of("instances = 1, leased = true"), "x");
        assert_eq!(of("instances = 1, leased = true, device = \"board\""), "board");
        for (software, more, expect) in [
            (
                "",
                "instances = 1, leased = true",
                "f.toml:4: a function whose VFs are leased runs in",
            ),
            (software, "instances = 2000, leased = true", "f.toml:4: at most 1024 VFs"),
            (
                software,
                "instances = 1, device = \"b\"",
                "f.toml:4: only functions whose VFs are leased",
            ),
            (software, "instances = 1, leased = true, device = \"a/b\"", "f.toml:4: "),
        ] {
            let e = f(software, more).unwrap_err();
            assert!(e.starts_with(expect), "{e} should say {expect}");
        }
    }

    #[test]
    fn signatures_settle_sizes_or_are_refused() {
        let head = "name = \"x\"\nversion = \"1.0\"\nhardware = { location = \"gpu\", library = \"f\", instances = 1 }\n";
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        let f = |more: &str| {
            function(Path::new("f.toml"), &format!("{head}{more}"), dir.path(), 1)
                .map_err(|e| e.to_string())
        };
        let x = f("signature = \"(n: u64, m: u8 = 1) -> u32\"\n").unwrap();
        assert_eq!((x.max_args, x.max_result), (16, 4));
        assert_eq!(x.lengths(), Some(vfun_supervise::Lengths { min: 16, max: 16, step: 1 }));
        let x = f("signature = \"(n: u8, d: [f64]) -> ()\"\nmax_args = 4096\n").unwrap();
        assert_eq!(x.lengths(), Some(vfun_supervise::Lengths { min: 8, max: 4096, step: 8 }));
        assert_eq!((f("").unwrap().lengths(), f("").unwrap().fingerprint()), (None, 0));
        for (more, expect) in [
            (
                "signature = \"(n: u63) -> ()\"\n",
                "f.toml:4: signature, character 5: 'u63' is no type",
            ),
            (
                "signature = \"\"\"\nstruct p { x: f64 }\n(a: q) -> p\"\"\"\n",
                "f.toml:6: signature, character 25: 'q' is no type",
            ),
            (
                "max_args = 8\nsignature = \"(n: u64, m: u64) -> ()\"\n",
                "f.toml:4: max_args = 8, but by its signature they have exactly 16 bytes",
            ),
            (
                "signature = \"() -> [u8; 2..=9]\"\nmax_result = 10\n",
                "f.toml:5: max_result = 10, but by its signature they have 2 to 9 bytes",
            ),
        ] {
            let e = f(more).unwrap_err();
            assert!(e.starts_with(expect), "{e} should say {expect}");
        }
    }

    #[test]
    fn wrong_clients_are_refused_with_file_line_and_reason() {
        let vm = c("name = \"vm1\"\n").unwrap();
        assert_eq!(
            (vm.window_bytes, vm.kind, vm.may_use("anything")),
            (WINDOW_BYTES_DEFAULT, ClientKind::Vm, true)
        );
        for (text, expect) in [
            (
                "name = \"vm1\"\nwindow = \"3 MiB\"\n",
                "c.toml:2: a window of 3145728 bytes is not possible",
            ),
            ("name = \"vm1\"\nwindow = \"4 KiB\"\n", "c.toml:2: a window of 4096 bytes"),
            ("name = \"vm1\"\nwindow = \"4 parsecs\"\n", "c.toml:2: 'parsecs' is not a unit"),
            ("name = \"vm1\"\nkind = \"pod\"\n", "c.toml:2: kind \"pod\""),
            ("name = \"vm1\"\nmax_grants = 0\n", "c.toml:2: a client that may hold no grant"),
            ("name = \"vm1\"\ntcp = \"closed\"\n", "c.toml:2: tcp is true"),
            ("name = \"vm1\"\ncredential_sha256 = \"abc\"\n", "c.toml:2: credential_sha256 is 64"),
            ("name = \"vm1\"\nfunctions = [\"a\",\n \"b c\"]\n", "c.toml:3: name 'b c'"),
        ] {
            let e = c(text).unwrap_err();
            assert!(e.contains(expect), "{e} should say {expect}");
        }
    }
}
