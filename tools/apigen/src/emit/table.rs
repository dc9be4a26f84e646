//! The table of completeness, for the docs.

use crate::annotations::How;
use crate::model::{Does, Model};
use std::fmt::Write;

/// What becomes of each function, as a page of the docs.
pub fn table(model: &Model) -> String {
    let mut text = format!(
        "<!-- Made by `vfun-apigen generate {0}`; change tools/apigen/apis/{0} and make it again. -->\n# `{0}`: what becomes of each function\n\n{1}.\nFrom {2}.\n\n",
        model.name, model.summary, model.source
    );
    text.push_str(match model.versions {
        true => "| function | since | what becomes of it | by hand |\n|---|---|---|---|\n",
        false => "| function | what becomes of it | by hand |\n|---|---|---|\n",
    });
    let (mut forwarded, mut local, mut refused, mut hand) = (0, 0, 0, 0);
    for f in &model.functions {
        let (what, by) = match &f.does {
            Does::Refuse(why) => {
                refused += 1;
                (format!("refused: {why}"), "")
            }
            Does::Call { how, by_hand, .. } => {
                match how {
                    How::Local => local += 1,
                    _ => forwarded += 1,
                }
                // A local function is one of the guest's hooks, unless its answer is a constant.
                let guest = by_hand.guest() || *how == How::Local && f.answer.is_none();
                let by = match (guest, by_hand.host()) {
                    (true, true) => "both halves",
                    (true, false) => "the guest's half",
                    (false, true) => "the host's half",
                    (false, false) => "",
                };
                hand += usize::from(!by.is_empty());
                let what = match how {
                    How::Forward => "forwarded",
                    How::Cached => "forwarded once, then known",
                    How::Async => "sent with the next call that waits",
                    How::AsyncNow => "sent at once, without waiting",
                    How::Local => "answered in the guest",
                };
                (what.to_owned(), by)
            }
        };
        let since = f.since.as_ref().map_or(String::new(), |since| format!(" {since} |"));
        let _ = writeln!(text, "| `{}` |{since} {what} | {by} |", f.name);
    }
    let all = model.functions.len();
    let _ = writeln!(
        text,
        "\n{all} functions: {forwarded} forwarded, {local} answered in the guest, {refused} refused, none missing; {hand} with a half that is written by hand."
    );
    text
}
