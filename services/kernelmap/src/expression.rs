//! Sizes as formulas of a call's numbers: whole, not negative, checked.
//!
//! ```text
//! formula = term { ("+" | "-") term }
//! term    = factor { ("*" | "/" | "%") factor }
//! factor  = number | name | "count(" name ")" | "(" formula ")"
//!         | ("min" | "max" | "roundup" | "ceildiv") "(" formula "," formula ")"
//! ```

use crate::limits::{EXPRESSION_BYTES, STACK_MAX};

/// What a formula names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// An argument that is a number.
    Number(&'a str),
    /// How many elements a variable array has.
    Count(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Constant(u64),
    /// A call's number, by its place among them.
    Number(u16),
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Least,
    Most,
    RoundUp,
    DivideUp,
}

/// A formula, ready to be computed without allocating.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    steps: Vec<Step>,
}

/// A call's numbers make no sense in a formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A value does not fit in 64 bits.
    #[error("{0} is too large")]
    TooLarge(String),
    /// A value is below zero.
    #[error("{0} is below zero")]
    BelowZero(String),
    /// It divides by zero.
    #[error("{0} divides by zero")]
    ByZero(String),
}

struct Parser<'a, F> {
    text: &'a str,
    at: usize,
    steps: Vec<Step>,
    /// Values on the stack after the steps so far, and the most there were.
    height: usize,
    depth: usize,
    find: F,
}

