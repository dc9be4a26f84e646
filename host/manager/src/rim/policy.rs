//! Policy and tokens between their files, the people who change them, and the core.

use super::Daemon;
use crate::admin::policy::View;
use crate::admin::{Ask, Reply};
use crate::core::DrainOf;
use crate::core::Event;
use crate::core::catalog::{Client, OverTcp};
use crate::core::{Catalog, Effects};
use crate::files::write_durably;
use crate::policy::limits::POLICY_BYTES_MAX;
use crate::policy::view::within;
use crate::policy::{Policy, Unenforced, parse};
use crate::tokens::Tokens;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far the two clocks may drift apart before tokens are handed over anew, ms.
const CLOCKS_APART: u64 = 1000;

fn error(sentence: impl ToString) -> Reply {
    Reply::Error { sentence: sentence.to_string() }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// The policy that a file holds; none if it is not there.
fn read(file: &Path) -> Result<Option<Policy>, String> {
    let mut text = String::new();
    let opened = fs::File::open(file);
    let read = opened.and_then(|f| f.take(POLICY_BYTES_MAX as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) => parse(file, &text).map(Some).map_err(|e| e.to_string()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("{}: {e}", file.display())),
    }
}

/// The same of an order about a port.
fn of_port(what: &str, client: &str, vm: &str, port: &str) -> (String, String) {
    (format!("port {what} {client}/{vm} {port}"), client.to_owned())
}

/// The same of one about a direct link.
fn of_link(from: &str, to: &str, off: bool) -> String {
    format!("links {} {from} {to}", if off { "off" } else { "on" })
}

/// The name in a manifest, or that of its file.
fn name_in(manifest: &str, file: &Path) -> String {
    let table = manifest.parse::<toml::Table>().ok();
    let name = table.and_then(|t| Some(t.get("name")?.as_str()?.to_owned()));
    name.unwrap_or_else(|| file.display().to_string()).chars().take(64).collect()
}

/// What an order is, in a few words, and the client it is about; nothing of
/// what merely asks.
pub(super) fn deed(ask: &Ask) -> Option<(String, String)> {
    let (none, name) = (String::new, name_in);
    Some(match ask {
        Ask::AddFunction { manifest, file } => {
            (format!("function add {}", name(manifest, file)), none())
        }
        Ask::RemoveFunction { name, client } => {
            let of = client.as_ref().map_or(String::new(), |c| format!(" --client {c}"));
            (format!("function remove {name}{of}"), client.clone().unwrap_or_default())
        }
        Ask::AddClient { manifest, file } => {
            let name = name(manifest, file);
            (format!("client add {name}"), name)
        }
        Ask::RemoveClient { name } => (format!("client remove {name}"), name.clone()),
        Ask::AddVm { client, vm, .. } => (format!("client add {client} --vm {vm}"), client.clone()),
        Ask::RemoveVm { client, vm } => {
            (format!("client remove {client} --vm {vm}"), client.clone())
        }
        Ask::AddPort { client, vm, name, .. } => of_port("add", client, vm, name),
        Ask::RemovePort { client, vm, name } => of_port("remove", client, vm, name),
        Ask::LinkOff { from, to, off } => (of_link(from, to, *off), none()),
        Ask::AddWindow { manifest, file } => {
            (format!("window add {}", name(manifest, file)), none())
        }
        Ask::RemoveWindow { name } => (format!("window remove {name}"), none()),
        Ask::Revoke { grant } => (format!("revoke {grant}"), none()),
        Ask::SetPolicy { file, .. } => (format!("policy set {}", file.display()), none()),
        Ask::ReloadPolicy => ("policy reload".into(), none()),
        Ask::AddToken { client, app, .. } => {
            (format!("token add {client} --app {app}"), client.clone())
        }
        Ask::RotateToken { id, .. } => (format!("token rotate {id}"), none()),
        Ask::RevokeToken { id } => (format!("token revoke {id}"), none()),
        Ask::Drain => ("drain".into(), none()),
        Ask::DrainOf { of, on } => {
            let undo = if *on { "" } else { " --undo" };
            match of {
                DrainOf::All => (format!("drain{undo}"), none()),
                DrainOf::Client(name) => (format!("drain --client {name}{undo}"), name.clone()),
                DrainOf::Function(name) => (format!("drain --function {name}{undo}"), none()),
            }
        }
        Ask::SetLeases { policy, .. } => {
            let policy = policy.map_or(String::new(), |p| format!(" {p}"));
            (format!("leases policy set{policy}"), none())
        }
        Ask::Stop => ("stop".into(), none()),
        Ask::Status
        | Ask::Functions
        | Ask::Clients
        | Ask::Windows
        | Ask::Ports
        | Ask::Links
        | Ask::LinkFlows(_)
        | Ask::Grants
        | Ask::Leases
        | Ask::Services
        | Ask::Sandbox
        | Ask::History { .. }
        | Ask::Policy { .. }
        | Ask::Tokens { .. }
        | Ask::Draining { .. }
        | Ask::Audit(_) => return None,
    })
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What a change took away, in a sentence.
pub(super) fn taken(effects: &Effects) -> String {
    let mut text = String::new();
    if !effects.sessions.is_empty() {
        text +=
            &format!("; {} ended", count(effects.sessions.len(), "session was", "sessions were"));
    }
    if !effects.grants.is_empty() {
        let names: Vec<_> = effects.grants.iter().take(5).map(|(h, _)| h.to_string()).collect();
        let more = if effects.grants.len() > 5 { " and others" } else { "" };
        text += &format!(
            "; {} taken away ({}{more})",
            count(effects.grants.len(), "grant was", "grants were"),
            names.join(", ")
        );
    }
    text
}

/// What a change of policy did, in a sentence.
fn told(effects: &Effects, doubts: &[String], unenforced: &[String]) -> String {
    let mut text = taken(effects);
    if !effects.rates.is_empty() {
        text += &format!(
            "; {} bound to another rate",
            count(effects.rates.len(), "channel is", "channels are")
        );
    }
    text += "; bounds on channels, bytes, depth and deadlines hold for new grants, those of processors, memory and threads for services started from now on";
    for d in doubts {
        text += &format!("\nwarning: {d}");
    }
    for u in unenforced {
        text += &format!("\nnot enforced on this host: {u}");
    }
    text
}

impl Daemon {
    /// Reads policy and tokens when the manager starts. What cannot be read
    /// must not fall open: nothing new is granted then.
    pub(super) fn read_policy(&mut self, catalog: &mut Catalog) {
        match read(&self.tree.policy()) {
            Ok(p) => catalog.policy = p.unwrap_or_default(),
            Err(e) => self.policy_fault = Some(e),
        }
        self.read_tokens();
        self.hand_over_tokens(catalog);
        if let Some(why) = self.unreadable() {
            tracing::error!(
                "NOTHING NEW IS GRANTED: {why}. What is active goes on. Correct the file, then `vfun policy reload`"
            );
        }
    }

    fn read_tokens(&mut self) {
        let file = self.tree.tokens();
        match Tokens::read(&file) {
            Ok(t) => (self.tokens, self.tokens_fault) = (t, None),
            Err(e) => (self.tokens, self.tokens_fault) = (Tokens::none(&file), Some(e)),
        }
    }

    /// Why nothing new is granted, if so.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.policy_fault.clone().or_else(|| self.tokens_fault.clone())
    }

    /// Puts the tokens that there are into a catalog.
    pub(super) fn hand_over_tokens(&mut self, catalog: &mut Catalog) {
        let (wall, clock) = (wall_ms(), self.now());
        self.clock_apart = wall.wrapping_sub(clock as i64);
        let of = |name: &str| self.tokens.of(name, wall, clock);
        catalog.tokens = catalog.clients.values().map(|c| (c.id, of(&c.name))).collect();
        catalog.tokens.retain(|_, t| !t.is_empty());
        catalog.policy_unreadable = self.unreadable().is_some();
    }

    /// Tokens end by the wall's clock, and the core knows another one.
    pub(super) fn mind_the_wall_clock(&mut self) {
        if !self.tokens.any_expires() {
            return;
        }
        let apart = wall_ms().wrapping_sub(self.now() as i64);
        if apart.abs_diff(self.clock_apart) > CLOCKS_APART {
            tracing::info!("the clock was set: tokens end by what it shows now");
            self.tokens_changed();
        }
    }

    fn tokens_changed(&mut self) -> Effects {
        let mut catalog = self.rim.core.catalog().clone();
        self.hand_over_tokens(&mut catalog);
        let effects = self.rim.core.effects(&catalog);
        self.rim.events.push_back(Event::Catalog(catalog));
        effects
    }

    /// How many tokens of a client are valid now.
    pub(super) fn tokens_valid(&self, client: u32) -> usize {
        let now = self.now();
        let of = self.rim.core.catalog().tokens.get(&client);
        of.map_or(0, |all| all.iter().filter(|t| !t.expired(now)).count())
    }

    /// Says of whom callers over TCP will be turned away, and why.
    pub(super) fn warn_of_clients_without_proof(&self) {
        let unproven = |c: &&Client| {
            c.tcp == OverTcp::Proven
                && c.credential_sha256.is_none()
                && self.tokens_valid(c.id) == 0
        };
        for c in self.rim.core.catalog().clients.values().filter(unproven) {
            let name = &c.name;
            tracing::warn!(
                "client {name} takes nobody over TCP: it has neither credential nor token. `vfun token add {name}` makes one; `tcp = \"open\"` in its manifest accepts every caller"
            );
        }
    }

    fn doubts(&self, policy: &Policy) -> Vec<String> {
        let c = self.rim.core.catalog();
        policy.doubts(
            |n| c.client(n).is_some(),
            |f| c.functions.contains_key(f) || vfun_submit::is_own(f),
        )
    }

    /// Bounds that this host does not keep.
    fn unenforced(&self) -> Unenforced {
        Unenforced::of(&self.sandbox().standing.missing)
    }

    pub(super) fn policy_view(&self, client: Option<&str>) -> Reply {
        let c = self.rim.core.catalog();
        if let Some(name) = client
            && c.client(name).is_none()
        {
            return error(format!("there is no client '{name}': `vfun client list` shows them"));
        }
        let file = self.tree.policy();
        let host = self.unenforced();
        let shown = c.clients.values().filter(|c| client.is_none_or(|n| n == c.name));
        Reply::Policy(View {
            written: file.exists(),
            file,
            unreadable: self.unreadable(),
            require: c.policy.require.iter().map(|l| l.name().into()).collect(),
            clients: shown
                .map(|x| {
                    let holds = self.rim.core.charges(x.id, None).into();
                    within(x.max_grants, c.policy.view_of(&x.name, holds, &host))
                })
                .collect(),
            doubts: self.doubts(&c.policy),
            unenforced: c.policy.unenforced(&host),
        })
    }

    pub(super) fn set_policy(&mut self, text: &str, from: &Path) -> Reply {
        let policy = match parse(from, text) {
            Ok(p) => p,
            Err(e) => return error(format!("{e}. The policy in force stays as it was")),
        };
        let file = self.tree.policy();
        if let Err(e) = write_durably(&file, text.as_bytes()) {
            return error(format!(
                "{} could not be written: {e}. The policy in force stays as it was",
                file.display()
            ));
        }
        self.put_in_force(policy, format!("the policy of {} is in force", from.display()))
    }

    pub(super) fn reload_policy(&mut self) -> Reply {
        let file = self.tree.policy();
        match read(&file) {
            Ok(Some(p)) => self.put_in_force(p, format!("{} is in force", file.display())),
            Ok(None) => {
                let what =
                    format!("there is no {}: the default rules are in force", file.display());
                self.put_in_force(Policy::default(), what)
            }
            Err(e) => match &self.policy_fault {
                Some(_) => error(format!("{e}. Nothing new is granted until it is corrected")),
                None => error(format!("{e}. The policy in force stays as it was")),
            },
        }
    }

    fn put_in_force(&mut self, policy: Policy, what: String) -> Reply {
        let mut catalog = self.rim.core.catalog().clone();
        let doubts = self.doubts(&policy);
        let unenforced = policy.unenforced(&self.unenforced());
        catalog.policy = policy;
        self.policy_fault = None;
        if self.tokens_fault.is_some() {
            self.read_tokens();
        }
        self.hand_over_tokens(&mut catalog);
        let effects = self.rim.core.effects(&catalog);
        self.rim.events.push_back(Event::Catalog(catalog));
        if let Some(e) = &self.tokens_fault {
            return error(format!(
                "{what}, but nothing new is granted until the tokens can be read: {e}"
            ));
        }
        Reply::Done { sentence: what + &told(&effects, &doubts, &unenforced) }
    }

    /// Tokens can be changed only where they could be read: else they would be
    /// written over.
    fn readable_tokens(&self) -> Result<(), String> {
        match &self.tokens_fault {
            None => Ok(()),
            Some(e) => Err(format!("{e}. Correct or remove that file, then `vfun policy reload`")),
        }
    }

    pub(super) fn add_token(&mut self, client: &str, app: &str, lives_ms: Option<i64>) -> Reply {
        let made = self.readable_tokens().and_then(|()| {
            if self.rim.core.catalog().client(client).is_none() {
                return Err(format!(
                    "there is no client '{client}': `vfun client list` shows them"
                ));
            }
            let now = wall_ms();
            self.tokens.add(client, app, now, lives_ms.map(|l| now.saturating_add(l.max(0))))
        });
        match made {
            Ok(fresh) => {
                self.tokens_changed();
                Reply::TokenMade(fresh)
            }
            Err(e) => error(e),
        }
    }

    pub(super) fn rotate_token(&mut self, id: u64, grace_ms: i64) -> Reply {
        let now = wall_ms();
        let made = self
            .readable_tokens()
            .and_then(|()| self.tokens.rotate(id, now, now.saturating_add(grace_ms.max(0))));
        match made {
            Ok(fresh) => {
                self.tokens_changed();
                Reply::TokenMade(fresh)
            }
            Err(e) => error(e),
        }
    }

    pub(super) fn revoke_token(&mut self, id: u64) -> Reply {
        match self.readable_tokens().and_then(|()| self.tokens.revoke(id)) {
            Ok(gone) => {
                let n = self.tokens_changed().sessions.len();
                let sessions = if n == 1 { "1 session".into() } else { format!("{n} sessions") };
                Reply::Done {
                    sentence: format!(
                        "token {id} of client {} opens nothing more; {sessions} that it opened ended",
                        gone.client
                    ),
                }
            }
            Err(e) => error(e),
        }
    }

    pub(super) fn tokens_of(&self, client: Option<&str>) -> Reply {
        if let Err(e) = self.readable_tokens() {
            return error(e);
        }
        let all = self.tokens.all().iter();
        Reply::Tokens {
            tokens: all.filter(|t| client.is_none_or(|c| c == t.client)).cloned().collect(),
        }
    }
}
