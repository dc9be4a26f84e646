//! The declarations of a header, from clang's tree.

use super::ImportError;
use super::files::CurrentFile;
use super::spelling::TypeSpelling;
use super::syntax::SyntaxNode;
use std::collections::{BTreeMap, BTreeSet};
use vfun_signature::Scalar;

#[derive(Default)]
pub struct Declarations {
    /// By tag; a struct without one by the typedef that names it.
    records: BTreeMap<String, RecordDecl>,
    /// The first typedef that names a record or an enum, by tag: people know `CK_INFO`, not
    /// `_CK_INFO`.
    known_as: BTreeMap<String, String>,
    enums: BTreeMap<String, Scalar>,
    typedefs: BTreeMap<String, String>,
    functions: Vec<FunctionDecl>,
    /// Of the enums in the header itself and in those beside it.
    enumerators: BTreeMap<String, i64>,
}

pub struct RecordDecl {
    pub complete: bool,
    /// Why it cannot be described.
    pub flaw: Option<String>,
    pub members: Vec<MemberDecl>,
}

pub struct MemberDecl {
    pub name: String,
    pub spelling: String,
    pub flaw: Option<String>,
}

#[derive(Clone)]
pub struct FunctionDecl {
    pub name: String,
    pub spelling: String,
    /// Names of parameters as far as the header has them; empty where it has none.
    pub parameters: Vec<String>,
    own: bool,
}

impl FunctionDecl {
    /// The name of a parameter, counted from 0.
    pub fn parameter(&self, n: usize) -> String {
        match self.parameters.get(n) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("argument{n}"),
        }
    }
}

/// Records and enums without a tag, by clang's number, until a typedef names them.
#[derive(Default)]
struct Unnamed {
    records: BTreeMap<String, RecordDecl>,
    enums: BTreeMap<String, Scalar>,
}

impl Declarations {
    pub fn read(text: &str, own_files: &BTreeSet<String>) -> Result<Self, ImportError> {
        let mut all = Declarations::default();
        let mut unnamed = Unnamed::default();
        let mut file = CurrentFile::default();
        for node in SyntaxNode::read(text)?.inner() {
            let (node, text) = node?;
            let own = own_files.contains(&file.follow(text));
            match node.kind.as_str() {
                "RecordDecl" => all.record_declared(&node, &mut unnamed)?,
                "EnumDecl" => all.enum_declared(&node, own, &mut unnamed)?,
                "TypedefDecl" => all.typedef_declared(&node, &mut unnamed)?,
                "FunctionDecl" => all.function_declared(&node, own)?,
                _ => {}
            }
        }
        Ok(all)
    }

    fn record_declared(
        &mut self,
        node: &SyntaxNode,
        unnamed: &mut Unnamed,
    ) -> Result<(), ImportError> {
        for inner in node.inner() {
            let (inner, _) = inner?;
            if inner.kind == "RecordDecl" && inner.name.is_some() {
                self.record_declared(&inner, unnamed)?;
            }
        }
        let record = RecordDecl::read(node)?;
        let Some(tag) = &node.name else {
            unnamed.records.insert(node.id.clone(), record);
            return Ok(());
        };
        if record.complete || !self.records.contains_key(tag) {
            self.records.insert(tag.clone(), record);
        }
        Ok(())
    }

    fn enum_declared(
        &mut self,
        node: &SyntaxNode,
        own: bool,
        unnamed: &mut Unnamed,
    ) -> Result<(), ImportError> {
        let mut values = vec![];
        for inner in node.inner() {
            let (inner, _) = inner?;
            if inner.kind != "EnumConstantDecl" {
                continue;
            }
            let name = inner.name_text();
            let value = match inner.initializer()? {
                None => values.last().map_or(0, |(_, last): &(String, i64)| last + 1),
                Some(expression) => expression
                    .evaluated()?
                    .ok_or_else(|| ImportError::Output { why: format!("no value of {name}") })?,
            };
            values.push((name, value));
        }
        let scalar = enum_scalar(values.iter().map(|(_, value)| *value));
        match &node.name {
            Some(tag) => self.enums.insert(tag.clone(), scalar),
            None => unnamed.enums.insert(node.id.clone(), scalar),
        };
        if own {
            self.enumerators.extend(values);
        }
        Ok(())
    }

