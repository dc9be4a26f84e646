//! Brings facts and annotations together. Every function and every parameter is covered, or
//! this fails and names what is not.

mod kinds;
mod roles;
mod structs;
mod wire;

use crate::annotations::{Annotations, ByHand, FunctionNotes, How, ObjectKind};
use crate::facts::{CFunction, CType, Facts};
use crate::model::{Does, FunctionModel, Model, Parameter, Returns, Role, StatusModel};
use crate::numbers::Numbers;
use crate::rust_names;
use roles::UNSAID;
use vfun_signature::Scalar;
use vfun_wire::channel::side_bytes;
use vfun_wire::limits::{CELL_BYTES_MAX, DEPTH_MAX};

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
            wrong.push(format!(
                "function.{name}: the header has no such function: correct the name. If it is gone, remove this, and move its number to `retired` of numbers.toml"
            ));
        }
    }
    resolver.cells(&mut wrong);
    let functions = resolver.functions(numbers, &mut wrong);
    let kinds = resolver.kinds(&mut wrong);
    let status = resolver.status(&mut wrong);
    wire::ends(&functions, &mut wrong);
    if notes.status.small.is_none() && functions.iter().any(|f| f.turned().is_some()) {
        wrong.push("status.small: what does a function say whose answer does not fit?".into());
    }
    let structs = resolver.structs(&functions, &mut wrong);
    resolver.begin(&mut wrong);
    resolver.methods(&functions, &mut wrong);
    let (Some(status), true) = (status, wrong.is_empty()) else { return Err(wrong) };
    Ok(Model {
        name: notes.name,
        summary: notes.summary,
        source: notes.source,
        cell_bytes: notes.cell_bytes,
        depth: notes.depth,
        versions: !notes.versions.is_empty(),
        begins: notes.begin.is_some(),
        table: notes.table,
        methods: notes.methods,
        output: notes.output,
        status,
        kinds,
        structs,
        functions,
        fingerprint,
    })
}

/// The least cell: heads, and some room behind them.
const CELL_LEAST: u32 = 1024;