impl<'a, F: FnMut(Name<'a>) -> Result<u16, String>> Parser<'a, F> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }
    fn take(&mut self, c: char) -> bool {
        self.blanks();
        let there = self.rest().starts_with(c);
        if there {
            self.at += c.len_utf8();
        }
        there
    }
    fn want(&mut self, c: char) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(format!("'{c}' is missing {}", self.here())) }
    }
    fn here(&self) -> String {
        match self.rest().trim_start() {
            "" => "at the end".to_owned(),
            rest => format!("before '{rest}'"),
        }
    }
    fn push(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Constant(_) | Step::Number(_) => self.height += 1,
            _ => self.height -= 1,
        }
        if self.height > STACK_MAX {
            return Err(format!("more than {STACK_MAX} values wait for each other"));
        }
        self.steps.push(step);
        Ok(())
    }

    fn formula(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > STACK_MAX {
            return Err(format!("brackets nest deeper than {STACK_MAX}"));
        }
        self.term()?;
        loop {
            let step = match () {
                () if self.take('+') => Step::Add,
                () if self.take('-') => Step::Subtract,
                () => break,
            };
            self.term()?;
            self.push(step)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn term(&mut self) -> Result<(), String> {
        self.factor()?;
        loop {
            let step = match () {
                () if self.take('*') => Step::Multiply,
                () if self.take('/') => Step::Divide,
                () if self.take('%') => Step::Remainder,
                () => return Ok(()),
            };
            self.factor()?;
            self.push(step)?;
        }
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn factor(&mut self) -> Result<(), String> {
        if self.take('(') {
            self.formula()?;
            return self.want(')');
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!("a number or a name is missing {}", self.here()));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let value = word.parse().map_err(|_| format!("'{word}' is not a number"))?;
            return self.push(Step::Constant(value));
        }
        if !self.take('(') {
            let number = (self.find)(Name::Number(word))?;
            return self.push(Step::Number(number));
        }
        let step = match word {
            "count" => {
                let of = self.word();
                self.want(')')?;
                let number = (self.find)(Name::Count(of))?;
                return self.push(Step::Number(number));
            }
            "min" => Step::Least,
            "max" => Step::Most,
            "roundup" => Step::RoundUp,
            "ceildiv" => Step::DivideUp,
            other => {
                return Err(format!("'{other}' is not one of count, min, max, roundup, ceildiv"));
            }
        };
        self.formula()?;
        self.want(',')?;
        self.formula()?;
        self.want(')')?;
        self.push(step)
    }
}

impl Expression {
    /// Reads a formula; `find` says which of a call's numbers a name means.
    pub fn parse<'a>(
        text: &'a str,
        find: impl FnMut(Name<'a>) -> Result<u16, String>,
    ) -> Result<Self, String> {
        let wrong = |why: String| format!("'{text}': {why}");
        if text.len() > EXPRESSION_BYTES {
            return Err(format!("a formula has at most {EXPRESSION_BYTES} bytes"));
        }
        let mut p = Parser { text, at: 0, steps: vec![], height: 0, depth: 0, find };
        p.formula().map_err(wrong)?;
        p.blanks();
        if !p.rest().is_empty() {
            return Err(wrong(format!("what is '{}'?", p.rest())));
        }
        Ok(Expression { text: text.to_owned(), steps: p.steps })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this one of a call's numbers is in it.
    pub(crate) fn names(&self, number: usize) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::Number(n) if usize::from(*n) == number))
    }

    /// Its value for a call with these numbers.
    #[inline]
    pub fn value(&self, numbers: &[u64]) -> Result<u64, ValueError> {
        // The usual ones are one step.
        match self.steps[..] {
            [Step::Constant(c)] => return Ok(c),
            [Step::Number(n)] => return Ok(numbers[usize::from(n)]),
            _ => {}
        }
        let mut stack = [0u64; STACK_MAX];
        let mut height = 0;
        for step in &self.steps {
            let value = match *step {
                Step::Constant(c) => c,
                Step::Number(n) => numbers[usize::from(n)],
                two => {
                    // The parser has counted: there are two.
                    height -= 2;
                    let (a, b) = (stack[height], stack[height + 1]);
                    self.of(two, a, b)?
                }
            };
            stack[height] = value;
            height += 1;
        }
        Ok(stack[0])
    }

    #[inline]
    fn of(&self, step: Step, a: u64, b: u64) -> Result<u64, ValueError> {
        let large = || ValueError::TooLarge(self.text.clone());
        let by_zero = || ValueError::ByZero(self.text.clone());
        match step {
            Step::Add => a.checked_add(b).ok_or_else(large),
            Step::Subtract => {
                a.checked_sub(b).ok_or_else(|| ValueError::BelowZero(self.text.clone()))
            }
            Step::Multiply => a.checked_mul(b).ok_or_else(large),
            Step::Divide => a.checked_div(b).ok_or_else(by_zero),
            Step::Remainder => a.checked_rem(b).ok_or_else(by_zero),
            Step::Least => Ok(a.min(b)),
            Step::Most => Ok(a.max(b)),
            Step::RoundUp if b == 0 => Err(by_zero()),
            Step::RoundUp => a.checked_next_multiple_of(b).ok_or_else(large),
            Step::DivideUp if b == 0 => Err(by_zero()),
            Step::DivideUp => Ok(a.div_ceil(b)),
            Step::Constant(_) | Step::Number(_) => Ok(a),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(name: Name<'_>) -> Result<u16, String> {
        match name {
            Name::Number("m") => Ok(0),
            Name::Number("n") => Ok(1),
            Name::Count("data") => Ok(2),
            other => Err(format!("no {other:?}")),
        }
    }
    fn value(text: &str, numbers: &[u64]) -> Result<u64, String> {
        let e = Expression::parse(text, find)?;
        e.value(numbers).map_err(|e| e.to_string())
    }

    #[test]
    fn formulas_are_computed_as_in_school() {
        let v = |t| value(t, &[3, 5, 100]).unwrap();
        assert_eq!(v("7"), 7);
        assert_eq!(v(" m "), 3);
        assert_eq!(v("m+n*2"), 13);
        assert_eq!(v("(m+n)*2"), 16);
        assert_eq!(v("20 - n - m"), 12);
        assert_eq!(v("count(data) / n % 7"), 6);
        assert_eq!(v("roundup(m, 16) + ceildiv(n, 2) + min(m,n) + max(m, n)"), 16 + 3 + 3 + 5);
    }

    #[test]
    fn what_has_no_value_says_which_formula() {
        let e = |t: &str, n: &[u64]| value(t, n).unwrap_err();
        assert_eq!(e("m * n", &[u64::MAX, 2]), "m * n is too large");
        assert_eq!(e("m - n", &[1, 2]), "m - n is below zero");
        for t in ["m / n", "m % n", "roundup(m, n)", "ceildiv(m, n)"] {
            assert_eq!(e(t, &[1, 0]), format!("{t} divides by zero"));
        }
        assert_eq!(e("roundup(m, 16)", &[u64::MAX]), "roundup(m, 16) is too large");
    }

    #[test]
    fn what_is_no_formula_is_refused_with_its_place() {
        for (text, expect) in [
            ("", "is missing at the end"),
            ("m +", "is missing at the end"),
            ("m n", "what is 'n'?"),
            ("(m", "')' is missing at the end"),
            ("x", "no Number"),
            ("count(m)", "no Count"),
            ("log(m, n)", "'log' is not one of"),
            ("min(m)", "',' is missing before ')'"),
            ("99999999999999999999", "is not a number"),
            ("4k", "is not a number"),
            ("-1", "is missing before '-1'"),
            ("é", "is missing before 'é'"),
        ] {
            let e = Expression::parse(text, find).unwrap_err();
            assert!(e.contains(expect), "{text}: {e}");
        }
        let deep = format!("{}m{}", "(".repeat(17), ")".repeat(17));
        assert!(Expression::parse(&deep, find).unwrap_err().contains("nest deeper"));
        let wide = format!("{}m{}", "min(m,".repeat(15), ")".repeat(15));
        assert!(value(&wide, &[1, 2, 3]).is_ok(), "as many as there may be");
        assert!(Expression::parse(&"m+".repeat(101), find).unwrap_err().contains("at most"));
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_is_a_panic(
            text in "[mn0-9()+*/%, -]{0,40}|(min\\(|roundup\\(|count\\(data\\)|m|n|,|\\)|\\+|2){0,30}",
            numbers in prop::array::uniform3(any::<u64>()),
        ) {
            if let Ok(e) = Expression::parse(&text, find) {
                let _ = e.value(&numbers);
            }
        }
    }
}
