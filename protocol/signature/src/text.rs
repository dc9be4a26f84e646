//! The one text form.

use crate::types::{Struct, Type};
use crate::{Record, Signature};
use core::fmt::{Display, Formatter, Result};

struct Named<'a>(&'a Signature, &'a Type);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.1 {
            Type::Scalar(s) => f.write_str(s.name()),
            Type::Struct(i) => f.write_str(&self.0.structs[*i].name),
            Type::Array(of, n) => write!(f, "[{}; {n}]", Named(self.0, of)),
        }
    }
}

impl Signature {
    /// A type as the text has it.
    pub fn type_text(&self, ty: &Type) -> String {
        Named(self, ty).to_string()
    }

    fn fields(&self, f: &mut Formatter<'_>, r: &Record) -> Result {
        let mut first = true;
        let mut comma = |f: &mut Formatter<'_>| match std::mem::take(&mut first) {
            true => Ok(()),
            false => f.write_str(", "),
        };
        for x in &r.fields {
            comma(f)?;
            if !x.name.is_empty() {
                write!(f, "{}: ", x.name)?;
            }
            write!(f, "{}", Named(self, &x.ty))?;
            if let Some(v) = &x.default {
                write!(f, " = {v}")?;
            }
        }
        if let Some(t) = &r.tail {
            comma(f)?;
            if !t.name.is_empty() {
                write!(f, "{}: ", t.name)?;
            }
            let of = Named(self, &t.element);
            match (t.least, t.most) {
                (0, None) => write!(f, "[{of}]")?,
                (least, None) => write!(f, "[{of}; {least}..]")?,
                (least, Some(most)) => write!(f, "[{of}; {least}..={most}]")?,
            }
        }
        Ok(())
    }

    fn declare(&self, f: &mut Formatter<'_>, s: &Struct) -> Result {
        write!(f, "struct {} {{ ", s.name)?;
        for (i, m) in s.members.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", m.name, Named(self, &m.ty))?;
        }
        f.write_str(" }")
    }

    /// Arguments and results, without the structs.
    fn records(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("(")?;
        self.fields(f, &self.args)?;
        f.write_str(") -> ")?;
        if self.bare_result {
            return self.fields(f, &self.results);
        }
        f.write_str("(")?;
        self.fields(f, &self.results)?;
        f.write_str(")")
    }

    /// How the function of this name is called, for people: its name with
    /// arguments and results, then each struct, `;` between them. It is not the
    /// text that is parsed.
    pub fn of_function<'a>(&'a self, name: &'a str) -> impl Display + 'a {
        Called(self, name)
    }
}

struct Called<'a>(&'a Signature, &'a str);

impl Display for Called<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.1)?;
        self.0.records(f)?;
        self.0.structs.iter().try_for_each(|s| {
            f.write_str("; ")?;
            self.0.declare(f, s)
        })
    }
}

impl Display for Signature {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for s in &self.structs {
            self.declare(f, s)?;
            f.write_str(" ")?;
        }
        self.records(f)
    }
}
