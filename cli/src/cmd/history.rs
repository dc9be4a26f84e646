//! `vfun history`.

use crate::admin::Admin;
use crate::fail::Result;
use crate::out::{self, Output, Table};
use vfun_admin::history::HistoryRow;

/// Show what became of grants.
///
/// Newest first. Kept across restarts of the manager.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// At most this many lines.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub fn run(admin: &Admin, output: Output, args: &Args) -> Result<()> {
    let rows = admin.history(args.limit)?;
    output.show(&rows, || render(&rows))
}

fn render(rows: &[HistoryRow]) -> String {
    let mut table =
        Table::new(&["TIME", "GRANT", "CLIENT", "APP", "FUNCTION", "WHERE", "BECAME", "WHY"]);
    for r in rows {
        let why = r.why.clone().unwrap_or_default();
        table.row([
            out::timestamp(r.at_ms),
            r.grant.clone(),
            vfun_admin::vm::owner(&r.client, r.vm.as_deref()),
            r.app.clone(),
            r.function.clone(),
            r.location.clone(),
            r.state.clone(),
            why,
        ]);
    }
    table.render()
}
