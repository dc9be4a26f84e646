//! Who is logged in, without the module.

use super::{CKU_CONTEXT_SPECIFIC, Program};
use crate::generated::{Native, OK};
use std::collections::{BTreeMap, HashSet};
use vfun_remoting::Wiped;

const CKU_USER: u64 = 1;
const CKR_PIN_INCORRECT: u64 = 0xa0;
const CKR_PIN_LOCKED: u64 = 0xa4;
const CKR_USER_ALREADY_LOGGED_IN: u64 = 0x100;
/// Wrong PINs one after the other that the module does not see, because another program is logged in.
/// Then the PIN is locked here, as a token would lock it. Tokens take three to ten.
const WRONG_MAX: u32 = 10;
/// Users of which wrong PINs are counted: more than there are tokens with two users each.
const COUNTED_MAX: usize = 8192;
/// Calls of one login that come to nothing, because others of the slot are under way.
const TRIES: u32 = 8;

/// A token's login.
struct Login {
    user: u64,
    pin: Wiped,
    by: HashSet<Program>,
}

#[derive(Default)]
struct Slot {
    login: Option<Login>,
    /// Calls under way that log in or out. What the module says meanwhile may not be noted yet.
    moving: u32,
    /// How often a login has waited for these, one after the other.
    waited: u32,
}

/// What a login comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Status(u64),
    /// Another call has changed it meanwhile: it is made again.
    NotYet,
}

pub(super) struct Logins {
    pub module: Option<Native>,
    /// Slot and program of each session.
    sessions: BTreeMap<u64, (u64, Program)>,
    by_slot: BTreeMap<u64, Slot>,
    /// Wrong PINs that the module did not see, by slot and user, as long as this process lives. A
    /// right one that the module did not see either ends the row; one that it saw does not: a program
    /// that logs in and out again and again gives others no new tries.
    wrong: BTreeMap<(u64, u64), u32>,
}

impl Logins {
    pub const fn new() -> Logins {
        Logins {
            module: None,
            sessions: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            wrong: BTreeMap::new(),
        }
    }

    /// The module has just been begun: nobody is logged in. Wrong PINs count on.
    pub fn begin(&mut self, module: Native) {
        self.module = Some(module);
        self.sessions.clear();
        self.by_slot.clear();
    }

    pub fn opened(&mut self, session: u64, slot: u64, program: Program) {
        self.sessions.insert(session, (slot, program));
    }

    /// Slot and program of a session.
    pub fn of(&self, session: u64) -> Option<(u64, Program)> {
        self.sessions.get(&session).copied()
    }

    /// A session is about to be closed: its slot if with it the last login of this ends, which is then
    /// to be taken from the module.
    pub fn closes(&mut self, session: u64) -> Option<u64> {
        let (slot, program) = self.sessions.remove(&session)?;
        let more = self.sessions.values().any(|of| *of == (slot, program));
        (!more && self.leave(slot, program)? == Some(true)).then_some(slot)
    }

    /// A call that logs in or out begins. Refused if the PIN is locked.
    pub fn moves(&mut self, slot: u64, user: u64) -> Result<(), u64> {
        if self.wrong.get(&(slot, user)).is_some_and(|wrong| *wrong >= WRONG_MAX) {
            return Err(CKR_PIN_LOCKED);
        }
        self.by_slot.entry(slot).or_default().moving += 1;
        Ok(())
    }

    /// It has ended, and what it came to is noted.
    pub fn moved(&mut self, slot: u64) {
        if let Some(slot) = self.by_slot.get_mut(&slot) {
            slot.moving = slot.moving.saturating_sub(1);
        }
    }

    pub fn is_moving(&self, slot: u64) -> bool {
        self.by_slot.get(&slot).is_some_and(|slot| slot.moving > 0)
    }

    /// Whether they are the same, in a time that does not say where they differ.
    fn same(pin: &[u8], other: &[u8]) -> bool {
        let differ = pin.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        pin.len() == other.len() && std::hint::black_box(differ) == 0
    }

