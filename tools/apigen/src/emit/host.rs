//! The host's half: one function for each call, and the table of them.

use super::shared::{self, kind};
use crate::annotations::How;
use crate::model::{Does, FunctionModel, Model, Parameter, Role};
use std::fmt::Write;

/// The whole file.
pub fn host(model: &Model) -> String {
    let mut text = shared::head(model, "The host's half");
    let scalar = model.status.scalar.name();
    let _ = write!(
        text,
        r#"#![allow(unsafe_code, unused_imports, non_camel_case_types, clippy::too_many_arguments)]
use crate::hand;
use std::ffi::c_void;
use vfun_remoting_host::{{Context, Name, Reader, Refusal, Returned, Writer}};

/// Stands for the whole description: the guest's half must have the same.
pub const FINGERPRINT: u64 = {:#x};

/// What a function answers if it did what was asked.
pub const OK: {scalar} = {};

"#,
        model.fingerprint, model.status.ok
    );
    text.push_str(&shared::kinds(model));
    text.push_str(&shared::numbers(model));
    text.push_str(&shared::types(model));
    text.push_str(&native(model));
    text.push_str(&shared::writers_and_readers(model, out_struct, in_struct));
    for function in functions(model) {
        if !by_hand(function) {
            text.push_str(&call(model, function));
        }
    }
    text.push_str(&dispatch(model));
    text.push_str(&destroy(model));
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

/// Functions that get to the host.
fn functions(model: &Model) -> impl Iterator<Item = &FunctionModel> {
    model
        .functions
        .iter()
        .filter(|f| matches!(&f.does, Does::Call { how, .. } if *how != How::Local))
}

/// Functions of the library that the host's half calls.
fn natives(model: &Model) -> impl Iterator<Item = &FunctionModel> {
    model.functions.iter().filter(|f| f.native)
}

fn by_hand(function: &FunctionModel) -> bool {
    matches!(&function.does, Does::Call { by_hand, .. } if by_hand.host())
}

/// The library's functions, as a table: the real library or a model of it.
fn native(model: &Model) -> String {
    let scalar = model.status.scalar.name();
    let mut text = String::from(
        "/// The functions of the library that does the work.\n#[derive(Clone, Copy)]\npub struct Native {\n",
    );
    for f in natives(model) {
        let types: Vec<_> = f.parameters.iter().map(|p| p.rust.as_str()).collect();
        let _ = writeln!(
            text,
            "pub {}: unsafe extern \"C\" fn({}) -> {scalar},",
            f.name,
            types.join(", ")
        );
    }
    text.push_str("}\n\nimpl Native {\n/// Those of the library that this program is linked with.\npub fn linked() -> Native {\nunsafe extern \"C\" {\n");
    for f in natives(model) {
        let list: Vec<_> = f.parameters.iter().map(|p| format!("{}: {}", p.name, p.rust)).collect();
        let _ = writeln!(text, "fn {}({}) -> {scalar};", f.name, list.join(", "));
    }
    text.push_str("}\nNative {\n");
    for f in natives(model) {
        let _ = writeln!(text, "{},", f.name);
    }
    text + "}\n}\n}\n\n"
}

fn call(model: &Model, function: &FunctionModel) -> String {
    let Does::Call { frees, .. } = &function.does else { unreachable!("calls only") };
    let mut text = format!(
        "fn {}(native: &Native, cx: &mut Context<'_>, mut args: Reader<'_>, reply: &mut Writer<'_>) -> Result<Returned, Refusal> {{\n",
        function.name
    );
    text.push_str(&decode(function, frees.as_deref()));
    let (locals, passed) = arguments(model, function);
    text.push_str(&locals);
    let _ = writeln!(
        text,
        "// SAFETY: every object is alive and of its kind, and every pointer is to something of ours.\n\
         let returned = unsafe {{ (native.{})({passed}) }};\nreply.{}(returned);\n\
         if returned != OK {{ return Ok(Returned::Failure(returned as u32)); }}",
        function.name,
        model.status.scalar.name()
    );
    text.push_str(&results(model, function));
    if let Some(name) = frees {
        let _ = writeln!(text, "cx.objects.remove({name}_name);");
    }
    text + "Ok(Returned::Fine)\n}\n\n"
}

/// Reads everything before anything is called.
fn decode(function: &FunctionModel, frees: Option<&str>) -> String {
    let (mut plain, mut bytes) = (String::new(), String::new());
    for Parameter { name, role, .. } in &function.parameters {
        let _ = match role {
            Role::Value(s) => writeln!(plain, "let {name} = args.{}()?;", s.name()),
            Role::Object { kind: k, or_none } => {
                let find = match (or_none, frees == Some(name)) {
                    (_, true) => "check_owned",
                    (true, false) => "find_or_none",
                    (false, false) => "find",
                };
                writeln!(
                    plain,
                    "let {name}_name = args.name()?;\nlet {name} = cx.objects.{find}({name}_name, kinds::{})?;",
                    kind(k)
                )
            }
            Role::NewObject { .. } | Role::FoundObject { .. } => writeln!(
                plain,
                "let {name}_name = args.name()?;\ncx.objects.check_free({name}_name)?;"
            ),
            Role::InStruct(of) => writeln!(bytes, "let {name} = read_{of}(&mut args)?;"),
            Role::InBytes { length } => {
                writeln!(
                    bytes,
                    "let {name} = args.bytes(usize::try_from({length}).map_err(|_| Refusal::Limit)?)?;"
                )
            }
            Role::OutValue(_) | Role::OutStruct(_) | Role::ByHand => Ok(()),
        };
    }
    let proposed = function
        .parameters
        .iter()
        .filter(|p| matches!(p.role, Role::NewObject { .. } | Role::FoundObject { .. }));
    let proposed: Vec<_> = proposed.map(|p| format!("{}_name", p.name)).collect();
    if proposed.len() > 1 {
        let _ = writeln!(plain, "cx.objects.check_apart(&[{}])?;", proposed.join(", "));
    }
    plain + &bytes + "args.end()?;\n"
}

/// Places for answers, and what is passed.
fn arguments(model: &Model, function: &FunctionModel) -> (String, String) {
    let (mut locals, mut passed) = (String::new(), vec![]);
    for Parameter { name, role, .. } in &function.parameters {
        match role {
            Role::Value(_) => passed.push(name.clone()),
            Role::Object { .. } => {
                passed.push(format!("std::ptr::with_exposed_provenance_mut({name})"));
            }
            Role::NewObject { .. } | Role::FoundObject { .. } => {
                let _ = writeln!(locals, "let mut {name} = std::ptr::null_mut();");
                passed.push(format!("&mut {name}"));
            }
            Role::OutValue(s) => {
                let zero = if s.is_float() { "0.0" } else { "0" };
                let _ = writeln!(locals, "let mut {name} = {zero};");
                passed.push(format!("&mut {name}"));
            }
            Role::OutStruct(of) => {
                let zero = shared::zero(&model.structs[of]);
                let _ = writeln!(locals, "let mut {name} = {of} {{ {zero} }};");
                passed.push(format!("&mut {name}"));
            }
            Role::InStruct(_) => passed.push(format!("&{name}")),
            Role::InBytes { .. } => passed.push(format!("{name}.as_ptr().cast_mut().cast()")),
            Role::ByHand => unreachable!("resolved"),
        }
    }
    (locals, passed.join(", "))
}

/// The object that a new one belongs to.
fn parent(model: &Model, function: &FunctionModel, of: &str) -> String {
    let kind_model = model.kinds.iter().find(|k| k.name == of).expect("a kind of the model");
    let Some(parent) = &kind_model.parent else { return "Name::NONE".into() };
    let objects = || function.parameters.iter().filter(|p| matches!(p.role, Role::Object { .. }));
    let is = |p: &&Parameter| matches!(&p.role, Role::Object { kind, .. } if kind == parent);
    match (objects().find(is), objects().next()) {
        (Some(p), _) => format!("{}_name", p.name),
        (None, Some(p)) => format!("cx.objects.ancestor({}_name, kinds::{})", p.name, kind(parent)),
        (None, None) => "Name::NONE".into(),
    }
}

fn results(model: &Model, function: &FunctionModel) -> String {
    let mut text = String::new();
    for Parameter { name, role, .. } in &function.parameters {
        let _ = match role {
            Role::OutValue(s) => writeln!(text, "reply.{}({name});", s.name()),
            Role::OutStruct(of) => writeln!(text, "write_{of}(reply, &{name});"),
            Role::NewObject { kind: k } => writeln!(
                text,
                "let parent = {};\ncx.objects.insert({name}_name, kinds::{}, {name}.expose_provenance(), parent);",
                parent(model, function, k),
                kind(k)
            ),
            Role::FoundObject { kind: k } => writeln!(
                text,
                "let parent = {};\nlet found = cx.objects.found({name}_name, kinds::{}, {name}.expose_provenance(), parent);\nreply.name(found);",
                parent(model, function, k),
                kind(k)
            ),
            _ => Ok(()),
        };
    }
    text
}

fn dispatch(model: &Model) -> String {
    let mut text = String::from(
        "/// Makes one call, by its number.\npub fn dispatch(hand: &mut hand::State, native: &Native, call: u16, cx: &mut Context<'_>, args: Reader<'_>, reply: &mut Writer<'_>) -> Result<Returned, Refusal> {\nmatch call {\n",
    );
    for f in &model.functions {
        let number = format!("calls::{}", f.name.to_uppercase());
        let _ = match &f.does {
            Does::Call { how: How::Local, .. } | Does::Refuse(_) => Ok(()),
            _ if by_hand(f) => {
                writeln!(text, "{number} => hand::{}(hand, native, cx, args, reply),", f.name)
            }
            _ => writeln!(text, "{number} => {}(native, cx, args, reply),", f.name),
        };
    }
    text + "_ => Err(Refusal::Unknown),\n}\n}\n\n"
}

/// Frees what a program left behind.
fn destroy(model: &Model) -> String {
    let mut text = String::from(
        "/// Frees an object whose program is gone, and says whether the library did. Objects without a\n/// function here end with their parents.\npub fn destroy(native: &Native, kind: u16, object: usize) -> bool {\nmatch kind {\n",
    );
    for k in &model.kinds {
        if let Some(end) = &k.end {
            let _ = writeln!(
                text,
                "kinds::{} => {{\n// SAFETY: the library made it, and nobody uses it any more.\nOK == unsafe {{ (native.{end})(std::ptr::with_exposed_provenance_mut(object)) }}\n}}",
                kind(&k.name)
            );
        }
    }
    text + "_ => true,\n}\n}\n"
}
