//! What both halves' files have in common: types, numbers, and how plain structs go over.

use crate::annotations::How;
use crate::facts::CType;
use crate::model::{
    Does, FunctionModel, Goes, KindModel, Member, Model, Parameter, Role, StructModel, TagCase,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The first lines of a generated file.
pub fn head(model: &Model, what: &str) -> String {
    format!(
        "//! {what} of the API `{0}`.\n//!\n//! Made by `vfun-apigen generate {0}`; change tools/apigen/apis/{0} and make it again.\n",
        model.name
    )
}

/// Lints that names of C, and code without a look at what is used, do not keep.
const ALLOWED: &str = "unused_imports, unused_mut, unused_variables, dead_code, \
     non_camel_case_types, non_snake_case, clippy::missing_safety_doc, \
     clippy::too_many_arguments, clippy::type_complexity, clippy::unnecessary_cast, clippy::useless_conversion";

/// What a generated file may do, with or without unsafe code.
pub fn allowed(is_unsafe: bool) -> String {
    format!("{}{ALLOWED}", if is_unsafe { "unsafe_code, " } else { "" })
}

/// A constant's name for a kind of object.
pub fn kind(name: &str) -> String {
    name.to_uppercase()
}

/// The kind of a name.
pub fn kind_of<'a>(model: &'a Model, name: &str) -> &'a KindModel {
    model.kinds.iter().find(|k| k.name == name).expect("a kind of the model")
}

/// Functions that get to the host.
pub fn forwarded(model: &Model) -> impl Iterator<Item = &FunctionModel> {
    let asks = |f: &&FunctionModel| matches!(&f.does, Does::Call { how, .. } if *how != How::Local);
    model.functions.iter().filter(asks)
}

pub fn kinds(model: &Model) -> String {
    let mut text = String::from("/// Kinds of objects.\npub mod kinds {\n");
    for KindModel { name, number, .. } in &model.kinds {
        let _ = writeln!(text, "pub const {}: u16 = {number};", kind(name));
    }
    text + "}\n"
}

pub fn numbers(model: &Model) -> String {
    let mut text = String::from("/// Numbers of calls.\npub mod calls {\n");
    for function in &model.functions {
        let _ = writeln!(
            text,
            "pub const {}: u16 = {};",
            function.name.to_uppercase(),
            function.number
        );
    }
    text + "}\n"
}

/// Whether a function's code looks at how much an answer, or a part of a call, may have.
fn has_room(function: &FunctionModel) -> bool {
    let room = |role: &Role| {
        matches!(
            role,
            Role::OutBytes { .. }
                | Role::OutNumbers { .. }
                | Role::OutExact { .. }
                | Role::FillList { .. }
        )
    };
    function.split || function.parameters.iter().any(|p| room(&p.role))
}

/// What a function answers, and how long an answer's bytes may be.
pub fn constants(model: &Model) -> String {
    let scalar = model.status.scalar.name();
    let mut text = format!(
        "/// What a function answers if it did what was asked.\npub const OK: {scalar} = {};\n\n",
        model.status.ok
    );
    if let Some(small) = model.status.small {
        let _ = writeln!(
            text,
            "/// What a function answers whose answer does not fit where it is to go.\nconst SMALL: {scalar} = {small};\n"
        );
    }
    if !model.status.partial.is_empty() || model.functions.iter().any(has_room) {
        let _ = writeln!(
            text,
            "/// Failures with which lengths count.\nconst PARTIAL: [{scalar}; {}] = {:?};\n",
            model.status.partial.len(),
            model.status.partial
        );
        let _ = writeln!(
            text,
            "/// Most bytes of an answer: what fits a cell, less what stands before them.\nconst ROOM: u64 = {};\n",
            model.cell_bytes - 512
        );
    }
    text
}

/// Opaque structs and structs with members, as C has them.
pub fn types(model: &Model) -> String {
    let mut text = String::new();
    let opaque: BTreeSet<&str> = model.kinds.iter().filter_map(|k| k.pointer.as_deref()).collect();
    for name in opaque {
        let _ = writeln!(
            text,
            "/// Known by its address only.\n#[repr(C)]\npub struct {name} {{ _nothing: [u8; 0] }}\n"
        );
    }
    for (name, StructModel { members, .. }) in &model.structs {
        let _ = writeln!(
            text,
            "/// As in the API's header.\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{"
        );
        for member in members {
            let _ = writeln!(text, "pub {}: {},", member.name, member.rust);
        }
        text.push_str("}\n\n");
    }
    text
}