    fn typedef_declared(
        &mut self,
        node: &SyntaxNode,
        unnamed: &mut Unnamed,
    ) -> Result<(), ImportError> {
        let name = node.name_text();
        let spelling = node.type_text();
        if let Some(id) = tag_named_by(node)? {
            if let Some(record) = unnamed.records.remove(&id) {
                if self.records.insert(name.clone(), record).is_some() {
                    return Err(ImportError::TwoStructs { name });
                }
            } else if let Some(scalar) = unnamed.enums.remove(&id) {
                self.enums.insert(name.clone(), scalar);
            }
        }
        if let Some(tag) = tag_alone(&spelling) {
            self.known_as.entry(tag.to_owned()).or_insert_with(|| name.clone());
        }
        self.typedefs.insert(name, spelling);
        Ok(())
    }

    fn function_declared(&mut self, node: &SyntaxNode, own: bool) -> Result<(), ImportError> {
        // What is static has no symbol that a library could export.
        if node.storage_class.as_deref() == Some("static") {
            return Ok(());
        }
        let mut parameters = vec![];
        for inner in node.inner() {
            let (inner, _) = inner?;
            if inner.kind == "ParmVarDecl" {
                parameters.push(inner.name_text());
            }
        }
        let name = node.name_text();
        if !self.functions.iter().any(|f| f.name == name) {
            self.functions.push(FunctionDecl { name, spelling: node.type_text(), parameters, own });
        }
        Ok(())
    }

    /// The prototypes in the header's order whose names begin so, or all of its own.
    pub fn functions_with(&self, prefixes: &[String]) -> Vec<FunctionDecl> {
        let chosen = |f: &&FunctionDecl| match prefixes {
            [] => f.own,
            some => some.iter().any(|p| f.name.starts_with(p.as_str())),
        };
        self.functions.iter().filter(chosen).cloned().collect()
    }

    /// The function pointers of a struct. A prototype of the same name gives the parameters'
    /// names, which a pointer's type has not.
    pub fn functions_of_table(&self, name: &str) -> Result<Vec<FunctionDecl>, ImportError> {
        let missing = || ImportError::NoTable { name: name.to_owned() };
        let tag =
            self.known_as.iter().find(|(_, known)| *known == name).map_or(name, |(tag, _)| tag);
        let table = self.records.get(tag).filter(|r| r.complete).ok_or_else(missing)?;
        let mut functions = vec![];
        for member in &table.members {
            if !self.is_function_pointer(&member.spelling) {
                continue;
            }
            let prototype = self.functions.iter().find(|f| f.name == member.name);
            functions.push(FunctionDecl {
                name: member.name.clone(),
                spelling: member.spelling.clone(),
                parameters: prototype.map(|f| f.parameters.clone()).unwrap_or_default(),
                own: true,
            });
        }
        Ok(functions)
    }

    fn is_function_pointer(&self, spelling: &str) -> bool {
        let head = |s: &TypeSpelling| self.without_typedefs(s);
        match spelling.parse::<TypeSpelling>().and_then(|s| head(&s)) {
            Ok(TypeSpelling::Pointer { to, .. }) => {
                matches!(head(&to), Ok(TypeSpelling::Function { .. }))
            }
            _ => false,
        }
    }

    /// The type that a chain of typedefs ends at.
    pub fn without_typedefs(&self, spelling: &TypeSpelling) -> Result<TypeSpelling, String> {
        let mut spelling = spelling.clone();
        while let TypeSpelling::Base { words, .. } = &spelling {
            let Some(meaning) = self.typedefs.get(words) else { break };
            spelling = meaning.parse()?;
        }
        Ok(spelling)
    }

    pub fn typedef(&self, name: &str) -> Option<&str> {
        self.typedefs.get(name).map(String::as_str)
    }

    pub fn record(&self, tag: &str) -> Option<&RecordDecl> {
        self.records.get(tag)
    }

    pub fn enumeration(&self, tag: &str) -> Option<Scalar> {
        self.enums.get(tag).copied()
    }

