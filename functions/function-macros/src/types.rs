//! What a function's arguments and result are, as far as a macro can see: the
//! compiler knows the types, this only their spelling.

use syn::{Error, FnArg, GenericArgument, Ident, ItemFn, Pat, PathArguments, ReturnType, Type};

/// An argument: its name and its type.
pub struct Arg {
    pub name: Ident,
    pub ty: Type,
}

/// What the function gives back, by how results are written.
pub enum Output {
    /// Nothing: results of 0 bytes.
    Unit,
    /// A value of a fixed size.
    Value(Type),
    /// A `Vec` of such.
    Vec(Type),
}

/// A function's arguments and result, checked and ready to be written out.
pub struct Typed {
    /// Arguments of a fixed size.
    pub fixed: Vec<Arg>,
    /// The slice at the end: its name, and its elements' type.
    pub tail: Option<Arg>,
    /// What it gives, an error aside.
    pub output: Output,
    /// Whether it gives a `Result`.
    pub fallible: bool,
}

/// The first type in the brackets of `Name<…>`, if the path ends so.
fn inside<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(p) = ty else { return None };
    let last = p.path.segments.last()?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    if last.ident != name {
        return None;
    }
    args.args.iter().find_map(|a| match a {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(t) if t.elems.is_empty())
}

fn output(ty: &Type) -> Output {
    match inside(ty, "Vec") {
        _ if unit(ty) => Output::Unit,
        Some(of) => Output::Vec(of.clone()),
        None => Output::Value(ty.clone()),
    }
}

impl Typed {
    /// Of a function; an error names what cannot be sent.
    pub fn of(item: &ItemFn) -> syn::Result<Typed> {
        let s = &item.sig;
        let not = |what: &dyn quote::ToTokens, why: &str| Err(Error::new_spanned(what, why));
        if !s.generics.params.is_empty() {
            return not(&s.generics, "a vFunction has no generics: its bytes have one layout");
        }
        if let Some(a) = &s.asyncness {
            return not(a, "a vFunction is not async: its service runs a call to its end");
        }
        if let Some(e) = &s.abi {
            return not(e, "a vFunction is an ordinary function of Rust");
        }
        let (mut fixed, mut tail) = (vec![], None);
        for arg in &s.inputs {
            let FnArg::Typed(arg) = arg else {
                return not(arg, "a vFunction has no self: what it keeps belongs in a Driver");
            };
            if tail.is_some() {
                return not(arg, "nothing can follow a slice: it is the last argument");
            }
            let Pat::Ident(name) = &*arg.pat else {
                return not(&arg.pat, "an argument of a vFunction has a name of its own");
            };
            let name = name.ident.clone();
            match &*arg.ty {
                Type::Reference(r) => match (&*r.elem, &r.mutability) {
                    (Type::Slice(of), None) => {
                        tail = Some(Arg { name, ty: (*of.elem).clone() });
                    }
                    _ => return not(r, "of references only &[T] can be sent"),
                },
                ty => fixed.push(Arg { name, ty: ty.clone() }),
            }
        }
        let (output, fallible) = match &s.output {
            ReturnType::Default => (Output::Unit, false),
            ReturnType::Type(_, ty) => match inside(ty, "Result") {
                Some(ok) => (output(ok), true),
                None => (output(ty), false),
            },
        };
        Ok(Typed { fixed, tail, output, fallible })
    }
}
