//! The host's half where methods of a Rust type do the work, and no C library: no unsafe code.

use super::shared;
use crate::model::{FunctionModel, Model, Parameter, Role};
use std::fmt::Write;

/// Places for answers, and the call of the method.
pub fn call(model: &Model, function: &FunctionModel) -> (String, String) {
    let (mut locals, mut passed) = (String::new(), vec![]);
    for Parameter { name, role, .. } in &function.parameters {
        let (local, pass) = match role {
            Role::Value(_) | Role::Object { .. } => (String::new(), name.clone()),
            Role::NewObject { .. } | Role::FoundObject { .. } => {
                (format!("let mut {name} = 0usize;\n"), format!("&mut {name}"))
            }
            Role::OutValue(s) => {
                let zero = if s.is_float() { "0.0" } else { "0" };
                (format!("let mut {name} = {zero};\n"), format!("&mut {name}"))
            }
            Role::OutStruct(of) => {
                (format!("let mut {name} = {};\n", shared::zero(model, of)), format!("&mut {name}"))
            }
            Role::InStruct(_) => (String::new(), format!("&{name}")),
            Role::InBytes { .. } => (String::new(), format!("{name}.unwrap_or_default()")),
            Role::Implied => continue,
            _ => unreachable!("resolved"),
        };
        locals.push_str(&local);
        passed.push(pass);
    }
    let mut call = String::new();
    let _ = writeln!(call, "let returned = native.{}({});", function.name, passed.join(", "));
    (locals, call)
}
