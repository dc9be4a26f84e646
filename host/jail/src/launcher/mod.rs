//! Makes the service's process and lets it enter its jail.

mod clone;
mod inside;
mod landlock;
mod mounts;
mod privileges;
mod resources;

use clone::{Made, Namespaces};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::ExitCode;
use vfun_jail::constants::{INSIDE_ID, OOM_SCORE};
use vfun_jail::{Layer, Missing, Plan, Report, folders};

/// Why it cannot go on.
pub struct Failed {
    /// At which layer, if at one.
    pub layer: Option<Layer>,
    /// For people.
    pub reason: String,
    /// The system's error, which tells the manager whether it may help to try again.
    pub errno: Option<i32>,
}

impl Failed {
    /// At this layer, doing this.
    pub fn at(layer: Layer, what: &str) -> impl FnOnce(io::Error) -> Failed + use<> {
        Self::doing(Some(layer), what)
    }
    /// At no layer, doing this.
    pub fn plain(what: &str) -> impl FnOnce(io::Error) -> Failed + use<> {
        Self::doing(None, what)
    }
    fn doing(layer: Option<Layer>, what: &str) -> impl FnOnce(io::Error) -> Failed + use<> {
        let what = what.to_owned();
        move |e| Failed { layer, reason: format!("{what}: {e}"), errno: e.raw_os_error() }
    }
}

/// Tells the manager.
pub struct Teller<'a>(pub BorrowedFd<'a>);

impl Teller<'_> {
    /// Says it. A manager that is gone hears nothing, and the service, which
    /// sees its socket closed, ends by itself.
    ///
    /// No descriptor goes with it: how many are on their way at once the kernel
    /// bounds for each user, and another program of this one may use that up.
    pub fn say(&self, report: &Report) {
        let _ = vfun_supervise::send(self.0, report, &[]);
    }
    /// A layer is not there.
    pub fn without(&self, layer: Layer, why: impl ToString) {
        self.say(&Report::Without(Missing::new(layer, why)));
    }
    fn failed(&self, Failed { layer, reason, errno }: Failed) {
        self.say(&Report::Failed { layer, reason, errno });
    }
}

/// Counts folders, each as its user, and says which hold too much: their place among them, and
/// a sentence.
pub fn count() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(2).collect();
    let me = rustix::process::geteuid();
    let become_user = |user| rustix::thread::set_thread_res_uid(me, user, me);
    for (n, of) in words.chunks(2).enumerate() {
        let [user, folder] = of else { return ExitCode::from(2) };
        let Ok(user) = user.parse().map(rustix::process::Uid::from_raw) else {
            return ExitCode::from(2);
        };
        let counted = become_user(user)
            .map_err(|e| format!("{folder} cannot be counted as user {}: {e}", user.as_raw()))
            .and_then(|()| folders::measure(&[folder.into()]));
        if become_user(me).is_err() {
            return ExitCode::FAILURE;
        }
        if let Err(why) = counted {
            println!("{n} {}", why.replace('\n', " "));
        }
    }
    ExitCode::SUCCESS
}

/// The whole of it.
pub fn run() -> ExitCode {
    // Standard output becomes the service's own; this copy closes with exec.
    let Ok(report) = std::io::stdout().as_fd().try_clone_to_owned() else {
        return ExitCode::FAILURE;
    };
    let teller = Teller(report.as_fd());
    let plan = match vfun_supervise::receive::<Plan>(&report) {
        Ok(Some((plan, _))) => plan,
        _ => {
            eprintln!("vfun-jail: nothing on standard output to report to: vfund starts this");
            return ExitCode::from(2);
        }
    };
    match make(&plan, &teller) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            teller.failed(failed);
            ExitCode::FAILURE
        }
    }
}

fn make(plan: &Plan, teller: &Teller<'_>) -> Result<(), Failed> {
    // Inherited; raising it takes no privilege.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY, Mode::empty())
        .map_err(|e| Failed::plain("/dev/null")(e.into()))?;
    for tasks in &plan.tasks {
        // "0" is the writer: for a single thread that moves itself the kernel
        // need not stop all others, which takes it 15 ms.
        let entering = format!("entering {}", tasks.display());
        fs::write(tasks, "0").map_err(Failed::doing(layer_of_group(tasks), &entering))?;
    }
    let (mut wait, mut go) = io::pipe().map_err(Failed::plain("a pipe"))?;
    let spaces =
        Namespaces::obtainable(plan, teller).map_err(Failed::plain("no namespaces for it"))?;
    match clone::make(spaces, plan.group.as_deref()) {
        Err(e) => Err(Failed::plain("no process for it")(e)),
        Ok(Made::Child) => {
            drop(go);
            let mut byte = [0];
            // Closed without a word: the launcher failed and has said why.
            if wait.read(&mut byte).unwrap_or(0) == 0 {
                clone::end();
            }
            let Err(failed) = inside::enter(plan, spaces, teller, null.as_fd());
            teller.failed(failed);
            clone::end()
        }
        Ok(Made::Parent { pid }) => {
            teller.say(&Report::Made { pid });
            if spaces.user {
                map(pid, plan)?;
            }
            go.write_all(b"g").map_err(Failed::plain("it ended at once"))
        }
    }
}

fn layer_of_group(tasks: &Path) -> Option<Layer> {
    let text = tasks.to_str()?;
    [("/memory", Layer::CgroupMemory), ("/pids", Layer::CgroupPids), ("/cpu", Layer::CgroupCpu)]
        .into_iter()
        .find_map(|(word, layer)| text.contains(word).then_some(layer))
}

/// Says who the service's user is outside of its user namespace, and its groups.
fn map(pid: i32, plan: &Plan) -> Result<(), Failed> {
    let mut groups = String::new();
    let (uid, gid) = match plan.user {
        Some(user) => {
            for (inside, group) in privileges::inside_groups(plan) {
                groups += &format!("{inside} {group} 1\n");
            }
            (user, user)
        }
        None => {
            // Without this an ordinary user may not map a group.
            let _ = fs::write(format!("/proc/{pid}/setgroups"), "deny");
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
        }
    };
    for (file, id, more) in [("gid_map", gid, groups.as_str()), ("uid_map", uid, "")] {
        let path = format!("/proc/{pid}/{file}");
        // All of it at once: the kernel takes one write.
        let text = format!("{INSIDE_ID} {id} 1\n{more}");
        fs::write(&path, text).map_err(Failed::at(Layer::User, file))?;
    }
    Ok(())
}
