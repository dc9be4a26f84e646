//! Calls of the API's whose bytes are those of several calls to the host.

use crate::failure::Failure;
use crate::out::Room;
use std::mem::MaybeUninit;
use vfun_remoting::limits::{LONG_BYTES, PART_BYTES};

/// Makes a call for each part of the bytes, until one does not say `ok`.
pub fn parts<S: PartialEq>(
    bytes: Option<&[u8]>,
    ok: S,
    mut call: impl FnMut(Option<&[u8]>) -> Result<S, Failure>,
) -> Result<S, Failure> {
    let Some(long) = bytes.filter(|bytes| bytes.len() > PART_BYTES) else { return call(bytes) };
    for part in long.chunks(PART_BYTES) {
        let status = call(Some(part))?;
        if status != ok {
            return Ok(status);
        }
    }
    Ok(ok)
}

/// The same where bytes come back: behind one another they are those of the whole call. Whether all
/// of them fit is asked first, because no part can be taken back. `call` is given the part, and how
/// many bytes the library is to be told of instead if only a length is asked for. `small` is the
/// status of an answer that does not fit.
pub fn parts_turned<S: PartialEq + Copy>(
    bytes: Option<&[u8]>,
    room: &mut Room<'_, u8>,
    [ok, small]: [S; 2],
    mut call: impl FnMut(Option<&[u8]>, u64, &mut Room<'_, u8>) -> Result<S, Failure>,
) -> Result<S, Failure> {
    let Some(long) = bytes.filter(|bytes| bytes.len() > PART_BYTES) else {
        return call(bytes, 0, room);
    };
    if long.len() > LONG_BYTES {
        return Err(Failure::Limit);
    }
    let mut needed = 0;
    let mut alone = Room { to: None, len: &mut needed, most: room.most };
    let asked = call(Some(&[]), long.len() as u64, &mut alone)?;
    if asked != ok {
        return Ok(asked);
    }
    let Some(to) = room.to.as_mut().filter(|to| to.len() as u64 >= needed) else {
        *room.len = needed;
        return Ok(if room.to.is_none() { ok } else { small });
    };
    let mut done = 0;
    for part in long.chunks(PART_BYTES) {
        let mut length = 0;
        let left = &mut to[done..];
        let mut place = Room { to: Some(left), len: &mut length, most: room.most };
        match call(Some(part), 0, &mut place)? {
            status if status == ok => done += length as usize,
            // It said before that all would fit, and some parts are gone.
            status if status == small => return Err(Failure::Limit),
            status => return Ok(status),
        }
    }
    *room.len = done as u64;
    Ok(ok)
}

/// Makes a call for each part of the places, until one does not say `ok`. At least one.
pub fn parts_filled<S: PartialEq + Copy>(
    places: &mut [MaybeUninit<u8>],
    ok: S,
    mut call: impl FnMut(&mut [MaybeUninit<u8>]) -> Result<S, Failure>,
) -> Result<S, Failure> {
    if places.len() <= PART_BYTES {
        return call(places);
    }
    for part in places.chunks_mut(PART_BYTES) {
        let status = call(part)?;
        if status != ok {
            return Ok(status);
        }
    }
    Ok(ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfun_remoting::{Reader, Writer};

    const OK: u64 = 0;
    const SMALL: u64 = 7;
    const LONG: usize = 3 * PART_BYTES + 100;

    /// A library that takes a block of 16 bytes at a time and answers each, one higher.
    #[derive(Default)]
    struct Blocks {
        kept: Vec<u8>,
        calls: usize,
        /// It says that its answers need less room than they do.
        lies: bool,
    }

    impl Blocks {
        fn turn(&mut self, bytes: &[u8], instead: u64, room: &mut Room<'_, u8>) -> u64 {
            self.calls += 1;
            let asked = room.asked();
            let bytes: Vec<u8> = [bytes.to_vec(), vec![0; instead as usize]].concat();
            let all = (self.kept.len() + bytes.len()) / 16 * 16;
            let mut answer = vec![];
            let mut w = Writer::append(&mut answer);
            let status = match asked {
                u64::MAX => {
                    w.length(if self.lies { 16 } else { all });
                    OK
                }
                asked if asked < all as u64 => {
                    w.length(all);
                    SMALL
                }
                _ => {
                    assert_eq!(instead, 0, "zeros are never taken for the program's bytes");
                    self.kept.extend(bytes);
                    let turned: Vec<u8> = self.kept.drain(..all).map(|byte| byte + 1).collect();
                    w.length(all);
                    w.bytes(&turned);
                    OK
                }
            };
            room.read(&mut Reader::new(&answer), status == OK && asked != u64::MAX).expect("read");
            status
        }
    }

    fn turned(
        library: &mut Blocks,
        bytes: usize,
        room: Option<usize>,
    ) -> (Result<u64, Failure>, u64, Vec<u8>) {
        let bytes: Vec<u8> = (0..bytes).map(|at| (at % 199) as u8).collect();
        let mut to = vec![MaybeUninit::new(0xEE); room.unwrap_or_default()];
        let mut len = 0;
        let to_fill = room.map(|_| &mut to[..]);
        let mut place = Room { to: to_fill, len: &mut len, most: PART_BYTES as u64 + 64 };
        let done = parts_turned(Some(&bytes), &mut place, [OK, SMALL], |part, instead, room| {
            Ok(library.turn(part.expect("bytes"), instead, room))
        });
        let to = crate::out::initialized(to);
        (done, len, to)
    }

    #[test]
    fn bytes_that_fit_no_cell_come_back_as_those_of_one_call() {
        let whole = LONG / 16 * 16;
        let mut library = Blocks::default();
        assert_eq!(turned(&mut library, LONG, None).1, whole as u64, "the length alone");
        let (done, length, to) = turned(&mut library, LONG, Some(whole - 1));
        assert_eq!((done, length), (Ok(SMALL), whole as u64));
        assert!(to.iter().all(|byte| *byte == 0xEE) && library.kept.is_empty(), "nothing was done");
        let (done, length, to) = turned(&mut library, LONG, Some(whole));
        assert_eq!((done, length), (Ok(OK), whole as u64), "no byte more is needed than natively");
        assert!(to.iter().enumerate().all(|(at, byte)| *byte == (at % 199) as u8 + 1));
        assert_eq!(library.kept.len(), LONG % 16);
        // What is left over belongs to the next call.
        assert_eq!(turned(&mut library, PART_BYTES, Some(LONG)).1, PART_BYTES as u64);
    }

    #[test]
    fn what_cannot_be_split_is_refused_before_anything_is_done() {
        let mut library = Blocks::default();
        assert_eq!(turned(&mut library, LONG_BYTES + 1, Some(1)).0, Err(Failure::Limit));
        assert_eq!(library.calls, 0);
        library.lies = true;
        assert_eq!(turned(&mut library, LONG, Some(PART_BYTES)).0, Err(Failure::Limit));
    }

    #[test]
    fn places_and_bytes_are_split_until_a_part_fails() {
        let mut places = [MaybeUninit::new(0); LONG];
        let mut lengths = vec![];
        let mut fill = |places: &mut [MaybeUninit<u8>]| {
            lengths.push(places.len());
            Ok(if lengths.len() == 3 { SMALL } else { OK })
        };
        assert_eq!(parts_filled(&mut places, OK, &mut fill), Ok(SMALL));
        assert_eq!(parts_filled(&mut [], OK, &mut fill), Ok(OK));
        assert_eq!(lengths, [PART_BYTES, PART_BYTES, PART_BYTES, 0]);
        let mut seen = 0;
        let all = parts(Some(&[1; LONG]), OK, |part| {
            seen += part.map_or(0, <[u8]>::len);
            Ok(OK)
        });
        assert_eq!((all, seen), (Ok(OK), LONG));
    }
}
