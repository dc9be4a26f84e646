//! The calls of an API and what they carry, for tests that make calls at random.

use super::shared::{self, forwarded, kind, kind_of};
use crate::facts::CType;
use crate::model::{
    Carried, Does, FunctionModel, Goes, Length, Member, Model, Parameter, Role, TagCase,
};
use std::fmt::Write;
use vfun_signature::Scalar;

/// The whole file.
pub fn shapes(model: &Model) -> String {
    let mut text = shared::head(model, "What calls carry");
    text.push_str("#![allow(dead_code, unused_imports)]\n\nuse vfun_remoting_host::fuzz::{Api, Call, Case, Shape};\n\n");
    text.push_str(&shared::kinds(model));
    for (name, of) in &model.structs {
        if let Goes::Bytes { lengths, .. } = &of.goes {
            let members: Vec<_> = of
                .members
                .iter()
                .filter(|m| !lengths.values().any(|length| *length == m.name))
                .map(|m| match lengths.contains_key(&m.name) {
                    true => "Shape::Bytes".into(),
                    false => member(model, m),
                })
                .collect();
            let _ =
                writeln!(text, "const {}: &[Shape] = &[{}];", constant(name), members.join(", "));
        }
    }
    let _ =
        writeln!(text, "\n/// The API `{}`.\npub const API: Api = Api {{ calls: &[", model.name);
    for function in forwarded(model) {
        text.push_str(&call(model, function));
    }
    text + "] };\n"
}

fn constant(name: &str) -> String {
    name.to_uppercase()
}

fn call(model: &Model, function: &FunctionModel) -> String {
    let FunctionModel { name, number, secret, .. } = function;
    let by_hand =
        matches!(&function.does, Does::Call { by_hand, .. } if by_hand.guest() && by_hand.host());
    let shapes: Vec<String> = match by_hand {
        true => function.wire.iter().map(|carried| by_hand_shape(model, carried)).collect(),
        false => function.parameters.iter().filter_map(|p| shape(model, function, p)).collect(),
    };
    let frees = match function.frees().map(|name| &shared::parameter(function, name).role) {
        Some(Role::Object { kind: k, .. }) => format!("Some(kinds::{})", kind(k)),
        _ => "None".into(),
    };
    format!(
        "Call {{ number: {number}, name: {name:?}, secret: {secret}, frees: {frees}, carries: &[{}] }},\n",
        shapes.join(", ")
    )
}

fn number(scalar: Scalar) -> String {
    let (signed, bits) = match scalar {
        Scalar::Bool => return "Shape::Flag".into(),
        Scalar::U8 => (false, 8),
        Scalar::U16 => (false, 16),
        Scalar::I8 => (true, 8),
        Scalar::I16 => (true, 16),
        Scalar::I32 => (true, 32),
        Scalar::U32 | Scalar::F32 => (false, 32),
        Scalar::U64 | Scalar::I64 | Scalar::F64 => (false, 64),
    };
    format!("Shape::Number {{ bits: {bits}, signed: {signed} }}")
}

fn object(model: &Model, name: &str) -> String {
    let number = kind_of(model, name).pointer.is_none();
    format!("Shape::Object {{ kind: kinds::{}, number: {number} }}", kind(name))
}

fn by_hand_shape(model: &Model, carried: &Carried) -> String {
    match carried {
        Carried::Number(scalar) => number(*scalar),
        Carried::Object(name) => object(model, name),
        Carried::New(name) => format!("Shape::New(kinds::{})", kind(name)),
        Carried::Lent => "Shape::Lent".into(),
    }
}

/// What a parameter is in a call; none: it does not go to the host.
fn shape(model: &Model, function: &FunctionModel, parameter: &Parameter) -> Option<String> {
    let Parameter { name, role, .. } = parameter;
    Some(match role {
        Role::Value(scalar) => number(*scalar),
        Role::Object { kind: k, .. } => object(model, k),
        Role::NewObject { kind: k } | Role::FoundObject { kind: k } => {
            format!("Shape::New(kinds::{})", kind(k))
        }
        Role::FoundList { kind: k, .. } => format!("Shape::Found(kinds::{})", kind(k)),
        Role::InBytes { .. } if function.turned().is_some_and(|(of, _)| of == name) => {
            "Shape::LongBytes".into()
        }
        Role::InBytes { length: Length::Fixed(bytes) } => format!("Shape::BytesOf({bytes})"),
        Role::InBytes { .. } | Role::InText => "Shape::Bytes".into(),
        Role::InNumbers { of, .. } => format!("Shape::List(&[{}])", number(*of)),
        Role::OutBytes { .. } | Role::OutNumbers { .. } => "Shape::Room".into(),
        Role::InStruct(of) => in_struct(model, of),
        Role::InList { of, .. } => format!("Shape::List({})", constant(of)),
        Role::FillList { of, .. } => format!("Shape::Fill({})", constant(of)),
        Role::OutValue(_)
        | Role::OutStruct(_)
        | Role::OutExact { .. }
        | Role::Implied
        | Role::Ignored
        | Role::ByHand => return None,
    })
}

fn in_struct(model: &Model, name: &str) -> String {
    match &model.structs[name].goes {
        Goes::Bytes { .. } => format!("Shape::All({})", constant(name)),
        Goes::Tagged(tagged) => {
            let case = |(tag, case): (&i64, &TagCase)| match case {
                TagCase::Flat(least, most) => format!("({tag:#x}, Case::Bytes({least}, {most}))"),
                TagCase::Struct(inner) => {
                    let bytes = size(model, inner);
                    format!("({tag:#x}, Case::Struct({bytes}, {}))", constant(inner))
                }
            };
            let cases: Vec<_> = tagged.cases.iter().map(case).collect();
            format!("Shape::Tagged(&[{}])", cases.join(", "))
        }
        Goes::Plain | Goes::Never => {
            let all: Vec<_> =
                model.structs[name].members.iter().map(|m| member(model, m)).collect();
            format!("Shape::All(&[{}])", all.join(", "))
        }
    }
}

/// Bytes of a struct with bytes behind pointers, in C. All its members have 8 but for what the
/// description has not met yet.
fn size(model: &Model, name: &str) -> u64 {
    model.structs[name].members.iter().map(|m| size_of_type(&m.ty)).sum::<u64>().next_multiple_of(8)
}

fn size_of_type(ty: &CType) -> u64 {
    match ty {
        CType::Array { of, count } => size_of_type(of) * *count,
        CType::Scalar(scalar) => match scalar.scalar() {
            Scalar::Bool | Scalar::U8 | Scalar::I8 => 1,
            Scalar::U16 | Scalar::I16 => 2,
            Scalar::U32 | Scalar::I32 | Scalar::F32 => 4,
            Scalar::U64 | Scalar::I64 | Scalar::F64 => 8,
        },
        _ => 8,
    }
}

fn member(model: &Model, member: &Member) -> String {
    match &member.ty {
        CType::Scalar(scalar) => number(scalar.scalar()),
        CType::Array { of, count } if of.to_string() == "u8" => format!("Shape::Raw({count})"),
        CType::Struct(inner) => in_struct(model, inner),
        _ => "Shape::Number { bits: 64, signed: false }".into(),
    }
}
