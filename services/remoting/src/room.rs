//! Memory of a call: where the guest's bytes lie, and room for what a library answers. The room is
//! zeros before, so that nothing of the service's can be in it, and is wiped after.

use vfun_remoting::limits::{LONG_BYTES, PLACES_BYTES, STRUCTS_MAX};
use vfun_remoting::{NOWHERE, Reader, Refusal, Wiped, Writer, wipe};

/// Where bytes of the call begin; null if the program gave a null pointer.
pub fn start(bytes: Option<&[u8]>) -> *mut u8 {
    bytes.map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut())
}

/// How many there are.
pub fn length(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(0, |bytes| bytes.len() as u64)
}

/// Bytes whose number the API fixes.
pub fn exactly(bytes: Option<&[u8]>, len: usize) -> Result<Option<&[u8]>, Refusal> {
    match bytes {
        Some(bytes) if bytes.len() != len => Err(Refusal::Argument),
        bytes => Ok(bytes),
    }
}

/// What stands in for the bytes of a long call of which only the answer's length is asked: zeros,
/// as many. `room` is where the answer would go.
pub fn instead<'a>(
    sent: Option<&'a [u8]>,
    long: u64,
    zeros: &'a mut Vec<u8>,
    room: &Room<u8>,
) -> Result<Option<&'a [u8]>, Refusal> {
    if long == 0 {
        return Ok(sent);
    }
    if room.items.is_some() {
        return Err(Refusal::Argument); // they are not the program's bytes
    }
    let long = usize::try_from(long).ok().filter(|long| *long <= LONG_BYTES);
    *zeros = vec![0; long.ok_or(Refusal::Limit)?];
    Ok(Some(zeros))
}

/// Reads structs, or a null pointer.
pub fn list<T>(
    r: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Refusal>,
) -> Result<Option<Vec<T>>, Refusal> {
    let mut look = *r;
    if look.u64()? == NOWHERE {
        *r = look;
        return Ok(None);
    }
    let count = r.length(STRUCTS_MAX)?;
    (0..count).map(|_| read(r)).collect::<Result<_, _>>().map(Some)
}

/// Reads numbers, or a null pointer.
pub fn numbers<T: Item>(r: &mut Reader<'_>) -> Result<Option<Vec<T>>, Refusal> {
    let mut look = *r;
    if look.u64()? == NOWHERE {
        *r = look;
        return Ok(None);
    }
    // Each takes a word of the call: a count that it cannot have takes no memory.
    let count = r.length(r.left() / 8)?;
    (0..count).map(|_| T::read(r)).collect::<Result<_, _>>().map(Some)
}

/// Text of the call with a zero byte at its end, and nowhere else: what a library takes for a text.
pub fn text(bytes: Option<&[u8]>) -> Result<Option<Wiped>, Refusal> {
    let Some(bytes) = bytes else { return Ok(None) };
    if bytes.contains(&0) {
        return Err(Refusal::Argument);
    }
    let mut text = Wiped::with_room(bytes.len() + 1);
    text.extend_from_slice(bytes);
    text.push(0);
    Ok(Some(text))
}

/// Where a text begins; null if the program gave a null pointer.
pub fn start_of_text(text: &Option<Wiped>) -> *mut u8 {
    start(text.as_ref().map(|text| text.as_slice()))
}

/// Where they lie.
pub fn items<T>(list: &mut Option<Vec<T>>) -> *mut T {
    list.as_mut().map_or(std::ptr::null_mut(), Vec::as_mut_ptr)
}

/// How many there are.
pub fn count<T>(list: &Option<Vec<T>>) -> u64 {
    list.as_ref().map_or(0, |list| list.len() as u64)
}

