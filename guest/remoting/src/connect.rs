//! How a front end finds its host.

use crate::failure::Failure;
use crate::say;
use std::sync::Once;
use vfun::{ConnectOptions, Error, Function, FunctionRequest, Queues, Session, WaitPolicy};

/// What a front end says of its API; made by the generator.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The API's name, which is the vFunction's that offers it.
    pub name: &'static str,
    /// Stands for the whole description: the host must have the same.
    pub fingerprint: u64,
    /// Longest call and answer, bytes: data space of a cell.
    pub cell_bytes: u32,
    /// Calls under way at once.
    pub depth: u16,
}

/// The variable that names the client on a host; a VM's window names it by itself.
const CLIENT: &str = "VFUN_CLIENT";
/// The variable that says how calls wait: `hybrid` (the default), `spin` or `sleep`.
const WAIT: &str = "VFUN_WAIT";

/// A name for this program among the apps of its client: its file's, in the alphabet of names.
fn program() -> String {
    let file = std::env::current_exe().ok();
    let name = file.as_deref().and_then(|f| f.file_name()).and_then(|n| n.to_str());
    let kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.unwrap_or_default().chars().filter(kept).take(48).collect();
    match name.trim_start_matches(['.', '-']) {
        "" => "program".into(),
        name => name.into(),
    }
}

/// How calls wait. A program cannot be told of a wrong word, so that it counts as none.
fn wait() -> WaitPolicy {
    match std::env::var(WAIT).as_deref() {
        Ok("spin") => WaitPolicy::spin(),
        Ok("sleep") => WaitPolicy::sleep(),
        _ => WaitPolicy::hybrid(),
    }
}

fn session(wait: WaitPolicy) -> Result<Session, Error> {
    let options = ConnectOptions::new(program()).wait(wait);
    match std::env::var(CLIENT) {
        Ok(client) => options.client(client).connect(),
        Err(_) => options.connect(),
    }
}

fn try_connect(api: &Description) -> Result<(Session, Function), Error> {
    let session = session(wait())?;
    let function = channel(&session, api, api.depth)?;
    Ok((session, function))
}

/// A channel for events, whose thread sleeps for as long as nothing happens. Where calls spin it
/// needs a session of its own: how a session waits holds for all of it.
pub(crate) fn channel_of_events(
    of_calls: &Session,
    api: &Description,
) -> Result<(Option<Session>, Function), Error> {
    let own = (wait() == WaitPolicy::spin()).then(|| session(WaitPolicy::hybrid())).transpose()?;
    let function = channel(own.as_ref().unwrap_or(of_calls), api, 1)?;
    Ok((own, function))
}

/// A channel to the API's service.
fn channel(session: &Session, api: &Description, depth: u16) -> Result<Function, Error> {
    let wish = FunctionRequest::new(api.name).cell_bytes(api.cell_bytes).depth(depth);
    session.negotiate(&wish)?.activate()
}

/// A channel of queues to the API's service.
pub(crate) fn channel_of_queues(
    session: &Session,
    api: &Description,
    (program_pages, host_pages): (u32, u32),
) -> Result<Queues, Error> {
    let wish = FunctionRequest::new(api.name).queues(program_pages, host_pages);
    session.negotiate(&wish)?.activate_queues()
}

/// Connects, or says once on standard error why not.
pub(crate) fn connect(api: &Description) -> Result<(Session, Function), Failure> {
    static SAID: Once = Once::new();
    try_connect(api).map_err(|error| {
        say::once(&SAID, || {
            let what = format!("no host offers '{}' to this program: {error}", api.name);
            vec![what, format!("{} (VFUN_QUIET=1 hides this)", error.advice())]
        });
        Failure::NoHost
    })
}

/// Says once that the two halves were made of different descriptions.
pub(crate) fn say_different(api: &Description) {
    static SAID: Once = Once::new();
    say::once(&SAID, || {
        let what = format!(
            "the host's half of '{}' is of another description than this program's library",
            api.name
        );
        let advice = "build and install both halves of one version of VirtFun";
        vec![what, format!("{advice} (VFUN_QUIET=1 hides this)")]
    });
}
