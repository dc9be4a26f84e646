//! Reads a type as clang prints it: `const struct CK_INFO *`, `char[16]`,
//! `void (*)(gdma_context *, int)`.

/// A type as it is written, before anybody looked up its names.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeSpelling {
    /// `unsigned long`, `gdma_id`, `struct gdma_node`, `enum x`.
    Base {
        words: String,
        constant: bool,
    },
    Pointer {
        to: Box<TypeSpelling>,
        constant: bool,
    },
    /// Without a count: a flexible array.
    Array {
        of: Box<TypeSpelling>,
        count: Option<u64>,
    },
    Function {
        returns: Box<TypeSpelling>,
        parameters: Vec<TypeSpelling>,
        variadic: bool,
    },
}

impl std::str::FromStr for TypeSpelling {
    type Err = String;
    fn from_str(text: &str) -> Result<TypeSpelling, String> {
        if text.contains("(unnamed") || text.contains("(anonymous") {
            return Err(format!("'{text}' has no name: give the type a name in the header"));
        }
        let mut reader = SpellingReader { rest: text };
        let spelling = reader.spelling().map_err(|why| format!("the type '{text}': {why}"))?;
        reader.skip_attributes();
        match reader.rest.trim() {
            "" => Ok(spelling),
            rest => Err(format!("the type '{text}': '{rest}' is not understood")),
        }
    }
}

/// What a declarator makes of the type that it is applied to.
enum Derivation {
    Pointer { constant: bool },
    Array(Option<u64>),
    Function { parameters: Vec<TypeSpelling>, variadic: bool },
}

impl Derivation {
    fn of(self, inner: TypeSpelling) -> TypeSpelling {
        let inner = Box::new(inner);
        match self {
            Derivation::Pointer { constant } => TypeSpelling::Pointer { to: inner, constant },
            Derivation::Array(count) => TypeSpelling::Array { of: inner, count },
            Derivation::Function { parameters, variadic } => {
                TypeSpelling::Function { returns: inner, parameters, variadic }
            }
        }
    }
}

struct SpellingReader<'a> {
    rest: &'a str,
}

impl<'a> SpellingReader<'a> {
    fn spelling(&mut self) -> Result<TypeSpelling, String> {
        let base = self.base()?;
        let derivations = self.declarator()?;
        Ok(derivations.into_iter().fold(base, |inner, derivation| derivation.of(inner)))
    }

    /// All words before the first sign.
    fn base(&mut self) -> Result<TypeSpelling, String> {
        let mut words = vec![];
        let mut constant = false;
        while let Some(word) = self.word() {
            match word {
                "const" => constant = true,
                // Nothing that a call carries depends on them.
                "volatile" | "restrict" | "__restrict" => {}
                "_Atomic" => return Err("atomic types are not forwarded".into()),
                word => words.push(word),
            }
        }
        match words.is_empty() {
            true => Err(format!("a name is missing before '{}'", self.rest)),
            false => Ok(TypeSpelling::Base { words: words.join(" "), constant }),
        }
    }

    /// In the order in which they are applied to the base: `*` before, then what stands behind
    /// from the last to the first, then what stands in parentheses.
    fn declarator(&mut self) -> Result<Vec<Derivation>, String> {
        let mut all = vec![];
        while self.eat("*") {
            let mut constant = false;
            while let Some(word) = self.qualifier() {
                constant |= word == "const";
            }
            all.push(Derivation::Pointer { constant });
        }
        let mut inside = vec![];
        if self.at_parenthesized_declarator() {
            self.need("(")?;
            inside = self.declarator()?;
            self.need(")")?;
        }
        let mut behind = vec![];
        loop {
            if self.eat("[") {
                behind.push(Derivation::Array(self.count()?));
            } else if self.eat("(") {
                behind.push(self.parameters()?);
            } else {
                break;
            }
        }
        all.extend(behind.into_iter().rev());
        all.extend(inside);
        Ok(all)
    }

