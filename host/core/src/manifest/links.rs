//! `links` and `links_with` of a client's manifest.

use super::{ClientToml, ManifestError, Source};
use crate::catalog::{ClientKind, LinkRule};
use crate::limits::LINKS_WITH_MAX;

/// What it says, or what holds where it says nothing: links among its own ports alone.
pub(super) fn of_client(
    src: &Source<'_>,
    (client, kind): (&str, ClientKind),
    t: &ClientToml,
) -> Result<LinkRule, ManifestError> {
    if kind == ClientKind::Host {
        let why = "a client of kind \"host\" has no ports, so no direct links: leave `links` and `links_with` out";
        return match (&t.links, t.links_with.first()) {
            (Some(at), _) => Err(src.error(at, why)),
            (None, Some(at)) => Err(src.error(at, why)),
            (None, None) => Ok(LinkRule::default()),
        };
    }
    let on = t.links.as_ref().is_none_or(|on| *on.get_ref());
    if let (false, Some(at)) = (on, t.links_with.first()) {
        return Err(src.error(at, "links_with says nothing with `links = false`: leave one out"));
    }
    if let Some(beyond) = t.links_with.get(LINKS_WITH_MAX) {
        return Err(src.error(beyond, format!("links_with names at most {LINKS_WITH_MAX} clients")));
    }
    let mut with = vec![];
    for name in &t.links_with {
        let other = src.name(name)?;
        if other == client {
            return Err(src.error(name, "links_with: ports of one client are linked without it"));
        }
        with.push(other);
    }
    Ok(LinkRule { on, with })
}
