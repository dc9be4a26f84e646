//! Tokens of apps, kept in `admin/tokens.json`: who has one may act for its
//! client. Only hashes are kept: whoever reads the file cannot act for anybody.
//! A secret is 256 random bits, which nobody guesses, so that a plain SHA-256
//! is enough: the slow hashes of passwords are for what people can remember.

use crate::core::catalog::Token;
use crate::files::write_durably;
use crate::policy::limits::{APP_PATTERN_BYTES, TOKENS_PER_CLIENT};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
pub use vfun_admin::tokens::{Fresh, Kept};

/// What secrets begin with, so that people and scanners know one when they see it.
pub const PREFIX: &str = "vft_";

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    next: u64,
    tokens: Vec<Kept>,
}

/// The tokens of all clients, and the file that keeps them.
pub struct Tokens {
    file: PathBuf,
    content: Content,
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (i, b) in out.iter_mut().enumerate() {
        *b = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// 256 random bits as text that needs no quotes anywhere: six bits a character.
fn secret() -> io::Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = [0; 33]; // 44 whole characters
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let mut text = String::from(PREFIX);
    for three in random.chunks(3) {
        let bits = three.iter().fold(0u32, |b, x| b << 8 | u32::from(*x));
        text.extend([18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift & 63) as usize] as char));
    }
    Ok(text)
}

impl Tokens {
    /// None, to be kept in this file.
    pub fn none(file: &Path) -> Self {
        Tokens { file: file.to_owned(), content: Content { next: 1, tokens: vec![] } }
    }

    /// Those that are kept in a file, none if it is not there.
    pub fn read(file: &Path) -> Result<Self, String> {
        let at = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::none(file)),
            Err(e) => return Err(at(&e)),
        };
        let content: Content = serde_json::from_slice(&text).map_err(|e| at(&e))?;
        if let Some(t) = content.tokens.iter().find(|t| bytes_of(&t.sha256).is_none()) {
            return Err(at(&format!("token {} has no SHA-256", t.id)));
        }
        Ok(Tokens { file: file.to_owned(), content })
    }

    /// All of them, oldest first.
    pub fn all(&self) -> &[Kept] {
        &self.content.tokens
    }

    /// One of them.
    pub fn get(&self, id: u64) -> Option<&Kept> {
        self.content.tokens.iter().find(|t| t.id == id)
    }

    /// Those of a client as the core takes them. `clock` is what the core's
    /// clock shows at `now_ms` of the wall's.
    pub fn of(&self, client: &str, now_ms: i64, clock: u64) -> Vec<Token> {
        let kept = self.content.tokens.iter().filter(|t| t.client == client);
        kept.filter_map(|t| {
            let expires_ms = t.expires_ms.map(|e| {
                let left = e.saturating_sub(now_ms);
                clock.saturating_add_signed(left)
            });
            Some(Token { id: t.id, sha256: bytes_of(&t.sha256)?, app: t.app.clone(), expires_ms })
        })
        .collect()
    }

    /// Whether any of them ends by itself.
    pub fn any_expires(&self) -> bool {
        self.content.tokens.iter().any(|t| t.expires_ms.is_some())
    }

    /// Makes one. It is on the disk when this returns.
    pub fn add(
        &mut self,
        client: &str,
        app: &str,
        now_ms: i64,
        expires_ms: Option<i64>,
    ) -> Result<Fresh, String> {
        let mut next = self.content.clone();
        let fresh = make(&mut next, client, app, now_ms, expires_ms)?;
        self.keep(next)?;
        Ok(fresh)
    }

    /// Makes another one like this, which lives as long as this one was made
    /// to. This one ends at `old_ends_ms`, if it does not end before.
    pub fn rotate(&mut self, id: u64, now_ms: i64, old_ends_ms: i64) -> Result<Fresh, String> {
        let mut next = self.content.clone();
        let old = next.tokens.iter_mut().find(|t| t.id == id).ok_or_else(|| no_such(id))?;
        if let Some(by) = old.replaced_by {
            return Err(format!("token {id} was replaced by {by} already: rotate that one"));
        }
        let lives = old.expires_ms.map(|e| e.saturating_sub(old.made_ms));
        old.expires_ms = Some(old.expires_ms.map_or(old_ends_ms, |e| e.min(old_ends_ms)));
        let (client, app) = (old.client.clone(), old.app.clone());
        let expires_ms = lives.map(|l| now_ms.saturating_add(l));
        let fresh = make(&mut next, &client, &app, now_ms, expires_ms)?;
        if let Some(old) = next.tokens.iter_mut().find(|t| t.id == id) {
            old.replaced_by = Some(fresh.kept.id);
        }
        self.keep(next)?;
        Ok(fresh)
    }

    /// Revokes a token, which opens no session any more.
    pub fn revoke(&mut self, id: u64) -> Result<Kept, String> {
        let kept = self.get(id).cloned().ok_or_else(|| no_such(id))?;
        let mut next = self.content.clone();
        next.tokens.retain(|t| t.id != id);
        self.keep(next)?;
        Ok(kept)
    }

    /// Takes all of a client's away; how many there were.
    pub fn forget(&mut self, client: &str) -> Result<usize, String> {
        let mut next = self.content.clone();
        next.tokens.retain(|t| t.client != client);
        let gone = self.content.tokens.len() - next.tokens.len();
        if gone > 0 {
            self.keep(next)?;
        }
        Ok(gone)
    }

    /// On the disk first: what is said to be revoked stays so.
    fn keep(&mut self, content: Content) -> Result<(), String> {
        let text = serde_json::to_vec_pretty(&content).expect("plain data");
        write_durably(&self.file, &text).map_err(|e| {
            format!("nothing was changed: {} could not be written: {e}", self.file.display())
        })?;
        self.content = content;
        Ok(())
    }
}

