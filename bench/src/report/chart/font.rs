//! The font that PNG charts are written in: found at run time, so that none has to be
//! shipped, and no library has to look for it.

use crate::report::ReportError;
use plotters::style::{FontStyle, register_font};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where distributions put DejaVu Sans.
const FOLDERS: [&str; 6] = [
    "/usr/share/fonts/truetype/dejavu",
    "/usr/share/fonts/dejavu-sans-fonts",
    "/usr/share/fonts/dejavu",
    "/usr/share/fonts/TTF",
    "/usr/local/share/fonts",
    "/run/current-system/sw/share/X11/fonts",
];
const NORMAL: &str = "DejaVuSans.ttf";
const BOLD: &str = "DejaVuSans-Bold.ttf";

/// The family's name in every chart; an SVG's viewer picks its own font for it.
pub(super) const FAMILY: &str = "sans-serif";

/// Makes the font known to the drawing library, once in a process. The first outcome
/// that finds a font stays.
pub(super) fn register(chart: &Path) -> Result<(), ReportError> {
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_some() {
        return Ok(());
    }
    let (normal, bold) = find(&FOLDERS.map(PathBuf::from), chart)?;
    add(FontStyle::Normal, normal, chart)?;
    if let Some(bold) = bold {
        add(FontStyle::Bold, bold, chart)?;
    }
    let _ = DONE.set(());
    Ok(())
}

/// The normal font's bytes and, where it lies beside, the bold one's.
fn find(folders: &[PathBuf], chart: &Path) -> Result<(Vec<u8>, Option<Vec<u8>>), ReportError> {
    for folder in folders {
        if let Ok(normal) = std::fs::read(folder.join(NORMAL)) {
            return Ok((normal, std::fs::read(folder.join(BOLD)).ok()));
        }
    }
    let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
    let looked = format!("{NORMAL} in {}", folders.join(", "));
    Err(ReportError::NoFont { path: chart.to_owned(), looked })
}

/// The library keeps a font for as long as the process lives, hence the leak.
fn add(style: FontStyle, bytes: Vec<u8>, chart: &Path) -> Result<(), ReportError> {
    let bytes: &'static [u8] = Vec::leak(bytes);
    register_font(FAMILY, style, bytes).map_err(|_| ReportError::Chart {
        path: chart.to_owned(),
        reason: format!(
            "the font {NORMAL} or {BOLD} is no TrueType font; install fonts-dejavu-core again"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_font_the_error_says_what_to_install() {
        let error =
            find(&["/nonexistent".into()], Path::new("out/chart.png")).unwrap_err().to_string();
        for part in ["out/chart.png", "/nonexistent", "fonts-dejavu-core", ".svg"] {
            assert!(error.contains(part), "{error} lacks {part}");
        }
    }

    #[test]
    fn a_folder_with_the_normal_font_alone_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NORMAL), b"font").unwrap();
        let found =
            find(&["/nonexistent".into(), folder.path().to_owned()], Path::new("c.png")).unwrap();
        assert_eq!(found, (b"font".to_vec(), None));
    }
}
