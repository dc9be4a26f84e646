//! What to launch for one call.

use crate::expression::{Expression, ValueError};
use crate::limits::{DIMENSIONS_MAX, NUMBERS_MAX, TRIAL_BYTES};
use crate::mapping::{Condition, Mapping, Number, Place, Relation, Slot};
use vfun_signature::Scalar;

/// Why a call cannot be launched: its caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// A formula has no value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A number that sizes are made of is below zero.
    #[error("{0} is below zero")]
    Negative(String),
    /// One of the manifest's conditions does not hold.
    #[error("not so: {0}")]
    Condition(String),
    /// A buffer reaches beyond its array.
    #[error("{name}: {end} elements wanted, {elements} there")]
    Short {
        name: String,
        /// One past the last element.
        end: u64,
        /// Elements that the arguments have for it.
        elements: u64,
    },
    /// A buffer of nothing.
    #[error("{0}: no elements")]
    Empty(String),
    /// A size of the launch is zero.
    #[error("work size {0} is 0")]
    NoWork(String),
    /// The device's rule: whole work-groups.
    #[error("work size {global} is not a multiple of {local}")]
    Uneven { global: u64, local: u64 },
    /// Shorter than the signature's fixed part.
    #[error("arguments: {0} bytes are too few")]
    Arguments(usize),
}

/// One of the kernel's arguments in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A number of so many bytes, little-endian.
    Scalar {
        /// The number; the rest is zero.
        bytes: [u8; 8],
        len: usize,
    },
    /// A range of the arguments.
    Input {
        /// Where it begins, bytes.
        offset: usize,
        len: usize,
        /// What its address must be a multiple of to be used in place.
        align: usize,
    },
    /// A range of the results.
    Output {
        /// Where it begins, bytes.
        offset: usize,
        len: usize,
        /// What its address must be a multiple of to be used in place.
        align: usize,
    },
    /// Memory of each work-group, bytes.
    Local(usize),
}

/// What to launch; one is used again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Work-items in each dimension.
    pub global: [usize; DIMENSIONS_MAX],
    /// Work-items of a work-group, unless the device is to choose.
    pub local: Option<[usize; DIMENSIONS_MAX]>,
    pub args: Vec<Bound>,
    /// Bytes of results that the kernel writes.
    pub result_len: usize,
}

fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Condition {
    fn holds(&self, numbers: &[u64]) -> Result<bool, ValueError> {
        let (a, b) = (self.left.value(numbers)?, self.right.value(numbers)?);
        Ok(match self.relation {
            Relation::Equal => a == b,
            Relation::NotEqual => a != b,
            Relation::AtMost => a <= b,
            Relation::Below => a < b,
            Relation::AtLeast => a >= b,
            Relation::Above => a > b,
        })
    }
}

impl Place {
    /// First element and how many, of `there` (`None`: as many as one likes).
    #[inline]
    fn elements(&self, numbers: &[u64], there: Option<u64>) -> Result<(u64, u64), BindError> {
        let at = self.at.as_ref().map_or(Ok(0), |e| e.value(numbers))?;
        let count = match &self.count {
            Some(e) => e.value(numbers)?,
            None => there.unwrap_or(0).saturating_sub(at),
        };
        let end = at
            .checked_add(count)
            .ok_or_else(|| ValueError::TooLarge(format!("the end of {}", self.name)))?;
        if let Some(elements) = there.filter(|n| end > *n) {
            return Err(BindError::Short { name: self.name.clone(), end, elements });
        }
        if count == 0 {
            return Err(BindError::Empty(self.name.clone()));
        }
        Ok((at, count))
    }

    /// Offset and length in bytes.
    #[inline]
    fn bytes(&self, (at, count): (u64, u64)) -> Result<(usize, usize), BindError> {
        let large = || ValueError::TooLarge(format!("the size of {}", self.name));
        let start = at.checked_mul(self.element_bytes).ok_or_else(large)?;
        let len = count.checked_mul(self.element_bytes).ok_or_else(large)?;
        let offset = (self.offset as u64).checked_add(start).ok_or_else(large)?;
        offset.checked_add(len).ok_or_else(large)?;
        Ok((size(offset), size(len)))
    }
}

