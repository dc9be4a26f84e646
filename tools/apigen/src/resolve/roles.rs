//! What each parameter is for: by its type where that says it, otherwise by a word.

use super::Resolver;
use crate::annotations::FunctionNotes;
use crate::facts::{CFunction, CType};
use crate::model::{Length, Parameter, Role};
use std::collections::BTreeSet;
use vfun_signature::Scalar;

/// Words whose arguments are parameters that go with this one.
const WITH_OTHERS: [&str; 7] =
    ["in-bytes", "in-numbers", "in-list", "out-bytes", "out-numbers", "fill-list", "found-list"];

/// What stands in a new description where a person is to say something.
pub(super) const UNSAID: &str = "?";

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
    let filled = |p: &&Parameter| matches!(p.role, Role::OutExact { of: None, .. });
    let into = count(&bytes) == 1 && count(&lengths) == count(&turned) && count(&whole) == 0;
    let out = count(&bytes) + count(&lengths) == 0 && count(&filled) * count(&whole) == 1;
    if notes.split && !into && !out {
        return Err(
            "a call is split by its only bytes: those that it takes, or those that it answers"
                .into(),
        );
    }
    let numbers = |p: &Parameter| matches!(p.role, Role::InNumbers { .. });
    if notes.secret && parameters.iter().any(numbers) {
        return Err("a secret is bytes or text: numbers are not wiped".into());
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
        let said = said.filter(|said| *said != UNSAID);
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
            _ => Err(format!("only code by hand takes the type {ty}: {BY_HAND}")),
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
            _ => self.unsaid(ty, words),
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
            (_, Some(kind), ["new"]) => return Ok(Role::NewObject { kind }),
            (_, Some(kind), ["found"]) => return Ok(Role::FoundObject { kind }),
            (_, Some(kind), ["found-list", most, count]) => {
                return Ok(Role::FoundList { kind, most: word(most), count: word(count) });
            }
            (CType::Struct(name), _, ["out"]) => return Ok(Role::OutStruct(name.clone())),
            (CType::Struct(name), _, ["in"]) => return Ok(Role::InStruct(name.clone())),
            (CType::Struct(of), _, ["in-list", count]) => {
                return Ok(Role::InList { of: of.clone(), count: word(count) });
            }
            (CType::Struct(of), _, ["fill-list", count]) => {
                return Ok(Role::FillList { of: of.clone(), count: word(count) });
            }
            (_, _, ["in-bytes", text]) => return Ok(Role::InBytes { length: length(text) }),
            (_, _, ["out-bytes", text]) => return Ok(Role::OutBytes { length: word(text) }),
            _ => {}
        }
        // Bytes travel as they are, numbers one by one.
        let number = self.scalar(to).filter(|of| of.bytes() > 1);
        match (words, self.scalar(to)) {
            (["out"], Some(of)) => Ok(Role::OutValue(of)),
            (["in-text"], Some(Scalar::I8)) => Ok(Role::InText),
            (["out-exact", text], _) => Ok(Role::OutExact { of: number, length: word(text) }),
            (["in-numbers", text], Some(of)) if number.is_some() => {
                Ok(Role::InNumbers { of, count: word(text) })
            }
            (["out-numbers", text], Some(of)) if number.is_some() => {
                Ok(Role::OutNumbers { of, count: word(text) })
            }
            _ => self.unsaid(ty, words),
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
        let counts = |word: &str, name: &String| match of(name) {
            None => Err(format!("{word}: no parameter '{name}'")),
            Some(ty) if self.is_unsigned(ty) => Ok(()),
            Some(ty) => Err(format!("{word}: '{name}' is a {ty}; a count is an unsigned number")),
        };
        let place = |word: &str, name: &String| match of(name) {
            None => Err(format!("{word}: no parameter '{name}'")),
            Some(CType::Pointer { to, .. }) if self.plain(to).to_string() == "u64" => Ok(()),
            Some(ty) => Err(format!(
                "{word}: '{name}' is a {ty}, and not a pointer to an unsigned length of 64 bits"
            )),
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
            Role::OutExact { of: Some(_), length } => counts("out-exact", length),
            Role::OutExact { of: None, length } => {
                counts("out-exact", length).and_then(|()| bytes("out-exact", length))
            }
            Role::OutBytes { length } => {
                place("out-bytes", length).and_then(|()| bytes("out-bytes", length))
            }
            Role::OutNumbers { count, .. } => place("out-numbers", count),
            Role::InNumbers { count, .. } => counts("in-numbers", count),
            Role::InList { count, .. } => counts("in-list", count),
            Role::FillList { count, .. } => counts("fill-list", count),
            Role::FoundList { most, count, .. } => {
                counts("found-list", most).and_then(|()| place("found-list", count))
            }
            _ => Ok(()),
        }?;
        Ok(role)
    }

    fn is_unsigned(&self, ty: &CType) -> bool {
        self.scalar(ty).is_some_and(|s| matches!(s.name(), "u8" | "u16" | "u32" | "u64"))
    }

    fn unsaid(&self, ty: &CType, words: &[&str]) -> Result<Role, String> {
        let fitting = self.fitting(ty);
        match words {
            [] => Err(format!("say what a {ty} is for: {fitting}")),
            [word, ..] => Err(format!("'{word}' does not go with the type {ty}; say {fitting}")),
        }
    }

    /// The words that a pointer may have.
    fn fitting(&self, ty: &CType) -> &'static str {
        let CType::Pointer { to, .. } = ty else { return BY_HAND };
        let handle = |name| self.kind_of(|k| k.handle.as_ref() == Some(name)).is_some();
        let object = |of: &CType| matches!(of, CType::Opaque(_));
        match &**to {
            CType::Alias(name) if handle(name) => "new, found, found-list MOST COUNT",
            CType::Pointer { to, .. } if object(to) => "new, found",
            CType::Opaque(_) => "or-none, or nothing",
            CType::Struct(_) => {
                "in, out, in-list COUNT, fill-list COUNT. No program's object has a struct that the header shows"
            }
            CType::Void => "in-bytes LENGTH, out-bytes LENGTH, out-exact LENGTH",
            to => match self.scalar(to) {
                Some(Scalar::I8) => {
                    "in-text, in-bytes LENGTH, out-bytes LENGTH, out-exact LENGTH, out"
                }
                Some(of) if of.bytes() == 1 => {
                    "in-bytes LENGTH, out-bytes LENGTH, out-exact LENGTH, out"
                }
                Some(_) => "out, in-numbers COUNT, out-numbers COUNT, out-exact COUNT",
                None => BY_HAND,
            },
        }
    }
}

/// What to do where no word fits.
const BY_HAND: &str = "write the function by hand (by-hand = \"both\"), or refuse it";
