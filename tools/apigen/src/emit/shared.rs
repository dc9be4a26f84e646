//! What both halves' files have in common: types, and how structs are written and read.

use crate::facts::{CStruct, CType};
use crate::model::{KindModel, Model, Role};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The first lines of a generated file.
pub fn head(model: &Model, what: &str) -> String {
    format!(
        "//! {what} of the API `{0}`.\n//!\n//! Made by `vfun-apigen generate {0}`; change tools/apigen/apis/{0} and make it again.\n",
        model.name
    )
}

/// A constant's name for a kind of object.
pub fn kind(name: &str) -> String {
    name.to_uppercase()
}

pub fn kinds(model: &Model) -> String {
    let mut text = String::from("/// Kinds of objects.\n#[allow(dead_code)]\npub mod kinds {\n");
    for KindModel { name, number, .. } in &model.kinds {
        let _ = writeln!(text, "pub const {}: u16 = {number};", kind(name));
    }
    text + "}\n"
}

pub fn numbers(model: &Model) -> String {
    let mut text = String::from("/// Numbers of calls.\n#[allow(dead_code)]\npub mod calls {\n");
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

/// Opaque structs and structs with members, as C has them.
pub fn types(model: &Model) -> String {
    let mut text = String::new();
    let opaque: BTreeSet<&str> = model.kinds.iter().map(|k| k.pointer.as_str()).collect();
    for name in opaque {
        let _ = writeln!(
            text,
            "/// Known by its address only.\n#[repr(C)]\npub struct {name} {{ _nothing: [u8; 0] }}\n"
        );
    }
    for (name, CStruct { members }) in &model.structs {
        let _ = writeln!(
            text,
            "/// As in the API's header.\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{"
        );
        for member in members {
            let _ = writeln!(text, "pub {}: {},", member.name, member.ty);
        }
        text.push_str("}\n\n");
    }
    text
}

/// The structs that one side writes and those that it reads.
pub fn writers_and_readers(
    model: &Model,
    writes: fn(&Role) -> Option<&str>,
    reads: fn(&Role) -> Option<&str>,
) -> String {
    let used = |pick: fn(&Role) -> Option<&str>| -> BTreeSet<&str> {
        let roles = model.functions.iter().flat_map(|f| &f.parameters).map(|p| &p.role);
        roles.filter_map(pick).collect()
    };
    let mut text = String::new();
    for name in used(writes) {
        text.push_str(&writer(name, &model.structs[name]));
    }
    for name in used(reads) {
        text.push_str(&reader(name, &model.structs[name]));
    }
    text
}

/// Each member by itself: what lies between members stays on its side.
fn writer(name: &str, of: &CStruct) -> String {
    let mut text = format!(
        "/// Writes each member.\npub fn write_{name}(w: &mut Writer<'_>, of: &{name}) {{\n"
    );
    for member in &of.members {
        let _ = match &member.ty {
            CType::Array { of: item, .. } if item.to_string() == "u8" => {
                writeln!(text, "w.bytes(&of.{});", member.name)
            }
            CType::Array { of: item, .. } => {
                writeln!(text, "of.{}.iter().for_each(|v| w.{item}(*v));", member.name)
            }
            ty => writeln!(text, "w.{ty}(of.{});", member.name),
        };
    }
    text + "}\n\n"
}

fn reader(name: &str, of: &CStruct) -> String {
    let mut text = format!(
        "/// Reads each member.\npub fn read_{name}(r: &mut Reader<'_>) -> Result<{name}, Refusal> {{\n"
    );
    for member in &of.members {
        if let CType::Array { of: item, count } = &member.ty {
            if item.to_string() == "u8" {
                let _ = writeln!(
                    text,
                    "let mut {0} = [0; {count}];\n{0}.copy_from_slice(r.bytes({count})?);",
                    member.name
                );
                continue;
            }
            let zero = if matches!(item.to_string().as_str(), "f32" | "f64") { "0.0" } else { "0" };
            let _ = writeln!(
                text,
                "let mut {0} = [{zero}; {count}];\nfor v in &mut {0} {{ *v = r.{item}()?; }}",
                member.name
            );
        } else {
            let _ = writeln!(text, "let {} = r.{}()?;", member.name, member.ty);
        }
    }
    let names: Vec<_> = of.members.iter().map(|m| m.name.as_str()).collect();
    text + &format!("Ok({name} {{ {} }})\n}}\n\n", names.join(", "))
}

/// The zero of a struct, which a library fills.
pub fn zero(of: &CStruct) -> String {
    let member = |m: &crate::facts::CField| match &m.ty {
        CType::Array { of, count } => format!("{}: [{}; {count}]", m.name, number(of)),
        ty => format!("{}: {}", m.name, number(ty)),
    };
    let all: Vec<_> = of.members.iter().map(member).collect();
    all.join(", ")
}

fn number(ty: &CType) -> &'static str {
    match ty.to_string().as_str() {
        "f32" | "f64" => "0.0",
        "bool" => "false",
        _ => "0",
    }
}
