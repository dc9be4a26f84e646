//! The guest's half: a C symbol for each function.

use super::shared::{self, kind};
use crate::annotations::How;
use crate::model::{Does, FunctionModel, Model, Parameter, Role};
use std::fmt::Write;

/// The whole file.
pub fn guest(model: &Model) -> String {
    let mut text = shared::head(model, "The guest's half");
    let scalar = model.status.scalar.name();
    let _ = write!(
        text,
        r#"#![allow(unsafe_code, unused_imports, non_camel_case_types, clippy::missing_safety_doc, clippy::too_many_arguments)]
use crate::hand;
use std::ffi::c_void;
use vfun_remoting_guest::{{Description, Failure, Reader, Refusal, Remote, Writer, out}};

/// This API in this process.
pub static REMOTE: Remote = Remote::new(Description {{
    name: {:?},
    fingerprint: {:#x},
    cell_bytes: {},
    depth: {},
}});

/// What a function answers if it did what was asked.
pub const OK: {scalar} = {};

"#,
        model.name, model.fingerprint, model.cell_bytes, model.depth, model.status.ok
    );
    text.push_str(&shared::kinds(model));
    text.push_str(&shared::numbers(model));
    text.push_str(&shared::types(model));
    text.push_str(&status(model));
    text.push_str(&shared::writers_and_readers(model, in_struct, out_struct));
    for function in &model.functions {
        text.push_str(&symbol(model, function));
    }
    text
}

fn in_struct(role: &Role) -> Option<&str> {
    match role {
        Role::InStruct(name) => Some(name),
        _ => None,
    }
}

fn out_struct(role: &Role) -> Option<&str> {
    match role {
        Role::OutStruct(name) => Some(name),
        _ => None,
    }
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
        "}}\n}}\n\n/// Makes a status of what a function's body says. A panic is a fault of ours and not the program's end.\n\
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
    let scalar = model.status.scalar.name();
    if let Some(returns) = &function.plain {
        return format!(
            "/// Answered here.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}) -> {returns} {{\n\
             // SAFETY: C's rules for this function, which its program keeps.\nunsafe {{ hand::{name}({}) }}\n}}\n\n",
            list.join(", "),
            names.join(", ")
        );
    }
    let body = match does {
        Does::Refuse(why) => {
            format!("// {why}\nlet _ = ({});\nErr(Failure::Unsupported)", names.join(", "))
        }
        Does::Call { how, by_hand, .. } if by_hand.guest() || *how == How::Local => {
            format!(
                "// SAFETY: C's rules for this function, which its program keeps.\nunsafe {{ hand::{name}({}) }}",
                names.join(", ")
            )
        }
        Does::Call { how, frees, .. } => call(model, function, *how, frees.as_deref()),
    };
    format!(
        "/// Call {number}.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}) -> {scalar} {{\nanswer(|| {{\n{body}\n}})\n}}\n\n",
        list.join(", ")
    )
}

/// The object that a new one belongs to.
fn parent(model: &Model, function: &FunctionModel, of: &str) -> String {
    let kind_model = model.kinds.iter().find(|k| k.name == of).expect("a kind of the model");
    let Some(parent) = &kind_model.parent else { return "None".into() };
    let objects = || function.parameters.iter().filter(|p| matches!(p.role, Role::Object { .. }));
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == parent);
    match (objects().find(is), objects().next()) {
        (Some(p), _) => format!("Some({}_object)", p.name),
        (None, Some(p)) => {
            format!("REMOTE.objects.ancestor({}_object, kinds::{})", p.name, kind(parent))
        }
        (None, None) => "None".into(),
    }
}

/// Looks objects up and finds the connection.
fn prepare(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    let mut link = false;
    for Parameter { name, role, .. } in &function.parameters {
        let Role::Object { kind: k, .. } = role else { continue };
        let to = if link { "_" } else { "link" };
        link = true;
        let _ = writeln!(
            text,
            "let ({name}_object, {to}) = REMOTE.object({name}.addr(), kinds::{})?;",
            kind(k)
        );
    }
    if !link {
        text.push_str("let link = REMOTE.link()?;\n");
    }
    for Parameter { name, role, .. } in &function.parameters {
        match role {
            Role::NewObject { kind: k } | Role::FoundObject { kind: k } => {
                let parent = parent(model, function, k);
                let _ = writeln!(
                    text,
                    "// SAFETY: C's rules for this function.\nlet {name}_place = unsafe {{ out::place({name}) }}?;\n\
                     let {name}_new = REMOTE.objects.make(kinds::{}, link.number(), {parent})?;",
                    kind(k)
                );
            }
            Role::OutValue(_) | Role::OutStruct(_) => {
                let _ = writeln!(
                    text,
                    "// SAFETY: C's rules for this function.\nlet {name}_place = unsafe {{ out::place({name}) }}?;"
                );
            }
            Role::InStruct(_) => {
                let _ = writeln!(
                    text,
                    "// SAFETY: C's rules for this function.\nlet {name}_value = unsafe {{ out::value({name}) }}?;"
                );
            }
            Role::InBytes { length } => {
                let _ = writeln!(
                    text,
                    "// SAFETY: C's rules for this function.\nlet {name}_bytes = unsafe {{ out::bytes({name}.cast(), {length} as usize) }}?;"
                );
            }
            Role::Value(_) | Role::Object { .. } | Role::ByHand => {}
        }
    }
    text
}

