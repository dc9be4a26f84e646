//! A section that was checked against its function's signature.

use crate::expression::{Expression, Name};
use crate::limits::*;
use crate::manifest::{Argument, Map};
use vfun_signature::{Record, Scalar, Signature, Type};

/// What is wrong with a section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[opencl] {place}: {reason}")]
pub struct MapError {
    /// Where in the section, such as `args[2].count`.
    pub place: String,
    /// What is wrong, as a sentence for people.
    pub reason: String,
}

/// Where one of a call's numbers comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// A scalar argument: where it lies and what it is.
    Scalar { name: String, offset: usize, scalar: Scalar },
    /// How many elements the arguments' variable array has.
    Count,
}

/// The bytes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub name: String,
    /// Where its first element lies.
    pub offset: usize,
    pub element_bytes: u64,
    /// How many elements it has; `None`: as many as the call brings.
    pub elements: Option<u64>,
    pub at: Option<Expression>,
    pub count: Option<Expression>,
    pub align: usize,
}

/// Where the value of a kernel's argument comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A scalar argument of the call, as it lies.
    Scalar(u16),
    /// The value of a formula over the call's arguments, as this scalar.
    Formula(Expression, Scalar),
    Input(Place),
    Output(Place),
    Local(Expression, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    AtMost,
    Below,
    AtLeast,
    Above,
}

/// A condition on a call's sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub text: String,
    pub left: Expression,
    pub relation: Relation,
    pub right: Expression,
}

/// The variable array at the end of arguments or results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub offset: usize,
    pub element_bytes: u64,
}

/// A section that fits its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub(crate) numbers: Vec<Number>,
    pub(crate) global: Vec<Expression>,
    pub(crate) local: Vec<Expression>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) args_tail: Option<Tail>,
    pub(crate) args_least: usize,
    pub(crate) results_tail: Option<Tail>,
    pub(crate) results_fixed: usize,
    pub(crate) trial: Vec<(String, u64)>,
    max_args: u64,
    max_result: u64,
}

fn wrong(place: impl Into<String>) -> impl Fn(String) -> MapError {
    let place = place.into();
    move |reason| MapError { place: place.clone(), reason }
}

/// The numbers of a call that formulas have named so far.
struct Numbers<'s> {
    args: &'s Record,
    found: Vec<Number>,
}

impl Numbers<'_> {
    fn place_of(&mut self, number: Number) -> Result<u16, String> {
        let at = self.found.iter().position(|n| *n == number).unwrap_or_else(|| {
            self.found.push(number);
            self.found.len() - 1
        });
        if at >= NUMBERS_MAX {
            return Err(format!("a section names at most {NUMBERS_MAX} of a call's numbers"));
        }
        Ok(at as u16)
    }

    /// The place of a scalar argument of this name; an error if it is none.
    fn scalar(&mut self, name: &str) -> Result<(u16, Scalar), String> {
        let field = self.args.fields.iter().find(|f| f.name == name);
        let Some(field) = field else {
            let names: Vec<_> = self.args.fields.iter().map(|f| f.name.as_str()).collect();
            return Err(format!(
                "the signature has no argument '{name}' of a fixed size; it has: {}",
                names.join(", ")
            ));
        };
        let Type::Scalar(scalar) = field.ty else {
            return Err(format!("the argument '{name}' is not one number"));
        };
        let number =
            Number::Scalar { name: name.to_owned(), offset: field.offset as usize, scalar };
        Ok((self.place_of(number)?, scalar))
    }

    fn find(&mut self, name: Name<'_>) -> Result<u16, String> {
        match name {
            Name::Number(name) => match self.scalar(name)? {
                (_, s) if s.is_float() || s == Scalar::Bool => {
                    Err(format!("'{name}' is a {}, and sizes are made of whole numbers", s.name()))
                }
                (at, _) => Ok(at),
            },
            Name::Count(name) => match &self.args.tail {
                Some(t) if t.name == name => self.place_of(Number::Count),
                _ => Err(format!("the signature has no variable array '{name}' of arguments")),
            },
        }
    }

    fn formula(&mut self, text: &str) -> Result<Expression, String> {
        Expression::parse(text, |name| self.find(name))
    }

    fn condition(&mut self, text: &str) -> Result<Condition, String> {
        // Longer ones first, so that none is taken for a part of it.
        let all = [
            ("==", Relation::Equal),
            ("!=", Relation::NotEqual),
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("<", Relation::Below),
            (">", Relation::Above),
        ];
        let (left, relation, right) = all
            .iter()
            .find_map(|(sign, r)| text.split_once(sign).map(|(a, b)| (a, *r, b)))
            .ok_or("a condition compares with ==, !=, <=, >=, < or >")?;
        Ok(Condition {
            text: text.to_owned(),
            left: self.formula(left)?,
            relation,
            right: self.formula(right)?,
        })
    }
}

