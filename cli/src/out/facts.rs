//! Names and values below each other.

/// A list of facts.
#[derive(Clone, Debug, Default)]
pub struct Facts(Vec<(String, String)>);

impl Facts {
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a line: a name and its value.
    pub fn fact(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }
    /// The text, its last line ended.
    pub fn render(&self) -> String {
        let width = self.0.iter().map(|(n, _)| n.chars().count()).max().unwrap_or(0);
        let line = |(name, value): &(String, String)| format!("{name:<width$}  {value}\n");
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_line() {
        let f = Facts::new().fact("version", "0.1.0").fact("up", "3 s");
        assert_eq!(f.render(), "version  0.1.0\nup       3 s\n");
    }
}
