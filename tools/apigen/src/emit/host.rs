//! The host's half: one function for each call, and the table of them.

use super::host_structs;
use super::methods;
use super::shared::{self, forwarded, kind, kind_of};
use crate::model::{FunctionModel, Goes, Length, Model, Parameter, Returns, Role};
use std::fmt::Write;

/// The head of a function that makes a call.
const HEAD: &str = "(state: &mut hand::State, native: &Native, cx: &mut Context<'_>, mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<Returned, Refusal>";
/// The first number of an API's own function (vfun_remoting::numbers::FIRST).
const FIRST: u16 = 16;

/// The whole file.
pub fn host(model: &Model) -> String {
    let mut text = shared::head(model, "The host's half");
    let _ = write!(
        text,
        r#"#![allow({})]
use crate::hand;
use std::any::Any;
use std::ffi::c_void;
use vfun_remoting_host::{{Context, NOWHERE, Name, Places, Reader, Refusal, Returned, Room, Writer, limits, room}};

/// Stands for the whole description: the guest's half must have the same.
pub const FINGERPRINT: u64 = {:#x};

/// Longest call and answer, bytes. The manifest says the same.
pub const CELL_BYTES: u32 = {};

"#,
        shared::allowed(model.methods.is_none()),
        model.fingerprint,
        model.cell_bytes
    );
    text.push_str(&shared::constants(model));
    text.push_str(&shared::kinds(model));
    text.push_str(&shared::numbers(model));
    text.push_str(&shared::types(model));
    text.push_str(&native(model));
    text.push_str(&host_structs::structs(model));
    for function in forwarded(model) {
        if !function.is_by_hand_on_host() {
            text.push_str(&call(model, function));
        }
    }
    text.push_str(&dispatch(model));
    text.push_str(&is_secret(model));
    text.push_str(&destroy(model));
    text
}

/// Functions of the library that the host's half calls.
fn natives(model: &Model) -> impl Iterator<Item = &FunctionModel> {
    model.functions.iter().filter(|f| f.native)
}

/// The library's functions, as a table: the real library or a model of it.
fn native(model: &Model) -> String {
    if let Some(of) = &model.methods {
        return format!("/// What does the work.\npub type Native = {of};\n\n");
    }
    if let Some(table) = &model.table {
        return format!(
            "/// The functions of the library that does the work, as it gives them out.\npub type Native = {table};\n\n"
        );
    }
    let mut text = String::from(
        "/// The functions of the library that does the work.\n#[derive(Clone, Copy)]\npub struct Native {\n",
    );
    for f in natives(model) {
        let types: Vec<_> = f.parameters.iter().map(|p| p.rust.as_str()).collect();
        let _ = writeln!(
            text,
            "pub {}: unsafe extern \"C\" fn({}){},",
            f.name,
            types.join(", "),
            f.arrow(model.status.scalar)
        );
    }
    text.push_str("}\n\nimpl Native {\n/// Those of the library that this program is linked with.\npub fn linked() -> Native {\nunsafe extern \"C\" {\n");
    for f in natives(model) {
        let list: Vec<_> = f.parameters.iter().map(|p| format!("{}: {}", p.name, p.rust)).collect();
        let arrow = f.arrow(model.status.scalar);
        let _ = writeln!(text, "fn {}({}){arrow};", f.name, list.join(", "));
    }
    text.push_str("}\nNative {\n");
    for f in natives(model) {
        let _ = writeln!(text, "{},", f.name);
    }
    text + "}\n}\n}\n\n"
}

fn call(model: &Model, function: &FunctionModel) -> String {
    let FunctionModel { name, audit, .. } = function;
    let scalar = model.status.scalar.name();
    let mut text = format!("fn {name}{HEAD} {{\n");
    text.push_str(&decode(model, function));
    for Parameter { name, check, .. } in &function.parameters {
        if let Some((by, status)) = check {
            let _ = writeln!(
                text,
                "if !hand::{by}(state, native, {name}) {{ reply.{scalar}({status}); return Ok(Returned::Failure({status})); }}"
            );
        }
    }
    let (locals, call) = match model.methods {
        Some(_) => methods::call(model, function),
        None => library_call(model, function),
    };
    text.push_str(&match function.parameters.iter().find(|p| is_found_list(p)) {
        Some(list) => find_those_shown(model, function, list, &locals, &call),
        None => format!("{locals}{call}"),
    });
    let _ = writeln!(text, "reply.{scalar}(returned);");
    if *audit {
        let is = |p: &&Parameter| matches!(p.role, Role::Value(_) | Role::Object { .. });
        let all = function.parameters.iter().filter(is);
        let pairs: Vec<_> = all.map(|p| format!("({0:?}, {0} as u64)", p.name)).collect();
        let _ = writeln!(
            text,
            "hand::audit(state, native, {name:?}, &[{}], returned as u64);",
            pairs.join(", ")
        );
    }
    text.push_str(&partial(function));
    text.push_str("if returned != OK { return Ok(Returned::Failure(returned as u32)); }\n");
    text.push_str(&results(model, function));
    text + "Ok(Returned::Fine)\n}\n\n"
}

/// Places for answers, and the call of the library's function.
fn library_call(model: &Model, function: &FunctionModel) -> (String, String) {
    let name = &function.name;
    let (locals, passed) = arguments(model, function);
    let library = match model.table {
        Some(_) => format!("native.{name}.ok_or(Refusal::Unsupported)?"),
        None => format!("native.{name}"),
    };
    let (result, after) = match function.returns {
        Returns::Nothing => ("", "let returned = OK;\n"),
        _ => ("let returned = ", ""),
    };
    let call = format!(
        "// SAFETY: every object is alive and of its kind, and every pointer is to something of ours.\n\
         {result}unsafe {{ ({library})({passed}) }};\n{after}"
    );
    (locals, call)
}

fn is_found_list(p: &Parameter) -> bool {
    matches!(p.role, Role::FoundList { .. })
}

/// Calls until all places are filled or the library has no more: it may have found some that the
/// program may not see.
fn find_those_shown(
    model: &Model,
    function: &FunctionModel,
    list: &Parameter,
    locals: &str,
    call: &str,
) -> String {
    let (name, Role::FoundList { kind: k, .. }) = (&list.name, &list.role) else {
        unreachable!("looked")
    };
    let of = kind(k);
    let asked = function.parameters.iter().find(|p| matches!(p.role, Role::Object { .. }));
    let shown = match (&kind_of(model, k).shown, asked) {
        (None, _) => String::new(),
        (Some(hook), None) => format!("|| hand::{hook}(state, native, *found)"),
        (Some(hook), Some(by)) => format!("|| hand::{hook}(state, native, {}, *found)", by.name),
    };
    let keep = match shown.is_empty() {
        true => String::new(),
        false => format!(
            "{name}.retain(|found| cx.objects.is_known(kinds::{of}, *found as usize) {shown});\n"
        ),
    };
    format!(
        "let mut {name}_shown = vec![];\nlet returned = loop {{\n{locals}{call}\
         {name}.truncate(usize::try_from({name}_count).unwrap_or(usize::MAX));\n\
         let none = {name}.is_empty();\n{keep}\
         {name}_shown.append(&mut {name});\n\
         if returned != OK || none || {name}_shown.len() == {name}_names.len() {{ break returned; }}\n}};\n"
    )
}

/// Reads everything before anything is called.
fn decode(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    for p in &function.parameters {
        text.push_str(&decode_one(model, function, p));
    }
    let proposed = function
        .parameters
        .iter()
        .filter(|p| matches!(p.role, Role::NewObject { .. } | Role::FoundObject { .. }));
    let proposed: Vec<_> = proposed.map(|p| format!("{}_name", p.name)).collect();
    if proposed.len() > 1 {
        let _ = writeln!(text, "cx.objects.check_apart(&[{}])?;", proposed.join(", "));
    }
    if let Some((name, out)) = function.turned() {
        let _ = writeln!(
            text,
            "let mut {name}_zeros = vec![];\nlet {name} = room::instead({name}, {name}_instead, &mut {name}_zeros, &{out})?;"
        );
    }
    text + if function.secret { "args.end_padded()?;\n" } else { "args.end()?;\n" }
}

fn decode_one(model: &Model, function: &FunctionModel, parameter: &Parameter) -> String {
    let Parameter { name, role, .. } = parameter;
    match role {
        Role::Value(s) => format!("let {name} = args.{}()?;\n", s.name()),
        Role::Object { kind: k, or_none } => {
            let of = kind_of(model, k);
            let frees = function.frees() == Some(name) && !of.free_found;
            let find = match (or_none, frees) {
                (_, true) => "check_owned",
                (true, false) => "find_or_none",
                (false, false) => "find",
            };
            // The library says by itself what it thinks of the number 0.
            let or = if of.pointer.is_some() { "?" } else { ".unwrap_or(0) as u64" };
            format!(
                "let {name}_name = args.name()?;\nlet {name} = cx.objects.{find}({name}_name, kinds::{}){or};\n",
                kind(k)
            )
        }
        Role::NewObject { kind: k } | Role::FoundObject { kind: k } => format!(
            "let {name}_name = args.name()?;\ncx.objects.check_free({name}_name)?;\n{}",
            most(model, k)
        ),
        Role::FoundList { kind: k, .. } => format!(
            "let {name}_names = args.names(limits::FOUND_MAX)?;\n\
             {name}_names.iter().try_for_each(|name| cx.objects.check_free(*name))?;\n\
             cx.objects.check_apart(&{name}_names)?;\n{}",
            most(model, k)
        ),
        Role::InStruct(of) => match model.structs[of].goes {
            Goes::Tagged(_) => {
                format!("let (mut {name}, _{name}_kept) = read_{of}(&mut args)?;\n")
            }
            _ => format!("let mut {name} = read_{of}(&mut args)?;\n"),
        },
        Role::InText => format!("let {name} = room::text(args.blob()?)?;\n"),
        Role::InNumbers { .. } => format!("let mut {name} = room::numbers(&mut args)?;\n"),
        Role::InList { of, .. } => {
            format!("let mut {name} = room::list(&mut args, read_{of})?;\n")
        }
        Role::InBytes { length } => match length {
            Length::Said(_) if function.turned().is_some_and(|(of, _)| of == name) => {
                format!("let {name} = args.blob()?;\nlet {name}_instead = args.u64()?;\n")
            }
            Length::Said(_) => format!("let {name} = args.blob()?;\n"),
            Length::Fixed(bytes) => {
                format!("let {name} = room::exactly(args.blob()?, {bytes})?;\n")
            }
        },
        Role::OutBytes { .. } => {
            format!("let mut {name} = Room::<u8>::asked(args.u64()?, ROOM)?;\n")
        }
        Role::OutNumbers { of, .. } => {
            format!("let mut {name} = Room::<{}>::asked(args.u64()?, ROOM / 8)?;\n", of.name())
        }
        Role::FillList { of, .. } => {
            format!("let (mut {name}, {name}_places) = ask_{of}(&mut args)?;\n")
        }
        Role::OutExact { .. }
        | Role::OutValue(_)
        | Role::OutStruct(_)
        | Role::Implied
        | Role::Ignored
        | Role::ByHand => String::new(),
    }
}

fn most(model: &Model, kind_name: &str) -> String {
    let (of, name) = (kind_of(model, kind_name), kind(kind_name));
    let check = |which: &str, most: Option<u32>| {
        most.map_or(String::new(), |most| format!("cx.objects.{which}(kinds::{name}, {most})?;\n"))
    };
    check("check_most", of.most) + &check("check_client_most", of.client_most)
}

/// What is passed for a length that goes with another parameter.
fn implied(function: &FunctionModel, name: &str) -> String {
    for Parameter { name: owner, role, .. } in &function.parameters {
        match role {
            Role::InBytes { length: Length::Said(length) } if length == name => {
                return format!("room::length({owner}) as _");
            }
            Role::InNumbers { count, .. } | Role::InList { count, .. } if count == name => {
                return format!("room::count(&{owner}) as _");
            }
            Role::FillList { count, .. } if count == name => {
                return format!("{owner}.len() as _");
            }
            Role::OutBytes { length } | Role::OutNumbers { count: length, .. }
                if length == name =>
            {
                return format!("{owner}.length()");
            }
            Role::FoundList { most, .. } if most == name => {
                return format!("({owner}_names.len() - {owner}_shown.len()) as _");
            }
            Role::FoundList { count, .. } if count == name => return format!("&mut {owner}_count"),
            _ => {}
        }
    }
    unreachable!("{name} is a length of something")
}

/// Places for answers, and what is passed.
fn arguments(model: &Model, function: &FunctionModel) -> (String, String) {
    let (mut locals, mut passed) = (String::new(), vec![]);
    for Parameter { name, role, rust, .. } in &function.parameters {
        let number = |k: &String| kind_of(model, k).pointer.is_none();
        passed.push(match role {
            Role::Value(_) => name.clone(),
            Role::Object { kind: k, .. } if number(k) => name.clone(),
            Role::Object { .. } => format!("std::ptr::with_exposed_provenance_mut({name})"),
            Role::NewObject { kind: k } | Role::FoundObject { kind: k } => {
                let none = if number(k) { "0u64" } else { "std::ptr::null_mut()" };
                let _ = writeln!(locals, "let mut {name} = {none};");
                format!("&mut {name}")
            }
            Role::FoundList { .. } => {
                let _ = writeln!(
                    locals,
                    "let (mut {name}, mut {name}_count) = (vec![0u64; {name}_names.len() - {name}_shown.len()], 0u64);"
                );
                format!("{name}.as_mut_ptr()")
            }
            Role::OutValue(s) => {
                let _ = writeln!(locals, "let mut {name} = {};", shared::zero_of(s.name()));
                format!("&mut {name}")
            }
            Role::OutStruct(of) => {
                let _ = writeln!(locals, "let mut {name} = {};", shared::zero(model, of));
                format!("&mut {name}")
            }
            Role::OutExact { of, length } => {
                let (item, most) = of.map_or(("u8", "ROOM"), |of| (of.name(), "ROOM / 8"));
                let _ = writeln!(
                    locals,
                    "let mut {name} = Room::<{item}>::exactly({length} as u64, {most})?;"
                );
                format!("{name}.start().cast()")
            }
            Role::InStruct(_) => format!("&mut {name}"),
            Role::InText => format!("room::start_of_text(&{name}).cast()"),
            Role::InNumbers { .. } | Role::InList { .. } => format!("room::items(&mut {name})"),
            Role::InBytes { .. } => format!("room::start({name}).cast()"),
            Role::OutBytes { .. } | Role::OutNumbers { .. } => format!("{name}.start().cast()"),
            Role::FillList { .. } => format!("{name}.as_mut_ptr()"),
            Role::Implied => implied(function, name),
            Role::Ignored if rust.starts_with("Option<") => "None".into(),
            Role::Ignored if rust.starts_with("*const") => "std::ptr::null()".into(),
            Role::Ignored if rust.starts_with('*') => "std::ptr::null_mut()".into(),
            Role::Ignored => "0".into(),
            Role::ByHand => unreachable!("resolved"),
        });
    }
    (locals, passed.join(", "))
}

/// The object that a new one belongs to.
fn parent(model: &Model, function: &FunctionModel, of: &str) -> String {
    let Some(parent) = &kind_of(model, of).parent else { return "Name::NONE".into() };
    let given = |role: &Role| matches!(role, Role::Object { or_none: false, .. });
    let objects = || function.parameters.iter().filter(|p| given(&p.role));
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == parent);
    match (objects().find(is), objects().next()) {
        (Some(p), _) => format!("{}_name", p.name),
        (None, Some(p)) => format!("cx.objects.ancestor({}_name, kinds::{})", p.name, kind(parent)),
        (None, None) => "Name::NONE".into(),
    }
}

