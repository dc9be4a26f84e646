//! The guest's half of structs with pointers: what a program has behind them is written, and
//! what the host fills is copied to where they point.

use super::shared;
use crate::model::{Goes, Model, StructModel, TagCase, TaggedModel};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Functions for all structs of the guest's half.
pub fn structs(model: &Model) -> String {
    let mut text = String::new();
    let (inside, filled) =
        (shared::used(model, shared::goes_in), shared::used(model, shared::is_filled));
    for name in inside.union(&filled) {
        text.push_str(&shared::refused_tags(name, &model.structs[name]));
    }
    for name in inside {
        let of = &model.structs[&name];
        text.push_str(&match &of.goes {
            Goes::Plain => shared::writer(&name, of),
            Goes::Bytes { lengths, .. } => with_bytes(&name, of, lengths),
            Goes::Tagged(tagged) => by_tag(&name, tagged),
            Goes::Never => unreachable!("resolved"),
        });
    }
    for name in shared::used(model, shared::comes_out) {
        text.push_str(&shared::reader(&name, &model.structs[&name]));
    }
    for name in filled {
        text.push_str(&fill(&name, &model.structs[&name]));
    }
    text
}

const SAFETY: &str =
    "///\n/// # Safety\n/// Its pointers are null or point to as many bytes as its lengths say.\n";

fn with_bytes(name: &str, of: &StructModel, lengths: &BTreeMap<String, String>) -> String {
    let mut text = format!(
        "/// Writes numbers, and bytes behind their lengths.\n{SAFETY}pub unsafe fn pack_{name}(w: &mut Writer<'_>, of: &{name}) -> Result<(), Failure> {{\n"
    );
    if let Goes::Bytes { refused: Some(refused), .. } = &of.goes {
        let _ = writeln!(
            text,
            "if is_refused_{name}(of.{}) {{ return Err(Failure::Own({})); }}",
            refused.tag, refused.status
        );
    }
    for member in &of.members {
        match lengths.get(&member.name) {
            Some(length) => {
                let _ = writeln!(
                    text,
                    "// SAFETY: the caller promises it.\nw.blob(unsafe {{ out::blob(of.{}.cast(), of.{length}) }}?);",
                    member.name
                );
            }
            None if lengths.values().any(|length| *length == member.name) => {}
            None => text.push_str(&shared::write_member(member)),
        }
    }
    text + "Ok(())\n}\n\n"
}

fn by_tag(name: &str, tagged: &TaggedModel) -> String {
    let TaggedModel { tag, pointer, length, status, .. } = tagged;
    let mut text = format!(
        "/// Writes what the number says that is there.\n{SAFETY}pub unsafe fn pack_{name}(w: &mut Writer<'_>, of: &{name}) -> Result<(), Failure> {{\n\
         w.u64(of.{tag});\n\
         if of.{length} == 0 {{ w.blob(None); return Ok(()); }}\n\
         if of.{pointer}.is_null() {{ return Err(Failure::Own({status})); }}\n\
         match (of.{tag}, of.{length}) {{\n"
    );
    for (case, tags) in cases(tagged) {
        let _ = match case {
            TagCase::Flat(least, most) => writeln!(
                text,
                "({tags}, {least}..={most}) => {{\n// SAFETY: the caller promises it.\nw.blob(unsafe {{ out::blob(of.{pointer}.cast(), of.{length}) }}?)\n}}"
            ),
            TagCase::Struct(inner) => writeln!(
                text,
                "({tags}, length) if length == size_of::<{inner}>() as u64 => {{\n\
                 w.u64(length);\n\
                 // SAFETY: the caller promises it.\nunsafe {{ pack_{inner}(w, &out::value(of.{pointer}.cast())?) }}?;\n}}"
            ),
        };
    }
    text + &format!("_ => return Err(Failure::Own({status})),\n}}\nOk(())\n}}\n\n")
}

/// Cases, each with the pattern of its tags.
pub fn cases(tagged: &TaggedModel) -> Vec<(TagCase, String)> {
    let mut by_case: BTreeMap<&TagCase, Vec<String>> = BTreeMap::new();
    for (tag, case) in &tagged.cases {
        by_case.entry(case).or_default().push(tag.to_string());
    }
    by_case.into_iter().map(|(case, tags)| (case.clone(), tags.join(" | "))).collect()
}

/// Asks for what is to be filled, and copies it to where it belongs.
fn fill(name: &str, of: &StructModel) -> String {
    let Goes::Bytes { lengths, refused } = &of.goes else { unreachable!("resolved") };
    let (pointer, length) = lengths.first_key_value().expect("one");
    let others = of.members.iter().filter(|m| m.name != *pointer && m.name != *length);
    let numbers: String = others.map(shared::write_member).collect();
    let refused = match refused {
        Some(refused) => format!("is_refused_{name}(of.{})", refused.tag),
        None => "false".into(),
    };
    format!(
        "/// Whether this one cannot be filled by the host.\nfn cannot_fill_{name}(of: &{name}) -> bool {{\n{refused}\n}}\n\n\
         /// The most room that each of `count` places may ask for, in bytes. A program may say that it has more.\n\
         fn room_for_{name}(count: usize) -> u64 {{\n(vfun_remoting_guest::limits::PLACES_BYTES / count.max(1)) as u64\n}}\n\n\
         /// Asks for each: what it is, and how much room there is.\nfn ask_{name}(w: &mut Writer<'_>, all: &[{name}]) {{\n\
         let room = room_for_{name}(all.len());\n\
         w.length(all.iter().filter(|of| !cannot_fill_{name}(of)).count());\n\
         for of in all.iter().filter(|of| !cannot_fill_{name}(of)) {{\n{numbers}\
         w.u64(if of.{pointer}.is_null() {{ NOWHERE }} else {{ of.{length}.min(room) }});\n}}\n}}\n\n\
         /// Reads each length, and the bytes of each value that fitted.\n{SAFETY}unsafe fn fill_{name}(r: &mut Reader<'_>, all: &mut [{name}]) -> Result<(), Failure> {{\n\
         let most = room_for_{name}(all.len());\n\
         for of in all {{\n\
         if cannot_fill_{name}(of) {{ of.{length} = NOWHERE; continue; }}\n\
         let (room, length) = (of.{length}.min(most), r.u64()?);\n\
         of.{length} = length;\n\
         if !of.{pointer}.is_null() && length <= room {{\n\
         // SAFETY: the caller promises it: the host has written no more than there is room for.\n\
         unsafe {{ out::fill(of.{pointer}.cast(), r.bytes(length as usize)?) }};\n}}\n}}\nOk(())\n}}\n\n"
    )
}
