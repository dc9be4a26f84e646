//! Kinds of objects: whether what is said of them goes together.

use super::Resolver;
use crate::annotations::ObjectKind;
use crate::model::KindModel;
use std::collections::BTreeMap;

/// Numbers of kinds are below: the host counts by them.
const NUMBERS_END: u16 = 64;

impl Resolver<'_> {
    pub(super) fn kinds(&self, wrong: &mut Vec<String>) -> Vec<KindModel> {
        let mut numbers = BTreeMap::new();
        for (name, kind) in &self.notes.object {
            if let Some(other) = numbers.insert(kind.number, name) {
                wrong.push(format!("object.{name}: {other} has its number"));
            }
            self.check_kind(name, kind, wrong);
        }
        for name in self.notes.object.keys().filter(|name| self.is_above_itself(name)) {
            wrong.push(format!(
                "object.{name}: its parents end in a circle, so that a program could nest without end"
            ));
        }
        let kind = |(name, kind): (&String, &ObjectKind)| KindModel {
            name: name.clone(),
            number: kind.number,
            pointer: kind.pointer.clone(),
            parent: kind.parent.clone(),
            with: kind.with.clone(),
            within: kind.within.clone().zip(kind.outlives.clone()),
            end: kind.end.clone(),
            free_found: kind.free_found,
            most: kind.most,
            client_most: kind.client_most,
            shown: kind.shown.clone(),
        };
        self.notes.object.iter().map(kind).collect()
    }

    fn check_kind(&self, name: &str, kind: &ObjectKind, wrong: &mut Vec<String>) {
        let mut say = |what: &str| wrong.push(format!("object.{name}: {what}"));
        if !(1..NUMBERS_END).contains(&kind.number) {
            say("numbers are from 1 to 63");
        }
        let others = [&kind.parent, &kind.with, &kind.within].into_iter().flatten();
        for other in others.filter(|other| !self.notes.object.contains_key(*other)) {
            say(&format!("there is no object {other}"));
        }
        if kind.pointer.is_some() == kind.handle.is_some() {
            say("say its pointer or its handle");
        }
        if kind.handle.is_some() && (self.notes.begin.is_none() || kind.parent.is_some()) {
            say("numbers that stand for objects need `begin`, and have no parents");
        }
        if kind.within.is_some() != kind.outlives.is_some()
            || kind.within.is_some() && kind.handle.is_none()
        {
            say("`within` and `outlives` go together, for numbers that stand for objects");
        }
    }

    /// Whether a kind of objects is among its own parents.
    fn is_above_itself(&self, name: &str) -> bool {
        let above = |name: &str| {
            let kind = self.notes.object.get(name)?;
            kind.parent.as_deref().or(kind.within.as_deref())
        };
        let all = std::iter::successors(above(name), |name| above(name));
        all.take(self.notes.object.len()).any(|above| above == name)
    }
}
