//! The guest's half: a C symbol for each function.

use super::pack;
use super::shared::{self, kind, kind_of};
use crate::annotations::How;
use crate::model::{Does, FunctionModel, Goes, Length, Model, Parameter, Returns, Role};
use std::fmt::Write;

/// C's rules, as a comment.
const C: &str = "// SAFETY: C's rules for this function.\n";

/// The whole file.
pub fn guest(model: &Model) -> String {
    let mut text = shared::head(model, "The guest's half");
    let _ = write!(
        text,
        r#"#![allow({})]
use crate::hand;
use std::ffi::c_void;
use vfun_remoting_guest::{{
    Description, Failure, Link, NOWHERE, Name, Reader, Refusal, Remote, Writer, found, limits, out, packed,
    parts, parts_filled, parts_turned,
}};

/// This API in this process.
pub static REMOTE: Remote = Remote::new(Description {{
    name: {:?},
    fingerprint: {:#x},
    cell_bytes: {},
    depth: {},
}});

"#,
        shared::allowed(true),
        model.name,
        model.fingerprint,
        model.cell_bytes,
        model.depth
    );
    text.push_str(&shared::constants(model));
    text.push_str(&shared::kinds(model));
    text.push_str(&shared::numbers(model));
    text.push_str(&shared::types(model));
    text.push_str(&status(model));
    text.push_str(&pack::structs(model));
    let ending =
        |f: &&FunctionModel| model.functions.iter().any(|o| o.ends.as_ref() == Some(&f.name));
    for function in model.functions.iter().filter(ending) {
        text.push_str(&end_by(function));
    }
    for function in &model.functions {
        text.push_str(&symbol(model, function));
    }
    text.push_str(&table(model));
    text
}

fn status(model: &Model) -> String {
    let scalar = model.status.scalar.name();
    let mut text = format!(
        "/// The API's own status for what went wrong on the way.\npub fn status_of(failure: Failure) -> {scalar} {{\nmatch failure {{\n"
    );
    for (variant, value) in &model.status.failures {
        let _ = writeln!(text, "Failure::{variant} => {value},");
    }
    text + &format!(
        "Failure::Own(status) => status as {scalar},\n\
         }}\n}}\n\n/// Makes a status of what a function's body says. A panic is a fault of ours and not the program's end.\n\
         fn answer(body: impl FnOnce() -> Result<{scalar}, Failure>) -> {scalar} {{\n\
         let body = std::panic::AssertUnwindSafe(body);\n\
         match std::panic::catch_unwind(body) {{\n\
         Ok(Ok(status)) => status,\n\
         Ok(Err(failure)) => status_of(failure),\n\
         Err(_) => status_of(Failure::Internal),\n}}\n}}\n\n"
    )
}

/// The function as C sees it.
fn symbol(model: &Model, function: &FunctionModel) -> String {
    let FunctionModel { name, number, does, parameters, .. } = function;
    let list: Vec<_> = parameters.iter().map(|p| format!("{}: {}", p.name, p.rust)).collect();
    let names: Vec<_> = parameters.iter().map(|p| p.name.as_str()).collect();
    let arrow = function.arrow(model.status.scalar);
    let local = matches!(does, Does::Call { how: How::Local, .. }) && function.answer.is_none();
    if matches!(function.returns, Returns::Other(_))
        || local && function.returns == Returns::Nothing
    {
        return format!(
            "/// Answered here.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){arrow} {{\n\
             // SAFETY: C's rules for this function, which its program keeps.\nunsafe {{ hand::{name}({}) }}\n}}\n\n",
            list.join(", "),
            names.join(", ")
        );
    }
    let body = match (does, function.answer) {
        (Does::Refuse(why), _) => {
            let begun = if model.begins { "REMOTE.begun()?;\n" } else { "" };
            format!("// {why}\nlet _ = ({});\n{begun}Err(Failure::Unsupported)", names.join(", "))
        }
        (_, Some(status)) => {
            let begun = if model.begins { "REMOTE.begun()?;\n" } else { "" };
            format!("{begun}Ok({status})")
        }
        (Does::Call { how, by_hand, .. }, None) if by_hand.guest() || *how == How::Local => {
            format!(
                "// SAFETY: C's rules for this function, which its program keeps.\nunsafe {{ hand::{name}({}) }}",
                names.join(", ")
            )
        }
        (Does::Call { how, .. }, None) => call(model, function, *how),
    };
    // What returns nothing says nothing of a failure.
    let end = if function.returns == Returns::Nothing { ";" } else { "" };
    format!(
        "/// Call {number}.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){arrow} {{\nanswer(|| {{\n{body}\n}}){end}\n}}\n\n",
        list.join(", ")
    )
}

/// The struct of all functions.
fn table(model: &Model) -> String {
    let Some(table) = &model.table else { return String::new() };
    let mut text = format!("/// All functions.\npub static TABLE: {table} = {table} {{\n");
    for member in &model.structs[table].members {
        let name = &member.name;
        let _ = match model.functions.iter().any(|f| f.name == *name) {
            true => writeln!(text, "{name}: Some({name}),"),
            false => writeln!(text, "{name}: hand::{},", name.to_uppercase()),
        };
    }
    text + "};\n"
}

/// The object that a new one belongs to.
fn parent(model: &Model, function: &FunctionModel, of: &str) -> String {
    let Some(parent) = &kind_of(model, of).parent else { return "None".into() };
    let given = |role: &Role| matches!(role, Role::Object { or_none: false, .. });
    let objects = || function.parameters.iter().filter(|p| given(&p.role));
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == parent);
    match (objects().find(is), objects().next()) {
        (Some(p), _) => format!("Some({}_object)", p.name),
        (None, Some(p)) => {
            format!("REMOTE.objects.ancestor({}_object, kinds::{})", p.name, kind(parent))
        }
        (None, None) => "None".into(),
    }
}

