//! Errors: one sentence says what is wrong, one what to do; the exit code says
//! to scripts whose it is.

use std::io::{self, Write};
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
}

/// What commands give.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that says what is wrong.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Failure { exit, what: what.into(), advice: None }
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
                "error": { "exit": self.exit as u8, "what": self.what, "advice": self.advice }
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

impl From<vfun::Error> for Failure {
    fn from(e: vfun::Error) -> Self {
        use vfun::Error::*;
        let exit = match &e {
            BadEndpoint(_) | BadName { .. } | BadOption(_) | Unsupported(_) => Exit::Usage,
            Refused(_) | NotAccepted { .. } => Exit::Refused,
            NoHost { .. }
            | HostSocket { .. }
            | NoDevice(_)
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
        let failure = Failure::new(exit, e.to_string());
        match &e {
            // The manager's own sentence says what to do.
            Refused(nack) if !nack.software_instead => failure,
            _ => failure.advise(e.advice()),
        }
    }
}

impl From<AskError> for Failure {
    fn from(e: AskError) -> Self {
        let denied = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
        match e {
            AskError::NotRunning { socket, source } if denied(&source) => Failure::new(
                Exit::Unreachable,
                format!("this user may not ask the manager ({}: {source})", socket.display()),
            )
            .advise("run the command as the manager's own user, or as root"),
            AskError::NotRunning { socket, source } => Failure::new(
                Exit::Unreachable,
                format!("the manager does not answer on {}: {source}", socket.display()),
            )
            .advise("start it with `vfund --root DIR`, or name its root with --root or VFUN_ROOT"),
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

/// A file that could not be used.
pub fn file(path: &std::path::Path, doing: &str, e: &io::Error) -> Failure {
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
    fn an_error_is_two_sentences() {
        let f = Failure::new(Exit::Failed, "it broke").advise("mend it.");
        assert_eq!(f.text(), "vfun: it broke.\n      Mend it.");
        let f = Failure::from(AskError::Refused("there is no client 'x'.".into()));
        assert_eq!((f.exit, f.text().as_str()), (Exit::Refused, "vfun: there is no client 'x'."));
    }
}
