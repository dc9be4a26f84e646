//! Landlock: the same files once more, by another part of the kernel, and no
//! connection to anybody.
#![allow(unsafe_code)]

use super::Failed;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::PathBuf;
use vfun_jail::places::Places;
use vfun_jail::{Layer, Plan};

/// The newest interface whose rights are asked for; a kernel without some of
/// them keeps the others.
const NEWEST: ABI = ABI::V6;

/// The kernel's version of the interface, or the error.
fn version() -> std::io::Result<u32> {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag no ruleset is made and no pointer is followed.
    let found = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(found).map_err(|_| std::io::Error::last_os_error())
}

/// The system's error that an error came of.
fn errno_of(e: &(dyn std::error::Error + 'static)) -> Option<i32> {
    match e.downcast_ref::<std::io::Error>() {
        Some(e) => e.raw_os_error(),
        None => errno_of(e.source()?),
    }
}

/// Puts it in force; the version, or why not.
pub fn restrict(
    places: &Places,
    plan: &Plan,
    scratch: Option<&str>,
) -> Result<Result<u32, String>, Failed> {
    let version = match version() {
        Ok(version) => version,
        Err(e) => return Ok(Err(format!("the kernel has none: {e}"))),
    };
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    // The last from version 5 on: without it no request of a driver's reaches a device.
    let driving = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    // Files and folders, and neither programs nor devices, sockets or links.
    let writing = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir;
    let done = (|| {
        let shown: Vec<&PathBuf> = places.shown.iter().collect();
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(shown, reading))?
            .add_rules(path_beneath_rules(&plan.devices, driving))?
            .add_rules(path_beneath_rules(&plan.writes, writing))?
            .add_rules(path_beneath_rules(scratch, AccessFs::from_all(NEWEST)))?
            .restrict_self()
    })();
    match done {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            Ok(Err("the kernel enforces none of it".into()))
        }
        Ok(_) => Ok(Ok(version)),
        Err(e) => {
            let errno = errno_of(&e);
            Err(Failed { layer: Some(Layer::Landlock), reason: e.to_string(), errno })
        }
    }
}
