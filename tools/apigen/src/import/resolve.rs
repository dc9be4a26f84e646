//! From types as C writes them to types of [`Facts`], with what they name.

use super::spelling::TypeSpelling;
use super::tree::{Declarations, RecordDecl};
use crate::facts::{CField, CStruct, CType, Facts};
use std::collections::BTreeMap;
use vfun_signature::Scalar;

pub struct TypeResolver<'d> {
    declarations: &'d Declarations,
    /// What was named so far: aliases and structs.
    facts: Facts,
    /// Structs that cannot be described, with the reason.
    faulty: BTreeMap<String, String>,
}

enum Resolved {
    Value(CType),
    /// A function itself. Only pointers to it are values.
    Code(CType),
}

impl<'d> TypeResolver<'d> {
    pub fn new(declarations: &'d Declarations) -> Self {
        TypeResolver { declarations, facts: Facts::default(), faulty: BTreeMap::new() }
    }

    pub fn into_facts(self) -> Facts {
        self.facts
    }

    /// What a function returns and takes. `spelling` is its type or that of a pointer to it.
    pub fn prototype(
        &mut self,
        spelling: &str,
        names: &[String],
    ) -> Result<(CType, Vec<CType>), String> {
        let mut head = self.declarations.without_typedefs(&spelling.parse()?)?;
        if let TypeSpelling::Pointer { to, .. } = head {
            head = self.declarations.without_typedefs(&to)?;
        }
        let TypeSpelling::Function { returns, parameters, variadic } = head else {
            return Err(format!("'{spelling}' is no function"));
        };
        if variadic {
            return Err("it takes a variable number of arguments ('...')".into());
        }
        let returns = self.value(&returns).map_err(|why| format!("what it returns: {why}"))?;
        let mut types = vec![];
        for (n, parameter) in parameters.iter().enumerate() {
            let name = names.get(n).filter(|name| !name.is_empty());
            let which = name.map_or_else(
                || format!("parameter {}", n + 1),
                |name| format!("parameter '{name}'"),
            );
            types.push(self.value(parameter).map_err(|why| format!("{which}: {why}"))?);
        }
        Ok((returns, types))
    }

    /// Brings in a typedef or a struct that no prototype mentions.
    pub fn named(&mut self, name: &str) -> Result<(), String> {
        let words = match (self.declarations.typedef(name), self.declarations.record(name)) {
            (Some(_), _) => name.to_owned(),
            (None, Some(_)) => format!("struct {name}"),
            (None, None) => {
                return Err("the header has neither a typedef nor a struct of this name".into());
            }
        };
        self.resolve(&TypeSpelling::Base { words, constant: false }).map(drop)
    }

    fn value(&mut self, spelling: &TypeSpelling) -> Result<CType, String> {
        match self.resolve(spelling)? {
            (Resolved::Value(ty), _) => Ok(ty),
            (Resolved::Code(_), _) => Err("a function that is not behind a pointer".into()),
        }
    }

    /// The type, and whether it is `const`.
    fn resolve(&mut self, spelling: &TypeSpelling) -> Result<(Resolved, bool), String> {
        match spelling {
            TypeSpelling::Base { words, constant } => {
                let (resolved, inherited) = self.base(words)?;
                Ok((resolved, *constant || inherited))
            }
            TypeSpelling::Pointer { to, constant } => Ok(match self.resolve(to)? {
                (Resolved::Value(to), pointee_constant) => {
                    let to = Box::new(to);
                    (Resolved::Value(CType::Pointer { to, constant: pointee_constant }), *constant)
                }
                (Resolved::Code(function), _) => (Resolved::Value(function), *constant),
            }),
            TypeSpelling::Array { of, count } => {
                let count = count.ok_or("an array without a count")?;
                let (_, constant) = self.resolve(of)?;
                let of = Box::new(self.value(of)?);
                Ok((Resolved::Value(CType::Array { of, count }), constant))
            }
            TypeSpelling::Function { variadic: true, .. } => {
                Err("a function that takes a variable number of arguments ('...')".into())
            }
            TypeSpelling::Function { returns, parameters, .. } => {
                let returns = Box::new(self.value(returns)?);
                let parameters =
                    parameters.iter().map(|p| self.value(p)).collect::<Result<_, _>>()?;
                Ok((Resolved::Code(CType::Function { returns, parameters }), false))
            }
        }
    }