    /// The name that the header's users write, unless another record has it as its tag.
    pub fn known_as<'a>(&'a self, tag: &'a str) -> &'a str {
        match self.known_as.get(tag) {
            Some(name) if !self.records.contains_key(name) => name,
            _ => tag,
        }
    }

    pub fn enumerators(&self) -> BTreeMap<String, i64> {
        self.enumerators.clone()
    }
}

impl RecordDecl {
    fn read(node: &SyntaxNode) -> Result<Self, ImportError> {
        let union = node.tag_used.as_deref() == Some("union");
        let mut record = RecordDecl {
            complete: node.complete_definition,
            flaw: union.then(|| "a union: C does not tell which of its members holds".to_owned()),
            members: vec![],
        };
        let mut unnamed_before = None;
        for inner in node.inner() {
            let (inner, _) = inner?;
            match inner.kind.as_str() {
                "FieldDecl" => {
                    record.members.push(MemberDecl::read(&inner, unnamed_before.as_ref())?)
                }
                "PackedAttr" | "MaxFieldAlignmentAttr" | "AlignedAttr" => {
                    record.flaw = Some("packed or aligned in a way of its own".into());
                }
                _ => {}
            }
            unnamed_before = match inner.kind.as_str() {
                "RecordDecl" if inner.name.is_none() => Some(inner),
                _ => None,
            };
        }
        Ok(record)
    }
}

impl MemberDecl {
    /// A member, with the record without a name that stands before it.
    fn read(node: &SyntaxNode, before: Option<&SyntaxNode>) -> Result<Self, ImportError> {
        if let Some(one) = before.map(single_type_of_union).transpose()?.flatten() {
            let name = node.name.clone().unwrap_or(one.name);
            return Ok(MemberDecl { name, ..one });
        }
        let aligned = node.inner_of("AlignedAttr")?.or(node.inner_of("PackedAttr")?).is_some();
        let flaw = match (node.is_bitfield, aligned) {
            (true, _) => Some("a bit field".to_owned()),
            (_, true) => Some("packed or aligned in a way of its own".to_owned()),
            _ => None,
        };
        Ok(MemberDecl { name: node.name_text(), spelling: node.type_text(), flaw })
    }
}

/// A union whose members all have one type is a member of this type with several names, as
/// OpenCL's `cl_image_desc` has one. It goes by its first name.
fn single_type_of_union(union: &SyntaxNode) -> Result<Option<MemberDecl>, ImportError> {
    if union.tag_used.as_deref() != Some("union") {
        return Ok(None);
    }
    let mut members = RecordDecl::read(union)?.members.into_iter();
    let Some(first) = members.next() else { return Ok(None) };
    Ok(members.all(|m| m.spelling == first.spelling && m.flaw.is_none()).then_some(first))
}

/// clang's number of the record or enum that a typedef names itself, not through a pointer.
fn tag_named_by(typedef: &SyntaxNode) -> Result<Option<String>, ImportError> {
    let Some(named) = typedef.inner().next() else { return Ok(None) };
    let (named, _) = named?;
    let direct = ["ElaboratedType", "RecordType", "EnumType"].contains(&named.kind.as_str());
    let tag = named.owned_tag_decl.or(named.decl).filter(|tag| direct && tag.name.is_empty());
    Ok(tag.map(|tag| tag.id))
}

/// The tag in `struct tag` or `enum tag`, and none of `struct tag *`.
fn tag_alone(spelling: &str) -> Option<&str> {
    let tag = spelling.strip_prefix("struct ").or_else(|| spelling.strip_prefix("enum "))?;
    tag.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(tag)
}

/// The type that gcc and clang give an enum.
fn enum_scalar(values: impl Iterator<Item = i64> + Clone) -> Scalar {
    let least = values.clone().min().unwrap_or(0);
    let most = values.max().unwrap_or(0);
    match least < 0 {
        true if least >= i32::MIN.into() && most <= i32::MAX.into() => Scalar::I32,
        true => Scalar::I64,
        false if most <= u32::MAX.into() => Scalar::U32,
        false => Scalar::U64,
    }
}