    /// What a login comes to that the module answered so.
    pub fn logged_in(&mut self, of: (u64, Program), user: u64, pin: &[u8], returned: u64) -> Said {
        let (number, program) = of;
        let slot = self.by_slot.entry(number).or_default();
        match (returned, &mut slot.login) {
            (OK, login) => {
                let by = HashSet::from([program]);
                *login = Some(Login { user, pin: Wiped(pin.to_vec()), by });
                slot.waited = 0;
                Said::Status(OK)
            }
            (CKR_USER_ALREADY_LOGGED_IN, Some(login))
                if login.user == user && !login.by.contains(&program) =>
            {
                if !Self::same(&login.pin, pin) {
                    return Said::Status(self.wrong_pin(number, user));
                }
                login.by.insert(program);
                self.wrong.remove(&(number, user));
                Said::Status(OK)
            }
            // Somebody is logged in for the module, and for nobody here: a call that began before
            // this one has not been noted, or has not been made yet. This one is under way itself.
            (CKR_USER_ALREADY_LOGGED_IN, None) if slot.moving > 1 && slot.waited < TRIES => {
                slot.waited += 1;
                Said::NotYet
            }
            (other, _) => {
                slot.waited = 0;
                Said::Status(other)
            }
        }
    }

    /// Counts a wrong PIN that the module did not see.
    fn wrong_pin(&mut self, slot: u64, user: u64) -> u64 {
        if self.wrong.len() >= COUNTED_MAX && !self.wrong.contains_key(&(slot, user)) {
            return CKR_PIN_LOCKED;
        }
        *self.wrong.entry((slot, user)).or_default() += 1;
        CKR_PIN_INCORRECT
    }

    /// Takes a program's login away, where somebody is logged in: true if it was the last one, which
    /// is to be taken from the module; none if it had none.
    pub fn leave(&mut self, slot: u64, program: Program) -> Option<Option<bool>> {
        let slot = self.by_slot.get_mut(&slot)?;
        let login = slot.login.as_mut()?;
        let had = login.by.remove(&program);
        let last = login.by.is_empty();
        if had && last {
            slot.login = None;
            slot.moving += 1;
        }
        Some(had.then_some(last))
    }

    /// The PIN of whoever is logged in to this session's token is another one. Where nobody is, the
    /// standard says that it is the user's.
    pub fn new_pin(&mut self, session: u64, pin: &[u8]) {
        let Some((slot, _)) = self.of(session) else { return };
        let login = self.by_slot.get_mut(&slot).and_then(|slot| slot.login.as_mut());
        let user = match login {
            Some(login) => {
                login.pin = Wiped(pin.to_vec());
                login.user
            }
            None => CKU_USER,
        };
        self.wrong.remove(&(slot, user));
    }

    /// The user has a new PIN by the security officer.
    pub fn user_unlocked(&mut self, session: u64) {
        if let Some((slot, _)) = self.of(session) {
            self.wrong.remove(&(slot, CKU_USER));
        }
    }

    /// There is a new token in a slot.
    pub fn new_token(&mut self, slot: u64) {
        self.wrong.retain(|(of, _), _| *of != slot);
    }
}

