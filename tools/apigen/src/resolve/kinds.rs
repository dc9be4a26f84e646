//! Kinds of objects: whether what is said of them goes together, and with the header.

use super::Resolver;
use super::roles::UNSAID;
use crate::annotations::{How, ObjectKind};
use crate::model::KindModel;
use std::collections::{BTreeMap, BTreeSet};

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
        let more = [self.stands_for(kind), self.end(kind)];
        wrong.extend(more.into_iter().flatten().map(|why| format!("object.{name}{why}")));
    }

    /// What is wrong with what stands for an object in a program.
    fn stands_for(&self, kind: &ObjectKind) -> Option<String> {
        if let Some(handle) = &kind.handle {
            let known = self.facts.aliases.contains_key(handle);
            return (!known).then(|| format!(".handle: the header has no typedef {handle}"));
        }
        let pointer = kind.pointer.as_ref()?;
        let parameters = self.facts.functions.iter().flat_map(|f| &f.parameters);
        let known: BTreeSet<&str> = parameters.filter_map(|p| p.ty.opaque()).collect();
        if known.contains(pointer.as_str()) {
            return None;
        }
        if self.facts.structs.contains_key(pointer) {
            return Some(format!(
                ".pointer: the header shows the members of {pointer}, so that programs may use them: such objects are not known here"
            ));
        }
        let known: Vec<_> = known.into_iter().collect();
        Some(format!(
            ".pointer: no function has a pointer to {pointer}; the header's structs without members are: {}",
            known.join(", ")
        ))
    }

    /// What is wrong with the function that frees an object whose program is gone.
    fn end(&self, kind: &ObjectKind) -> Option<String> {
        let end = kind.end.as_ref()?;
        if end == UNSAID {
            return Some(
                ".end: name the function that frees one; if it ends with its parent, remove this"
                    .into(),
            );
        }
        let found = self.facts.functions.iter().find(|f| f.name == *end);
        let (Some(function), Some(notes)) = (found, self.notes.function.get(end)) else {
            return Some(format!(".end: the header, or api.toml, has no function {end}"));
        };
        let [parameter] = &function.parameters[..] else {
            return Some(format!(".end: {end} takes more than the object, or nothing"));
        };
        let called = notes.native || notes.refuse.is_none() && notes.how != How::Local;
        if !called {
            return Some(format!(
                ".end: the host does not call {end}; say native = true at [function.{end}]"
            ));
        }
        let frees = notes.frees.as_ref() == Some(&parameter.name);
        // Who asks for it twice must not get to the library twice.
        (!frees && notes.refuse.is_none() && notes.how != How::Local).then(|| {
            format!(
                ".end: {end} frees it, so say frees = \"{}\" at [function.{end}]",
                parameter.name
            )
        })
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