/// Structs of roles that go over, with those inside them.
pub fn used(model: &Model, pick: fn(&Role) -> Option<&str>) -> BTreeSet<String> {
    let roles = forwarded(model).flat_map(|f| &f.parameters).map(|p| &p.role);
    let mut todo: Vec<String> = roles.filter_map(pick).map(str::to_owned).collect();
    let mut all = BTreeSet::new();
    while let Some(name) = todo.pop() {
        let of = &model.structs[&name];
        todo.extend(of.members.iter().filter_map(|m| match &m.ty {
            CType::Struct(inner) => Some(inner.clone()),
            _ => None,
        }));
        if let Goes::Tagged(tagged) = &of.goes {
            todo.extend(tagged.cases.values().filter_map(|case| match case {
                TagCase::Struct(inner) => Some(inner.clone()),
                TagCase::Flat(..) => None,
            }));
        }
        all.insert(name);
    }
    all
}

/// Structs that go to the host.
pub fn goes_in(role: &Role) -> Option<&str> {
    match role {
        Role::InStruct(name) | Role::InList { of: name, .. } => Some(name),
        _ => None,
    }
}

/// Structs that come back whole.
pub fn comes_out(role: &Role) -> Option<&str> {
    match role {
        Role::OutStruct(name) => Some(name),
        _ => None,
    }
}

/// Structs that are filled.
pub fn is_filled(role: &Role) -> Option<&str> {
    match role {
        Role::FillList { of, .. } => Some(of),
        _ => None,
    }
}

/// How a member of a plain struct, or a number beside bytes, is written.
pub fn write_member(member: &Member) -> String {
    let name = &member.name;
    match &member.ty {
        CType::Array { of: item, .. } if item.to_string() == "u8" => {
            format!("w.bytes(&of.{name});\n")
        }
        CType::Array { of: item, .. } => format!("of.{name}.iter().for_each(|v| w.{item}(*v));\n"),
        CType::Struct(inner) => format!("write_{inner}(w, &of.{name});\n"),
        ty => format!("w.{ty}(of.{name});\n"),
    }
}

/// Each member by itself: what lies between members stays on its side.
pub fn writer(name: &str, of: &StructModel) -> String {
    let mut text = format!(
        "/// Writes each member.\npub fn write_{name}(w: &mut Writer<'_>, of: &{name}) {{\n"
    );
    of.members.iter().for_each(|member| text.push_str(&write_member(member)));
    text + "}\n\n"
}

/// How a member is read.
pub fn read_member(Member { name, ty, .. }: &Member) -> String {
    match ty {
        CType::Array { of: item, count } if item.to_string() == "u8" => {
            format!("let mut {name} = [0; {count}];\n{name}.copy_from_slice(r.bytes({count})?);\n")
        }
        CType::Array { of: item, count } => {
            let zero = zero_of(&item.to_string());
            format!(
                "let mut {name} = [{zero}; {count}];\nfor v in &mut {name} {{ *v = r.{item}()?; }}\n"
            )
        }
        CType::Struct(inner) => format!("let {name} = read_{inner}(r)?;\n"),
        ty => format!("let {name} = r.{ty}()?;\n"),
    }
}

pub fn reader(name: &str, of: &StructModel) -> String {
    let mut text = format!(
        "/// Reads each member.\npub fn read_{name}(r: &mut Reader<'_>) -> Result<{name}, Refusal> {{\n"
    );
    of.members.iter().for_each(|member| text.push_str(&read_member(member)));
    let names: Vec<_> = of.members.iter().map(|m| m.name.as_str()).collect();
    text + &format!("Ok({name} {{ {} }})\n}}\n\n", names.join(", "))
}

/// The zero of a plain struct, which a library fills.
pub fn zero(model: &Model, name: &str) -> String {
    let member = |m: &Member| match &m.ty {
        CType::Array { of, count } => {
            format!("{}: [{}; {count}]", m.name, zero_of(&of.to_string()))
        }
        CType::Struct(inner) => format!("{}: {}", m.name, zero(model, inner)),
        ty => format!("{}: {}", m.name, zero_of(&ty.to_string())),
    };
    let all: Vec<_> = model.structs[name].members.iter().map(member).collect();
    format!("{name} {{ {} }}", all.join(", "))
}

/// The zero of a type of numbers.
pub fn zero_of(name: &str) -> &'static str {
    match name {
        "f32" | "f64" => "0.0",
        "bool" => "false",
        _ => "0",
    }
}

/// A function of both halves: whether a struct's tag is one that is refused.
pub fn refused_tags(name: &str, of: &StructModel) -> String {
    let Goes::Bytes { refused: Some(refused), .. } = &of.goes else { return String::new() };
    let allow: Vec<_> = refused.allow.iter().map(|tag| format!("&& tag != {tag}")).collect();
    format!(
        "/// Whether the bytes of a `{name}` with this tag may have pointers.\nfn is_refused_{name}(tag: u64) -> bool {{\n\
         tag & {:#x} != 0 {}\n}}\n\n",
        refused.bits,
        allow.join(" ")
    )
}

/// The parameter of a function with this name.
pub fn parameter<'a>(function: &'a FunctionModel, name: &str) -> &'a Parameter {
    function.parameters.iter().find(|p| p.name == name).expect("resolved")
}