/// A length in C's type for lengths.
fn as_u64(function: &FunctionModel, length: &str) -> String {
    match shared::parameter(function, length).rust.as_str() {
        "u64" => length.into(),
        _ => format!("u64::from({length})"),
    }
}

/// Finds the connection and looks objects up.
fn objects(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    let mut link = model.begins;
    if link {
        text.push_str("let link = REMOTE.begun()?;\n");
    }
    for Parameter { name, role, .. } in &function.parameters {
        let Role::Object { kind: k, or_none } = role else { continue };
        let number = kind(k);
        if *or_none && kind_of(model, k).pointer.is_some() {
            let _ = writeln!(
                text,
                "let {name}_name = match {name}.is_null() {{\ntrue => vfun_remoting_guest::Name::NONE,\nfalse => REMOTE.object({name}.addr(), kinds::{number})?.0.name(),\n}};"
            );
            continue;
        }
        if kind_of(model, k).pointer.is_none() {
            let _ = writeln!(
                text,
                "let {name}_name = REMOTE.objects.known({name}, kinds::{number}, link.number());"
            );
            continue;
        }
        let to = if link { "_" } else { "link" };
        link = true;
        let _ = writeln!(
            text,
            "let ({name}_object, {to}) = REMOTE.object({name}.addr(), kinds::{number})?;\nlet {name}_name = {name}_object.name();"
        );
    }
    if !link {
        text.push_str("let link = REMOTE.link()?;\n");
    }
    text
}

