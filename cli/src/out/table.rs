//! Aligned tables without lines: they survive copying and `awk`.

/// Which side of a column is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a head.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these columns: a name that begins with `>` is one of numbers.
    pub fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| match name.strip_prefix('>') {
            Some(name) => (name.to_owned(), Align::Right),
            None => ((*name).to_owned(), Align::Left),
        };
        Table { columns: columns.iter().map(column).collect(), rows: vec![] }
    }

    /// Adds a row. A cell that is empty is shown as `-`, so that columns can be counted.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cell = |s: S| {
            let text: String = s.into();
            let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            if text.is_empty() { "-".to_owned() } else { text }
        };
        let row: Vec<_> = cells.into_iter().map(cell).collect();
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, its last line ended.
    pub fn render(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let all = || std::iter::once(&head).chain(&self.rows);
        let width =
            |i: usize| all().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in all() {
            let mut line = String::new();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}")),
                    Align::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_line() {
        let mut t = Table::new(&["NAME", ">CALLS", "STATE"]);
        t.row(["echo", "12", "active"]);
        t.row(["factorial", "1 234", ""]);
        t.row(["é\x1b[31m", "0", "x"]);
        assert_eq!(
            t.render(),
            "NAME       CALLS  STATE\n\
             echo          12  active\n\
             factorial  1 234  -\n\
             é?[31m         0  x\n"
        );
        assert!(!t.is_empty());
    }
}