/// A scalar's bytes as a whole number, if it is one and not below zero.
fn whole(scalar: Scalar, b: [u8; 8]) -> Option<u64> {
    let value = match scalar {
        Scalar::I8 => i64::from(b[0] as i8),
        Scalar::I16 => i64::from(i16::from_le_bytes([b[0], b[1]])),
        Scalar::I32 => i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        Scalar::I64 => i64::from_le_bytes(b),
        // The rest is zero.
        _ => return Some(u64::from_le_bytes(b)),
    };
    u64::try_from(value).ok()
}

/// A call's numbers: as they came, and as whole numbers where they are such.
struct Read {
    raw: [[u8; 8]; NUMBERS_MAX],
    values: [u64; NUMBERS_MAX],
}

impl Mapping {
    /// Says what to launch for a call whose arguments have `len` bytes. `read`
    /// copies bytes of the arguments from an offset on; it is asked for each
    /// number once, and never for bytes beyond `len`.
    #[inline]
    pub fn bind(
        &self,
        len: usize,
        read: impl FnMut(usize, &mut [u8]),
        launch: &mut Launch,
    ) -> Result<(), BindError> {
        if len < self.args_least {
            return Err(BindError::Arguments(len));
        }
        let count = self.args_tail.map(|t| (len - t.offset) as u64 / t.element_bytes.max(1));
        let read = self.read(count, read)?;
        let numbers = &read.values[..self.numbers.len()];
        self.sizes(numbers, launch)?;
        launch.args.clear();
        // Behind the fixed ones there may be padding, in which the array begins.
        launch.result_len = self.results_tail.map_or(self.results_fixed, |t| t.offset);
        for slot in &self.slots {
            let bound = self.slot(slot, &read, numbers, count)?;
            if let Bound::Output { offset, len, .. } = bound {
                launch.result_len = launch.result_len.max(offset + len);
            }
            launch.args.push(bound);
        }
        for c in &self.conditions {
            if !c.holds(numbers)? {
                return Err(BindError::Condition(c.text.clone()));
            }
        }
        Ok(())
    }

    /// The call's numbers, each read once.
    #[inline]
    fn read(
        &self,
        count: Option<u64>,
        mut read: impl FnMut(usize, &mut [u8]),
    ) -> Result<Read, BindError> {
        let mut numbers = Read { raw: [[0; 8]; NUMBERS_MAX], values: [0; NUMBERS_MAX] };
        for (i, number) in self.numbers.iter().enumerate() {
            match number {
                Number::Count => numbers.values[i] = count.unwrap_or(0),
                Number::Scalar { name, offset, scalar } => {
                    let raw = &mut numbers.raw[i];
                    read(*offset, &mut raw[..scalar.bytes() as usize]);
                    // No formula names a floating-point number.
                    numbers.values[i] = match whole(*scalar, *raw) {
                        Some(v) => v,
                        None if self.is_in_a_formula(i) => {
                            return Err(BindError::Negative(name.clone()));
                        }
                        None => 0,
                    };
                }
            }
        }
        Ok(numbers)
    }

    /// What one argument of the kernel is in this call; `count` is the length of the
    /// array that ends the arguments.
    #[inline]
    fn slot(
        &self,
        slot: &Slot,
        read: &Read,
        numbers: &[u64],
        count: Option<u64>,
    ) -> Result<Bound, BindError> {
        Ok(match slot {
            Slot::Scalar(n) => {
                let Number::Scalar { scalar, .. } = &self.numbers[usize::from(*n)] else {
                    unreachable!("made of a scalar")
                };
                Bound::Scalar { bytes: read.raw[usize::from(*n)], len: scalar.bytes() as usize }
            }
            Slot::Formula(e, scalar) => formula(e, *scalar, numbers)?,
            Slot::Input(place) => {
                let there = place.elements.or(count);
                let (offset, len) = place.bytes(place.elements(numbers, there)?)?;
                Bound::Input { offset, len, align: place.align }
            }
            Slot::Output(place) => {
                let found = place.elements(numbers, place.elements)?;
                let (offset, len) = place.bytes(found)?;
                Bound::Output { offset, len, align: place.align }
            }
            Slot::Local(e, bytes) => {
                let len = e.value(numbers)?.checked_mul(*bytes);
                let len = len.ok_or_else(|| ValueError::TooLarge(e.text().to_owned()))?;
                if len == 0 {
                    return Err(BindError::Empty(e.text().to_owned()));
                }
                Bound::Local(size(len))
            }
        })
    }

