//! Brings facts and annotations together. Every function and every parameter is covered, or
//! this fails and names what is not.

use crate::annotations::{Annotations, ByHand, FunctionNotes, How};
use crate::facts::{CField, CFunction, CType, Facts};
use crate::model::{Does, FunctionModel, KindModel, Model, Parameter, Role, StatusModel};
use crate::numbers::Numbers;
use std::collections::BTreeMap;
use vfun_signature::Scalar;

/// Makes the model, or says what is missing: one sentence for each thing.
pub fn resolve(
    facts: &Facts,
    notes: Annotations,
    numbers: &Numbers,
    fingerprint: u64,
) -> Result<Model, Vec<String>> {
    let mut wrong = vec![];
    let resolver = Resolver { facts, notes: &notes };
    for name in notes.function.keys() {
        if !facts.functions.iter().any(|f| f.name == *name) {
            wrong.push(format!("function.{name}: the header has no such function"));
        }
    }
    let functions = resolver.functions(numbers, &mut wrong);
    let kinds = resolver.kinds(&mut wrong);
    let status = resolver.status(&mut wrong);
    let structs = resolver.structs(&functions, &mut wrong);
    let (Some(status), true) = (status, wrong.is_empty()) else { return Err(wrong) };
    Ok(Model {
        name: notes.name,
        summary: notes.summary,
        source: notes.source,
        cell_bytes: notes.cell_bytes,
        depth: notes.depth,
        output: notes.output,
        status,
        kinds,
        structs,
        functions,
        fingerprint,
    })
}

struct Resolver<'a> {
    facts: &'a Facts,
    notes: &'a Annotations,
}

