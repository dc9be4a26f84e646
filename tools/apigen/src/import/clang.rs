//! Runs clang.

use super::{HeaderImport, ImportError};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The header after the preprocessor, with its `#define` lines and the marks that say which
/// file a line is from.
pub fn preprocess(import: &HeaderImport) -> Result<String, ImportError> {
    let mut command = clang(import);
    command.args(["-E", "-dD", "-x", "c"]).arg(&import.header);
    text(import, run(command, "")?)
}

/// The declarations as JSON.
pub fn syntax_tree(import: &HeaderImport) -> Result<String, ImportError> {
    let mut command = clang(import);
    command.args(JSON).args(["-x", "c"]).arg(&import.header);
    text(import, run(command, "")?)
}

/// The declarations of the header and, after it, of `source`. Errors in `source` are no
/// failure: what clang could not read is missing from the tree.
pub fn syntax_tree_with(import: &HeaderImport, source: &str) -> Result<String, ImportError> {
    let mut command = clang(import);
    command.arg("-ferror-limit=0").args(JSON).arg("-include").arg(&import.header);
    command.args(["-x", "c", "-"]);
    let output = run(command, source)?;
    String::from_utf8(output.stdout).map_err(|e| ImportError::Output { why: e.to_string() })
}

const JSON: [&str; 3] = ["-Xclang", "-ast-dump=json", "-fsyntax-only"];

fn clang(import: &HeaderImport) -> Command {
    let mut command = Command::new("clang");
    // Its messages are shown to people, but not in their language: the tests read them.
    command.env("LC_ALL", "C").arg("-w");
    command.args(import.includes.iter().map(|i| format!("-I{}", i.display())));
    command.args(import.defines.iter().map(|d| format!("-D{d}")));
    command
}

fn run(mut command: Command, input: &str) -> Result<Output, ImportError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ImportError::NoClang)?;
    let mut stdin = child.stdin.take().expect("asked for above");
    // clang reads all of its input before it prints, so nobody waits for the other. If it
    // ends early, its messages say why.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().map_err(ImportError::NoClang)
}

fn text(import: &HeaderImport, output: Output) -> Result<String, ImportError> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(ImportError::Refused { header: import.header.clone(), said });
    }
    String::from_utf8(output.stdout).map_err(|e| ImportError::Output { why: e.to_string() })
}
