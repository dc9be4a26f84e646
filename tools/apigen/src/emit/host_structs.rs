//! The host's half of structs with pointers. They point into the private copy of the call, or to
//! room that is the call's own.

use super::pack::cases;
use super::shared;
use crate::model::{Goes, Model, StructModel, TagCase, TaggedModel};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Functions for all structs of the host's half.
pub fn structs(model: &Model) -> String {
    let mut text = String::new();
    let (inside, filled) =
        (shared::used(model, shared::goes_in), shared::used(model, shared::is_filled));
    for name in inside.union(&filled) {
        text.push_str(&shared::refused_tags(name, &model.structs[name]));
    }
    for name in shared::used(model, shared::comes_out) {
        text.push_str(&shared::writer(&name, &model.structs[&name]));
    }
    for name in inside {
        let of = &model.structs[&name];
        text.push_str(&match &of.goes {
            Goes::Plain => shared::reader(&name, of),
            Goes::Bytes { lengths, .. } => with_bytes(&name, of, lengths),
            Goes::Tagged(tagged) => by_tag(&name, tagged),
            Goes::Never => unreachable!("resolved"),
        });
    }
    for name in filled {
        text.push_str(&places(&name, &model.structs[&name]));
    }
    text
}

fn refuse(name: &str, of: &StructModel) -> String {
    match &of.goes {
        Goes::Bytes { refused: Some(refused), .. } => {
            format!("if is_refused_{name}({}) {{ return Err(Refusal::Argument); }}\n", refused.tag)
        }
        _ => String::new(),
    }
}

fn with_bytes(name: &str, of: &StructModel, lengths: &BTreeMap<String, String>) -> String {
    let mut text = format!(
        "/// Reads numbers, and bytes behind their lengths. It points to the call's bytes, and is good as long as these.\n\
         fn read_{name}(r: &mut Reader<'_>) -> Result<{name}, Refusal> {{\n"
    );
    let mut members = vec![];
    for member in &of.members {
        match lengths.get(&member.name) {
            Some(length) => {
                let _ = writeln!(text, "let {} = r.blob()?;", member.name);
                members.push(format!("{0}: room::start({0}).cast()", member.name));
                members.push(format!("{length}: room::length({})", member.name));
            }
            None if lengths.values().any(|length| *length == member.name) => {}
            None => {
                text.push_str(&shared::read_member(member));
                members.push(member.name.clone());
            }
        }
    }
    text.push_str(&refuse(name, of));
    text + &format!("Ok({name} {{ {} }})\n}}\n\n", members.join(", "))
}

fn by_tag(name: &str, tagged: &TaggedModel) -> String {
    let TaggedModel { tag, pointer, length, .. } = tagged;
    let mut text = format!(
        "/// Reads what the number says that is there: nothing else gets to the library. It points to the call's bytes, or to what comes with it.\n\
         fn read_{name}(r: &mut Reader<'_>) -> Result<({name}, Box<dyn Any>), Refusal> {{\n\
         let ({tag}, mut look) = (r.u64()?, *r);\n\
         let flat = |bytes: Option<&[u8]>| {name} {{ {tag}, {pointer}: room::start(bytes).cast(), {length}: room::length(bytes) }};\n\
         match ({tag}, look.u64()?) {{\n\
         (_, NOWHERE) => {{ *r = look; Ok((flat(None), Box::new(()))) }}\n"
    );
    for (case, tags) in cases(tagged) {
        let _ = match case {
            TagCase::Flat(least, most) => {
                writeln!(text, "({tags}, {least}..={most}) => Ok((flat(r.blob()?), Box::new(()))),")
            }
            TagCase::Struct(inner) => writeln!(
                text,
                "({tags}, {length}) if {length} == size_of::<{inner}>() as u64 => {{\n\
                 *r = look;\nlet kept = Box::new(read_{inner}(r)?);\n\
                 let {pointer} = std::ptr::from_ref(&*kept).cast_mut().cast();\n\
                 Ok(({name} {{ {tag}, {pointer}, {length} }}, kept))\n}}"
            ),
        };
    }
    text + "_ => Err(Refusal::Argument),\n}\n}\n\n"
}

/// Room for what the library fills, and what was filled.
fn places(name: &str, of: &StructModel) -> String {
    let Goes::Bytes { lengths, .. } = &of.goes else { unreachable!("resolved") };
    let (pointer, length) = lengths.first_key_value().expect("one");
    let others: Vec<_> =
        of.members.iter().filter(|m| m.name != *pointer && m.name != *length).collect();
    let reads: String = others.iter().map(|m| shared::read_member(m)).collect();
    let numbers: String = others.iter().map(|m| format!("{}, ", m.name)).collect();
    let refuse = refuse(name, of);
    format!(
        "/// Reads which are asked for, and makes room for them.\n\
         fn ask_{name}(r: &mut Reader<'_>) -> Result<(Vec<{name}>, Places), Refusal> {{\n\
         let count = r.length(limits::STRUCTS_MAX)?;\n\
         let (mut all, mut places) = (Vec::with_capacity(count), Places::default());\n\
         for _ in 0..count {{\n{reads}{refuse}places.ask(r.u64()?)?;\n\
         all.push({name} {{ {numbers} {pointer}: std::ptr::null_mut(), {length}: 0 }});\n}}\n\
         places.make();\n\
         for (at, one) in all.iter_mut().enumerate() {{\n\
         one.{pointer} = places.start(at).cast();\none.{length} = places.room(at);\n}}\n\
         Ok((all, places))\n}}\n\n\
         /// Writes what was filled.\nfn write_filled_{name}(reply: &mut Writer<'_>, all: &[{name}], places: &Places) {{\n\
         for (at, one) in all.iter().enumerate() {{ places.write(reply, at, one.{length}); }}\n}}\n\n"
    )
}