fn no_such(id: u64) -> String {
    format!("there is no token {id}: `vfun token ls` lists them")
}

fn make(
    content: &mut Content,
    client: &str,
    app: &str,
    now_ms: i64,
    expires_ms: Option<i64>,
) -> Result<Fresh, String> {
    if content.tokens.iter().filter(|t| t.client == client).count() >= TOKENS_PER_CLIENT {
        return Err(format!(
            "client {client} has {TOKENS_PER_CLIENT} tokens, as many as it may: revoke one that is not used (`vfun token ls {client}`)"
        ));
    }
    if app.is_empty() || app.len() > APP_PATTERN_BYTES {
        return Err(format!("a pattern of apps has 1 to {APP_PATTERN_BYTES} bytes"));
    }
    let secret = secret().map_err(|e| format!("the system gave no random bytes: {e}"))?;
    let kept = Kept {
        id: content.next,
        client: client.into(),
        sha256: hex(&Sha256::digest(secret.as_bytes())),
        app: app.into(),
        made_ms: now_ms,
        expires_ms,
        replaced_by: None,
    };
    content.next += 1;
    content.tokens.push(kept.clone());
    Ok(Fresh { kept, secret })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use vfun_wire::limits::CREDENTIAL_BYTES;

    #[test]
    fn secrets_are_shown_once_kept_as_hashes_and_differ() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens.json");
        let mut t = Tokens::read(&file).unwrap();
        let all: BTreeSet<_> =
            (0..10).map(|_| t.add("vm1", "*", 5, None).unwrap().secret).collect();
        assert_eq!(all.len(), 10);
        let kept = fs::read_to_string(&file).unwrap();
        for secret in &all {
            assert!(secret.len() <= CREDENTIAL_BYTES && secret.starts_with(PREFIX), "{secret}");
            assert!(!kept.contains(secret.as_str()) && !kept.contains(&secret[PREFIX.len()..]));
            let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
            assert_eq!(t.of("vm1", 5, 0).iter().filter(|t| t.sha256 == hash).count(), 1);
        }
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(t.of("vm2", 5, 0).is_empty());
    }

    #[test]
    fn rotation_leaves_both_for_a_while_and_lives_as_long_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens.json");
        let mut t = Tokens::read(&file).unwrap();
        let old = t.add("vm1", "web-*", 1000, Some(5000)).unwrap().kept;
        let new = t.rotate(old.id, 2000, 3000).unwrap().kept;
        assert_eq!((new.app.as_str(), new.expires_ms), ("web-*", Some(6000)));
        let t2 = Tokens::read(&file).unwrap();
        assert_eq!(t2.all(), t.all());
        let old = t2.get(old.id).unwrap();
        assert_eq!((old.expires_ms, old.replaced_by), (Some(3000), Some(new.id)));
        assert!(t.rotate(old.id, 0, 0).unwrap_err().contains("rotate that one"));
        // On the core's clock, which shows 70 at 2500.
        let core = t.of("vm1", 2500, 70);
        assert_eq!(core.iter().map(|t| t.expires_ms).collect::<Vec<_>>(), [Some(570), Some(3570)]);
        assert!(t.of("vm1", 9000, 70)[0].expired(70));
        // Numbers are not used again.
        t.revoke(new.id).unwrap();
        assert_eq!(t.add("vm1", "*", 0, None).unwrap().kept.id, new.id + 1);
        assert_eq!(t.forget("vm1"), Ok(2));
        assert!(t.revoke(1).unwrap_err().contains("no token 1"));
    }

    #[test]
    fn what_cannot_be_written_or_read_is_said_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("none/tokens.json");
        let mut t = Tokens::read(&file).unwrap();
        assert!(t.add("vm1", "*", 0, None).unwrap_err().starts_with("nothing was changed"));
        assert!(t.all().is_empty());
        let file = dir.path().join("tokens.json");
        fs::write(&file, "{\"next\": 3}").unwrap();
        assert!(Tokens::read(&file).is_err());
        let mut t = Tokens::none(&dir.path().join("t.json"));
        for _ in 0..TOKENS_PER_CLIENT {
            t.add("vm1", "*", 0, None).unwrap();
        }
        assert!(t.add("vm1", "*", 0, None).unwrap_err().contains("as many as it may"));
        t.add("vm2", "*", 0, None).unwrap();
    }
}
