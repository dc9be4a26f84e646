//! Numbers of calls: pinned in a file, never changed and never used again.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The first number of an API's own function (vfun_remoting::numbers::FIRST).
const FIRST: u16 = 16;

/// The file `numbers.toml`: names and their numbers, and numbers that are used no longer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    #[serde(default)]
    number: BTreeMap<String, u16>,
    /// Of functions that the API does not have any more.
    #[serde(default)]
    retired: BTreeSet<u16>,
}

impl Numbers {
    /// Reads the file and checks that no number stands for two functions.
    pub fn read(text: &str) -> Result<Numbers, String> {
        let numbers: Numbers = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut seen = BTreeMap::new();
        for (name, number) in &numbers.number {
            if *number < FIRST {
                return Err(format!("{name}: numbers below {FIRST} are the core's"));
            }
            if numbers.retired.contains(number) {
                return Err(format!("{name}: number {number} is retired"));
            }
            if let Some(other) = seen.insert(number, name) {
                return Err(format!("{name}: {other} has the number {number}"));
            }
        }
        Ok(numbers)
    }

    /// The next one that was never used.
    pub fn next(&self) -> u16 {
        let used = self.number.values().chain(&self.retired);
        used.max().map_or(FIRST, |last| last.saturating_add(1))
    }

    pub fn of(&self, function: &str) -> Option<u16> {
        self.number.get(function).copied()
    }
}

/// The numbers of calls in a generated file, by the names of their constants.
fn generated(text: &str) -> BTreeMap<&str, &str> {
    let calls = text.split_once("pub mod calls {").map_or("", |(_, rest)| rest);
    let lines = calls.split_once("\n}").map_or("", |(calls, _)| calls).lines();
    lines.filter_map(constant).collect()
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let (name, number) = line.trim().strip_prefix("pub const ")?.split_once(": u16 = ")?;
    Some((name, number.trim_end_matches(';')))
}

/// Whether each number of the file that is kept means in the new one what it meant.
pub fn stay(kept: &str, made: &str) -> Result<(), String> {
    let (kept, made) = (generated(kept), generated(made));
    for (name, number) in &kept {
        let other = made.iter().find(|(_, now)| *now == number);
        match (made.get(name), other) {
            (Some(now), _) if now != number => {
                return Err(format!(
                    "{name} had the number {number} and has {now} in numbers.toml: a number is never changed, so write {number}. Only if nobody has used this API yet, remove the generated files and generate again"
                ));
            }
            (None, Some((other, _))) => {
                return Err(format!(
                    "{other} has the number {number}, which was {name}'s: a number is never used again. Put it into `retired` of numbers.toml, and take another"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_what_it_meant() {
        let file = |calls: &[(&str, u16)]| {
            let line = |(name, n): &(&str, u16)| format!("    pub const {name}: u16 = {n};\n");
            let lines: String = calls.iter().map(line).collect();
            format!(
                "pub mod kinds {{\n    pub const A: u16 = 1;\n}}\npub mod calls {{\n{lines}}}\npub const B: u16 = 2;\n"
            )
        };
        let kept = file(&[("T_OPEN", 16), ("T_CLOSE", 17)]);
        assert_eq!(generated(&kept).len(), 2);
        assert_eq!(stay("", &kept), Ok(()), "the first time");
        assert_eq!(stay(&kept, &kept), Ok(()));
        assert_eq!(stay(&kept, &file(&[("T_CLOSE", 17), ("T_READ", 18)])), Ok(()));
        let said = stay(&kept, &file(&[("T_OPEN", 18), ("T_CLOSE", 17)])).unwrap_err();
        assert!(said.starts_with("T_OPEN had the number 16 and has 18"), "{said}");
        let said = stay(&kept, &file(&[("T_READ", 16), ("T_CLOSE", 17)])).unwrap_err();
        assert!(said.starts_with("T_READ has the number 16, which was T_OPEN's"), "{said}");
    }
}
