//! Aligned tables without lines: they survive copying and `awk`. Reports have a rule
//! under the head, and names over groups of columns.

use std::fmt;

/// Which side of a column is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left, as words are.
    Left,
    /// Right, as numbers are.
    Right,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    align: Align,
    /// The group that starts at this column.
    group: Option<String>,
}

/// Rows under a head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    ruled: bool,
}

impl Table {
    /// With these columns: a name that begins with `>` is one of numbers.
    pub fn new(columns: &[&str]) -> Self {
        let mut table = Table::default();
        columns.iter().for_each(|name| table.column(name));
        table
    }

    /// The same, with a line under the head.
    pub fn ruled(columns: &[&str]) -> Self {
        Table { ruled: true, ..Self::new(columns) }
    }

    /// One more column. To be called before the first row.
    pub fn column(&mut self, name: &str) {
        let (name, align) = match name.strip_prefix('>') {
            Some(name) => (name, Align::Right),
            None => (name, Align::Left),
        };
        self.columns.push(Column { name: name.to_owned(), align, group: None });
    }

    /// More columns, and a name over all of them.
    pub fn group(&mut self, group: String, columns: &[&str]) {
        let first = self.columns.len();
        columns.iter().for_each(|name| self.column(name));
        if let Some(column) = self.columns.get_mut(first) {
            column.group = Some(group);
        }
    }

    /// Adds a row. Without a rule a cell that is empty is shown as `-`, so that columns
    /// can be counted.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let ruled = self.ruled;
        let cell = |s: S| {
            let text: String = s.into();
            let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            if text.is_empty() && !ruled { "-".to_owned() } else { text }
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
        self.to_string()
    }

    fn starts_group(&self, index: usize) -> bool {
        self.columns[index].group.is_some()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |i: usize| {
            self.rows.iter().filter_map(|r| r.get(i)).map(|c| chars(c)).max().unwrap_or(0)
        };
        let mut widths: Vec<_> =
            self.columns.iter().enumerate().map(|(i, c)| chars(&c.name).max(widest(i))).collect();
        // A group's name may be wider than its columns: the last of them makes room.
        for (first, last) in self.groups() {
            let own = widths[first..=last].iter().sum::<usize>() + 2 * (last - first);
            let name = self.columns[first].group.as_deref().map_or(0, chars);
            widths[last] += name.saturating_sub(own);
        }
        widths
    }

    /// First and last column of each group.
    fn groups(&self) -> Vec<(usize, usize)> {
        let firsts: Vec<_> = (0..self.columns.len()).filter(|&i| self.starts_group(i)).collect();
        let ends = firsts.iter().skip(1).copied().chain([self.columns.len()]);
        firsts.iter().copied().zip(ends.map(|end| end - 1)).collect()
    }

    fn line<'a>(&self, widths: &[usize], cell: impl Fn(usize) -> &'a str) -> String {
        let mut line = String::new();
        for (i, &width) in widths.iter().enumerate() {
            line += match (i, self.starts_group(i)) {
                (0, _) => "",
                (_, true) => "  │ ",
                (_, false) => "  ",
            };
            line += &pad(cell(i), width, self.columns[i].align);
        }
        line.trim_end().to_owned()
    }

    fn group_line(&self, widths: &[usize]) -> Option<String> {
        let groups = self.groups();
        let (first, _) = *groups.first()?;
        let before = widths[..first].iter().sum::<usize>() + 2 * first.saturating_sub(1);
        let mut line = " ".repeat(before);
        for (first, last) in groups {
            let width = widths[first..=last].iter().sum::<usize>() + 2 * (last - first);
            let name = self.columns[first].group.as_deref().unwrap_or_default();
            line += &format!("  │ {}", pad(name, width, Align::Left));
        }
        Some(line.trim_end().to_owned())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        if let Some(line) = self.group_line(&widths) {
            writeln!(f, "{line}")?;
        }
        let head = self.line(&widths, |i| self.columns[i].name.as_str());
        writeln!(f, "{head}")?;
        let of = |row: &[String]| {
            self.line(&widths, |i| row.get(i).map(String::as_str).unwrap_or_default())
        };
        if self.ruled {
            let width = self.rows.iter().map(|r| chars(&of(r))).chain([chars(&head)]).max();
            writeln!(f, "{}", "─".repeat(width.unwrap_or(0)))?;
        }
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", of(row)))
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn pad(text: &str, width: usize, align: Align) -> String {
    match align {
        Align::Left => format!("{text:<width$}"),
        Align::Right => format!("{text:>width$}"),
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

    #[test]
    fn groups_have_names_over_them_and_a_head_may_have_a_rule() {
        let mut t = Table::ruled(&["what"]);
        t.group("a long name".into(), &[">p50", ">p99"]);
        t.group("b".into(), &[">p50"]);
        t.row(["call", "1", "2", "333"]);
        assert_eq!(
            t.render(),
            "      │ a long name  │ b\n\
             what  │ p50     p99  │ p50\n\
             ──────────────────────────\n\
             call  │   1       2  │ 333\n"
        );
    }
}