/// Finds the places of answers and takes what a program hands over by pointer.
fn prepare(model: &Model, function: &FunctionModel) -> String {
    let mut text = objects(model, function);
    if model.kinds.iter().any(|k| k.with.as_deref() == Some(freed_kind(function))) {
        text.push_str("// Before the call: what is made later is not what the host forgets with it.\nlet turn = REMOTE.objects.turn();\n");
    }
    let both = |p| [place(model, function, p), handed_over(model, p)];
    for line in function.parameters.iter().flat_map(both).flatten() {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Finds the place of an answer.
fn place(model: &Model, function: &FunctionModel, parameter: &Parameter) -> Option<String> {
    let Parameter { name, role, .. } = parameter;
    Some(match role {
        Role::NewObject { kind: k } | Role::FoundObject { kind: k } => {
            let parent = parent(model, function, k);
            format!(
                "{C}let {name}_place = unsafe {{ out::place({name}) }}?;\n\
                     let {name}_new = REMOTE.objects.make(kinds::{}, link.number(), {parent})?;",
                kind(k)
            )
        }
        Role::FoundList { most, count, .. } => format!(
            "{C}let {name}_places = unsafe {{ out::places({name}, {}) }}?;\n\
                 {C}let {count}_place = unsafe {{ out::place({count}) }}?;",
            as_u64(function, most)
        ),
        Role::OutValue(_) | Role::OutStruct(_) => {
            format!("{C}let {name}_place = unsafe {{ out::place({name}) }}?;")
        }
        Role::OutBytes { length } | Role::OutNumbers { count: length, .. } => {
            let to = if matches!(role, Role::OutBytes { .. }) { ".cast::<u8>()" } else { "" };
            let items = if to.is_empty() { "ROOM / 8" } else { "ROOM" };
            let room = format!(
                "{C}let mut {name}_room = unsafe {{ out::Room::of({name}{to}, {length}, {items}) }}?;"
            );
            match function.split {
                true => room,
                false => format!("{room}\nlet {name}_asked = {name}_room.asked();"),
            }
        }
        Role::OutExact { of, length } => {
            let (to, items) = match of {
                None => (".cast::<u8>()", "ROOM"),
                Some(_) => ("", "ROOM / 8"),
            };
            let length = as_u64(function, length);
            let places =
                format!("{C}let {name}_places = unsafe {{ out::places({name}{to}, {length}) }}?;");
            match function.split {
                true => places,
                false => {
                    format!("{places}\nif {length} > {items} {{ return Err(Failure::Limit); }}")
                }
            }
        }
        _ => return None,
    })
}

/// Takes what a program hands over by pointer.
fn handed_over(model: &Model, parameter: &Parameter) -> Option<String> {
    let Parameter { name, role, .. } = parameter;
    Some(match role {
        Role::InStruct(of) => in_struct(model, name, of),
        Role::InBytes { length } => {
            let length = match length {
                Length::Said(other) => format!("{other} as u64"),
                Length::Fixed(bytes) => bytes.to_string(),
            };
            format!("{C}let {name}_bytes = unsafe {{ out::blob({name}.cast(), {length}) }}?;")
        }
        Role::InText => {
            format!("{C}let {name}_bytes = unsafe {{ out::text({name}.cast()) }};")
        }
        Role::InNumbers { count, .. } => {
            format!("{C}let {name}_list = unsafe {{ out::numbers({name}, {count} as u64) }}?;")
        }
        Role::InList { of, count } => format!(
            "{C}let {name}_packed = unsafe {{ out::packed_list({name}, {count} as u64, pack_{of}) }}?;"
        ),
        Role::FillList { of, count } => format!(
            "{C}let {name}_list = unsafe {{ out::list_mut({name}, {count} as u64) }}?;\n\
                 let {name}_asked = packed(|w| {{ ask_{of}(w, {name}_list); Ok(()) }})?;"
        ),
        _ => return None,
    })
}

fn in_struct(model: &Model, name: &str, of: &str) -> String {
    let value = format!("{C}let {name}_value = unsafe {{ out::value({name}) }}?;");
    match model.structs[of].goes {
        Goes::Plain => value,
        _ => format!(
            "{value}\n{C}let {name}_packed = packed(|w| unsafe {{ pack_{of}(w, &{name}_value) }})?;"
        ),
    }
}

/// What goes to the host.
fn writes(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let _ = match role {
            Role::Value(s) => writeln!(text, "w.{}({name});", s.name()),
            Role::Object { .. } => writeln!(text, "w.name({name}_name);"),
            Role::NewObject { .. } | Role::FoundObject { .. } => {
                writeln!(text, "w.name({name}_new.name());")
            }
            Role::FoundList { .. } => writeln!(
                text,
                "w.length(fresh.len());\nfresh.iter().for_each(|one| w.name(one.name()));"
            ),
            Role::InStruct(of) => match model.structs[of].goes {
                Goes::Plain => writeln!(text, "write_{of}(w, &{name}_value);"),
                _ => writeln!(text, "w.bytes(&{name}_packed);"),
            },
            Role::InList { .. } => writeln!(text, "w.bytes(&{name}_packed);"),
            Role::InBytes { .. } if function.turned().is_some_and(|(of, _)| of == name) => {
                writeln!(text, "w.blob({name}_bytes);\nw.u64({name}_instead);")
            }
            Role::InBytes { .. } | Role::InText => writeln!(text, "w.blob({name}_bytes);"),
            Role::InNumbers { .. } => writeln!(text, "out::write_numbers(w, {name}_list);"),
            Role::OutBytes { .. } | Role::OutNumbers { .. } => {
                writeln!(text, "w.u64({name}_asked);")
            }
            Role::FillList { .. } => writeln!(text, "w.bytes(&{name}_asked);"),
            Role::OutValue(_)
            | Role::OutStruct(_)
            | Role::OutExact { .. }
            | Role::Implied
            | Role::Ignored
            | Role::ByHand => Ok(()),
        };
    }
    if function.secret {
        text.push_str("w.pad();\n");
    }
    text
}

/// What the host answers beyond the status, one expression each.
fn reads(model: &Model, function: &FunctionModel) -> Vec<(String, String)> {
    let read = |p: &Parameter| match &p.role {
        Role::NewObject { kind: k } if kind_of(model, k).within.is_some() => {
            Some((p.name.clone(), "r.bool()?".into()))
        }
        Role::OutValue(s) => Some((p.name.clone(), format!("r.{}()?", s.name()))),
        Role::OutStruct(of) => Some((p.name.clone(), format!("read_{of}(r)?"))),
        Role::FoundObject { .. } => Some((p.name.clone(), "r.name()?".into())),
        Role::OutExact { of, length } => {
            let read = match of {
                None => format!("out::write_all({}_places, r.bytes({length} as usize)?)", p.name),
                Some(_) => format!("out::read_all({}_places, r)?", p.name),
            };
            Some((p.name.clone(), read))
        }
        _ => None,
    };
    let last = |name: &str| {
        let ends_others =
            model.kinds.iter().any(|k| k.with.as_deref() == Some(freed_kind(function)));
        ends_others.then(|| (format!("{name}_was_last"), "r.bool()?".into()))
    };
    let all = function.parameters.iter().filter_map(read);
    all.chain(function.frees().and_then(last)).collect()
}

/// The kind of the object that a function frees.
fn freed_kind(function: &FunctionModel) -> &str {
    match function.frees().map(|name| &shared::parameter(function, name).role) {
        Some(Role::Object { kind, .. }) => kind,
        _ => "",
    }
}

fn call(model: &Model, function: &FunctionModel, how: How) -> String {
    let prepared = prepare(model, function);
    let list = |p: &&Parameter| matches!(p.role, Role::FoundList { .. });
    if let Some(p) = function.parameters.iter().find(list) {
        return prepared + &call_that_finds(model, function, p);
    }
    if matches!(how, How::Async | How::AsyncNow) {
        let now = how == How::AsyncNow;
        let number = format!("calls::{}", function.name.to_uppercase());
        let writes = writes(model, function);
        return format!(
            "{prepared}link.post({number}, {now}, |w| {{\n{writes}}})?;\nlet returned = OK;\n{}Ok(returned)",
            after(model, function)
        );
    }
    if function.split {
        return prepared + &call_in_parts(model, function);
    }
    prepared + &call_once(model, function, how)
}

/// What a failure to make the call becomes, and what it ends.
fn limited(function: &FunctionModel) -> String {
    let mut text = String::new();
    if let Some(by) = &function.ends {
        let objects = function.parameters.iter().filter(|p| matches!(p.role, Role::Object { .. }));
        let names: Vec<_> = objects.map(|p| format!("{}_name", p.name)).take(1).collect();
        let _ = write!(
            text,
            ".inspect_err(|failure| if *failure == Failure::Limit {{ end_by_{by}(link, {}) }})",
            names.join(", ")
        );
    }
    if let Some(status) = function.limit {
        let _ = write!(text, ".map_err(|failure| failure.of_limit({status}))");
    }
    text
}

/// A function that ends what a call that fits no cell leaves.
fn end_by(function: &FunctionModel) -> String {
    let FunctionModel { name, parameters, .. } = function;
    let (mut names, mut writes) = (vec![], String::new());
    for p in parameters {
        let _ = match p.role {
            Role::Object { .. } => {
                names.push(format!("{}: Name", p.name));
                writeln!(writes, "w.name({});", p.name)
            }
            Role::InBytes { .. } => writeln!(writes, "w.blob(Some(&[]));"),
            Role::OutBytes { .. } => writeln!(writes, "w.u64(limits::LONG_BYTES as u64);"),
            _ => Ok(()),
        };
    }
    if function.secret {
        writes.push_str("w.pad();\n");
    }
    format!(
        "/// Ends what a call that fits no cell leaves, as the library's own would have. Nobody wants the answer.\n\
         #[cold]\nfn end_by_{name}(link: &Link, {}) {{\n\
         let _ = link.{}(calls::{}, |w| {{\n{writes}}}, |_| Ok(()));\n}}\n\n",
        names.join(", "),
        method(function, How::Forward),
        name.to_uppercase()
    )
}

fn method(function: &FunctionModel, how: How) -> &'static str {
    match (how, function.secret) {
        (How::Cached, _) => "cached",
        (_, true) => "call_secret",
        _ => "call",
    }
}

