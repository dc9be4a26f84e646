//! The text of [`Facts`]: TOML with a line for each parameter, member and constant, so that a
//! change of a header is a small change of the text.

use crate::facts::{CField, Facts};
use std::fmt::{self, Display, Formatter};

impl Display for Facts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut sections = vec![];
        if !self.aliases.is_empty() {
            let lines = self.aliases.iter().map(|(name, ty)| format!("{name} = \"{ty}\"\n"));
            sections.push(format!("[alias]\n{}", lines.collect::<String>()));
        }
        if !self.constants.is_empty() {
            let lines = self.constants.iter().map(|(name, value)| format!("{name} = {value}\n"));
            sections.push(format!("[constant]\n{}", lines.collect::<String>()));
        }
        for (name, told) in &self.structs {
            sections.push(format!("[struct.{name}]\nmembers = {}\n", fields(&told.members)));
        }
        for told in &self.functions {
            let head =
                format!("[[function]]\nname = \"{}\"\nreturns = \"{}\"\n", told.name, told.returns);
            let parameters = match told.parameters.as_slice() {
                [] => String::new(),
                some => format!("parameters = {}\n", fields(some)),
            };
            sections.push(head + &parameters);
        }
        f.write_str(&sections.join("\n"))
    }
}

/// Names and types of C have no sign that TOML would want escaped.
fn fields(fields: &[CField]) -> String {
    let lines = fields.iter().map(|f| format!("    [\"{}\", \"{}\"],\n", f.name, f.ty));
    format!("[\n{}]", lines.collect::<String>())
}

impl std::str::FromStr for Facts {
    type Err = toml::de::Error;
    fn from_str(text: &str) -> Result<Facts, toml::de::Error> {
        toml::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{CFunction, CStruct};

    fn field(name: &str, ty: &str) -> CField {
        CField { name: name.into(), ty: ty.parse().unwrap() }
    }

    fn sample() -> Facts {
        let info = CStruct { members: vec![field("type", "u32"), field("name", "[i8; 16]")] };
        let function = |name: &str, parameters| CFunction {
            name: name.into(),
            returns: "i32".parse().unwrap(),
            parameters,
        };
        Facts {
            aliases: [("gdma_id".into(), "u32".parse().unwrap())].into(),
            structs: [("gdma_info".into(), info)].into(),
            constants: [("GDMA_ALL".into(), -1), ("GDMA_LOWEST".into(), i64::MIN)].into(),
            functions: vec![
                function("gdma_wait", vec![field("done", "fn(gdma_id, *mut void) -> void")]),
                function("gdma_abort", vec![]),
            ],
        }
    }

    #[test]
    fn the_text_reads_well() {
        let expected = r#"[alias]
gdma_id = "u32"

[constant]
GDMA_ALL = -1
GDMA_LOWEST = -9223372036854775808

[struct.gdma_info]
members = [
    ["type", "u32"],
    ["name", "[i8; 16]"],
]

[[function]]
name = "gdma_wait"
returns = "i32"
parameters = [
    ["done", "fn(gdma_id, *mut void) -> void"],
]

[[function]]
name = "gdma_abort"
returns = "i32"
"#;
        assert_eq!(sample().to_string(), expected);
    }

    #[test]
    fn the_text_is_read_back() {
        assert_eq!(sample().to_string().parse(), Ok(sample()));
        assert_eq!(Facts::default().to_string().parse(), Ok(Facts::default()));
    }

    #[test]
    fn what_serde_writes_is_the_same_to_a_reader() {
        assert_eq!(toml::to_string(&sample()).unwrap().parse(), Ok(sample()));
    }

    #[test]
    fn what_is_unknown_is_refused() {
        let error = "[alias]\na = \"u33 x\"\n".parse::<Facts>().unwrap_err();
        assert!(error.to_string().contains("u33 x"), "{error}");
        assert!("[typedef]\na = \"u32\"\n".parse::<Facts>().is_err());
    }
}
