//! `vfun token`.

use crate::admin::Admin;
use crate::cmd::client;
use crate::fail::Result;
use crate::out::{self, Output, Table, parse_duration};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfun_admin::Ask;
use vfun_admin::tokens::{Fresh, Kept};

/// What to do with tokens.
#[derive(clap::Subcommand, Debug)]
pub enum Sub {
    /// Make a token for apps of a client. Its secret is printed once and stored nowhere.
    Add {
        /// The client whose apps may use it.
        client: String,
        /// Names of the apps that may use it; each * stands for any text.
        #[arg(long, value_name = "PATTERN", default_value = "*")]
        app: String,
        /// How long it is valid, such as 30d [default: until it is revoked].
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Replace a token by a new one. Both are valid for a while, so that apps can change over.
    Rotate {
        /// The token to replace, by its number.
        #[arg(value_parser = id)]
        id: u64,
        /// How long the old token still opens sessions. Sessions that it opened go on.
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
        grace: Duration,
    },
    /// List tokens, without their secrets, which are not stored.
    #[command(visible_alias = "ls")]
    List {
        /// Of this client only.
        client: Option<String>,
    },
    /// Take a token away at once, with the sessions that it opened.
    #[command(visible_aliases = ["remove", "rm"])]
    Revoke {
        /// The token to take away, by its number.
        #[arg(value_parser = id)]
        id: u64,
    },
}

/// A token's number, as people write it.
fn id(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| {
        "a token's ID is a whole number, such as 3; `vfun token list` shows all of them".into()
    })
}

fn ms(d: Duration) -> i64 {
    d.as_millis().try_into().unwrap_or(i64::MAX)
}

pub fn run(admin: &Admin, output: Output, sub: &Sub) -> Result<()> {
    match sub {
        Sub::Add { client, app, expires } => {
            let order = Ask::AddToken {
                client: client.clone(),
                app: app.clone(),
                lives_ms: expires.map(ms),
            };
            made(output, &admin.make_token(&order)?)
        }
        Sub::Rotate { id, grace } => {
            made(output, &admin.make_token(&Ask::RotateToken { id: *id, grace_ms: ms(*grace) })?)
        }
        Sub::List { client } => {
            let tokens = admin.tokens(client.clone())?;
            // A client that was removed may have left some.
            if let (Some(name), true) = (client, tokens.is_empty()) {
                client::known(admin, name)?;
            }
            output.show(&tokens, || render(&tokens, now_ms()))
        }
        Sub::Revoke { id } => output.done(admin.tell(&Ask::RevokeToken { id: *id })?),
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms)
}

/// The secret alone on stdout, so that a script can take it.
fn made(output: Output, fresh: &Fresh) -> Result<()> {
    if output.is_json() {
        return out::json(fresh);
    }
    let k = &fresh.kept;
    let until = k.expires_ms.map_or("it is revoked".into(), out::timestamp);
    out::note(format!(
        "token {} of client {}, for apps named '{}', valid until {until}. This is shown once:",
        k.id, k.client, k.app
    ));
    out::line(&fresh.secret)
}

fn render(tokens: &[Kept], now: i64) -> String {
    let mut table = Table::new(&[">ID", "CLIENT", "APPS", "MADE", "ENDS", "STATE"]);
    for t in tokens {
        let state = match (t.expired(now), t.replaced_by) {
            (true, _) => "expired".into(),
            (false, Some(by)) => format!("replaced by {by}"),
            (false, None) => "valid".to_owned(),
        };
        let ends = t.expires_ms.map_or_else(String::new, out::timestamp);
        let (id, made) = (t.id.to_string(), out::timestamp(t.made_ms));
        table.row([id, t.client.clone(), t.app.clone(), made, ends, state]);
    }
    table.render()
}