    fn base(&mut self, words: &str) -> Result<(Resolved, bool), String> {
        let value = |ty| Ok((Resolved::Value(ty), false));
        if words == "void" {
            return value(CType::Void);
        }
        if let Some(scalar) = builtin(words).or_else(|| standard(words)) {
            return value(CType::Scalar(scalar.into()));
        }
        if let Some(tag) = words.strip_prefix("struct ").or_else(|| words.strip_prefix("union ")) {
            return value(self.record(tag)?);
        }
        if let Some(tag) = words.strip_prefix("enum ") {
            let scalar = self.declarations.enumeration(tag);
            let scalar = scalar.ok_or_else(|| format!("enum {tag} has no members here"))?;
            return value(self.alias(self.declarations.known_as(tag), scalar));
        }
        let Some(meaning) = self.declarations.typedef(words) else {
            return Err(format!(
                "'{words}' cannot be forwarded: it has no fixed size that all languages know"
            ));
        };
        let meaning: TypeSpelling = meaning.parse()?;
        match self.number(&meaning)? {
            Some((scalar, constant)) => Ok((Resolved::Value(self.alias(words, scalar)), constant)),
            None => self.resolve(&meaning),
        }
    }

    /// The scalar that a chain of typedefs ends at, and whether one of them adds `const`.
    fn number(&self, spelling: &TypeSpelling) -> Result<Option<(Scalar, bool)>, String> {
        let TypeSpelling::Base { words, constant } = spelling else { return Ok(None) };
        let tag = words.strip_prefix("enum ");
        let scalar = builtin(words).or_else(|| standard(words));
        if let Some(scalar) = scalar.or_else(|| self.declarations.enumeration(tag?)) {
            return Ok(Some((scalar, *constant)));
        }
        let Some(meaning) = self.declarations.typedef(words) else { return Ok(None) };
        let end = self.number(&meaning.parse()?)?;
        Ok(end.map(|(scalar, inherited)| (scalar, *constant || inherited)))
    }

    fn alias(&mut self, name: &str, scalar: Scalar) -> CType {
        self.facts.aliases.insert(name.to_owned(), CType::Scalar(scalar.into()));
        CType::Alias(name.to_owned())
    }

    fn record(&mut self, tag: &str) -> Result<CType, String> {
        if ["__va_list_tag", "__va_list"].contains(&tag) {
            return Err("a list of variable arguments (va_list)".into());
        }
        let name = self.declarations.known_as(tag).to_owned();
        let Some(record) = self.declarations.record(tag).filter(|r| r.complete) else {
            return Ok(CType::Opaque(name));
        };
        if let Some(why) = self.faulty.get(&name) {
            return Err(why.clone());
        }
        if !self.facts.structs.contains_key(&name) {
            // Stands for itself meanwhile: a struct may hold pointers to itself.
            self.facts.structs.insert(name.clone(), CStruct { members: vec![] });
            match self.members(&name, record) {
                Ok(members) => self.facts.structs.insert(name.clone(), CStruct { members }),
                Err(why) => {
                    self.facts.structs.remove(&name);
                    self.faulty.insert(name, why.clone());
                    return Err(why);
                }
            };
        }
        Ok(CType::Struct(name))
    }

    fn members(&mut self, name: &str, record: &RecordDecl) -> Result<Vec<CField>, String> {
        if let Some(flaw) = &record.flaw {
            return Err(format!("'{name}' is {flaw}"));
        }
        let mut members = vec![];
        for member in &record.members {
            let ty = match &member.flaw {
                Some(flaw) => Err(flaw.clone()),
                None => member.spelling.parse().and_then(|spelling| self.value(&spelling)),
            };
            let ty = ty.map_err(|why| format!("struct {name}, member '{}': {why}", member.name))?;
            members.push(CField { name: member.name.clone(), ty });
        }
        Ok(members)
    }
}

/// C's own numbers on Linux with 64 bits (LP64), where `char` has a sign as on x86.
fn builtin(words: &str) -> Option<Scalar> {
    Some(match words {
        "_Bool" | "bool" => Scalar::Bool,
        "char" | "signed char" => Scalar::I8,
        "unsigned char" => Scalar::U8,
        "short" => Scalar::I16,
        "unsigned short" => Scalar::U16,
        "int" => Scalar::I32,
        "unsigned int" => Scalar::U32,
        "long" | "long long" => Scalar::I64,
        "unsigned long" | "unsigned long long" => Scalar::U64,
        "float" => Scalar::F32,
        "double" => Scalar::F64,
        _ => return None,
    })
}

/// The C library's names of numbers: a scalar says all that they say.
fn standard(word: &str) -> Option<Scalar> {
    Some(match word {
        "int8_t" => Scalar::I8,
        "int16_t" => Scalar::I16,
        "int32_t" => Scalar::I32,
        "int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" => Scalar::I64,
        "uint8_t" => Scalar::U8,
        "uint16_t" => Scalar::U16,
        "uint32_t" => Scalar::U32,
        "uint64_t" | "size_t" | "uintptr_t" => Scalar::U64,
        _ => return None,
    })
}
