//! On a processor for which there is no such machine here.

use crate::{Job, NoMachine, Stop};

/// None is ever made.
pub struct Machine(std::convert::Infallible);

impl Machine {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, NoMachine> {
        Err(NoMachine::NoKvm("only written for x86-64 so far".to_owned()))
    }

    /// Never comes to be called.
    ///
    /// # Errors
    /// None.
    pub fn run<J: Job>(&mut self, _: &mut J) -> Result<Stop, NoMachine> {
        match self.0 {}
    }
}
