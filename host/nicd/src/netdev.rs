//! An interface of the host, as sysfs shows it.

use std::path::{Path, PathBuf};

/// An interface by its name, there or not.
pub struct Netdev {
    folder: PathBuf,
    name: String,
}

impl Netdev {
    pub fn new(sys: &Path, name: &str) -> Self {
        Netdev { folder: sys.join("class/net").join(name), name: name.to_owned() }
    }

    /// Whether it is a name that the kernel gives to interfaces.
    pub fn is_name(name: &str) -> bool {
        let fits = |c: char| c.is_ascii_graphic() && !"/:%\\'\"".contains(c);
        (1..16).contains(&name.len())
            && ![".", ".."].contains(&name)
            && !name.starts_with('-')
            && name.chars().all(fits)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    pub fn is_bridge(&self) -> bool {
        self.folder.join("bridge").is_dir()
    }

    pub fn is_tap(&self) -> bool {
        self.folder.join("tun_flags").exists()
    }

    /// A file's text, without the end of the line.
    pub fn read(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The interface that it is a port of.
    pub fn master(&self) -> Option<String> {
        let to = std::fs::read_link(self.folder.join("master")).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    /// Packets in both directions.
    pub fn packets(&self) -> Option<u64> {
        let count = |file| self.read(&format!("statistics/{file}"))?.parse::<u64>().ok();
        Some(count("rx_packets")?.saturating_add(count("tx_packets")?))
    }
}
