//! Whose turn it is: clients one after the other, and of each client its windows one
//! after the other. A client with many windows keeps nobody waiting for longer than one
//! with a single window does.

use std::collections::{BTreeMap, VecDeque};
use vfun_core::WindowId;

/// Windows with requests, in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Those of `windows`, each once.
    clients: VecDeque<u32>,
    /// By client; none is empty.
    windows: BTreeMap<u32, VecDeque<WindowId>>,
}

impl Turns {
    /// A window waits for its turn, behind the others of its client.
    pub fn push(&mut self, client: u32, window: WindowId) {
        let of_client = self.windows.entry(client).or_default();
        if of_client.is_empty() {
            self.clients.push_back(client);
        }
        of_client.push_back(window);
    }

    /// The next window. Its client's next one comes after one of each other client.
    pub fn pop(&mut self) -> Option<WindowId> {
        let client = self.clients.pop_front()?;
        let of_client = self.windows.get_mut(&client)?;
        let window = of_client.pop_front();
        match of_client.is_empty() {
            true => drop(self.windows.remove(&client)),
            false => self.clients.push_back(client),
        }
        window
    }

    /// How many clients wait.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_many_windows_has_no_more_turns_than_one_with_one() {
        let mut turns = Turns::default();
        (10..14).for_each(|window| turns.push(1, window));
        turns.push(2, 20);
        assert_eq!(turns.clients(), 2);
        let mut order = vec![];
        while let Some(window) = turns.pop() {
            order.push(window);
            // The second client asks again and again.
            if window == 20 && order.len() < 7 {
                turns.push(2, 20);
            }
        }
        assert_eq!(order, [10, 20, 11, 20, 12, 20, 13, 20]);
        assert!(turns.is_empty() && turns.windows.is_empty());
    }
}
