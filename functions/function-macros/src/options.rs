//! What stands in the attribute's parentheses.

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Lit, LitInt, LitStr, MetaNameValue, Token};

/// What stands in the parentheses of `#[vfunction(...)]`.
pub struct Options {
    pub version: LitStr,
    pub numbers: (u16, u16),
    pub name: Option<LitStr>,
    pub summary: Option<LitStr>,
    pub deadline_ms: Option<LitInt>,
}

fn text(value: &Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(s), .. }) => Ok(s.clone()),
        other => Err(Error::new_spanned(other, "want a text in quotes")),
    }
}

fn one_line(value: &Expr) -> syn::Result<LitStr> {
    let s = text(value)?;
    match s.value().chars().any(char::is_control) {
        true => Err(Error::new_spanned(s, "want one line without control characters")),
        false => Ok(s),
    }
}

/// The two numbers of a version `MAJOR.MINOR`; else an error at the literal.
fn numbers(version: &LitStr) -> syn::Result<(u16, u16)> {
    let v = version.value();
    v.split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .ok_or_else(|| Error::new_spanned(version, "a version is MAJOR.MINOR, as in \"1.0\""))
}

/// As the protocol has names: letters, digits, `_`, `-` and `.`, 63 bytes.
fn name(value: &Expr) -> syn::Result<LitStr> {
    let s = text(value)?;
    let v = s.value();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !v.is_empty() && v.len() <= 63 && v.chars().all(fits) {
        true => Ok(s),
        false => Err(Error::new_spanned(s, "a name has 1 to 63 letters, digits, '_', '-' and '.'")),
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let all = Punctuated::<MetaNameValue, Token![,]>::parse_terminated(input)?;
        let (mut version, mut named, mut summary, mut deadline_ms) = (None, None, None, None);
        for option in &all {
            let key = option.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let twice = match key.as_str() {
                "version" => version.replace(text(&option.value)?).is_some(),
                "name" => named.replace(name(&option.value)?).is_some(),
                "summary" => summary.replace(one_line(&option.value)?).is_some(),
                "deadline_ms" => match &option.value {
                    Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) if n.base10_parse::<u32>()? > 0 => {
                        deadline_ms.replace(n.clone()).is_some()
                    }
                    other => {
                        return Err(Error::new_spanned(other, "want a number of milliseconds"));
                    }
                },
                _ => {
                    return Err(Error::new_spanned(
                        &option.path,
                        "the options are version, name, summary and deadline_ms",
                    ));
                }
            };
            if twice {
                return Err(Error::new_spanned(&option.path, "this option is given twice"));
            }
        }
        let Some(version) = version else {
            return Err(input.error("a vFunction has a version: #[vfunction(version = \"1.0\")]"));
        };
        let numbers = numbers(&version)?;
        Ok(Options { version, numbers, name: named, summary, deadline_ms })
    }
}