/// An array or number of a record by its name, and the type of its elements.
fn array(s: &Signature, record: &Record, name: &str, side: &str) -> Result<Place, String> {
    let place = |name: &str, offset: u64, element: &Type, elements| Place {
        name: if name.is_empty() { "the result".to_owned() } else { name.to_owned() },
        offset: offset as usize,
        element_bytes: s.bytes_of(element),
        elements,
        at: None,
        count: None,
        align: s.align_of(element) as usize,
    };
    if let Some(t) = record.tail.as_ref().filter(|t| t.name == name) {
        return Ok(place(name, t.offset, &t.element, None));
    }
    match record.fields.iter().find(|f| f.name == name) {
        Some(f) => Ok(match &f.ty {
            Type::Array(of, n) => place(name, f.offset, of, Some(*n)),
            one => place(name, f.offset, one, Some(1)),
        }),
        None => Err(format!("the signature has no {side} '{name}'")),
    }
}

/// One argument of a kernel, as the manifest has it, and where it stands there.
struct Entry<'a> {
    a: &'a Argument,
    place: &'a str,
}

impl Entry<'_> {
    /// An error of one of its keys.
    fn of(&self, key: &str) -> impl Fn(String) -> MapError {
        wrong(format!("{}.{key}", self.place))
    }

    fn unused(&self, key: &str, there: bool) -> Result<(), MapError> {
        match there {
            true => Err(self.of(key)("it has no meaning here".into())),
            false => Ok(()),
        }
    }

    fn slot(&self, s: &Signature, numbers: &mut Numbers<'_>) -> Result<Slot, MapError> {
        let a = self.a;
        let kinds = [&a.value, &a.input, &a.output, &a.local];
        if kinds.iter().filter(|k| k.is_some()).count() != 1 {
            let reason = "an argument is exactly one of `value`, `input`, `output`, `local`";
            return Err(wrong(self.place)(reason.into()));
        }
        if a.value.is_none() {
            self.unused("type", a.scalar.is_some())?;
        }
        if a.input.is_none() && a.output.is_none() {
            self.unused("at", a.at.is_some())?;
            self.unused("align", a.align.is_some())?;
        }
        match (&a.value, &a.local, &a.input, &a.output) {
            (Some(text), ..) => self.value(text, numbers),
            (_, Some(element), ..) => self.local(element, numbers),
            (_, _, Some(name), _) => self
                .array(array(s, &s.args, name, "argument").map_err(self.of("input"))?, numbers)
                .map(Slot::Input),
            (_, _, _, name) => {
                let name = name.as_ref().expect("one of them is there");
                let found = array(s, &s.results, name, "result").map_err(self.of("output"))?;
                self.written(self.array(found, numbers)?)
            }
        }
    }

    /// A number of the call, or a formula of such.
    fn value(&self, text: &str, numbers: &mut Numbers<'_>) -> Result<Slot, MapError> {
        self.unused("count", self.a.count.is_some())?;
        let Some(name) = &self.a.scalar else {
            let (at, scalar) = numbers.scalar(text.trim()).map_err(|e| {
                self.of("value")(format!("{e} (a formula needs a `type` beside it)"))
            })?;
            if scalar == Scalar::Bool {
                return Err(self.of("value")("kernels take no bool: declare it as u8".into()));
            }
            return Ok(Slot::Scalar(at));
        };
        let scalar = Scalar::named(name)
            .filter(|s| !s.is_float() && *s != Scalar::Bool)
            .ok_or_else(|| self.of("type")(format!("'{name}' is not a type of whole numbers")))?;
        Ok(Slot::Formula(numbers.formula(text).map_err(self.of("value"))?, scalar))
    }

    /// Memory that a work group shares.
    fn local(&self, element: &str, numbers: &mut Numbers<'_>) -> Result<Slot, MapError> {
        let scalar = Scalar::named(element)
            .filter(|s| *s != Scalar::Bool)
            .ok_or_else(|| self.of("local")(format!("'{element}' is not a scalar type")))?;
        let Some(count) = &self.a.count else {
            return Err(self.of("count")("local memory needs one".into()));
        };
        let count = numbers.formula(count).map_err(self.of("count"))?;
        Ok(Slot::Local(count, scalar.bytes()))
    }

    /// An array, with what the manifest says of its alignment and its part that is meant.
    fn array(&self, mut found: Place, numbers: &mut Numbers<'_>) -> Result<Place, MapError> {
        if let Some(align) = self.a.align {
            if !align.is_power_of_two() || align > 4096 {
                return Err(self.of("align")("it is a power of two up to 4096".into()));
            }
            found.align = found.align.max(align as usize);
        }
        let mut formula = |text: &Option<String>, what: &str| match text {
            None => Ok(None),
            Some(t) => numbers.formula(t).map(Some).map_err(self.of(what)),
        };
        found.at = formula(&self.a.at, "at")?;
        found.count = formula(&self.a.count, "count")?;
        Ok(found)
    }

    /// An array of the results.
    fn written(&self, found: Place) -> Result<Slot, MapError> {
        if found.elements.is_none() && found.count.is_none() {
            let reason =
                "how many elements of the result the kernel writes is for the manifest to say";
            return Err(self.of("count")(reason.into()));
        }
        Ok(Slot::Output(found))
    }
}

