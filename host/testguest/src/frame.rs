//! The protocol on the command channel, a virtio-serial port.
//!
//! To the guest, a line each: `R id script` runs a script (as [`word`] makes it)
//! under an id, `K id` kills it, `Q` powers off. From the guest: `H` says that it is up,
//! and `D id status stdout-length stderr-length truncated` that a script has
//! ended, with its stdout and stderr behind it, as they are. Scripts run side by
//! side and end in any order.

use std::io::{self, BufRead, Read};

use crate::limits;

/// What a command in the guest did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutput {
    /// The exit status; 128 + n if signal n ended it, as shells say it.
    pub status: i32,
    /// What it printed, at most [`limits::MAX_STDOUT_BYTES`].
    pub stdout: Vec<u8>,
    /// What it printed to stderr, at most [`limits::MAX_STDERR_BYTES`].
    pub stderr: Vec<u8>,
    /// It printed more than fits: its later writes failed with ENOSPC.
    pub truncated: bool,
}

impl RunOutput {
    /// stdout as text, without spaces and line feeds at both ends.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

/// What the guest says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello,
    Done(u64, RunOutput),
}

const MAX_LINE_BYTES: u64 = 128;

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The next frame, or none when the channel was closed between two.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        if (line.len() as u64) < MAX_LINE_BYTES - 1 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Err(wrong(format!("a line is longer than {MAX_LINE_BYTES} bytes")));
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["H"] => Ok(Some(Frame::Hello)),
        ["D", id, status, out, err, truncated] => {
            let number = |s: &str| {
                s.parse::<u64>().map_err(|_| wrong(format!("no number in the line {line:?}")))
            };
            let (id, out, err) = (number(id)?, number(out)?, number(err)?);
            let status = i32::try_from(number(status)?)
                .map_err(|_| wrong(format!("the status in {line:?}")))?;
            if out > limits::MAX_STDOUT_BYTES || err > limits::MAX_STDERR_BYTES {
                return Err(wrong(format!("more output than the limit in {line:?}")));
            }
            let stdout = exactly(from, out)?;
            let stderr = exactly(from, err)?;
            Ok(Some(Frame::Done(
                id,
                RunOutput { status, stdout, stderr, truncated: truncated != "0" },
            )))
        }
        _ => Err(wrong(format!("it wrote the unknown line {line:?}"))),
    }
}

/// Grows as bytes come, so that a length alone takes no memory.
fn exactly(from: &mut impl BufRead, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// A script as one word, which the guest's `printf %b` turns back without
/// starting a process.
pub(crate) fn word(script: &str) -> String {
    let mut word = String::with_capacity(script.len() * 2);
    for byte in script.bytes() {
        if byte.is_ascii_alphanumeric() || b"/.,:;=_-+'\"$(){}[]|&<>!?#".contains(&byte) {
            word.push(char::from(byte));
        } else {
            word.push_str(&format!("\\0{byte:03o}"));
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_one_word() {
        assert_eq!(word("echo \"a\\n\"\n\u{e9}"), "echo\\0040\"a\\0134n\"\\0012\\0303\\0251");
    }

    #[test]
    fn frames_come_one_after_another() {
        let mut from = &b"H\nD 7 139 5 2 1\n\n\0\xff\nXee"[..];
        assert_eq!(read(&mut from).unwrap(), Some(Frame::Hello));
        let output = RunOutput {
            status: 139,
            stdout: b"\n\0\xff\nX".to_vec(),
            stderr: b"ee".to_vec(),
            truncated: true,
        };
        assert_eq!(read(&mut from).unwrap(), Some(Frame::Done(7, output)));
        assert_eq!(read(&mut from).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let cases: [&[u8]; 7] = [
            b"hello\n",
            b"\n",
            b"D 1 0 99999999999 0 0\n",
            b"D 1 0 -1 0 0\n",
            b"D x 0 0 0 0\n",
            b"D 1 99999999999 0 0 0\n",
            &[b'x'; 4096],
        ];
        for case in cases {
            assert_eq!(
                read(&mut &case[..]).unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{case:?}"
            );
        }
        for cut in [&b"D 1 0 5 0 0\nabc"[..], b"D 1 0"] {
            assert_eq!(read(&mut &cut[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