/// A number that a library takes or answers several of.
pub trait Item: Copy + Default {
    fn read(args: &mut Reader<'_>) -> Result<Self, Refusal>;
    fn write(all: &[Self], reply: &mut Writer<'_>);
    fn wipe(all: &mut [Self]);
}

impl Item for u8 {
    fn read(args: &mut Reader<'_>) -> Result<u8, Refusal> {
        args.u8()
    }
    fn write(all: &[u8], reply: &mut Writer<'_>) {
        reply.bytes(all);
    }
    fn wipe(all: &mut [u8]) {
        wipe(all);
    }
}

/// Numbers that travel one by one, a word each.
macro_rules! words {
    ($($ty:ident)*) => {$(
        impl Item for $ty {
            fn read(args: &mut Reader<'_>) -> Result<$ty, Refusal> {
                args.$ty()
            }
            fn write(all: &[$ty], reply: &mut Writer<'_>) {
                all.iter().for_each(|item| reply.$ty(*item));
            }
            fn wipe(all: &mut [$ty]) {
                all.fill(Default::default());
                std::hint::black_box(all);
            }
        }
    )*};
}

words!(u16 u32 u64 i16 i32 i64 f32 f64);

/// Room for items whose length is asked and answered in another place.
pub struct Room<T: Item> {
    items: Option<Vec<T>>,
    length: u64,
    /// No more fit an answer.
    most: u64,
}

impl<T: Item> Room<T> {
    /// As much as the guest asks for, of which `most` fit an answer; [`NOWHERE`]: it asks for the length
    /// alone. A guest may ask for more than fit, to end what its program has begun: up to
    /// [`LONG_BYTES`].
    pub fn asked(asked: u64, most: u64) -> Result<Room<T>, Refusal> {
        if asked == NOWHERE {
            return Ok(Room { items: None, length: 0, most });
        }
        let long = (LONG_BYTES / size_of::<T>()) as u64;
        let mut room = Room::exactly(asked, long.max(most))?;
        room.most = most;
        Ok(room)
    }

    /// So much.
    pub fn exactly(count: u64, most: u64) -> Result<Room<T>, Refusal> {
        if count > most {
            return Err(Refusal::Limit);
        }
        Ok(Room { items: Some(vec![T::default(); count as usize]), length: count, most })
    }

    /// Where the library writes.
    pub fn start(&mut self) -> *mut T {
        items(&mut self.items)
    }

    /// Where it finds and says the length.
    pub fn length(&mut self) -> *mut u64 {
        &mut self.length
    }

    /// All items.
    pub fn all(&self) -> &[T] {
        self.items.as_deref().unwrap_or_default()
    }

    /// Writes all items.
    pub fn write_all(&self, reply: &mut Writer<'_>) {
        T::write(self.all(), reply);
    }

    /// Writes the length, and the items if the call did what was asked. A library that says more
    /// than there was room for has written what there was room for. More than fit an answer are
    /// refused: the call was made all the same.
    pub fn write(&self, reply: &mut Writer<'_>, whole: bool) -> Result<(), Refusal> {
        match &self.items {
            Some(items) if whole => {
                let count = usize::try_from(self.length).unwrap_or(usize::MAX).min(items.len());
                if count as u64 > self.most {
                    return Err(Refusal::Limit);
                }
                reply.length(count);
                T::write(&items[..count], reply);
            }
            _ => reply.u64(self.length),
        }
        Ok(())
    }
}

impl<T: Item> Drop for Room<T> {
    fn drop(&mut self) {
        T::wipe(self.items.as_deref_mut().unwrap_or_default());
    }
}

/// Rooms of several structs, in one piece.
#[derive(Default)]
pub struct Places {
    /// Where each lies, and how long it is; none: only its length is asked for.
    asked: Vec<Option<(usize, usize)>>,
    bytes: usize,
    memory: Wiped,
}

impl Places {
    /// One place more, of so many bytes.
    pub fn ask(&mut self, asked: u64) -> Result<(), Refusal> {
        let place = match asked {
            NOWHERE => None,
            bytes => {
                let at = self.bytes;
                let bytes = usize::try_from(bytes).map_err(|_| Refusal::Limit)?;
                let end = bytes.checked_next_multiple_of(8).and_then(|long| long.checked_add(at));
                self.bytes = end.filter(|end| *end <= PLACES_BYTES).ok_or(Refusal::Limit)?;
                Some((at, bytes))
            }
        };
        self.asked.push(place);
        Ok(())
    }

    /// Makes the memory for all that were asked for.
    pub fn make(&mut self) {
        self.memory.resize(self.bytes, 0);
    }

    /// Where one begins; null if only its length is asked for.
    pub fn start(&mut self, at: usize) -> *mut u8 {
        match self.asked[at] {
            Some((start, _)) => self.memory[start..].as_mut_ptr(),
            None => std::ptr::null_mut(),
        }
    }

    /// Bytes of one.
    pub fn room(&self, at: usize) -> u64 {
        self.asked[at].map_or(0, |(_, bytes)| bytes as u64)
    }

    /// Writes the length that the library said, and the bytes if they fitted.
    pub fn write(&self, reply: &mut Writer<'_>, at: usize, length: u64) {
        reply.u64(length);
        if let Some((start, room)) = self.asked[at]
            && length <= room as u64
        {
            reply.bytes(&self.memory[start..start + length as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = vec![];
        write(&mut Writer::append(&mut bytes));
        bytes
    }

    #[test]
    fn a_text_ends_at_its_only_zero_byte() {
        let said = text(Some(b"abc")).unwrap();
        assert_eq!(said.as_ref().map(|text| text.as_slice()), Some(&b"abc\0"[..]));
        assert!(!start_of_text(&said).is_null());
        assert!(start_of_text(&text(None).unwrap()).is_null());
        assert_eq!(text(Some(b"a\0c")).err(), Some(Refusal::Argument));
    }

    #[test]
    fn numbers_take_no_more_memory_than_their_call_has() {
        let call = written(|w| {
            w.length(2);
            w.i16(-1);
            w.i16(7);
            w.u64(NOWHERE);
            w.length(1 << 40);
        });
        let mut r = Reader::new(&call);
        assert_eq!(numbers::<i16>(&mut r), Ok(Some(vec![-1, 7])));
        assert_eq!(numbers::<i16>(&mut r), Ok(None));
        assert_eq!(numbers::<i16>(&mut r), Err(Refusal::Limit));
        let wide = written(|w| {
            w.length(1);
            w.u64(1 << 16);
        });
        assert_eq!(numbers::<i16>(&mut Reader::new(&wide)), Err(Refusal::Malformed));
    }

    #[test]
    fn a_library_that_says_too_much_shows_nothing_of_the_service() {
        let mut room = Room::<u8>::asked(4, 64).unwrap();
        *room.all_mut() = [1, 2, 3, 4];
        room.length = 1000;
        assert_eq!(
            written(|w| room.write(w, true).unwrap()),
            [4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]
        );
        assert_eq!(written(|w| room.write(w, false).unwrap()).len(), 8, "the length alone");
        assert_eq!(Room::<u8>::asked(LONG_BYTES as u64 + 1, 64).err(), Some(Refusal::Limit));
        assert_eq!(Room::<u8>::exactly(65, 64).err(), Some(Refusal::Limit));
        let mut places = Places::default();
        places.ask(3).unwrap();
        places.ask(NOWHERE).unwrap();
        assert_eq!(places.ask(PLACES_BYTES as u64), Err(Refusal::Limit));
        assert_eq!(places.ask(u64::MAX - 7), Err(Refusal::Limit));
        places.make();
        assert!(!places.start(0).is_null() && places.start(1).is_null());
        assert_eq!(written(|w| places.write(w, 0, 3)).len(), 16);
        assert_eq!(written(|w| places.write(w, 0, 4)).len(), 8, "it did not fit");
        assert_eq!(written(|w| places.write(w, 1, 3)).len(), 8, "nobody asked");
    }

    #[test]
    fn what_fits_no_answer_is_dropped_and_zeros_are_no_program_s_bytes() {
        let mut room = Room::<u8>::asked(65, 64).unwrap();
        room.length = 64;
        assert_eq!(written(|w| room.write(w, true).unwrap()).len(), 8 + 64);
        room.length = 65;
        let mut answer = vec![];
        assert_eq!(room.write(&mut Writer::append(&mut answer), true), Err(Refusal::Limit));
        assert!(answer.is_empty());
        let (mut zeros, alone) = (vec![], Room::<u8>::asked(NOWHERE, 64).unwrap());
        assert_eq!(instead(Some(&[1]), 0, &mut zeros, &room), Ok(Some(&[1][..])));
        assert_eq!(instead(Some(&[1]), 3, &mut zeros, &room), Err(Refusal::Argument));
        assert_eq!(instead(Some(&[1]), 3, &mut zeros, &alone), Ok(Some(&[0; 3][..])));
        let long = LONG_BYTES as u64 + 1;
        assert_eq!(instead(None, long, &mut zeros, &alone), Err(Refusal::Limit));
    }

    impl Room<u8> {
        fn all_mut(&mut self) -> &mut [u8; 4] {
            self.items.as_mut().unwrap().as_mut_slice().try_into().unwrap()
        }
    }
}