/// What is answered also with some failures.
fn partial(function: &FunctionModel) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let write = match role {
            Role::OutBytes { .. } | Role::OutNumbers { .. } => {
                format!("{name}.write(reply, returned == OK)?;")
            }
            Role::FillList { of, .. } => format!(
                "write_filled_{of}(reply, &{name}, &{name}_places);\n\
                 if reply.len() as u64 > ROOM {{ return Err(Refusal::Limit); }}"
            ),
            _ => continue,
        };
        let _ = writeln!(text, "if returned == OK || PARTIAL.contains(&returned) {{\n{write}\n}}");
    }
    text
}

fn results(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let native = |k: &String| match kind_of(model, k).pointer {
            Some(_) if model.methods.is_some() => name.clone(),
            Some(_) => format!("{name}.expose_provenance()"),
            None => format!("{name} as usize"),
        };
        let _ = match role {
            Role::OutValue(s) => writeln!(text, "reply.{}({name});", s.name()),
            Role::OutStruct(of) => writeln!(text, "write_{of}(reply, &{name});"),
            Role::OutExact { of: None, .. } => writeln!(text, "reply.bytes({name}.all());"),
            Role::OutExact { of: Some(_), .. } => writeln!(text, "{name}.write_all(reply);"),
            Role::NewObject { kind: k } => {
                let (parent, told) = match &kind_of(model, k).within {
                    None => (parent(model, function, k), String::new()),
                    Some((owner, hook)) => within(function, name, owner, hook),
                };
                writeln!(
                    text,
                    "let parent = {parent};\ncx.objects.insert({name}_name, kinds::{}, {}, parent);\n{told}",
                    kind(k),
                    native(k)
                )
            }
            Role::FoundObject { kind: k } => writeln!(
                text,
                "let parent = {};\nlet found = cx.objects.found({name}_name, kinds::{}, {}, parent);\nreply.name(found);",
                parent(model, function, k),
                kind(k),
                native(k)
            ),
            Role::FoundList { kind: k, .. } => writeln!(
                text,
                "reply.length({name}_shown.len());\n\
                 for (native, proposed) in {name}_shown.iter().zip({name}_names) {{\n\
                 reply.name(cx.objects.found(proposed, kinds::{}, *native as usize, Name::NONE));\n}}",
                kind(k)
            ),
            _ => Ok(()),
        };
    }
    if let Some(name) = function.frees() {
        text.push_str(&freed(model, function, name));
    }
    text
}