fn call_once(model: &Model, function: &FunctionModel, how: How) -> String {
    let scalar = model.status.scalar.name();
    let number = format!("calls::{}", function.name.to_uppercase());
    let writes = writes(model, function);
    let reads = reads(model, function);
    let names: Vec<_> = reads.iter().map(|(name, _)| format!("{name}_answer")).collect();
    let exprs: String = reads.iter().map(|(_, expr)| format!("{expr}, ")).collect();
    let w = if writes.is_empty() { "_" } else { "w" };
    let keep = if how == How::Cached { ", |made| made.1.is_some()" } else { "" };
    let (partial, later) = partial(model, function);
    let mut text = format!(
        "let (returned, outs) = link.{}({number}, |{w}| {{\n{writes}}}, |r| {{\n\
         let returned = r.{scalar}()?;\n{partial}\
         let outs = if returned == OK {{ Some(({exprs})) }} else {{ None }};\n\
         r.end()?;\nOk((returned, outs))\n}}{keep}){}?;\n",
        method(function, how),
        limited(function)
    );
    let pattern: String = names.iter().map(|n| format!("{n}, ")).collect();
    let after = after(model, function);
    if !after.is_empty() {
        let _ = writeln!(text, "if let Some(({pattern})) = outs {{\n{after}}}");
    }
    text + &later + "Ok(returned)"
}

