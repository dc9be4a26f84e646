//! What calls carry that are written by hand, and what ends the work of those that fit no cell.

use super::Resolver;
use crate::annotations::{ByHand, FunctionNotes, How};
use crate::model::{Carried, FunctionModel, Role};
use vfun_signature::Scalar;

impl Resolver<'_> {
    /// What the call of a function carries that both halves write by hand: tests make such calls at
    /// random.
    pub(super) fn wire(
        &self,
        name: &str,
        notes: &FunctionNotes,
        wrong: &mut Vec<String>,
    ) -> Vec<Carried> {
        let by_hand = notes.by_hand == ByHand::Both && notes.how != How::Local;
        let needed = by_hand && notes.refuse.is_none();
        if needed != notes.wire.is_some() {
            let what = if needed {
                "say by `wire` what its call carries"
            } else {
                "`wire` is only for calls by hand"
            };
            wrong.push(format!("function.{name}: {what}"));
        }
        let words = notes.wire.iter().flat_map(|text| text.split_whitespace());
        let carried = words.map(|word| (word, self.carried(word)));
        let mut all = vec![];
        for (word, carried) in carried {
            match carried {
                Some(carried) => all.push(carried),
                None => wrong.push(format!("function.{name}: '{word}' is no word of `wire`")),
            }
        }
        all
    }

    fn carried(&self, word: &str) -> Option<Carried> {
        let kind = |name: &str| self.notes.object.contains_key(name).then(|| name.to_owned());
        if word == "lent" {
            return Some(Carried::Lent);
        }
        match word.strip_prefix("new:") {
            Some(name) => kind(name).map(Carried::New),
            None => {
                kind(word).map(Carried::Object).or_else(|| Scalar::named(word).map(Carried::Number))
            }
        }
    }
}

/// Whether the functions that end what others leave can be called with what these have.
pub(super) fn ends(functions: &[FunctionModel], wrong: &mut Vec<String>) {
    for function in functions {
        let Some(by) = &function.ends else { continue };
        let Some(by) = functions.iter().find(|f| f.name == *by) else {
            wrong.push(format!("function.{}.ends: there is no function {by}", function.name));
            continue;
        };
        let known = |name: &str| {
            let has = |p: &&crate::model::Parameter| p.name == name;
            matches!(
                function.parameters.iter().find(has).map(|p| &p.role),
                Some(Role::Object { .. })
            )
        };
        for parameter in &by.parameters {
            let good = match &parameter.role {
                Role::Object { .. } => known(&parameter.name),
                Role::InBytes { .. } | Role::OutBytes { .. } | Role::Implied => true,
                _ => false,
            };
            if !good {
                wrong.push(format!(
                    "function.{}.ends: {} takes {}, which is not there",
                    function.name, by.name, parameter.name
                ));
            }
        }
    }
}
