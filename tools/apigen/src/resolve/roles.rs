//! What each parameter is for: by its type where that says it, otherwise by a word.

use super::Resolver;
use crate::annotations::FunctionNotes;
use crate::facts::{CFunction, CType};
use crate::model::{Length, Parameter, Role};
use std::collections::BTreeSet;

/// Words whose arguments are parameters that go with this one.
const WITH_OTHERS: [&str; 6] =
    ["in-bytes", "in-list", "out-bytes", "out-numbers", "fill-list", "found-list"];

/// Parameters that the words of others name: they do not go to the host by themselves.
pub(super) fn implied(notes: &FunctionNotes) -> BTreeSet<&str> {
    let words = notes.parameters.values().filter_map(|said| said.split_once(' '));
    let words = words.filter(|(word, _)| WITH_OTHERS.contains(word));
    words.flat_map(|(_, others)| others.split(' ')).filter(|o| o.parse::<u64>().is_err()).collect()
}

/// Whether the answers of a function can be told apart, and what it frees and splits is there.
pub(super) fn go_together(parameters: &[Parameter], notes: &FunctionNotes) -> Result<(), String> {
    let lengths = |p: &&Parameter| {
        matches!(p.role, Role::OutBytes { .. } | Role::OutNumbers { .. } | Role::FillList { .. })
    };
    let whole = |p: &&Parameter| {
        matches!(
            p.role,
            Role::OutValue(_)
                | Role::OutStruct(_)
                | Role::OutExact { .. }
                | Role::NewObject { .. }
                | Role::FoundObject { .. }
                | Role::FoundList { .. }
        )
    };
    let count = |is: &dyn Fn(&&Parameter) -> bool| parameters.iter().filter(|p| is(p)).count();
    let lists = |p: &&Parameter| matches!(p.role, Role::FoundList { .. });
    if count(&lengths) > 1 || count(&lengths) + count(&lists) > 0 && count(&whole) > count(&lists) {
        return Err("a place with a length is the only answer of its function".into());
    }
    let bytes = |p: &&Parameter| matches!(p.role, Role::InBytes { length: Length::Said(_) });
    let turned = |p: &&Parameter| matches!(p.role, Role::OutBytes { .. });
    let filled = |p: &&Parameter| matches!(p.role, Role::OutExact { .. });
    let into = count(&bytes) == 1 && count(&lengths) == count(&turned) && count(&whole) == 0;
    let out = count(&bytes) + count(&lengths) == 0 && count(&filled) * count(&whole) == 1;
    if notes.split && !into && !out {
        return Err(
            "a call is split by its only bytes: those that it takes, or those that it answers"
                .into(),
        );
    }
    Ok(())
}

/// Whether a method of a Rust type can take it: values, objects, bytes, and places for values.
pub(super) fn has_method(role: &Role) -> bool {
    matches!(
        role,
        Role::Value(_)
            | Role::Object { .. }
            | Role::NewObject { .. }
            | Role::FoundObject { .. }
            | Role::OutValue(_)
            | Role::OutStruct(_)
            | Role::InStruct(_)
            | Role::InBytes { .. }
            | Role::Implied
    )
}

