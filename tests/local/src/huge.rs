//! Huge pages of this machine, for the time of a test.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Huge pages that can be had while this is there. What was reserved or mounted for it is
/// given back.
pub struct HugePages {
    reserved: u64,
    mounted: Option<tempfile::TempDir>,
}

fn number(file: &str) -> u64 {
    fs::read_to_string(file).ok().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// How many are free.
pub fn free() -> u64 {
    number(FREE)
}

impl HugePages {
    /// At least so many, and a file system of them.
    ///
    /// # Errors
    /// Why this machine has none for the test: no right, or no memory in one piece.
    pub fn take(pages: u64) -> Result<Self, String> {
        let mut taken = HugePages { reserved: 0, mounted: None };
        let (had, lack) = (number(RESERVED), pages.saturating_sub(free()));
        if lack > 0 {
            fs::write(RESERVED, (had + lack).to_string())
                .map_err(|e| format!("{RESERVED}: {e}"))?;
            taken.reserved = number(RESERVED).saturating_sub(had);
        }
        if free() < pages {
            return Err(format!("{} of {pages} huge pages are free", free()));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
        if !mounts.lines().any(|l| l.contains(" hugetlbfs ") && l.contains("pagesize=2M")) {
            let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
            mount(dir.path())?;
            taken.mounted = Some(dir);
        }
        Ok(taken)
    }
}

fn mount(dir: &Path) -> Result<(), String> {
    let mount = Command::new("mount")
        .args(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"])
        .arg(dir)
        .output();
    let out = mount.map_err(|e| format!("mount: {e}"))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(dir) = &self.mounted {
            // What another test has in it goes on.
            let _ = Command::new("umount").arg("-l").arg(dir.path()).status();
        }
        if self.reserved > 0 {
            let _ = fs::write(RESERVED, number(RESERVED).saturating_sub(self.reserved).to_string());
        }
    }
}
