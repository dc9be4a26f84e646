//! Numbers that peers use: random, and found in one step.
//!
//! A number's low bits are its place. A number whose place is taken is drawn again, so no
//! place has two, and all bits of a number are random. The table is at most half full.

use crate::limits::DRAWS;
use crate::refused::Refused;

/// Where random numbers come from.
pub type Random = Box<dyn FnMut() -> u64 + Send>;

/// Things by random numbers.
pub struct Drawn<T> {
    places: Vec<Option<(u32, T)>>,
    count: usize,
    most: usize,
    /// Which bits a number has.
    bits: u32,
    what: &'static str,
}

impl<T> Drawn<T> {
    /// At most `most` things, whose numbers have these bits.
    pub const fn new(what: &'static str, most: usize, bits: u32) -> Self {
        Drawn { places: Vec::new(), count: 0, most, bits, what }
    }

    fn place(&self, number: u32) -> usize {
        number as usize & (self.places.len().wrapping_sub(1))
    }

    /// Adds one: its number, which is never 0 or 1 (verbs reserve these queue pairs).
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub fn insert(&mut self, random: &mut Random, value: T) -> Result<u32, Refused> {
        if self.count >= self.most {
            return Err(Refused::Limit(self.what));
        }
        if self.count * 2 >= self.places.len() {
            self.grow();
        }
        let number = self.draw(random);
        let place = self.place(number);
        self.places[place] = Some((number, value));
        self.count += 1;
        Ok(number)
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let mut number = 0;
        for _ in 0..DRAWS {
            number = random() as u32 & self.bits;
            if self.is_free(number) {
                return number;
            }
        }
        // Half of all places are free.
        while !self.is_free(number) {
            number = number.wrapping_add(1) & self.bits;
        }
        number
    }

    fn is_free(&self, number: u32) -> bool {
        number > 1 && self.places[self.place(number)].is_none()
    }

    /// Numbers that differ in their low bits still do when there are more of these.
    fn grow(&mut self) {
        let len = (self.places.len() * 2).max(16);
        let old = core::mem::replace(&mut self.places, (0..len).map(|_| None).collect());
        for (number, value) in old.into_iter().flatten() {
            let place = self.place(number);
            self.places[place] = Some((number, value));
        }
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.places.get(self.place(number)) {
            Some(Some((n, value))) if *n == number => Some(value),
            _ => None,
        }
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        self.get(number)?;
        let place = self.place(number);
        self.count -= 1;
        self.places[place].take().map(|(_, value)| value)
    }

    /// Numbers of those that are as asked for.
    pub fn numbers(&self, of: impl Fn(&T) -> bool) -> Vec<u32> {
        self.places.iter().flatten().filter(|(_, v)| of(v)).map(|(n, _)| *n).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_found_in_one_step_and_wrong_ones_are_not() {
        let mut seed = 1u64;
        let mut random: Random = Box::new(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 20
        });
        let mut all = Drawn::new("things", 3000, 0xff_ffff);
        assert!(all.get(7).is_none());
        let numbers: Vec<u32> = (0..3000).map(|i| all.insert(&mut random, i).unwrap()).collect();
        assert_eq!(all.insert(&mut random, 0), Err(Refused::Limit("things")));
        for (i, n) in numbers.iter().enumerate() {
            assert_eq!(all.get(*n), Some(&i));
            assert!((2..1 << 24).contains(n));
            let other = n ^ 1 << 23;
            assert_eq!(all.get(other).is_some(), numbers.contains(&other));
        }
        assert_eq!(all.remove(numbers[5]), Some(5));
        assert!(all.get(numbers[5]).is_none() && all.remove(numbers[5]).is_none());
        assert_eq!(all.numbers(|i| *i < 7).len(), 6);
    }

    #[test]
    fn a_source_that_is_not_random_ends_nothing() {
        let mut random: Random = Box::new(|| 5);
        let mut all = Drawn::new("things", 100, 0xff_ffff);
        let numbers: std::collections::BTreeSet<u32> =
            (0..100).map(|i| all.insert(&mut random, i).unwrap()).collect();
        assert_eq!(numbers.len(), 100);
    }
}
