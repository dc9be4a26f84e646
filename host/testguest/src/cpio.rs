//! Writes the archive format that the kernel unpacks as its initramfs ("newc").

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

/// An archive that is being written.
pub(crate) struct Cpio<W: Write> {
    out: W,
    inode: u32,
    written: u64,
    dirs: BTreeSet<String>,
}

impl<W: Write> Cpio<W> {
    pub fn new(out: W) -> Self {
        Cpio { out, inode: 0, written: 0, dirs: BTreeSet::new() }
    }

    /// A folder and those it lies in; one that is there already is left alone.
    pub fn dir(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        if path.is_empty() || self.dirs.contains(path) {
            return Ok(());
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent)?;
        }
        self.dirs.insert(path.to_owned());
        self.header(path, 0o040755, 0)
    }

    /// A file of exactly `len` bytes from `data`, with the permissions `mode`.
    pub fn file(&mut self, path: &str, mode: u32, len: u64, data: impl Read) -> io::Result<()> {
        let path = self.parents(path)?;
        let size = u32::try_from(len).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "a file of 4 GiB or more does not fit")
        })?;
        self.header(&path, 0o100000 | (mode & 0o7777), size)?;
        let copied = io::copy(&mut data.take(len), &mut self.out)?;
        if copied != len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file shrank while it was copied",
            ));
        }
        self.written += len;
        self.pad()
    }

    pub fn bytes(&mut self, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        self.file(path, mode, data.len() as u64, data)
    }

    /// Ends the archive and gives the writer and its length in bytes back.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.inode = 0;
        self.header("TRAILER!!!", 0, 0)?;
        self.out.flush()?;
        Ok((self.out, self.written))
    }

    fn parents(&mut self, path: &str) -> io::Result<String> {
        let path = path.trim_matches('/').to_owned();
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.dir(parent)?;
        }
        Ok(path)
    }

    fn header(&mut self, path: &str, mode: u32, size: u32) -> io::Result<()> {
        self.inode += 1;
        // Magic, then 13 numbers of 8 hexadecimal digits: inode, mode, uid, gid,
        // links, mtime, size, device (4 parts), length of the name with its NUL,
        // checksum. Time and owner are 0, so that equal files make equal archives.
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        let mut head = String::from("070701");
        for field in fields {
            head.push_str(&format!("{field:08x}"));
        }
        self.put(head.as_bytes())?;
        self.put(path.as_bytes())?;
        self.put(&[0])?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let short = self.written.next_multiple_of(4) - self.written;
        self.put(&[0; 3][..short as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut cpio = Cpio::new(Vec::new());
        cpio.bytes("/a/b/hello", 0o755, b"hi\n").unwrap();
        cpio.bytes("a/b/empty", 0o644, b"").unwrap();
        cpio.dir("/a/b").unwrap();
        let (bytes, len) = cpio.finish().unwrap();
        assert_eq!(bytes.len() as u64, len);
        bytes
    }

    #[test]
    fn every_part_is_aligned_and_folders_come_once() {
        let bytes = sample();
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.starts_with(b"070701"));
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 5); // a, a/b, hello, empty, trailer
        assert_eq!(bytes, sample());
    }

    #[test]
    fn cpio_reads_it() {
        let child = Command::new("cpio")
            .args(["-itv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else { return }; // no cpio here
        child.stdin.take().unwrap().write_all(&sample()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        let list = String::from_utf8(out.stdout).unwrap();
        assert!(list.contains("-rwxr-xr-x") && list.contains("a/b/hello"), "{list}");
    }

    #[test]
    fn a_short_file_is_an_error() {
        let mut cpio = Cpio::new(Vec::new());
        assert!(cpio.file("x", 0o644, 10, &b"short"[..]).is_err());
    }
}