/// What goes to the host: plain values first, then bytes.
fn writes(function: &FunctionModel) -> String {
    let (mut plain, mut bytes) = (String::new(), String::new());
    for Parameter { name, role, .. } in &function.parameters {
        let _ = match role {
            Role::Value(s) => writeln!(plain, "w.{}({name});", s.name()),
            Role::Object { .. } => writeln!(plain, "w.name({name}_object.name());"),
            Role::NewObject { .. } | Role::FoundObject { .. } => {
                writeln!(plain, "w.name({name}_new.name());")
            }
            Role::InStruct(of) => writeln!(bytes, "write_{of}(w, &{name}_value);"),
            Role::InBytes { .. } => writeln!(bytes, "w.bytes({name}_bytes);"),
            Role::OutValue(_) | Role::OutStruct(_) | Role::ByHand => Ok(()),
        };
    }
    plain + &bytes
}

/// What the host answers beyond the status, one expression each.
fn reads(function: &FunctionModel) -> Vec<(String, String)> {
    let read = |p: &Parameter| match &p.role {
        Role::OutValue(s) => Some((p.name.clone(), format!("r.{}()?", s.name()))),
        Role::OutStruct(of) => Some((p.name.clone(), format!("read_{of}(r)?"))),
        Role::FoundObject { .. } => Some((p.name.clone(), "r.name()?".into())),
        _ => None,
    };
    function.parameters.iter().filter_map(read).collect()
}

fn call(model: &Model, function: &FunctionModel, how: How, frees: Option<&str>) -> String {
    let scalar = model.status.scalar.name();
    let number = format!("calls::{}", function.name.to_uppercase());
    let mut text = prepare(model, function);
    let writes = writes(function);
    if matches!(how, How::Async | How::AsyncNow) {
        let now = how == How::AsyncNow;
        let _ =
            writeln!(text, "link.post({number}, {now}, |w| {{\n{writes}}})?;\nlet returned = OK;");
        text.push_str(&after(function, frees, &[]));
        return text + "Ok(returned)";
    }
    let reads = reads(function);
    let names: Vec<_> = reads.iter().map(|(name, _)| format!("{name}_answer")).collect();
    let exprs: String = reads.iter().map(|(_, expr)| format!("{expr}, ")).collect();
    let w = if writes.is_empty() { "_" } else { "w" };
    let (method, keep) = match how {
        How::Cached => ("cached", ", |made| made.1.is_some()"),
        _ => ("call", ""),
    };
    let _ = writeln!(
        text,
        "let (returned, outs) = link.{method}({number}, |{w}| {{\n{writes}}}, |r| {{\n\
         let returned = r.{scalar}()?;\n\
         let outs = if returned == OK {{ Some(({exprs})) }} else {{ None }};\n\
         r.end()?;\nOk((returned, outs))\n}}{keep})?;"
    );
    let pattern: String = names.iter().map(|n| format!("{n}, ")).collect();
    let _ =
        writeln!(text, "if let Some(({pattern})) = outs {{\n{}}}", after(function, frees, &reads));
    text + "Ok(returned)"
}

/// What is done once the host has done it.
fn after(function: &FunctionModel, frees: Option<&str>, _reads: &[(String, String)]) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let _ = match role {
            Role::OutValue(_) | Role::OutStruct(_) => {
                writeln!(text, "{name}_place.write({name}_answer);")
            }
            Role::NewObject { .. } => writeln!(
                text,
                "{name}_place.write(std::ptr::with_exposed_provenance_mut({name}_new.keep().pointer()));"
            ),
            Role::FoundObject { kind: k } => writeln!(
                text,
                "let {name}_object = REMOTE.objects.found({name}_new, {name}_answer, kinds::{})?;\n\
                 {name}_place.write(std::ptr::with_exposed_provenance_mut({name}_object.pointer()));",
                kind(k)
            ),
            _ => Ok(()),
        };
    }
    if let Some(name) = frees {
        let _ = writeln!(text, "REMOTE.objects.forget({name}_object);");
    }
    text
}