/// What parameters there are, for people.
fn has(function: &CFunction) -> String {
    let names: Vec<_> = function.parameters.iter().map(|p| p.name.as_str()).collect();
    if names.is_empty() { "; it has none".into() } else { format!("; it has {}", names.join(", ")) }
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
                wrong.push(format!(
                    "function.{name}: not described: add [function.{name}] to api.toml"
                ));
                continue;
            };
            let number = numbers.of(name);
            if number.is_none() {
                let next = numbers.next();
                wrong.push(format!(
                    "function.{name}: it has no number: add one at the end of numbers.toml; {next} is the next"
                ));
            }
            match self.function(function, notes, number.unwrap_or_default()) {
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
        let returns = self.returns(function);
        let by_hand = notes.how == How::Local || notes.by_hand == ByHand::Both;
        if matches!(returns, Returns::Other(_)) && !by_hand {
            let (returns, ty) = (&function.returns, &self.notes.status.ty);
            wrong.push(format!(
                "function.{name}: it returns {returns}, and status.type is {ty}. If a {returns} is the API's status, correct status.type; if not, write the function by hand: how = \"local\" (in the guest alone), or by-hand = \"both\""
            ));
        }
        for of in notes.parameters.keys() {
            if !function.parameters.iter().any(|p| p.name == *of) {
                wrong.push(format!("function.{name}: it has no parameter {of}{}", has(function)));
            }
        }
        let waits = !matches!(notes.how, How::Async | How::AsyncNow);
        if notes.frees.is_some() && !waits {
            wrong.push(format!(
                "function.{name}: what it frees is gone here, whether it succeeds or not: it waits"
            ));
        }
        self.check_since(name, notes, &mut wrong);
        let parameters = self.parameters(function, notes, &mut wrong);
        self.frees(function, notes, &parameters, &mut wrong);
        let wire = self.wire(name, notes, &mut wrong);
        let does = match &notes.refuse {
            Some(why) => Does::Refuse(why.clone()),
            None => {
                Does::Call { how: notes.how, by_hand: notes.by_hand, frees: notes.frees.clone() }
            }
        };
        let asked = matches!(&does, Does::Call { how, .. } if *how != How::Local);
        let mut value = |key: &str, text: &Option<String>| {
            let text = text.as_ref()?;
            self.value(&format!("function.{name}.{key}"), text, &mut wrong)
        };
        let (limit, answer) = (value("limit", &notes.limit), value("answer", &notes.answer));
        if answer.is_some() && notes.how != How::Local {
            wrong.push(format!("function.{name}: only a local one has an answer"));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut model = FunctionModel {
            name: name.clone(),
            number,
            does,
            returns,
            native: asked || notes.native,
            secret: notes.secret,
            split: notes.split,
            ends: notes.ends.clone(),
            since: notes.since.clone(),
            wire,
            audit: notes.audit,
            limit,
            answer,
            parameters,
        };
        rust_names::rename(&mut model);
        Ok(model)
    }

    fn returns(&self, function: &CFunction) -> Returns {
        match &function.returns {
            CType::Void => Returns::Nothing,
            ty if ty.to_string() == self.notes.status.ty => Returns::Status,
            ty => Returns::Other(self.rust(ty)),
        }
    }

    /// Whether what a function frees is an object of its own.
    fn frees(
        &self,
        function: &CFunction,
        notes: &FunctionNotes,
        parameters: &[Parameter],
        wrong: &mut Vec<String>,
    ) {
        let (name, Some(frees)) = (&function.name, &notes.frees) else { return };
        if frees == UNSAID {
            wrong.push(format!(
                "function.{name}.frees: name the parameter whose object the function frees; if it frees none, remove the line"
            ));
            return;
        }
        // One that could not be read is in the list already.
        let by_hand = notes.how == How::Local || notes.by_hand == ByHand::Both;
        match parameters.iter().find(|p| p.name == *frees).map(|p| &p.role) {
            Some(Role::Object { .. }) => {}
            Some(_) if by_hand => {}
            None if function.parameters.iter().any(|p| p.name == *frees) => {}
            None => wrong.push(format!(
                "function.{name}.frees: it has no parameter {frees}{}",
                has(function)
            )),
            Some(_) => wrong.push(format!("function.{name}.frees: {frees} is no object")),
        }
    }

    /// Whether a function says in which version of the API it appeared, if this has any.
    fn check_since(&self, name: &str, notes: &FunctionNotes, wrong: &mut Vec<String>) {
        let versions = &self.notes.versions;
        match &notes.since {
            None if versions.is_empty() => {}
            None => {
                wrong.push(format!("function.{name}: since which version of the API is it there?"))
            }
            Some(since) if versions.contains(since) => {}
            Some(since) => wrong.push(format!("function.{name}: the API has no version {since}")),
        }
    }

    fn parameters(
        &self,
        function: &CFunction,
        notes: &FunctionNotes,
        wrong: &mut Vec<String>,
    ) -> Vec<Parameter> {
        let name = &function.name;
        let by_hand = notes.how == How::Local || notes.by_hand == ByHand::Both;
        let lenient = by_hand || notes.refuse.is_some();
        let mut parameters = vec![];
        let implied = roles::implied(notes);
        for parameter in &function.parameters {
            let said = notes.parameters.get(&parameter.name).map(String::as_str);
            let role = match implied.contains(parameter.name.as_str()) {
                true => Ok(Role::Implied),
                false => self.role(&parameter.ty, said),
            };
            let role = role.and_then(|role| self.fits(function, &parameter.name, role));
            let role = match role {
                Ok(role) => role,
                Err(_) if lenient && said.is_none() => Role::ByHand,
                Err(why) => {
                    wrong.push(format!("function.{name}.{}: {why}", parameter.name));
                    continue;
                }
            };
            let check = self.check(&parameter.ty, wrong);
            let rust = self.rust(&parameter.ty);
            parameters.push(Parameter { name: parameter.name.clone(), rust, role, check });
        }
        if let Err(why) = roles::go_together(&parameters, notes) {
            wrong.push(format!("function.{name}: {why}"));
        }
        parameters
    }

    /// Who looks at numbers of this type.
    fn check(&self, ty: &CType, wrong: &mut Vec<String>) -> Option<(String, i64)> {
        let CType::Alias(name) = ty else { return None };
        let check = self.notes.checked.get(name)?;
        let status = self.value(&format!("checked.{name}"), &check.refused, wrong)?;
        Some((check.by.clone(), status))
    }

    /// A number, or a constant of the header.
    fn value(&self, key: &str, text: &str, wrong: &mut Vec<String>) -> Option<i64> {
        let known = text.parse().ok().or_else(|| self.facts.constants.get(text).copied());
        if known.is_none() {
            wrong.push(match text {
                UNSAID => format!("{key}: name a constant of the header, or write a number"),
                _ => format!("{key}: the header has no constant {text}"),
            });
        }
        known
    }

    /// Whether methods of a Rust type can do what the functions say.
    fn methods(&self, functions: &[FunctionModel], wrong: &mut Vec<String>) {
        if self.notes.methods.is_none() {
            return;
        }
        if self.notes.table.is_some() {
            wrong.push("methods: a `table` is one of a C library".into());
        }
        if let Some(name) = self.notes.object.iter().find(|(_, k)| k.handle.is_some()) {
            wrong.push(format!("object.{}: methods take objects with pointers only", name.0));
        }
        for function in functions.iter().filter(|f| f.native && !f.is_by_hand_on_host()) {
            for parameter in function.parameters.iter().filter(|p| !roles::has_method(&p.role)) {
                wrong.push(format!(
                    "function.{}.{}: methods do not take what its word says",
                    function.name, parameter.name
                ));
            }
            if matches!(function.returns, Returns::Nothing) {
                wrong.push(format!("function.{}: a method returns a status", function.name));
            }
        }
    }

    /// Whether calls can have such cells.
    fn cells(&self, wrong: &mut Vec<String>) {
        let Annotations { cell_bytes, depth, .. } = self.notes;
        if *cell_bytes < CELL_LEAST || side_bytes(1, *cell_bytes).is_none() {
            wrong.push(format!(
                "cell_bytes: {cell_bytes}; a multiple of 64 from {CELL_LEAST} to {CELL_BYTES_MAX}"
            ));
        }
        if side_bytes(*depth, 0).is_none() {
            wrong.push(format!("depth: {depth}; a power of two, at most {DEPTH_MAX}"));
        }
    }

    /// Whether an API that is begun says all of it.
    fn begin(&self, wrong: &mut Vec<String>) {
        let Some(begin) = &self.notes.begin else { return };
        if !self.facts.functions.iter().any(|f| f.name == *begin) {
            wrong.push(format!("begin: the header has no function {begin}"));
        }
        if self.notes.status.closed.is_none() {
            wrong.push("status.closed: what do functions say before the API is begun?".into());
        }
    }

    /// The kind of object that this is: a pointer's struct, or a type of handles.
    fn kind_of(&self, is: impl Fn(&ObjectKind) -> bool) -> Option<String> {
        self.notes.object.iter().find(|(_, kind)| is(kind)).map(|(name, _)| name.clone())
    }

    /// The scalar that a type is, if it is one.
    fn scalar(&self, ty: &CType) -> Option<Scalar> {
        match ty {
            CType::Scalar(scalar) => Some(scalar.scalar()),
            CType::Alias(name) => self.facts.aliases.get(name).and_then(|ty| self.scalar(ty)),
            _ => None,
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

    fn status(&self, wrong: &mut Vec<String>) -> Option<StatusModel> {
        let s = &self.notes.status;
        let scalar = s.ty.parse::<CType>().ok().and_then(|ty| self.scalar(&ty));
        if scalar.is_none() {
            wrong.push(format!(
                "status.type: '{}' is neither a type of numbers, such as i32, nor a typedef of one in facts.toml",
                s.ty
            ));
        }
        let mut value = |key: &str, text: &str| {
            self.value(&format!("status.{key}"), text, wrong).unwrap_or_default()
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
            ("Closed", "closed", s.closed.as_ref().unwrap_or(&s.internal)),
        ];
        let failures = failures.map(|(variant, key, text)| (variant, value(key, text))).to_vec();
        let partial = s.partial.iter().map(|text| value("partial", text)).collect();
        let small = s.small.as_ref().map(|text| value("small", text));
        Some(StatusModel { scalar: scalar?, ok, failures, partial, small })
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
