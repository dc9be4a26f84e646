//! PKCS#11: SoftHSM itself, the module that asks the host, and p11-kit's way over a socket.

use super::job::Bed;
use super::short::{call, calls_of, null};
use super::taken::{added_over, least};
use crate::Result;
use crate::method::turns;
use crate::report::{RemotingExperiment, RemotingRatio, RemotingRow};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vfun_bench_gdma::Token;

/// The modules; each has tokens of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Modules {
    /// SoftHSM's, which does the work.
    pub native: PathBuf,
    /// The one that asks the host for it.
    pub remoted: PathBuf,
    /// p11-kit's, which asks a server of its own by a UNIX socket; none where it is not there.
    pub socket: Option<PathBuf>,
}

const NULL: usize = 0;

/// A short call and a signature, each way, beside a null call.
pub fn pkcs11(bed: &Bed) -> Result<Vec<RemotingRow>> {
    let Some(modules) = &bed.job.pkcs11 else { return Ok(vec![]) };
    let session = bed.session()?;
    let null = null(&session)?;
    call(&null)?;
    let paths = [Some(&modules.remoted), Some(&modules.native), modules.socket.as_ref()];
    let tokens: Vec<Token> = paths
        .into_iter()
        .flatten()
        .map(|m| Token::make(m))
        .collect::<std::result::Result<_, _>>()?;
    // The null call; then the short call of each; then the signature of each.
    let n = tokens.len();
    let taken = turns(bed.job.turns, 1 + 2 * n, &bed.watch()?, |variant, _| match variant {
        NULL => calls_of(&bed.clock, || call(&null)),
        v if v <= n => calls_of(&bed.clock, || Ok(tokens[v - 1].session_info()?)),
        v => calls_of(&bed.clock, || Ok(tokens[v - 1 - n].sign()?)),
    })?;
    null.release()?;
    let row = |case: &str, base: &str| bed.row(RemotingExperiment::Pkcs11, case, base);
    let (info, sign) = ("C_GetSessionInfo", "C_SignInit, C_Sign (ECDSA P-256)");
    let signed = row(sign, "native").of_slices(&taken, n + 1, n + 2);
    let null = row(sign, "null call").of_slices(&taken, n + 1, NULL);
    let least = least(&taken, [n + 1, n + 2, NULL]);
    let more = RemotingRow {
        case: format!("{sign}, what is added"),
        p50_ns: signed.added_ns,
        p99_ns: None,
        least_ns: least.map(|[remoted, native, _]| remoted - native),
        most_ns: None,
        base_least_ns: least.map(|[_, _, null]| null),
        added_ns: None,
        ..null
    };
    let ratio = added_over(&taken, (n + 1, n + 2), 1.0, (NULL, 1.0));
    let mut rows = vec![
        row(info, "null call").of_slices(&taken, 1, NULL),
        row(info, "native").of_slices(&taken, 1, 2),
        signed,
        more.compared_by(RemotingRatio::Added, ratio),
    ];
    if n == 3 {
        rows.push(row(info, "p11-kit, UNIX socket").of_slices(&taken, 1, 3));
        rows.push(row(sign, "p11-kit, UNIX socket").of_slices(&taken, n + 1, n + 3));
    }
    Ok(rows)
}
