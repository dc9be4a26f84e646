//! One node of clang's tree. The nodes below it stay text until somebody asks: a header
//! drags in thousands of functions with bodies, which nobody needs.

use super::ImportError;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyntaxNode<'a> {
    #[serde(default)]
    pub id: String,
    /// clang prints an absent part of an expression as a node without a kind.
    #[serde(default)]
    pub kind: String,
    pub name: Option<String>,
    #[serde(rename = "type")]
    ty: Option<PrintedType>,
    /// `struct` or `union`, of a record.
    pub tag_used: Option<String>,
    #[serde(default)]
    pub complete_definition: bool,
    #[serde(default)]
    pub is_bitfield: bool,
    /// `static` or `extern`.
    pub storage_class: Option<String>,
    /// The record or enum that a typedef declares in passing.
    pub owned_tag_decl: Option<TagReference>,
    /// The record or enum that a type names.
    pub decl: Option<TagReference>,
    pub value: Option<serde_json::Value>,
    #[serde(borrow, default)]
    inner: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedType {
    qual_type: String,
}

#[derive(Deserialize)]
pub struct TagReference {
    pub id: String,
    #[serde(default)]
    pub name: String,
}

impl<'a> SyntaxNode<'a> {
    pub fn read(text: &'a str) -> Result<Self, ImportError> {
        serde_json::from_str(text).map_err(|e| ImportError::Output { why: e.to_string() })
    }

    /// The nodes below, each with its text.
    pub fn inner(&self) -> impl Iterator<Item = Result<(SyntaxNode<'a>, &'a str), ImportError>> {
        let all = self.inner.clone();
        all.into_iter().map(|raw| Ok((SyntaxNode::read(raw.get())?, raw.get())))
    }

    /// The first node below of this kind.
    pub fn inner_of(&self, kind: &str) -> Result<Option<SyntaxNode<'a>>, ImportError> {
        for node in self.inner() {
            let (node, _) = node?;
            if node.kind == kind {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// The type as C writes it.
    pub fn type_text(&self) -> String {
        self.ty.as_ref().map(|t| t.qual_type.clone()).unwrap_or_default()
    }

    pub fn name_text(&self) -> String {
        self.name.clone().unwrap_or_default()
    }

    /// The expression that is written for an enumerator, if one is.
    pub fn initializer(&self) -> Result<Option<SyntaxNode<'a>>, ImportError> {
        for node in self.inner() {
            let (node, _) = node?;
            if !node.kind.ends_with("Attr") && !node.kind.ends_with("Comment") {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// What clang found an expression to be, as the 64 bits of a number. There may be casts
    /// around the constant.
    pub fn evaluated(&self) -> Result<Option<i64>, ImportError> {
        if self.kind == "ConstantExpr" {
            let text = self.value.as_ref().and_then(|value| value.as_str());
            let number =
                |text: &str| text.parse().ok().or_else(|| text.parse().ok().map(u64::cast_signed));
            return Ok(text.and_then(number));
        }
        match self.inner().next().transpose()? {
            Some((node, _)) if self.kind == "ImplicitCastExpr" => node.evaluated(),
            _ => Ok(None),
        }
    }
}
