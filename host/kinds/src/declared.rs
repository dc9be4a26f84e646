//! What a manifest says of one driver.

use crate::{DECLARED, Kind};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vfun_policy::source::{ManifestError, Source};
use vfun_signature::Signature;
use vfun_wire::message::Location;

/// Keys of a manifest that are a kind's own.
#[derive(Clone)]
pub struct Keys<'a>(Spanned<DeTable<'a>>);

impl<'a> Keys<'a> {
    /// Takes the keys that are some kind's own out of a manifest or a section of it.
    pub fn take(table: &mut Spanned<DeTable<'a>>) -> Self {
        let span = table.span();
        let mut own = DeTable::new();
        for key in DECLARED.iter().flat_map(|kind| kind.keys) {
            if let Some((key, value)) = table.get_mut().remove_entry(*key) {
                own.insert(key, value);
            }
        }
        Keys(Spanned::new(span, own))
    }

    /// The same out of a section, which may not be there.
    pub fn take_in(table: &mut Spanned<DeTable<'a>>, section: &str) -> Self {
        let mut none = Spanned::new(0..0, DeTable::new());
        let Some(value) = table.get_mut().get_mut(section) else { return Keys(none) };
        let span = value.span();
        let DeValue::Table(inner) = value.get_mut() else { return Keys(none) };
        *none.get_mut() = std::mem::take(inner);
        let mut section = Spanned::new(span, none.into_inner());
        let own = Keys::take(&mut section);
        *inner = section.into_inner();
        own
    }

    /// Refuses keys of another kind.
    pub fn check(&self, kind: &Kind, src: &Source<'_>) -> Result<(), ManifestError> {
        let foreign = self.0.get_ref().keys().find(|k| !kind.keys.contains(&&**k.get_ref()));
        let Some(key) = foreign else { return Ok(()) };
        let whose = DECLARED.iter().find(|k| k.keys.contains(&&**key.get_ref()));
        let whose = whose.map_or("", |k| k.word);
        Err(src.error(key, format!("`{}` is for kind \"{whose}\"", key.get_ref())))
    }
}

/// The part of a manifest that declares one driver: the function's software, or its
/// hardware.
pub struct Part<'a> {
    /// The manifest, for errors.
    pub src: &'a Source<'a>,
    /// Where the driver runs.
    pub location: Location,
    /// `library`.
    pub library: Option<&'a Spanned<PathBuf>>,
    /// Where libraries are looked for that are not absolute.
    pub drivers: &'a Path,
    /// The function's signature.
    pub signature: Option<(&'a Spanned<String>, &'a Signature)>,
    /// The kind's own keys.
    pub keys: &'a Keys<'a>,
    /// The software of the same function, if this is its hardware and of the same kind.
    pub software: Option<&'a Part<'a>>,
}

impl Part<'_> {
    /// The kind's own keys, as the kind reads them.
    pub fn keys<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        self.src.of_table(self.keys.0.clone())
    }

    /// The file that `library` names. `needs`: what is missing without one, in words.
    pub fn library(&self, needs: &str) -> Result<PathBuf, ManifestError> {
        let l = self.library.ok_or_else(|| self.src.whole(needs))?;
        let path = self.drivers.join(l.get_ref());
        match path.is_file() {
            true => Ok(path),
            false => {
                let missing = format!("there is no driver library {}", path.display());
                Err(self.src.error(l, missing))
            }
        }
    }
}
