//! From the files of an API to those that are made of them.

use crate::annotations::Annotations;
use crate::emit;
use crate::facts::Facts;
use crate::numbers::Numbers;
use crate::resolve::resolve;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    /// What the description leaves open or says wrongly, a line each.
    #[error("the description of {api} is not complete:\n{}", wrong.join("\n"))]
    Description { api: String, wrong: Vec<String> },
    #[error("rustfmt: {0}")]
    Format(String),
}

/// A file that is made: its path from the repository's root, and its text.
pub struct Made {
    pub path: PathBuf,
    pub text: String,
}

/// FNV-1a, 64 bits: no secret, only to tell descriptions apart.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

fn read(path: &Path) -> Result<String, GenerateError> {
    std::fs::read_to_string(path)
        .map_err(|e| GenerateError::File { path: path.to_owned(), why: e.to_string() })
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, GenerateError> {
    toml::from_str(text)
        .map_err(|e| GenerateError::File { path: path.to_owned(), why: e.to_string() })
}

/// Makes all files of the API that `folder` describes.
pub fn generate(folder: &Path) -> Result<Vec<Made>, GenerateError> {
    let [facts_path, notes_path, numbers_path] =
        ["facts.toml", "api.toml", "numbers.toml"].map(|name| folder.join(name));
    let (facts_text, notes_text) = (read(&facts_path)?, read(&notes_path)?);
    let numbers_text = read(&numbers_path)?;
    let mut facts: Facts = parse(&facts_path, &facts_text)?;
    facts.rename();
    let notes: Annotations = parse(&notes_path, &notes_text)?;
    let numbers = Numbers::read(&numbers_text)
        .map_err(|why| GenerateError::File { path: numbers_path, why })?;
    let fingerprint = fingerprint(&[&facts_text, &notes_text, &numbers_text]);
    let api = notes.name.clone();
    let model = resolve(&facts, notes, &numbers, fingerprint)
        .map_err(|wrong| GenerateError::Description { api, wrong })?;
    let output = &model.output;
    let mut made = vec![
        Made { path: output.guest.clone(), text: format(&emit::guest(&model))? },
        Made { path: output.host.clone(), text: format(&emit::host(&model))? },
        Made { path: output.table.clone(), text: emit::table(&model) },
    ];
    if let Some(path) = &output.shapes {
        made.push(Made { path: path.clone(), text: format(&emit::shapes(&model))? });
    }
    Ok(made)
}

/// The house's format, so that generating again changes nothing.
fn format(text: &str) -> Result<String, GenerateError> {
    let bad = |why: String| GenerateError::Format(why);
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "use_small_heuristics=Max"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            bad(format!("cannot be run ({e}); install it with `rustup component add rustfmt`"))
        })?;
    let mut stdin = child.stdin.take().expect("piped");
    let owned = text.to_owned();
    let feed = std::thread::spawn(move || stdin.write_all(owned.as_bytes()));
    let out = child.wait_with_output().map_err(|e| bad(e.to_string()))?;
    let _ = feed.join();
    if !out.status.success() {
        return Err(bad(format!("{}\n{text}", String::from_utf8_lossy(&out.stderr))));
    }
    String::from_utf8(out.stdout).map_err(|e| bad(e.to_string()))
}