impl Resolver<'_> {
    fn functions(&self, numbers: &Numbers, wrong: &mut Vec<String>) -> Vec<FunctionModel> {
        let mut functions = vec![];
        for function in &self.facts.functions {
            let name = &function.name;
            let Some(notes) = self.notes.function.get(name) else {
                wrong.push(format!("function.{name}: not described"));
                continue;
            };
            let Some(number) = numbers.of(name) else {
                wrong.push(format!("function.{name}: it has no number; add one at the end"));
                continue;
            };
            match self.function(function, notes, number) {
                Ok(function) => functions.push(function),
                Err(mut more) => wrong.append(&mut more),
            }
        }
        functions
    }

    fn function(
        &self,
        function: &CFunction,
        notes: &FunctionNotes,
        number: u16,
    ) -> Result<FunctionModel, Vec<String>> {
        let name = &function.name;
        let mut wrong = vec![];
        let status = function.returns.to_string() == self.notes.status.ty;
        if !status && notes.how != How::Local {
            let returns = &function.returns;
            wrong.push(format!("function.{name}: it returns {returns}, no status, so it is local"));
        }
        for of in notes.parameters.keys().chain(&notes.frees) {
            if !function.parameters.iter().any(|p| p.name == *of) {
                wrong.push(format!("function.{name}: it has no parameter {of}"));
            }
        }
        let waits = !matches!(notes.how, How::Async | How::AsyncNow);
        if notes.frees.is_some() && !waits {
            wrong.push(format!(
                "function.{name}: what it frees is gone here, whether it succeeds or not: it waits"
            ));
        }
        let local = notes.how == How::Local || notes.by_hand == ByHand::Both;
        let lenient = local || notes.refuse.is_some();
        let mut parameters = vec![];
        for parameter in &function.parameters {
            let said = notes.parameters.get(&parameter.name).map(String::as_str);
            let role = self.role(&parameter.ty, said).and_then(|role| match &role {
                Role::InBytes { length } => {
                    self.bytes(function, &parameter.name, length).map(|()| role)
                }
                _ => Ok(role),
            });
            let role = match role {
                Ok(role) => role,
                Err(_) if lenient && said.is_none() => Role::ByHand,
                Err(why) => {
                    wrong.push(format!("function.{name}.{}: {why}", parameter.name));
                    continue;
                }
            };
            let rust = self.rust(&parameter.ty);
            parameters.push(Parameter { name: parameter.name.clone(), rust, role });
        }
        let does = match &notes.refuse {
            Some(why) => Does::Refuse(why.clone()),
            None => {
                Does::Call { how: notes.how, by_hand: notes.by_hand, frees: notes.frees.clone() }
            }
        };
        let asked = matches!(&does, Does::Call { how, .. } if *how != How::Local);
        if wrong.is_empty() {
            let native = asked || notes.native;
            let plain = (!status).then(|| self.rust(&function.returns));
            Ok(FunctionModel { name: name.clone(), number, does, plain, native, parameters })
        } else {
            Err(wrong)
        }
    }

    fn kind_of(&self, opaque: &str) -> Result<String, String> {
        let found = self.notes.object.iter().find(|(_, kind)| kind.pointer == opaque);
        found.map(|(name, _)| name.clone()).ok_or(format!("no [object] has the pointer {opaque}"))
    }

    /// The scalar that a type is, if it is one.
    fn scalar(&self, ty: &CType) -> Option<Scalar> {
        match ty {
            CType::Scalar(scalar) => Some(scalar.scalar()),
            CType::Alias(name) => self.facts.aliases.get(name).and_then(|ty| self.scalar(ty)),
            _ => None,
        }
    }

    /// What a parameter is for: by its type where that says it, otherwise by the annotation.
    fn role(&self, ty: &CType, said: Option<&str>) -> Result<Role, String> {
        let (word, argument) = match said.and_then(|s| s.split_once(' ')) {
            Some((word, argument)) => (Some(word), argument),
            None => (said, ""),
        };
        if let Some(scalar) = self.scalar(ty) {
            return match word {
                None => Ok(Role::Value(scalar)),
                Some(word) => Err(format!("'{word}' says nothing of a number")),
            };
        }
        let CType::Pointer { to, .. } = ty else {
            return Err(format!("the type {ty} is only for code by hand"));
        };
        match (&**to, word) {
            (CType::Opaque(name), None) => {
                Ok(Role::Object { kind: self.kind_of(name)?, or_none: false })
            }
            (CType::Opaque(name), Some("or-none")) => {
                Ok(Role::Object { kind: self.kind_of(name)?, or_none: true })
            }
            (CType::Pointer { to, .. }, Some(word @ ("new" | "found"))) => {
                let CType::Opaque(name) = &**to else {
                    return Err(format!("'{word}' is for pointers to objects, not for {ty}"));
                };
                let kind = self.kind_of(name)?;
                Ok(if word == "new" {
                    Role::NewObject { kind }
                } else {
                    Role::FoundObject { kind }
                })
            }
            (CType::Struct(name), Some("out")) => Ok(Role::OutStruct(name.clone())),
            (CType::Struct(name), Some("in")) => Ok(Role::InStruct(name.clone())),
            (to, Some("out")) if self.scalar(to).is_some() => {
                Ok(Role::OutValue(self.scalar(to).expect("looked")))
            }
            (_, Some("in-bytes")) => Ok(Role::InBytes { length: argument.to_owned() }),
            (_, None) => Err(format!("say what a {ty} is for")),
            (_, Some(word)) => Err(format!("'{word}' does not go with the type {ty}")),
        }
    }

    /// A type as Rust writes it in a C symbol.
    fn rust(&self, ty: &CType) -> String {
        match ty {
            CType::Void => "c_void".into(),
            CType::Scalar(s) => s.scalar().name().into(),
            CType::Alias(name) => match self.facts.aliases.get(name) {
                Some(ty) => self.rust(ty),
                None => name.clone(),
            },
            CType::Struct(name) | CType::Opaque(name) => name.clone(),
            CType::Pointer { to, constant } => {
                format!("*{} {}", if *constant { "const" } else { "mut" }, self.rust(to))
            }
            CType::Array { of, count } => format!("[{}; {count}]", self.rust(of)),
            CType::Function { returns, parameters } => {
                let all: Vec<_> = parameters.iter().map(|p| self.rust(p)).collect();
                let returns = match &**returns {
                    CType::Void => String::new(),
                    ty => format!(" -> {}", self.rust(ty)),
                };
                format!("Option<unsafe extern \"C\" fn({}){returns}>", all.join(", "))
            }
        }
    }

    fn kinds(&self, wrong: &mut Vec<String>) -> Vec<KindModel> {
        let mut numbers = BTreeMap::new();
        for (name, kind) in &self.notes.object {
            if kind.number == 0 {
                wrong.push(format!("object.{name}: numbers begin with 1"));
            }
            if let Some(other) = numbers.insert(kind.number, name) {
                wrong.push(format!("object.{name}: {other} has its number"));
            }
            if let Some(parent) =
                kind.parent.as_ref().filter(|p| !self.notes.object.contains_key(*p))
            {
                wrong.push(format!("object.{name}: there is no object {parent}"));
            }
        }
        for name in self.notes.object.keys().filter(|name| self.is_above_itself(name)) {
            wrong.push(format!(
                "object.{name}: its parents end in a circle, so that a program could nest without end"
            ));
        }
        let kind = |(name, kind): (&String, &crate::annotations::ObjectKind)| KindModel {
            name: name.clone(),
            number: kind.number,
            pointer: kind.pointer.clone(),
            parent: kind.parent.clone(),
            end: kind.end.clone(),
        };
        self.notes.object.iter().map(kind).collect()
    }

    /// Whether a kind of objects is among its own parents.
    fn is_above_itself(&self, name: &str) -> bool {
        let parent = |name: &str| self.notes.object.get(name)?.parent.as_deref();
        let above = std::iter::successors(parent(name), |above| parent(above));
        above.take(self.notes.object.len()).any(|above| above == name)
    }

    /// Whether `in-bytes` fits: bytes, and a parameter that counts them.
    fn bytes(&self, function: &CFunction, parameter: &str, length: &str) -> Result<(), String> {
        let of = |name: &str| function.parameters.iter().find(|p| p.name == name).map(|p| &p.ty);
        let counts = of(length).and_then(|ty| self.scalar(ty));
        if !counts.is_some_and(|scalar| matches!(scalar.name(), "u8" | "u16" | "u32" | "u64")) {
            return Err(format!("in-bytes: no parameter '{length}' counts its bytes"));
        }
        let Some(CType::Pointer { to, .. }) = of(parameter) else { return Ok(()) };
        let byte = self.scalar(to).is_some_and(|scalar| matches!(scalar.name(), "u8" | "i8"));
        if **to == CType::Void || byte {
            return Ok(());
        }
        Err(format!("in-bytes: {to} is no byte, and '{length}' may count something longer"))
    }

    fn status(&self, wrong: &mut Vec<String>) -> Option<StatusModel> {
        let s = &self.notes.status;
        let scalar = Scalar::named(&s.ty);
        if scalar.is_none() {
            wrong.push(format!("status.type: '{}' is no scalar", s.ty));
        }
        let mut value = |key: &str, text: &str| {
            let known = text.parse().ok().or_else(|| self.facts.constants.get(text).copied());
            if known.is_none() {
                wrong.push(format!("status.{key}: the header has no constant {text}"));
            }
            known.unwrap_or_default()
        };
        let ok = value("ok", &s.ok);
        let failures = [
            ("Argument", "argument", &s.argument),
            ("Object", "object", &s.object),
            ("Limit", "limit", &s.limit),
            ("Unsupported", "unsupported", &s.unsupported),
            ("NoHost", "no_host", &s.no_host),
            ("Lost", "lost", &s.lost),
            ("Internal", "internal", &s.internal),
        ];
        let failures = failures.map(|(variant, key, text)| (variant, value(key, text))).to_vec();
        Some(StatusModel { scalar: scalar?, ok, failures })
    }

    /// The structs that functions fill or read. They hold numbers, and arrays of them.
    fn structs(
        &self,
        functions: &[FunctionModel],
        wrong: &mut Vec<String>,
    ) -> BTreeMap<String, crate::facts::CStruct> {
        let mut structs = BTreeMap::new();
        for parameter in functions.iter().flat_map(|f| &f.parameters) {
            let (Role::OutStruct(name) | Role::InStruct(name)) = &parameter.role else { continue };
            let Some(found) = self.facts.structs.get(name) else {
                wrong.push(format!("struct {name}: the facts do not have its members"));
                continue;
            };
            for CField { name: member, ty } in &found.members {
                let plain = match ty {
                    CType::Array { of, .. } => self.scalar(of).is_some(),
                    ty => self.scalar(ty).is_some(),
                };
                if !plain {
                    wrong.push(format!(
                        "struct {name}.{member}: {ty} is neither a number nor an array of numbers"
                    ));
                }
            }
            let mut plain = found.clone();
            plain.members.iter_mut().for_each(|m| m.ty = self.plain(&m.ty));
            structs.insert(name.clone(), plain);
        }
        structs
    }

    /// A type without typedefs.
    fn plain(&self, ty: &CType) -> CType {
        match ty {
            CType::Alias(name) => {
                self.facts.aliases.get(name).map_or_else(|| ty.clone(), |ty| self.plain(ty))
            }
            CType::Array { of, count } => {
                CType::Array { of: Box::new(self.plain(of)), count: *count }
            }
            ty => ty.clone(),
        }
    }
}
