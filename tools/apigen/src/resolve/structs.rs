//! How structs go over: as numbers, with bytes behind pointers, by a tag, or never.

use super::Resolver;
use crate::annotations::{StructNotes, TaggedNotes};
use crate::facts::CType;
use crate::model::{
    FunctionModel, Goes, Member, RefusedTags, Role, StructModel, TagCase, TaggedModel,
};
use crate::rust_names::of_member;
use std::collections::BTreeMap;

impl Resolver<'_> {
    /// All structs of the facts.
    pub(super) fn structs(
        &self,
        functions: &[FunctionModel],
        wrong: &mut Vec<String>,
    ) -> BTreeMap<String, StructModel> {
        for name in self.notes.structs.keys().chain(self.notes.tagged.keys()) {
            if !self.facts.structs.contains_key(name) {
                wrong.push(format!("struct {name}: the header has no such struct"));
            }
        }
        let members = |name: &str| {
            let member = |m: &crate::facts::CField| Member {
                name: m.name.clone(),
                ty: self.plain(&m.ty),
                rust: self.rust(&m.ty),
            };
            self.facts.structs[name].members.iter().map(member).collect()
        };
        let mut structs = BTreeMap::new();
        for name in self.facts.structs.keys() {
            let goes = match (self.notes.structs.get(name), self.notes.tagged.get(name)) {
                (_, Some(notes)) => self.tagged(name, notes, wrong).map(Goes::Tagged),
                (Some(notes), None) => self.with_bytes(name, notes, wrong),
                (None, None) => self.is_plain(name, &mut vec![]).is_ok().then_some(Goes::Plain),
            };
            let goes = goes.unwrap_or(Goes::Never);
            structs.insert(name.clone(), StructModel { members: members(name), goes });
        }
        for parameter in functions.iter().flat_map(|f| &f.parameters) {
            self.used(&parameter.role, &structs, wrong);
        }
        structs
    }

    /// Whether a struct that a function takes or fills can go over in this way.
    fn used(&self, role: &Role, all: &BTreeMap<String, StructModel>, wrong: &mut Vec<String>) {
        let (Role::OutStruct(name)
        | Role::InStruct(name)
        | Role::InList { of: name, .. }
        | Role::FillList { of: name, .. }) = role
        else {
            return;
        };
        let good = |goes: &Goes| match (role, goes) {
            (_, Goes::Never) => false,
            (Role::OutStruct(_), goes) => matches!(goes, Goes::Plain),
            (Role::InList { .. }, goes) => matches!(goes, Goes::Bytes { .. }),
            (Role::FillList { .. }, Goes::Bytes { lengths, .. }) => lengths.len() == 1,
            (role, _) => matches!(role, Role::InStruct(_)),
        };
        match all.get(name) {
            None => wrong.push(format!("struct {name}: the facts do not have its members")),
            Some(found) if good(&found.goes) => {}
            Some(_) => wrong.push(match self.is_plain(name, &mut vec![]) {
                Err(why) => why,
                Ok(()) => format!("struct {name}: it has no bytes behind pointers"),
            }),
        }
    }

    /// Whether a struct has numbers only; `above` are those that it is in.
    fn is_plain<'a>(&'a self, name: &'a str, above: &mut Vec<&'a str>) -> Result<(), String> {
        let Some(found) = self.facts.structs.get(name) else {
            return Err(format!("struct {name}: the facts do not have its members"));
        };
        above.push(name);
        for member in &found.members {
            let plain = match &member.ty {
                CType::Array { of, .. } => self.scalar(of).is_some(),
                CType::Struct(inner) => {
                    !above.contains(&inner.as_str()) && self.is_plain(inner, above).is_ok()
                }
                ty => self.scalar(ty).is_some(),
            };
            if !plain {
                return Err(format!(
                    "struct {name}.{}: {} is neither a number nor an array of numbers",
                    member.name, member.ty
                ));
            }
        }
        above.pop();
        Ok(())
    }

    fn member(&self, of: &str, name: &str) -> Option<&CType> {
        let found = self.facts.structs.get(of)?;
        found.members.iter().find(|m| m.name == of_member(name)).map(|m| &m.ty)
    }

    fn is_number(&self, of: &str, name: &str) -> bool {
        self.member(of, name).is_some_and(|ty| self.plain(ty).to_string() == "u64")
    }

    fn is_bytes(&self, of: &str, name: &str) -> bool {
        let Some(CType::Pointer { to, .. }) = self.member(of, name) else { return false };
        matches!(self.plain(to).to_string().as_str(), "void" | "u8" | "i8")
    }

    fn with_bytes(&self, name: &str, notes: &StructNotes, wrong: &mut Vec<String>) -> Option<Goes> {
        let found = self.facts.structs.get(name)?;
        for (pointer, length) in &notes.bytes {
            if !self.is_bytes(name, pointer) || !self.is_number(name, length) {
                wrong.push(format!(
                    "struct.{name}: {pointer} are no bytes with the length {length}"
                ));
            }
        }
        let renamed =
            |(pointer, length): (&String, &String)| (of_member(pointer), of_member(length));
        let lengths: BTreeMap<_, _> = notes.bytes.iter().map(renamed).collect();
        let told = |member: &str| {
            lengths.iter().any(|(pointer, length)| pointer == member || length == member)
        };
        for member in found.members.iter().filter(|m| !told(&m.name)) {
            let bytes = matches!(&member.ty, CType::Array { of, .. } if of.to_string() == "u8");
            if !bytes && self.scalar(&member.ty).is_none() {
                wrong.push(format!("struct.{name}.{}: say what it is", member.name));
            }
        }
        let refused = notes.tag.as_ref().map(|tag| {
            if !self.is_number(name, tag) {
                wrong.push(format!("struct.{name}.tag: {tag} is no number of 64 bits"));
            }
            let key = format!("struct.{name}.refused");
            let status = notes.refused.as_deref().unwrap_or_default();
            RefusedTags {
                tag: of_member(tag),
                bits: notes.refuse_bits,
                status: self.value(&key, status, wrong).unwrap_or_default(),
                allow: notes.allow.iter().filter_map(|c| self.value(&key, c, wrong)).collect(),
            }
        });
        Some(Goes::Bytes { lengths, refused })
    }

    fn tagged(
        &self,
        name: &str,
        notes: &TaggedNotes,
        wrong: &mut Vec<String>,
    ) -> Option<TaggedModel> {
        let members = self.facts.structs.get(name).map_or(0, |found| found.members.len());
        let numbers = self.is_number(name, &notes.tag) && self.is_number(name, &notes.length);
        if members != 3 || !numbers || !self.is_bytes(name, &notes.pointer) {
            wrong.push(format!("tagged.{name}: it has not a tag, a pointer and a length alone"));
            return None;
        }
        let key = format!("tagged.{name}");
        let mut cases = BTreeMap::new();
        for (tag, text) in &notes.case {
            let case = self.tag_case(text);
            if case.is_none() {
                wrong.push(format!(
                    "{key}.{tag}: '{text}' says neither how many bytes nor a struct"
                ));
            }
            if let (Some(value), Some(case)) = (self.value(&key, tag, wrong), case) {
                cases.insert(value, case);
            }
        }
        let status = self.value(&key, &notes.refused, wrong)?;
        let [tag, pointer, length] =
            [&notes.tag, &notes.pointer, &notes.length].map(|m| of_member(m));
        Some(TaggedModel { tag, pointer, length, status, cases })
    }

    fn tag_case(&self, text: &str) -> Option<TagCase> {
        if let Some(name) = text.strip_prefix("struct ") {
            let described = self.notes.structs.contains_key(name);
            return described.then(|| TagCase::Struct(name.to_owned()));
        }
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        Some(TagCase::Flat(least.parse().ok()?, most.parse().ok()?))
    }
}
