//! Who it is and what it may do: nobody, and nothing.

use super::Failed;
use super::clone::Namespaces;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::CapabilitySet;
use std::io;
use vfun_jail::constants::{INSIDE_GROUPS, INSIDE_ID};
use vfun_jail::{Layer, Plan};

/// Becomes this user and group, with no other groups but these.
fn become_user(id: u32, groups: &[u32], layer: Layer) -> Result<(), Failed> {
    let at = |what| move |e: Errno| Failed::at(layer, what)(e.into());
    let groups: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
    match rustix::thread::set_thread_groups(&groups) {
        // An ordinary user may not, and keeps only groups he has.
        Ok(()) | Err(Errno::PERM) => {}
        Err(e) => return Err(at("groups")(e)),
    }
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(at("group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(at("user"))
}

/// In a user namespace: the one user there is. Capabilities are kept until exec.
pub fn become_inside(spaces: Namespaces, plan: &Plan) -> Result<(), Failed> {
    if !spaces.user {
        return Ok(());
    }
    let groups: Vec<u32> = inside_groups(plan).map(|(inside, _)| inside).collect();
    become_user(INSIDE_ID, &groups, Layer::User)
}

/// The groups of its devices, as they are called in a user namespace and outside.
pub fn inside_groups(plan: &Plan) -> impl Iterator<Item = (u32, u32)> {
    (INSIDE_GROUPS..).zip(plan.groups.iter().copied())
}

/// Without a user namespace: the client's user of the host, at the very end,
/// as all capabilities go with it.
pub fn become_outside(spaces: Namespaces, plan: &Plan) -> Result<(), Failed> {
    match plan.user {
        Some(user) if !spaces.user => become_user(user, &plan.groups, Layer::OwnUser),
        _ => Ok(()),
    }
}

/// Nothing it runs ever gains anything.
pub fn no_new() -> Result<(), Failed> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|e| Failed::at(Layer::NoNewPrivileges, "no_new_privs")(e.into()))
}

/// Empties the set of what exec could ever give.
pub fn empty_bounding_set() -> io::Result<()> {
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Beyond the last that this kernel knows.
            Err(Errno::INVAL) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
