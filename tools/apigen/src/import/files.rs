//! Which file a declaration stands in. clang names the file of a place only where it differs
//! from the place printed before, so all names are followed in the order of the text.

/// The file of the last place that was printed.
#[derive(Default)]
pub struct CurrentFile {
    name: String,
}

impl CurrentFile {
    /// Follows the text of the next declaration; gives the file that it is declared in.
    pub fn follow(&mut self, declaration: &str) -> String {
        let place = declaration.find("\"range\"").unwrap_or(declaration.len());
        let (head, rest) = declaration.split_at(place);
        self.take_last(head);
        let declared_in = self.name.clone();
        self.take_last(rest);
        declared_in
    }

    fn take_last(&mut self, text: &str) {
        const KEY: &str = "\"file\": \"";
        let mut until = text;
        while let Some(at) = until.rfind(KEY) {
            let name = &text[at + KEY.len()..];
            until = &text[..at];
            // That file's name is always printed, and it is not the place's.
            if until.trim_end().ends_with("\"includedFrom\": {") {
                continue;
            }
            self.name = name.split('"').next().unwrap_or_default().to_owned();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_until_another_is_named() {
        let mut file = CurrentFile::default();
        let first = r#"{"loc": {"file": "a.h", "line": 1}, "range": {"begin": {"line": 2}}}"#;
        assert_eq!(file.follow(first), "a.h");
        assert_eq!(file.follow(r#"{"loc": {"line": 3}, "range": {}}"#), "a.h");
        let ends_elsewhere = r#"{"loc": {"line": 4}, "range": {"end": {"file": "b.h"}}}"#;
        assert_eq!(file.follow(ends_elsewhere), "a.h");
        assert_eq!(file.follow(r#"{"loc": {"line": 5}, "range": {}}"#), "b.h");
    }

    #[test]
    fn the_includers_name_is_not_the_places() {
        let mut file = CurrentFile::default();
        let text = r#"{"loc": {"file": "b.h", "includedFrom": {
            "file": "a.h"}}, "range": {"begin": {"includedFrom": {
            "file": "a.h"}}}}"#;
        assert_eq!(file.follow(text), "b.h");
        assert_eq!(file.follow(r#"{"loc": {}}"#), "b.h");
    }

    #[test]
    fn a_macros_place_is_where_it_is_used() {
        let text = r#"{"loc": {"spellingLoc": {"file": "macros.h"},
            "expansionLoc": {"file": "a.h"}}, "range": {}}"#;
        assert_eq!(CurrentFile::default().follow(text), "a.h");
    }
}