impl Resolver<'_> {
    /// What a parameter of this type is for, with what is said of it.
    pub(super) fn role(&self, ty: &CType, said: Option<&str>) -> Result<Role, String> {
        let words: Vec<&str> = said.map(|s| s.split(' ').collect()).unwrap_or_default();
        if words == ["ignored"] {
            return Ok(Role::Ignored);
        }
        if let CType::Alias(name) = ty
            && let Some(kind) = self.kind_of(|k| k.handle.as_ref() == Some(name))
        {
            return match words[..] {
                [] => Ok(Role::Object { kind, or_none: false }),
                _ => Err(format!("'{}' says nothing of an object's number", words[0])),
            };
        }
        if let Some(scalar) = self.scalar(ty) {
            return match words[..] {
                [] => Ok(Role::Value(scalar)),
                _ => Err(format!("'{}' says nothing of a number", words[0])),
            };
        }
        match ty {
            CType::Pointer { to, .. } => match (&**to, &words[..]) {
                (_, ["in-bytes", _]) => self.pointer(ty, to, &words),
                (CType::Opaque(_) | CType::Pointer { .. }, _) => {
                    self.pointer_to_object(ty, to, &words)
                }
                _ => self.pointer(ty, to, &words),
            },
            _ => Err(format!("the type {ty} is only for code by hand")),
        }
    }

    fn pointer_to_object(&self, ty: &CType, to: &CType, words: &[&str]) -> Result<Role, String> {
        let kind = |name: &String| {
            let kind = self.kind_of(|k| k.pointer.as_ref() == Some(name));
            kind.ok_or(format!("no [object] has the pointer {name}"))
        };
        match (to, words) {
            (CType::Opaque(name), []) => Ok(Role::Object { kind: kind(name)?, or_none: false }),
            (CType::Opaque(name), ["or-none"]) => {
                Ok(Role::Object { kind: kind(name)?, or_none: true })
            }
            (CType::Pointer { to, .. }, [word @ ("new" | "found")]) => {
                let CType::Opaque(name) = &**to else {
                    return Err(format!("'{word}' is for pointers to objects, not for {ty}"));
                };
                let kind = kind(name)?;
                Ok(match *word {
                    "new" => Role::NewObject { kind },
                    _ => Role::FoundObject { kind },
                })
            }
            _ => unsaid(ty, words),
        }
    }

    fn pointer(&self, ty: &CType, to: &CType, words: &[&str]) -> Result<Role, String> {
        let handle = match to {
            CType::Alias(name) => self.kind_of(|k| k.handle.as_ref() == Some(name)),
            _ => None,
        };
        let length = |text: &str| match text.parse() {
            Ok(fixed) => Length::Fixed(fixed),
            Err(_) => Length::Said(text.to_owned()),
        };
        let word = |text: &&str| (*text).to_owned();
        match (to, handle, words) {
            (_, Some(kind), ["new"]) => Ok(Role::NewObject { kind }),
            (_, Some(kind), ["found"]) => Ok(Role::FoundObject { kind }),
            (_, Some(kind), ["found-list", most, count]) => {
                Ok(Role::FoundList { kind, most: word(most), count: word(count) })
            }
            (CType::Struct(name), _, ["out"]) => Ok(Role::OutStruct(name.clone())),
            (CType::Struct(name), _, ["in"]) => Ok(Role::InStruct(name.clone())),
            (CType::Struct(of), _, ["in-list", count]) => {
                Ok(Role::InList { of: of.clone(), count: word(count) })
            }
            (CType::Struct(of), _, ["fill-list", count]) => {
                Ok(Role::FillList { of: of.clone(), count: word(count) })
            }
            (to, _, ["out"]) if self.scalar(to).is_some() => {
                Ok(Role::OutValue(self.scalar(to).expect("looked")))
            }
            (_, _, ["in-bytes", text]) => Ok(Role::InBytes { length: length(text) }),
            (_, _, ["out-bytes", text]) => Ok(Role::OutBytes { length: word(text) }),
            (_, _, ["out-exact", text]) => Ok(Role::OutExact { length: word(text) }),
            (_, _, ["out-numbers", text]) => Ok(Role::OutNumbers { count: word(text) }),
            _ => unsaid(ty, words),
        }
    }

    /// Whether a role's other parameters are there and of the right types.
    pub(super) fn fits(
        &self,
        function: &CFunction,
        name: &str,
        role: Role,
    ) -> Result<Role, String> {
        let of = |name: &str| function.parameters.iter().find(|p| p.name == name).map(|p| &p.ty);
        let unsigned = |ty: &CType| {
            let scalar = self.scalar(ty);
            scalar.is_some_and(|s| matches!(s.name(), "u8" | "u16" | "u32" | "u64"))
        };
        let counts = |word: &str, name: &String| match of(name).is_some_and(unsigned) {
            true => Ok(()),
            false => Err(format!("{word}: no parameter '{name}' counts its bytes")),
        };
        let place = |word: &str, name: &String| match of(name) {
            Some(CType::Pointer { to, .. }) if self.plain(to).to_string() == "u64" => Ok(()),
            _ => Err(format!("{word}: no parameter '{name}' points to a length of 64 bits")),
        };
        let Some(CType::Pointer { to, .. }) = of(name) else { return Ok(role) };
        let item = self.plain(to).to_string();
        let bytes = |word: &str, length: &str| match item.as_str() {
            "void" | "u8" | "i8" => Ok(()),
            _ => Err(format!("{word}: {to} is no byte, and '{length}' may count something longer")),
        };
        match &role {
            Role::InBytes { length: Length::Said(length) } => {
                counts("in-bytes", length).and_then(|()| bytes("in-bytes", length))
            }
            Role::InBytes { length: Length::Fixed(_) } => bytes("in-bytes", "its length"),
            Role::OutExact { length } => {
                counts("out-exact", length).and_then(|()| bytes("out-exact", length))
            }
            Role::OutBytes { length } => {
                place("out-bytes", length).and_then(|()| bytes("out-bytes", length))
            }
            Role::OutNumbers { count } if item == "u64" => place("out-numbers", count),
            Role::OutNumbers { .. } => Err(format!("out-numbers: {to} has not 64 bits")),
            Role::InList { count, .. } => counts("in-list", count),
            Role::FillList { count, .. } => counts("fill-list", count),
            Role::FoundList { most, count, .. } => {
                counts("found-list", most).and_then(|()| place("found-list", count))
            }
            _ => Ok(()),
        }?;
        Ok(role)
    }
}

fn unsaid(ty: &CType, words: &[&str]) -> Result<Role, String> {
    match words {
        [] => Err(format!("say what a {ty} is for")),
        [word, ..] => Err(format!("'{word}' does not go with the type {ty}")),
    }
}