    /// A number that is passed on as it is may be below zero; one that sizes
    /// are made of may not.
    #[cold]
    fn is_in_a_formula(&self, number: usize) -> bool {
        let names = |e: &Expression| e.names(number);
        let of_place = |p: &Place| p.at.iter().chain(&p.count).any(names);
        self.global.iter().chain(&self.local).any(names)
            || self.conditions.iter().any(|c| names(&c.left) || names(&c.right))
            || self.slots.iter().any(|s| match s {
                Slot::Scalar(_) => false,
                Slot::Formula(e, _) | Slot::Local(e, _) => names(e),
                Slot::Input(p) | Slot::Output(p) => of_place(p),
            })
    }

    #[inline]
    fn sizes(&self, numbers: &[u64], launch: &mut Launch) -> Result<(), BindError> {
        launch.global = [1; DIMENSIONS_MAX];
        launch.local = (!self.local.is_empty()).then_some([1; DIMENSIONS_MAX]);
        for (d, e) in self.global.iter().enumerate() {
            let global = e.value(numbers)?;
            if global == 0 {
                return Err(BindError::NoWork(e.text().to_owned()));
            }
            launch.global[d] = size(global);
            let (Some(e), Some(all)) = (self.local.get(d), launch.local.as_mut()) else { continue };
            let local = e.value(numbers)?;
            if local == 0 {
                return Err(BindError::NoWork(e.text().to_owned()));
            }
            if global % local != 0 {
                return Err(BindError::Uneven { global, local });
            }
            all[d] = size(local);
        }
        Ok(())
    }

    /// Arguments of the smallest call there is: each number 1, or what the
    /// manifest's `trial` says, and as many elements as that asks for, all zero.
    pub fn trial(&self) -> Result<Vec<u8>, BindError> {
        let mut args = vec![0; self.args_least];
        for n in &self.numbers {
            let Number::Scalar { name, offset, scalar } = n else { continue };
            let told = self.trial.iter().find(|(of, _)| of == name).map_or(1, |(_, v)| *v);
            let bytes = match scalar {
                Scalar::F32 => u64::from((told as f32).to_bits()),
                Scalar::F64 => (told as f64).to_bits(),
                _ => told,
            };
            let len = scalar.bytes() as usize;
            args[*offset..*offset + len].copy_from_slice(&bytes.to_le_bytes()[..len]);
        }
        let mut launch = Launch::default();
        // More than once: what an array must have may depend on how much it has.
        for _ in 0..3 {
            let bound = self.bind(args.len(), |at, to| copy(&args, at, to), &mut launch);
            let want = match (bound, self.args_tail) {
                (Ok(()), _) if launch.result_len > TRIAL_BYTES => {
                    return Err(ValueError::TooLarge("the results of the trial call".into()).into());
                }
                (Ok(()), _) => return Ok(args),
                (Err(BindError::Short { end, .. }), Some(_)) => end,
                (Err(BindError::Empty(_) | BindError::NoWork(_)), Some(_)) => 1,
                (Err(e), _) => return Err(e),
            };
            let tail = self.args_tail.expect("just seen");
            let len = want.saturating_mul(tail.element_bytes).saturating_add(tail.offset as u64);
            if len > TRIAL_BYTES as u64 {
                return Err(ValueError::TooLarge("the trial call".into()).into());
            }
            args.resize(len as usize, 0);
        }
        self.bind(args.len(), |at, to| copy(&args, at, to), &mut launch)?;
        Ok(args)
    }
}

fn copy(from: &[u8], at: usize, to: &mut [u8]) {
    to.copy_from_slice(&from[at..at + to.len()]);
}

fn formula(e: &Expression, scalar: Scalar, numbers: &[u64]) -> Result<Bound, BindError> {
    let value = e.value(numbers)?;
    let len = scalar.bytes() as usize;
    let signed = matches!(scalar, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64);
    let bits = len as u32 * 8 - u32::from(signed);
    if bits < 64 && value >> bits != 0 {
        return Err(ValueError::TooLarge(e.text().to_owned()).into());
    }
    Ok(Bound::Scalar { bytes: value.to_le_bytes(), len })
}
