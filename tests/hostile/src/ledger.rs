//! The caller's side of the driver's ledger: of all answers of a channel, which
//! calls ran, in which cell, in which order, and that none ran twice.

use std::collections::{BTreeMap, BTreeSet};
use vfun_testdriver::ledger::{KEPT, RESULT_BYTES};

struct Answer {
    tag: u64,
    count: u64,
    call: u64,
    before: [u64; KEPT],
}

/// What a channel's calls said.
#[derive(Default)]
pub struct Ledger {
    answers: Vec<Answer>,
    failed: BTreeSet<u64>,
}

impl Ledger {
    /// Notes an answer; an error if it is another call's.
    pub fn enter(&mut self, call: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(bytes) = bytes.first_chunk::<RESULT_BYTES>() else {
            return Err(format!("call {call}: {} bytes of results", bytes.len()));
        };
        let (chunks, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(chunks[i]);
        if word(0) != call {
            return Err(format!("call {call} has the result of call {}", word(0)));
        }
        let before = std::array::from_fn(|i| word(3 + i));
        self.answers.push(Answer { tag: word(1), count: word(2), call, before });
        Ok(())
    }

    /// Notes a call that ended with an error: it may have run, or not.
    pub fn failed(&mut self, call: u64) {
        self.failed.insert(call);
    }

    /// Compares all: how many of the failed ran, and what must not be.
    pub fn close(self) -> (u64, Vec<String>) {
        let Ledger { answers, mut failed } = self;
        let (mut ran, mut wrong) = (0, vec![]);
        let mut cells: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for a in answers {
            if !seen.insert(a.call) {
                wrong.push(format!("call {} was answered twice", a.call));
            }
            cells.entry(a.tag).or_default().push(a);
        }
        for (tag, mut cell) in cells {
            cell.sort_by_key(|a| a.count);
            let (mut count, mut last) = (0, 0);
            for a in &cell {
                // Between two answers of a cell only calls ran that failed, each once.
                let between = a.count.saturating_sub(count + 1);
                if a.count <= count {
                    wrong.push(format!("cell {tag}: call {} is number {count} again", a.call));
                }
                for &call in a.before.iter().take(between as usize) {
                    if failed.remove(&call) {
                        ran += 1;
                    } else {
                        wrong.push(format!(
                            "cell {tag}: call {call} ran between {last} and {}, and did not fail once",
                            a.call
                        ));
                    }
                }
                if (between as usize) < KEPT && a.before[between as usize] != last {
                    wrong.push(format!(
                        "cell {tag}: {} ran before call {}, not {last}",
                        a.before[between as usize], a.call
                    ));
                }
                (count, last) = (a.count, a.call);
            }
        }
        (ran, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(call: u64, tag: u64, count: u64, before: &[u64]) -> Vec<u8> {
        let mut words = vec![call, tag, count];
        words.extend(before);
        words.resize(3 + KEPT, 0);
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn wrong(answers: &[(u64, Vec<u8>)], failed: &[u64]) -> (u64, usize) {
        let mut ledger = Ledger::default();
        for (call, bytes) in answers {
            ledger.enter(*call, bytes).unwrap();
        }
        failed.iter().for_each(|f| ledger.failed(*f));
        let (ran, wrong) = ledger.close();
        (ran, wrong.len())
    }

    #[test]
    fn what_ran_once_is_right_and_what_ran_twice_is_found() {
        let good = [(5, answer(5, 5, 1, &[])), (7, answer(7, 5, 2, &[5]))];
        assert_eq!(wrong(&good, &[]), (0, 0));
        // 6 ran in between and failed.
        let vain = [(5, answer(5, 5, 1, &[])), (7, answer(7, 5, 3, &[6, 5]))];
        assert_eq!(wrong(&vain, &[6]), (1, 0));
        // 6 ran and was never said to have failed; 7 ran twice; 5 twice.
        assert_eq!(wrong(&vain, &[]), (0, 1));
        let twice = [(5, answer(5, 5, 1, &[])), (7, answer(7, 5, 3, &[7, 5]))];
        assert_eq!(wrong(&twice, &[]), (0, 1));
        assert!(wrong(&[good[0].clone(), good[0].clone()], &[]).1 > 0);
        // 6 ran twice and failed.
        let vain = [(5, answer(5, 5, 1, &[])), (7, answer(7, 5, 4, &[6, 6, 5]))];
        assert_eq!(wrong(&vain, &[6]), (1, 1));
        assert!(Ledger::default().enter(1, &answer(2, 2, 1, &[])).is_err());
    }
}