fn freed(model: &Model, function: &FunctionModel, name: &str) -> String {
    let mut text = format!("cx.objects.remove({name}_name);\n");
    let Role::Object { kind: k, .. } = &shared::parameter(function, name).role else {
        return text;
    };
    for with in model.kinds.iter().filter(|other| other.with.as_deref() == Some(k)) {
        let _ = writeln!(
            text,
            "reply.bool(cx.objects.remove_with_last(kinds::{}, kinds::{}));",
            kind(k),
            kind(&with.name)
        );
    }
    text
}

/// What a new object goes with, unless it outlives that; and what the guest is told of it.
fn within(function: &FunctionModel, name: &str, owner: &str, hook: &str) -> (String, String) {
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == owner);
    match function.parameters.iter().find(is) {
        None => ("Name::NONE".into(), "reply.bool(true);\n".into()),
        Some(owner) => (
            format!(
                "if hand::{hook}(state, native, {0}, {name}) {{ Name::NONE }} else {{ {0}_name }}",
                owner.name
            ),
            "reply.bool(parent.is_none());\n".into(),
        ),
    }
}

/// Calls by their numbers.
fn dispatch(model: &Model) -> String {
    let last = forwarded(model).map(|f| f.number).max().unwrap_or(FIRST);
    let mut text = format!(
        "type Call = fn(&mut hand::State, &Native, &mut Context<'_>, Reader<'_>, &mut Writer<'_>) -> Result<Returned, Refusal>;\n\n\
         /// Calls by their numbers, from {FIRST} on.\nconst CALLS: [Option<Call>; {}] = [\n",
        last + 1 - FIRST
    );
    for number in FIRST..=last {
        let _ = match forwarded(model).find(|f| f.number == number) {
            Some(f) if f.is_by_hand_on_host() => writeln!(text, "Some(hand::{}),", f.name),
            Some(f) => writeln!(text, "Some({}),", f.name),
            None => writeln!(text, "None,"),
        };
    }
    text.push_str(&format!(
        "];\n\n/// Makes one call, by its number.\npub fn dispatch(state: &mut hand::State, native: &Native, call: u16, cx: &mut Context<'_>, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<Returned, Refusal> {{\n\
         let at = usize::from(call).wrapping_sub({FIRST});\n\
         let make = CALLS.get(at).copied().flatten().ok_or(Refusal::Unknown)?;\n\
         make(state, native, cx, args, reply)\n}}\n\n"
    ));
    text
}

