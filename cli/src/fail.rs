//! Errors: one sentence says what is wrong, one what to do; the exit code says
//! to scripts whose it is.

use crate::machine;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use vfun_admin::AskError;

/// Exit codes, as the help documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It failed, for a reason of none of the other kinds; or `doctor` found something missing.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The manager refused.
    Refused = 3,
    /// The call itself failed.
    Call = 4,
    /// Manager, window or gateway cannot be reached.
    Unreachable = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault, for scripts.
    pub exit: Exit,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub advice: Option<String>,
    /// Which refusal it is, for scripts, such as `unknown_function`; by default the exit code's name.
    pub code: Option<String>,
}

/// What commands give.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that says what is wrong.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Failure { exit, what: what.into(), advice: None, code: None }
    }
    /// A command line that cannot be meant.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }
    /// And what to do.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Which refusal it is.
    fn code(&self) -> &str {
        match (&self.code, self.exit) {
            (Some(code), _) => code,
            (None, Exit::Failed) => "failed",
            (None, Exit::Usage) => "usage",
            (None, Exit::Refused) => "refused",
            (None, Exit::Call) => "call_failed",
            (None, Exit::Unreachable) => "unreachable",
        }
    }

    /// The text for people.
    pub fn text(&self) -> String {
        let what = self.what.trim_end_matches('.');
        match &self.advice {
            Some(advice) => format!("vfun: {what}.\n      {}", sentence(advice)),
            None => format!("vfun: {what}."),
        }
    }

    /// Says so on stderr: for people, or as one JSON object.
    pub fn report(&self, json: bool) {
        let text = match json {
            false => self.text(),
            true => serde_json::json!({
                "error": {
                    "exit": self.exit as u8, "code": self.code(),
                    "what": self.what, "advice": self.advice,
                }
            })
            .to_string(),
        };
        let _ = writeln!(io::stderr(), "{text}");
    }
}