/// What is read of an answer that counts although it says a failure, and what is done later.
fn partial(model: &Model, function: &FunctionModel) -> (String, String) {
    for Parameter { name, role, .. } in &function.parameters {
        match role {
            Role::OutBytes { .. } | Role::OutNumbers { .. } => {
                return (
                    format!(
                        "if returned == OK || PARTIAL.contains(&returned) {{ {name}_room.read(r, returned == OK)?; }}\n"
                    ),
                    String::new(),
                );
            }
            Role::FillList { of, .. } => {
                let status = match &model.structs[of].goes {
                    Goes::Bytes { refused: Some(refused), .. } => refused.status,
                    _ => model.status.ok,
                };
                return (
                    format!(
                        "if returned == OK || PARTIAL.contains(&returned) {{\n{C}unsafe {{ fill_{of}(r, {name}_list) }}?;\n}}\n"
                    ),
                    format!(
                        "if returned == OK && {name}_list.iter().any(cannot_fill_{of}) {{ return Ok({status}); }}\n"
                    ),
                );
            }
            _ => {}
        }
    }
    Default::default()
}

/// A call whose bytes may be those of several.
fn call_in_parts(model: &Model, function: &FunctionModel) -> String {
    let scalar = model.status.scalar.name();
    let number = format!("calls::{}", function.name.to_uppercase());
    let writes = writes(model, function);
    let method = method(function, How::Forward);
    let made = |reads: &str| {
        format!(
            "link.{method}({number}, |w| {{\n{writes}}}, |r| {{\nlet returned = r.{scalar}()?;\n{reads}r.end()?;\nOk(returned)\n}})\n"
        )
    };
    let filled = function.parameters.iter().find_map(|p| match &p.role {
        Role::OutExact { length, .. } => Some((p.name.as_str(), length.as_str())),
        _ => None,
    });
    let parts = match (function.turned(), filled) {
        (Some((name, out)), _) => format!(
            "parts_turned({name}_bytes, &mut {out}_room, [OK, SMALL], |{name}_bytes, {name}_instead, {out}_room| {{\n\
             let {out}_asked = {out}_room.asked();\n{}}})",
            made(&format!(
                "if returned == OK || PARTIAL.contains(&returned) {{ {out}_room.read(r, returned == OK)?; }}\n"
            ))
        ),
        (None, Some((name, length))) => format!(
            "parts_filled({name}_places, OK, |{name}_places| {{\nlet {length} = {name}_places.len() as {};\n{}}})",
            shared::parameter(function, length).rust,
            made(&format!(
                "if returned == OK {{ out::write_all({name}_places, r.bytes({name}_places.len())?); }}\n"
            ))
        ),
        (None, None) => {
            let bytes =
                |p: &&Parameter| matches!(p.role, Role::InBytes { length: Length::Said(_) });
            let name = &function.parameters.iter().find(bytes).expect("resolved").name;
            format!("parts({name}_bytes, OK, |{name}_bytes| {{\n{}}})", made(""))
        }
    };
    parts + &limited(function)
}