/// Whether a call is a secret: also where none is, so that no back end forgets to ask.
fn is_secret(model: &Model) -> String {
    let secret = forwarded(model).filter(|f| f.secret);
    let numbers: Vec<_> = secret.map(|f| format!("calls::{}", f.name.to_uppercase())).collect();
    let is = match numbers.is_empty() {
        true => "false".into(),
        false => format!("matches!(call, {})", numbers.join(" | ")),
    };
    format!(
        "/// Whether a call and its answer are wiped after use.\npub fn is_secret(call: u16) -> bool {{\n{is}\n}}\n\n"
    )
}

/// Frees what a program left behind.
fn destroy(model: &Model) -> String {
    let mut text = String::from(
        "/// Frees an object whose program is gone, and says whether the library did. Objects without a\n/// function here end with their parents.\npub fn destroy(native: &Native, kind: u16, object: usize) -> bool {\nmatch kind {\n",
    );
    for k in &model.kinds {
        let Some(end) = &k.end else { continue };
        if model.methods.is_some() {
            let _ = writeln!(text, "kinds::{} => OK == native.{end}(object),", kind(&k.name));
            continue;
        }
        let object = match k.pointer {
            Some(_) => "std::ptr::with_exposed_provenance_mut(object)",
            None => "object as u64",
        };
        let nothing = |f: &FunctionModel| f.name == *end && f.returns == Returns::Nothing;
        let called = |by: &str| match model.functions.iter().any(nothing) {
            true => format!("{{ unsafe {{ {by}({object}) }}; true }}"),
            false => format!("OK == unsafe {{ {by}({object}) }}"),
        };
        let call = match model.table {
            Some(_) => format!("native.{end}.is_some_and(|end| {})", called("end")),
            None => called(&format!("(native.{end})")),
        };
        let _ = writeln!(
            text,
            "kinds::{} => {{
// SAFETY: the library made it, and nobody uses it any more.
{call}
}}",
            kind(&k.name)
        );
    }
    text + "_ => true,\n}\n}\n"
}
