//! Aligned columns with a head, and names over groups of columns.

use std::fmt;

/// Where a column's text stands.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

struct Column {
    name: String,
    align: Align,
    /// The group that starts at this column.
    group: Option<String>,
}

/// A table that grows by columns, then by rows.
#[derive(Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn column(&mut self, name: &str, align: Align) {
        self.columns.push(Column { name: name.to_owned(), align, group: None });
    }

    /// Starts a group: a name over all columns until the next group.
    pub fn group(&mut self, group: String, columns: &[&str]) {
        let first = self.columns.len();
        columns.iter().for_each(|name| self.column(name, Align::Right));
        if let Some(column) = self.columns.get_mut(first) {
            column.group = Some(group);
        }
    }

    /// Adds a row; cells beyond the columns are dropped, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    fn starts_group(&self, index: usize) -> bool {
        self.columns[index].group.is_some()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |i: usize| self.rows.iter().map(|r| chars(&r[i])).max().unwrap_or(0);
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

    fn line<'a>(&self, widths: &[usize], cell: impl Fn(usize) -> (&'a str, Align)) -> String {
        let mut line = String::new();
        for (i, &width) in widths.iter().enumerate() {
            line += match (i, self.starts_group(i)) {
                (0, _) => "",
                (_, true) => "  │ ",
                (_, false) => "  ",
            };
            let (text, align) = cell(i);
            line += &pad(text, width, align);
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
        let head = self.line(&widths, |i| (&self.columns[i].name, self.columns[i].align));
        writeln!(f, "{head}")?;
        let all = |row: &[String]| {
            self.line(&widths, |i| (&row[i], self.columns[i].align)).chars().count()
        };
        let rule = self.rows.iter().map(|r| all(r)).chain([chars(&head)]).max().unwrap_or(0);
        writeln!(f, "{}", "─".repeat(rule))?;
        for row in &self.rows {
            writeln!(f, "{}", self.line(&widths, |i| (&row[i], self.columns[i].align)))?;
        }
        Ok(())
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
