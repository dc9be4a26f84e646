//! `vfund --config FILE`: options of the command line in a file. Each long option is a
//! key, so that nothing can be said in one place alone.

use crate::manifest::ManifestError;
use crate::policy::source::Source;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// Options that say what is to be done this once, not how the manager is set up.
const ONCE: [&str; 4] = ["config", "check", "help", "version"];

/// The file's options as words of the command line, but for those that `given` has
/// from a person or from the environment. `command` says which options there are.
pub fn words(
    command: &Command,
    given: &ArgMatches,
    file: &Path,
    text: &str,
) -> Result<Vec<OsString>, ManifestError> {
    let src = Source { file, text };
    let table = src.table()?;
    let mut all = vec![];
    for (key, value) in table.get_ref() {
        let name = key.get_ref();
        let Some(arg) = options(command).find(|a| key_of(a).as_deref() == Some(name)) else {
            let keys: Vec<_> = options(command).filter_map(key_of).collect();
            let known = keys.join(", ");
            return Err(src.error(key, format!("unknown key `{name}`; there are: {known}")));
        };
        let words = option(&src, arg, value)?;
        let refused = |e: clap::Error| src.error(value, sentence(&e));
        check(command, &words).map_err(refused)?;
        let said = given.value_source(arg.get_id().as_str());
        if !matches!(said, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            all.extend(words);
        }
    }
    Ok(all)
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|a| !a.is_hide_set() && a.get_long().is_some_and(|l| !ONCE.contains(&l)))
}

fn key_of(arg: &Arg) -> Option<String> {
    arg.get_long().map(|l| l.replace('-', "_"))
}

/// One option, as often as it is given.
fn option(
    src: &Source<'_>,
    arg: &Arg,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<OsString>, ManifestError> {
    let long = arg.get_long().unwrap_or_default();
    let with = |value: &str| OsString::from(format!("--{long}={value}"));
    let many = matches!(arg.get_action(), ArgAction::Append);
    let may_stand_alone = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
    let wrong =
        |wanted: &str| src.error(value, format!("`{}` is {wanted}", long.replace('-', "_")));
    match value.get_ref() {
        DeValue::Boolean(on) if may_stand_alone => {
            Ok(on.then(|| OsString::from(format!("--{long}"))).into_iter().collect())
        }
        DeValue::Array(values) if many => values
            .iter()
            .map(|v| match v.get_ref() {
                DeValue::String(s) => Ok(with(s)),
                _ => Err(wrong("a list of texts")),
            })
            .collect(),
        DeValue::String(s) => Ok(vec![with(s)]),
        DeValue::Integer(n) if !many => Ok(vec![with(&n.to_string())]),
        DeValue::Float(n) if !many => Ok(vec![with(n.as_str())]),
        _ if many => Err(wrong("a text, or a list of texts")),
        _ if may_stand_alone => Err(wrong("a text, true or false")),
        _ => Err(wrong("a text or a number")),
    }
}

/// Whether the option takes such a value. What it needs besides may be elsewhere.
fn check(command: &Command, words: &[OsString]) -> Result<(), clap::Error> {
    let line = std::iter::once(OsString::from("vfund")).chain(words.iter().cloned());
    match command.clone().try_get_matches_from(line) {
        Err(e) if e.kind() != clap::error::ErrorKind::MissingRequiredArgument => Err(e),
        _ => Ok(()),
    }
}

/// Its first sentence, without what is about the command line.
fn sentence(e: &clap::Error) -> String {
    let text = e.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Args {
        #[arg(long, default_value = "/root")]
        root: String,
        #[arg(long)]
        functions: Vec<String>,
        #[arg(long, requires = "root_of_all")]
        tls_cert: Option<String>,
        #[arg(long)]
        root_of_all: Option<String>,
        #[arg(long, num_args = 0..=1, default_missing_value = "here")]
        metrics: Option<String>,
        #[arg(long, default_value_t = 1)]
        interval_ms: u64,
        #[arg(long)]
        rate: Option<f64>,
        #[arg(long, hide = true)]
        hidden: bool,
        #[arg(long)]
        config: Option<String>,
    }

    fn read(line: &[&str], text: &str) -> Result<Args, String> {
        use clap::{CommandFactory, FromArgMatches};
        let line: Vec<OsString> = ["vfund"].iter().chain(line).map(OsString::from).collect();
        let given = Args::command().try_get_matches_from(&line).unwrap();
        let file = Path::new("/etc/vfund.toml");
        let more = words(&Args::command(), &given, file, text).map_err(|e| e.to_string())?;
        let whole = line[..1].iter().cloned().chain(more).chain(line[1..].iter().cloned());
        let all = Args::command().try_get_matches_from(whole).map_err(|e| e.to_string())?;
        Ok(Args::from_arg_matches(&all).unwrap())
    }

    #[test]
    fn a_file_says_what_the_command_line_does_not() {
        let text =
            "root = '/a'\nfunctions = ['/x', '/y']\nmetrics = true\ninterval_ms = 20\nrate = 1.5\n";
        let all = read(&[], text).unwrap();
        assert_eq!((all.root.as_str(), all.interval_ms, all.rate), ("/a", 20, Some(1.5)));
        assert_eq!(all.functions, ["/x", "/y"]);
        assert_eq!(all.metrics.as_deref(), Some("here"));
        // A list is replaced, not made longer.
        let line = ["--functions", "/z", "--root=/b", "--metrics", "there"];
        let all = read(&line, text).unwrap();
        assert_eq!((all.root.as_str(), all.functions), ("/b", vec!["/z".to_owned()]));
        assert_eq!((all.metrics.as_deref(), all.interval_ms), (Some("there"), 20));
        let all = read(&[], "metrics = false\nfunctions = '/one'").unwrap();
        assert_eq!((all.metrics, all.functions), (None, vec!["/one".to_owned()]));
        // A value is never taken for another option.
        assert_eq!(read(&[], "root = '--hidden'").unwrap().root, "--hidden");
        assert!(!read(&[], "").unwrap().hidden);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, words) in [
            ("root = '/a'\nrot = '/b'", "/etc/vfund.toml:2: unknown key `rot`; there are: root,"),
            ("hidden = true", "/etc/vfund.toml:1: unknown key `hidden`"),
            ("config = '/b'", "/etc/vfund.toml:1: unknown key `config`"),
            ("interval-ms = 1", "/etc/vfund.toml:1: unknown key `interval-ms`"),
            (
                "\ninterval_ms = 'soon'",
                "/etc/vfund.toml:2: invalid value 'soon' for '--interval-ms",
            ),
            ("interval_ms = true", "/etc/vfund.toml:1: `interval_ms` is a text or a number"),
            ("root = ['/a', '/b']", "/etc/vfund.toml:1: `root` is a text or a number"),
            ("functions = [1]", "/etc/vfund.toml:1: `functions` is a list of texts"),
            ("functions = 1", "/etc/vfund.toml:1: `functions` is a text, or a list of texts"),
            ("metrics = []", "/etc/vfund.toml:1: `metrics` is a text, true or false"),
            ("[root]", "/etc/vfund.toml:1: `root` is a text or a number"),
            ("root = '/a'\nroot = '/b'", "/etc/vfund.toml:2: duplicate key"),
        ] {
            let why = read(&[], text).err().unwrap_or_default();
            assert!(why.starts_with(words), "{text}: {why}");
        }
        // What one option needs of another may come from either place.
        assert!(read(&[], "tls_cert = 'c'").err().unwrap().contains("--root-of-all"));
        read(&["--root-of-all", "r"], "tls_cert = 'c'").map(|_| ()).unwrap();
    }
}