    /// `(*...)` is a declarator, `(int)` and `()` are parameters.
    fn at_parenthesized_declarator(&self) -> bool {
        let inside = self.rest.trim_start().strip_prefix('(').map(str::trim_start);
        inside.is_some_and(|text| text.starts_with(['*', '(']))
    }

    fn count(&mut self) -> Result<Option<u64>, String> {
        let Some(word) = self.word() else {
            self.need("]")?;
            return Ok(None);
        };
        let count = word.parse().map_err(|_| format!("an array's count is '{word}'"))?;
        self.need("]")?;
        Ok(Some(count))
    }

    fn parameters(&mut self) -> Result<Derivation, String> {
        let mut parameters = vec![];
        let mut variadic = false;
        while !self.eat(")") {
            if variadic {
                return Err("'...' is not the last parameter".into());
            }
            if !parameters.is_empty() {
                self.need(",")?;
            }
            match self.eat("...") {
                true => variadic = true,
                false => parameters.push(self.spelling()?),
            }
        }
        let nothing = TypeSpelling::Base { words: "void".into(), constant: false };
        if parameters == [nothing] {
            parameters.clear();
        }
        Ok(Derivation::Function { parameters, variadic })
    }

    /// `noreturn` and the like: they change nothing in how a function is called.
    fn skip_attributes(&mut self) {
        while let Some(rest) = self.rest.trim_start().strip_prefix("__attribute__((") {
            self.rest = rest.split_once("))").map_or("", |(_, rest)| rest);
        }
    }

    fn qualifier(&mut self) -> Option<&'a str> {
        let before = self.rest;
        let word = self.word()?;
        if ["const", "volatile", "restrict", "__restrict"].contains(&word) {
            return Some(word);
        }
        self.rest = before;
        None
    }

    fn word(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if end == 0 || text.starts_with("__attribute__") {
            return None;
        }
        self.rest = &text[end..];
        Some(&text[..end])
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(format!("'{token}' is missing before '{}'", self.rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(words: &str) -> TypeSpelling {
        TypeSpelling::Base { words: words.into(), constant: false }
    }

    fn pointer(to: TypeSpelling) -> TypeSpelling {
        TypeSpelling::Pointer { to: Box::new(to), constant: false }
    }

    #[test]
    fn names_and_pointers() {
        assert_eq!("unsigned long".parse(), Ok(base("unsigned long")));
        assert_eq!("struct a *".parse(), Ok(pointer(base("struct a"))));
        let constant = TypeSpelling::Base { words: "char".into(), constant: true };
        assert_eq!("const char *restrict".parse(), Ok(pointer(constant.clone())));
        let middle = TypeSpelling::Pointer { to: Box::new(constant), constant: true };
        assert_eq!("const char *const *".parse(), Ok(pointer(middle)));
    }

    #[test]
    fn arrays_are_read_from_the_inside() {
        let inner = TypeSpelling::Array { of: Box::new(base("char")), count: Some(3) };
        let outer = TypeSpelling::Array { of: Box::new(inner), count: Some(2) };
        assert_eq!("char[2][3]".parse(), Ok(outer));
        let flexible = TypeSpelling::Array { of: Box::new(base("char")), count: None };
        assert_eq!("char[]".parse(), Ok(flexible));
    }

    #[test]
    fn functions_and_pointers_to_them() {
        let function = |parameters, variadic| TypeSpelling::Function {
            returns: Box::new(pointer(base("void"))),
            parameters,
            variadic,
        };
        assert_eq!("void *(void)".parse(), Ok(function(vec![], false)));
        assert_eq!("void *(int, ...)".parse(), Ok(function(vec![base("int")], true)));
        assert_eq!("void *(*)(int)".parse(), Ok(pointer(function(vec![base("int")], false))));
        assert_eq!(
            "void *(int) __attribute__((noreturn))".parse(),
            Ok(function(vec![base("int")], false))
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for bad in
            ["", "*", "int[x]", "int (*", "int (..., int)", "struct (unnamed struct at a.h:1:1)"]
        {
            assert!(bad.parse::<TypeSpelling>().is_err(), "{bad}");
        }
    }
}