fn text(what: &str, text: &str, most: usize) -> Result<(), MapError> {
    if text.len() > most {
        return Err(wrong(what)(format!("it has at most {most} bytes")));
    }
    if text.contains('\0') {
        return Err(wrong(what)("it has a zero byte, which C cannot carry".into()));
    }
    Ok(())
}

impl Mapping {
    /// Checks a section against its function's signature.
    pub fn new(map: &Map, s: &Signature) -> Result<Self, MapError> {
        text("kernel", &map.kernel, NAME_BYTES)?;
        if map.kernel.is_empty() {
            return Err(wrong("kernel")("it has no name".into()));
        }
        text("options", &map.options, OPTIONS_BYTES)?;
        text("device.platform", &map.device.platform, NAME_BYTES)?;
        text("device.name", &map.device.name, NAME_BYTES)?;
        let mut numbers = Numbers { args: &s.args, found: vec![] };
        let dimensions = map.global.len();
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            return Err(wrong("global")(format!("it has 1 to {DIMENSIONS_MAX} dimensions")));
        }
        if !map.local.is_empty() && map.local.len() != dimensions {
            let reason = format!("it has {} dimensions, global {dimensions}", map.local.len());
            return Err(wrong("local")(reason));
        }
        if map.args.len() > ARGS_MAX {
            return Err(wrong("args")(format!("a kernel has at most {ARGS_MAX}")));
        }
        if map.require.len() > CONDITIONS_MAX {
            return Err(wrong("require")(format!("at most {CONDITIONS_MAX} conditions")));
        }
        let mut formulas = |all: &[String], what: &str| {
            all.iter()
                .enumerate()
                .map(|(i, t)| numbers.formula(t).map_err(wrong(format!("{what}[{i}]"))))
                .collect::<Result<Vec<_>, _>>()
        };
        let (global, local) = (formulas(&map.global, "global")?, formulas(&map.local, "local")?);
        let slots = map
            .args
            .iter()
            .enumerate()
            .map(|(i, a)| Entry { a, place: &format!("args[{i}]") }.slot(s, &mut numbers))
            .collect::<Result<Vec<_>, _>>()?;
        let conditions = map
            .require
            .iter()
            .enumerate()
            .map(|(i, t)| numbers.condition(t).map_err(wrong(format!("require[{i}]"))))
            .collect::<Result<Vec<_>, _>>()?;
        Self::all_results_are_written(s, &map.args)?;
        for name in map.trial.keys() {
            numbers.scalar(name).map_err(wrong(format!("trial.{name}")))?;
        }
        let tail = |r: &Record| {
            r.tail
                .as_ref()
                .map(|t| Tail { offset: t.offset as usize, element_bytes: t.element_bytes })
        };
        Ok(Mapping {
            numbers: numbers.found,
            global,
            local,
            slots,
            conditions,
            args_tail: tail(&s.args),
            args_least: s.args.min_bytes() as usize,
            results_tail: tail(&s.results),
            results_fixed: s.results.fixed_bytes as usize,
            trial: map.trial.iter().map(|(k, v)| (k.clone(), *v)).collect(),
            max_args: s.args.max_bytes(),
            max_result: s.results.max_bytes(),
        })
    }

    /// What no kernel writes would be whatever an earlier call left there.
    fn all_results_are_written(s: &Signature, args: &[Argument]) -> Result<(), MapError> {
        let names = s.results.fields.iter().map(|f| &f.name);
        for name in names.chain(s.results.tail.iter().map(|t| &t.name)) {
            if !args.iter().any(|a| a.output.as_ref() == Some(name)) {
                let shown = if name.is_empty() { "the result" } else { name };
                return Err(wrong("args")(format!(
                    "no argument of the kernel is the output of {shown}"
                )));
            }
        }
        Ok(())
    }

    /// Dimensions of a launch.
    pub fn dimensions(&self) -> usize {
        self.global.len()
    }
    pub fn args(&self) -> usize {
        self.slots.len()
    }
    /// Longest arguments of a call, bytes.
    pub fn max_args(&self) -> u64 {
        self.max_args
    }
    /// Longest results of a call, bytes.
    pub fn max_result(&self) -> u64 {
        self.max_result
    }
}
