//! By what a function's manifest says it is computed: in software, on hardware, or both.

use super::FunctionToml;
use crate::catalog::Hardware;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::DeTable;
use vfun_kinds::{Keys, Kind, Part};
use vfun_policy::source::{ManifestError, Source};
use vfun_signature::Signature;
use vfun_supervise::Driver;
use vfun_wire::message::Location;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HardwareToml {
    location: Spanned<String>,
    kind: Option<Spanned<String>>,
    library: Option<Spanned<PathBuf>>,
    instances: Spanned<u32>,
    device: Option<Spanned<String>>,
    leased: Option<Spanned<bool>>,
    usual_gain_us: Option<f64>,
}

/// Keys of a manifest that belong to the kinds of its drivers.
pub(super) struct OwnKeys<'a> {
    software: Keys<'a>,
    hardware: Keys<'a>,
}

impl<'a> OwnKeys<'a> {
    /// Takes them out of a manifest.
    pub fn take(table: &mut Spanned<DeTable<'a>>) -> Self {
        OwnKeys { software: Keys::take(table), hardware: Keys::take_in(table, "hardware") }
    }
}

/// A function's drivers. Libraries that are not absolute are looked for in `drivers`.
pub(super) fn declared(
    src: &Source<'_>,
    t: &FunctionToml,
    name: &str,
    keys: &OwnKeys<'_>,
    drivers: &Path,
    signature: Option<&Signature>,
) -> Result<(Option<Driver>, Option<Hardware>), ManifestError> {
    let kind = kind(src, t.kind.as_ref())?;
    keys.software.check(kind, src)?;
    let part = Part {
        src,
        location: Location::Software,
        library: t.library.as_ref(),
        drivers,
        signature: t.signature.as_ref().zip(signature),
        keys: &keys.software,
        software: None,
    };
    // A function may have hardware alone.
    let alone = t.hardware.is_some() && t.kind.is_none() && t.library.is_none();
    let software = (!alone).then(|| (kind.declare)(&part)).transpose()?;
    let own = software.is_some().then_some((kind, &part));
    let hardware = t.hardware.as_ref().map(|h| hardware(src, h, name, own, &part, &keys.hardware));
    Ok((software, hardware.transpose()?))
}

/// The kind that a manifest or its section of hardware names.
fn kind(src: &Source<'_>, named: Option<&Spanned<String>>) -> Result<&'static Kind, ManifestError> {
    let Some(word) = named else { return Ok(vfun_kinds::DEFAULT) };
    vfun_kinds::named(word.get_ref()).map_err(|e| src.error(word, e))
}

fn location(src: &Source<'_>, word: &Spanned<String>) -> Result<Location, ManifestError> {
    Ok(match word.get_ref().as_str() {
        "gpu" => Location::Gpu,
        "fpga" => Location::Fpga,
        "fpga-simulated" => Location::FpgaSimulated,
        "model-simulated" => Location::ModelSimulated,
        other => {
            let not_one = format!(
                "location \"{other}\" is not one of \"gpu\", \"fpga\", \"fpga-simulated\", \"model-simulated\""
            );
            return Err(src.error(word, not_one));
        }
    })
}

/// A function's hardware. `software`: the kind and part of its software, if it has one.
fn hardware(
    src: &Source<'_>,
    h: &HardwareToml,
    function: &str,
    software: Option<(&Kind, &Part<'_>)>,
    function_part: &Part<'_>,
    keys: &Keys<'_>,
) -> Result<Hardware, ManifestError> {
    let (location, kind) = (location(src, &h.location)?, kind(src, h.kind.as_ref())?);
    keys.check(kind, src)?;
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
        None => function.to_owned(),
        Some(d) if leased.is_none() => {
            return Err(src.error(d, "only functions whose VFs are leased share a device"));
        }
        Some(d) => src.name(d)?,
    };
    let driver = (kind.declare)(&Part {
        location,
        library: h.library.as_ref(),
        keys,
        software: software.filter(|(own, _)| std::ptr::eq(*own, kind)).map(|(_, part)| part),
        ..*function_part
    })?;
    Ok(Hardware {
        location,
        device,
        driver,
        instances: *h.instances.get_ref(),
        leased: leased.is_some(),
        usual_gain_ns: (h.usual_gain_us.unwrap_or(1.0).clamp(0.0, 1e9) * 1000.0) as u64,
    })
}
