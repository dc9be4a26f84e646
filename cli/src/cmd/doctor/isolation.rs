//! How far the sandbox of services reaches on this host: what the manager's
//! services have of it. Where no manager runs, it is tried out, as the user who
//! runs the command: another user's services may have more or fewer layers.

use super::check::Check;
use crate::admin::Admin;
use crate::programs;
use vfun_jail::{Layer, Standing, probe};

/// Asks the manager, or tries.
pub fn look(admin: &Admin) -> Vec<Check> {
    match admin.sandbox() {
        Ok(view) if view.seen => checks(&view.standing, "the manager's services have"),
        Ok(view) => checks(&view.standing, "the manager expects (no service has run yet)"),
        // There is one, which this user may not ask: a trial would speak of another's services.
        Err(e) if e.is_denied() => vec![],
        Err(_) => tried(),
    }
}

fn tried() -> Vec<Check> {
    let Some(program) = programs::find("vfun-jail") else {
        return vec![
            Check::missing("sandbox", "the launcher vfun-jail is not there")
                .mend("build it, or install it with the manager: without it no service starts"),
        ];
    };
    match probe::try_out(&program) {
        Ok(standing) => checks(&standing, "a manager of this user would have (none answers)"),
        Err(e) => vec![
            Check::missing("sandbox", format!("a trial failed: {e}"))
                .mend("no service will start: the reason says what is in the way"),
        ],
    }
}

/// How to have a layer that is not there.
fn mend(layer: Layer) -> &'static str {
    match layer {
        Layer::OwnUser => {
            "run the manager as root, or with CAP_SETUID and CAP_SETGID (packaging/vfund.service)"
        }
        Layer::User | Layer::Pid | Layer::Mount | Layer::Network | Layer::Ipc => {
            "let users make namespaces: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone, or run the manager as root"
        }
        Layer::Landlock => {
            "a kernel of 5.13 or later with landlock among its security modules (lsm=)"
        }
        Layer::Seccomp => "a kernel with CONFIG_SECCOMP_FILTER",
        Layer::CgroupCpu | Layer::CgroupMemory | Layer::CgroupPids => {
            "mount control groups with this controller, and run the manager as root or in a group that was delegated to it"
        }
        Layer::NoNewPrivileges | Layer::Capabilities | Layer::Rlimits => {
            "every kernel that can run services has it: see what else is wrong"
        }
    }
}

/// `whose`: who has these layers, before "N of 14 layers".
fn checks(standing: &Standing, whose: &str) -> Vec<Check> {
    let all = Layer::ALL.len();
    let landlock = standing.landlock.map_or(String::new(), |v| format!(", Landlock {v}"));
    if standing.missing.is_empty() {
        let found = format!(
            "{whose} all {all} layers{landlock}: a driver that was taken over reaches its own client's window, and nothing else"
        );
        return vec![Check::ok("sandbox", found)];
    }
    let open = probe::gaps(standing);
    let so = if open.is_empty() {
        "what is missing is made up for by other layers".to_owned()
    } else {
        open.join("; ")
    };
    let mut found = vec![Check::note(
        "sandbox",
        format!("{whose} {} of {all} layers{landlock}: {so}", standing.layers.len()),
    )];
    found.extend(
        standing.missing.iter().map(|m| {
            Check::note(&format!("sandbox: {}", m.layer), m.why.clone()).mend(mend(m.layer))
        }),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_jail::Missing;

    #[test]
    fn each_gap_is_said_in_plain_words() {
        let whole =
            Standing { layers: Layer::ALL.into(), landlock: Some(7), ..Standing::default() };
        assert_eq!(checks(&whole, "they have").len(), 1);
        for layer in Layer::ALL {
            let mut less = whole.clone();
            less.layers.remove(&layer);
            less.missing.push(Missing::new(layer, "the reason"));
            let found = checks(&less, "they have");
            assert_eq!(found.len(), 2, "{layer}");
            assert!(found[0].found.contains("they have 13 of 14 layers"));
            assert!(found[1].found.contains("the reason") && found[1].mend.is_some());
        }
    }
}