fn sentence(advice: &str) -> String {
    let advice = advice.trim_end_matches('.');
    let mut letters = advice.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

impl From<vfun_qmp::Fault> for Failure {
    fn from(fault: vfun_qmp::Fault) -> Self {
        use vfun_qmp::FaultKind;
        let exit = match fault.kind {
            FaultKind::Unreachable => Exit::Unreachable,
            FaultKind::Gone | FaultKind::Refused | FaultKind::Kept => Exit::Failed,
        };
        Failure { advice: fault.advice, ..Failure::new(exit, fault.what) }
    }
}

impl From<vfun::Error> for Failure {
    fn from(e: vfun::Error) -> Self {
        use vfun::Error::*;
        let exit = match &e {
            BadEndpoint(_) | BadName { .. } | BadOption(_) | Unsupported(_) => Exit::Usage,
            Refused(_) | NotAccepted { .. } => Exit::Refused,
            NoHost { .. }
            | HostSocket { .. }
            | NoDevice(_)
            | NoWindow(_)
            | NotShared { .. }
            | NoModule(_)
            | ModuleVersion { .. }
            | DeviceHeld { .. }
            | DeviceGone
            | Device { .. }
            | SeveralWindows(_)
            | NotAWindow { .. }
            | Map(_)
            | Gateway { .. }
            | Tls { .. }
            | ConnectionLost(_)
            | ManagerGone(_)
            | ControlTimeout { .. }
            | ControlBusy(_)
            | HostNonsense(_)
            | StaleGeneration { .. } => Exit::Unreachable,
            _ => Exit::Call,
        };
        let mut failure = Failure::new(exit, e.to_string());
        if let Refused(nack) = &e {
            failure.code = Some(nack.code.text().replace(' ', "_"));
        }
        match &e {
            // The manager's own sentence says what to do.
            Refused(nack) if !nack.software_instead => failure,
            _ => failure.advise(e.advice()),
        }
    }
}

impl From<AskError> for Failure {
    fn from(e: AskError) -> Self {
        match e {
            AskError::NotRunning { socket, source } => {
                not_running(&socket, &source, in_guest(&socket))
            }
            AskError::Unreadable(why) => Failure::new(
                Exit::Unreachable,
                format!("the manager's answer could not be read: {why}"),
            )
            .advise(
                "use a vfun of the manager's version; `vfun --version` and `vfun status` show both",
            ),
            AskError::Strange(reply) => Failure::new(
                Exit::Unreachable,
                format!("the manager answered another question: {reply:?}"),
            )
            .advise("use a vfun of the manager's version"),
            AskError::Refused(sentence) => Failure::new(Exit::Refused, sentence),
        }
    }
}

/// A command that asks the manager, in a guest.
pub fn of_the_host() -> Failure {
    Failure::new(
        Exit::Unreachable,
        "this is a command of the host: it asks the manager, and this machine is a guest",
    )
    .advise("run it on the host; in a guest `vfun list`, `vfun call` and `vfun doctor` work")
}

fn not_running(socket: &Path, source: &io::Error, guest: bool) -> Failure {
    let unreachable = |what: String| Failure::new(Exit::Unreachable, what);
    if source.kind() == io::ErrorKind::PermissionDenied {
        return unreachable(format!("permission denied: {} ({source})", socket.display()))
            .advise("this command asks the manager: run it as root or as the manager's own user");
    }
    if guest {
        return of_the_host();
    }
    unreachable(format!("the manager does not answer on {}: {source}", socket.display()))
        .advise("start it with `vfund --root DIR`, or name its root with --root or VFUN_ROOT")
}

/// Whether nobody can answer there, because this machine is a guest.
fn in_guest(socket: &Path) -> bool {
    // ROOT/admin/vfund.sock
    socket.ancestors().nth(2).is_some_and(machine::is_guest)
}

/// A file that could not be used.
pub fn file(path: &Path, doing: &str, e: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{} cannot be {doing}: {e}", path.display()))
}

/// Output that could not be written. Nobody reads a closed pipe.
pub fn output(e: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the output could not be written: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun::{Error, Nack, NackCode};

    #[test]
    fn scripts_tell_faults_apart() {
        let exit = |e: Error| Failure::from(e).exit;
        assert_eq!(exit(Error::Refused(Nack::new(NackCode::Denied, "no"))), Exit::Refused);
        assert_eq!(exit(Error::Deadline), Exit::Call);
        assert_eq!(exit(Error::Driver { code: 1, sentence: "x".into() }), Exit::Call);
        assert_eq!(exit(Error::NoDevice(None)), Exit::Unreachable);
        assert_eq!(exit(Error::NoModule(None)), Exit::Unreachable);
        assert_eq!(exit(Error::DeviceGone), Exit::Unreachable);
        assert_eq!(exit("x".parse::<vfun::Endpoint>().unwrap_err()), Exit::Usage);
    }

    #[test]
    fn a_manager_that_is_not_there_is_sought_on_the_right_machine() {
        let socket = Path::new("/r/admin/vfund.sock");
        let text = |kind: io::ErrorKind, guest| not_running(socket, &kind.into(), guest).text();
        let here = text(io::ErrorKind::NotFound, false);
        assert!(here.contains("Start it with `vfund --root DIR`"), "{here}");
        let guest = text(io::ErrorKind::NotFound, true);
        assert!(guest.contains("a command of the host") && !guest.contains("vfund --root"));
        let denied = text(io::ErrorKind::PermissionDenied, false);
        assert!(denied.contains("permission denied") && denied.contains("as root"), "{denied}");
    }

    #[test]
    fn an_error_is_two_sentences() {
        let f = Failure::new(Exit::Failed, "it broke").advise("mend it.");
        assert_eq!(f.text(), "vfun: it broke.\n      Mend it.");
        let f = Failure::from(AskError::Refused("there is no client 'x'.".into()));
        assert_eq!((f.exit, f.text().as_str()), (Exit::Refused, "vfun: there is no client 'x'."));
    }
}
