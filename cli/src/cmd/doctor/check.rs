//! What a look found.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there and works.
    Ok,
    /// Something is limited, or merely worth knowing.
    Note,
    /// Needed, and not there.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: String,
    pub state: State,
    pub found: String,
    /// How to mend it.
    pub mend: Option<String>,
}

impl Check {
    fn new(name: &str, state: State, found: impl Into<String>) -> Self {
        Check { name: name.to_owned(), state, found: found.into(), mend: None }
    }
    /// A check that found all well.
    pub fn ok(name: &str, found: impl Into<String>) -> Self {
        Self::new(name, State::Ok, found)
    }
    /// A check that found something worth knowing.
    pub fn note(name: &str, found: impl Into<String>) -> Self {
        Self::new(name, State::Note, found)
    }
    /// A check that found something missing that is needed.
    pub fn missing(name: &str, found: impl Into<String>) -> Self {
        Self::new(name, State::Missing, found)
    }
    /// How to mend it.
    pub fn mend(mut self, how: impl Into<String>) -> Self {
        self.mend = Some(how.into());
        self
    }
}

/// The checks as a table for people.
pub fn render(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for c in checks {
        let state = match c.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Missing => "MISSING",
        };
        text.push_str(&format!("{state:<7}  {:<width$}  {}\n", c.name, c.found));
        if let Some(mend) = &c.mend {
            text.push_str(&format!("{:7}  {:width$}  -> {mend}\n", "", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mend_stands_below_its_line() {
        let checks = [
            Check::ok("QEMU", "7.2"),
            Check::missing("manager", "does not answer").mend("start it"),
        ];
        assert_eq!(
            render(&checks),
            "ok       QEMU     7.2\n\
             MISSING  manager  does not answer\n\
             \x20                 -> start it\n"
        );
    }
}
