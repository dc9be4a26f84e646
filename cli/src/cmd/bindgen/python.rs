//! Python: a module on the package virtfun, typed.

use super::{Bound, camel, safe};
use std::fmt::Write;
use vfun::signature::{Scalar, Signature, Type, Value};

pub(super) const WORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "self", "try",
    "while", "with", "yield",
];

fn scalar(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "bool",
        Scalar::F32 | Scalar::F64 => "float",
        _ => "int",
    }
}

fn default(v: &Value) -> String {
    match v {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        other => other.to_string(),
    }
}

fn argument(s: &Signature, ty: &Type) -> String {
    match ty {
        Type::Scalar(of) => scalar(*of).into(),
        // A tuple or a dict will do too.
        Type::Struct(i) => {
            format!("{} | tuple[Any, ...] | dict[str, Any]", camel(&s.structs[*i].name))
        }
        Type::Array(..) => "Sequence[Any] | Any".into(),
    }
}

fn result(s: &Signature) -> String {
    let r = &s.results;
    match (s.bare_result, r.fields.first(), &r.tail) {
        (true, Some(f), _) => match &f.ty {
            Type::Scalar(of) => scalar(*of).into(),
            Type::Struct(i) => camel(&s.structs[*i].name),
            Type::Array(of, _) if **of == Type::Scalar(Scalar::U8) => "bytes".into(),
            Type::Array(..) => "Any".into(),
        },
        (true, None, Some(t)) if t.element == Type::Scalar(Scalar::U8) => "memoryview".into(),
        (false, None, None) => "None".into(),
        _ => "Any".into(),
    }
}

/// The text of the module for these functions.
pub fn module(functions: &[Bound]) -> String {
    let mut out = String::from(
        "# Made by `vfun bindgen`; make it again after a function's signature has changed.\n\
         from __future__ import annotations\n\n\
         from typing import Any, NamedTuple, Sequence\n\n\
         import virtfun\n",
    );
    for f in functions {
        class(&mut out, f);
    }
    out
}

/// Writes a class for a function.
fn class(out: &mut String, f: &Bound) {
    let s = &f.signature;
    let _ = write!(
        out,
        "\n\nclass {}:\n    \"\"\"{}\"\"\"\n\n    SIGNATURE = {:#018x}\n",
        camel(&f.name),
        s.of_function(&f.name),
        s.fingerprint()
    );
    for of in &s.structs {
        let _ = write!(out, "\n    class {}(NamedTuple):\n", camel(&of.name));
        for m in &of.members {
            let ty = match &m.ty {
                Type::Scalar(of) => scalar(*of).to_owned(),
                _ => "Any".into(),
            };
            let _ = writeln!(out, "        {}: {ty}", safe(&m.name, WORDS));
        }
    }
    let _ = write!(
        out,
        "\n    def __init__(self, session: virtfun.Session, **wanted: Any) -> None:\n        \"\"\"Opens it; refused (WrongSignature) if the host's has another signature.\"\"\"\n        self.function = session.function(\"{0}\", signature=self.SIGNATURE, **wanted)\n\n",
        f.name
    );
    calls(out, s);
    if s.args.tail.is_some() {
        out.push_str("\n    def empty(self, shape: int | Sequence[int], dtype: Any = None) -> Any:\n        return self.function.empty(shape, dtype)\n");
    }
}

/// The ways to call it.
fn calls(out: &mut String, s: &Signature) {
    let mut params = vec!["self".to_owned()];
    let mut names = vec![];
    for a in &s.args.fields {
        let n = safe(&a.name, WORDS);
        let value = a.default.as_ref().map_or(String::new(), |v| format!(" = {}", default(v)));
        params.push(format!("{n}: {}{value}", argument(s, &a.ty)));
        names.push(n);
    }
    if let Some(t) = &s.args.tail {
        let n = safe(&t.name, WORDS);
        params.push(format!("{n}: Any"));
        names.push(n);
    }
    let (params, names, gives) = (params.join(", "), names.join(", "), result(s));
    // Without a result a call is a statement: its value is not assigned.
    let (value, after) = match gives.as_str() {
        "None" => (String::new(), ""),
        _ => (format!("value: {gives} = "), "        return value\n"),
    };
    let _ = write!(
        out,
        "    def __call__({params}) -> {gives}:\n        {value}self.function({names})\n{after}\
         \n    async def acall({params}) -> {gives}:\n        {value}await self.function.acall({names})\n{after}\
         \n    def start({params}) -> virtfun.Pending:\n        return self.function.start({names})\n"
    );
}