/// A call that finds several objects, made again until there are enough or no more.
fn call_that_finds(model: &Model, function: &FunctionModel, list: &Parameter) -> String {
    let Role::FoundList { kind: k, count, .. } = &list.role else { unreachable!("looked") };
    let scalar = model.status.scalar.name();
    let number = format!("calls::{}", function.name.to_uppercase());
    format!(
        "let (returned, count) = found(&REMOTE.objects, kinds::{}, link.number(), {}_places, OK, |fresh| {{\n\
         link.{}({number}, |w| {{\n{}}}, |r| {{\n\
         let returned = r.{scalar}()?;\n\
         let names = if returned == OK {{ r.names(fresh.len())? }} else {{ vec![] }};\n\
         r.end()?;\nOk((returned, names))\n}})\n}})?;\n\
         if returned == OK {{ {count}_place.write(count); }}\nOk(returned)",
        kind(k),
        list.name,
        method(function, How::Forward),
        writes(model, function)
    )
}

/// What is done once the host has done it.
fn after(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let number = |k: &str| kind_of(model, k).pointer.is_none();
        let pointer = "std::ptr::with_exposed_provenance_mut";
        let _ = match role {
            Role::OutValue(_) | Role::OutStruct(_) => {
                writeln!(text, "{name}_place.write({name}_answer);")
            }
            Role::NewObject { kind: k } if number(k) => {
                let kept = match &kind_of(model, k).within {
                    None => format!("{name}_new.keep_named()"),
                    Some((owner, _)) => {
                        let _ = writeln!(
                            text,
                            "let owner = (!{name}_answer).then_some({});\n\
                             let kept = REMOTE.objects.keep_within({name}_new, owner, kinds::{});",
                            owner_name(function, owner),
                            kind(owner)
                        );
                        "kept".into()
                    }
                };
                writeln!(text, "{name}_place.write({kept}.value());")
            }
            Role::NewObject { .. } => {
                writeln!(text, "{name}_place.write({pointer}({name}_new.keep().pointer()));")
            }
            Role::FoundObject { kind: k } => {
                let value = match number(k) {
                    true => format!("{name}_object.name().value()"),
                    false => format!("{pointer}({name}_object.pointer())"),
                };
                writeln!(
                    text,
                    "let {name}_object = REMOTE.objects.found({name}_new, {name}_answer, kinds::{})?;\n{name}_place.write({value});",
                    kind(k)
                )
            }
            _ => Ok(()),
        };
    }
    if let Some(name) = function.frees() {
        text.push_str(&freed(model, function, name));
    }
    text
}

fn freed(model: &Model, function: &FunctionModel, name: &str) -> String {
    let Role::Object { kind: k, .. } = &shared::parameter(function, name).role else {
        return String::new();
    };
    if kind_of(model, k).pointer.is_some() {
        return format!("REMOTE.objects.forget({name}_object);\n");
    }
    let mut text = format!("REMOTE.objects.forget_name({name}_name, kinds::{});\n", kind(k));
    for with in model.kinds.iter().filter(|other| other.with.as_deref() == Some(k)) {
        let _ = writeln!(
            text,
            "if {name}_was_last_answer {{ REMOTE.objects.forget_made_by(turn, kinds::{}, link.number()); }}",
            kind(&with.name)
        );
    }
    text
}

/// The object of this kind by which a function makes others.
fn owner_name(function: &FunctionModel, owner: &str) -> String {
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == owner);
    function.parameters.iter().find(is).map_or("Name::NONE".into(), |p| format!("{}_name", p.name))
}