const _: () = assert!(CKU_USER != CKU_CONTEXT_SPECIFIC);

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::current;

    const ALREADY: u64 = CKR_USER_ALREADY_LOGGED_IN;

    fn program() -> Program {
        std::thread::spawn(|| current().id()).join().unwrap()
    }

    /// A login that the module answers so.
    fn login(all: &mut Logins, of: (u64, Program), user: u64, pin: &[u8], module: u64) -> Said {
        if let Err(locked) = all.moves(of.0, user) {
            return Said::Status(locked);
        }
        let said = all.logged_in(of, user, pin, module);
        all.moved(of.0);
        said
    }

    #[test]
    fn each_program_logs_in_with_the_pin_and_out_for_itself() {
        let (mut all, a, b) = (Logins::new(), program(), program());
        let is = Said::Status;
        let nobody = login(&mut all, (7, b), 1, b"1234", ALREADY);
        assert_eq!(nobody, is(ALREADY), "whose it is is not known");
        assert_eq!(login(&mut all, (7, a), 1, b"1234", OK), is(OK));
        assert_eq!(login(&mut all, (7, a), 1, b"1234", ALREADY), is(ALREADY));
        for wrong in [&b"12345"[..], b"123", b"1235", b""] {
            assert_eq!(login(&mut all, (7, b), 1, wrong, ALREADY), is(CKR_PIN_INCORRECT));
        }
        assert_eq!(login(&mut all, (7, b), 0, b"1234", ALREADY), is(ALREADY), "another user");
        assert_eq!((all.leave(7, b), all.leave(8, b)), (Some(None), None));
        assert_eq!(login(&mut all, (7, b), 1, b"1234", ALREADY), is(OK));
        assert_eq!((all.leave(7, a), all.leave(7, a)), (Some(Some(false)), Some(None)));
        assert_eq!((all.leave(7, b), all.is_moving(7)), (Some(Some(true)), true));
        all.moved(7);
        assert_eq!((all.leave(7, b), all.is_moving(7)), (None, false), "nobody is in");
    }

    #[test]
    fn wrong_pins_count_on_whoever_logs_in_and_out_meanwhile() {
        let (mut all, a, b) = (Logins::new(), program(), program());
        let is = Said::Status;
        let (incorrect, locked) = (is(CKR_PIN_INCORRECT), is(CKR_PIN_LOCKED));
        for _ in 0..2 {
            assert_eq!(login(&mut all, (7, a), 1, b"1234", OK), is(OK));
            for _ in 0..WRONG_MAX / 2 {
                assert_eq!(login(&mut all, (7, b), 1, b"0000", ALREADY), incorrect);
            }
            all.leave(7, a);
            all.moved(7);
        }
        for program in [a, b] {
            assert_eq!(login(&mut all, (7, program), 1, b"1234", OK), locked);
        }
        assert_eq!(login(&mut all, (8, a), 1, b"1234", OK), is(OK), "another slot");
        assert_eq!(login(&mut all, (7, a), 0, b"12345678", OK), is(OK), "another user");
        all.begin(crate::model::NATIVE);
        assert_eq!(login(&mut all, (7, a), 1, b"1234", OK), locked, "begun anew");
        // The security officer gives the user a PIN.
        all.opened(5, 7, a);
        all.user_unlocked(5);
        assert_eq!(login(&mut all, (7, a), 1, b"4321", OK), is(OK));
        // A right one that the module does not see ends the row, as it would in a token.
        for _ in 0..2 {
            for _ in 1..WRONG_MAX {
                assert_eq!(login(&mut all, (7, b), 1, b"0000", ALREADY), incorrect);
            }
            assert_eq!(login(&mut all, (7, b), 1, b"4321", ALREADY), is(OK));
            assert_eq!(all.leave(7, b), Some(Some(false)));
        }
    }

    #[test]
    fn what_is_not_noted_yet_is_asked_again() {
        let (mut all, a, b) = (Logins::new(), program(), program());
        // A has logged in for the module, and not here.
        all.moves(7, 1).unwrap();
        all.moves(7, 1).unwrap();
        assert_eq!(all.logged_in((7, b), 1, b"1234", ALREADY), Said::NotYet);
        all.moved(7);
        assert!(all.is_moving(7));
        assert_eq!(all.logged_in((7, a), 1, b"1234", OK), Said::Status(OK));
        all.moved(7);
        assert!(!all.is_moving(7));
        assert_eq!(login(&mut all, (7, b), 1, b"1234", ALREADY), Said::Status(OK));
    }
}
