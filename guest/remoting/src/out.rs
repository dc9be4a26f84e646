//! The places where a program wants its answers, and what it hands over by pointer.
//!
//! The edge to C: each function here takes a raw pointer of the program's. C's rules hold for
//! them: a pointer that is not null points to memory of its type.
#![allow(unsafe_code)]

use crate::failure::Failure;
use crate::secret::packed;
use std::ffi::CStr;
use vfun_remoting::{NOWHERE, Reader, Wiped, Writer};

/// A place for an answer, which must be there.
///
/// # Safety
/// `pointer` is null or points to memory for a `T` that nobody else uses during the call.
#[inline]
pub unsafe fn place<'a, T>(pointer: *mut T) -> Result<&'a mut std::mem::MaybeUninit<T>, Failure> {
    // SAFETY: the caller promises it; uninitialized bytes are allowed in this type.
    unsafe { pointer.cast::<std::mem::MaybeUninit<T>>().as_mut() }.ok_or(Failure::Argument)
}

/// A place for an answer, which may be left out.
///
/// # Safety
/// As [`place`].
#[inline]
pub unsafe fn place_or_none<'a, T>(pointer: *mut T) -> Option<&'a mut std::mem::MaybeUninit<T>> {
    // SAFETY: as above.
    unsafe { pointer.cast::<std::mem::MaybeUninit<T>>().as_mut() }
}

/// A value behind a pointer, copied.
///
/// # Safety
/// `pointer` is null or points to a `T`.
#[inline]
pub unsafe fn value<T: Copy>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.copied().ok_or(Failure::Argument)
}

/// Bytes that a program hands over. Null is allowed for none.
///
/// # Safety
/// `pointer` is null or points to `len` bytes.
#[inline]
pub unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::Argument),
        (false, n) if n <= isize::MAX as usize => {
            // SAFETY: the caller promises it. A length beyond half of all memory is none of C's.
            Ok(unsafe { std::slice::from_raw_parts(pointer, n) })
        }
        _ => Err(Failure::Argument),
    }
}

/// Copies an answer to where a program wants it, which has room for it.
///
/// # Safety
/// `pointer` points to memory for `bytes`.
#[inline]
pub unsafe fn fill(pointer: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller promises it; `bytes` is ours.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
}

/// Bytes that a program hands over, or a null pointer, which is not the same as none.
///
/// # Safety
/// As [`bytes`].
#[inline]
pub unsafe fn blob<'a>(pointer: *const u8, len: u64) -> Result<Option<&'a [u8]>, Failure> {
    if pointer.is_null() {
        return if len == 0 { Ok(None) } else { Err(Failure::Argument) };
    }
    // SAFETY: the caller promises it.
    unsafe { bytes(pointer, usize::try_from(len).map_err(|_| Failure::Argument)?) }.map(Some)
}

/// Whether so many items of this size can be in memory.
fn count<T>(count: u64) -> Result<usize, Failure> {
    let most = isize::MAX as usize / size_of::<T>().max(1);
    usize::try_from(count).ok().filter(|n| *n <= most).ok_or(Failure::Argument)
}

/// Structs that a program hands over, or a null pointer.
///
/// # Safety
/// `pointer` is null or points to `len` items.
pub unsafe fn list<'a, T>(pointer: *const T, len: u64) -> Result<Option<&'a [T]>, Failure> {
    match (pointer.is_null(), count::<T>(len)?) {
        (true, 0) => Ok(None),
        (true, _) => Err(Failure::Argument),
        (false, n) if n > vfun_remoting::limits::STRUCTS_MAX => Err(Failure::Limit),
        // SAFETY: the caller promises it.
        (false, n) => Ok(Some(unsafe { std::slice::from_raw_parts(pointer, n) })),
    }
}

/// What packs a struct, as the generator makes it.
pub type Pack<T> = unsafe fn(&mut Writer<'_>, &T) -> Result<(), Failure>;

/// Structs that a program hands over, or a null pointer, as they go over.
///
/// # Safety
/// As [`list`], and what `pack` wants of each.
pub unsafe fn packed_list<T>(pointer: *const T, len: u64, pack: Pack<T>) -> Result<Wiped, Failure> {
    // SAFETY: the caller promises it.
    let all = unsafe { list(pointer, len) }?;
    packed(|w| {
        w.u64(all.map_or(NOWHERE, |all| all.len() as u64));
        // SAFETY: the caller promises it.
        all.unwrap_or_default().iter().try_for_each(|one| unsafe { pack(w, one) })
    })
}

/// Structs that are to be filled.
///
/// # Safety
/// `pointer` is null or points to `len` items that nobody else uses during the call.
pub unsafe fn list_mut<'a, T>(pointer: *mut T, len: u64) -> Result<&'a mut [T], Failure> {
    match (pointer.is_null(), count::<T>(len)?) {
        (true, _) => Err(Failure::Argument),
        (false, n) if n > vfun_remoting::limits::STRUCTS_MAX => Err(Failure::Limit),
        // SAFETY: the caller promises it.
        (false, n) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, n) }),
    }
}

/// Numbers that a program hands over, or a null pointer.
///
/// # Safety
/// `pointer` is null or points to `len` numbers.
pub unsafe fn numbers<'a, T>(pointer: *const T, len: u64) -> Result<Option<&'a [T]>, Failure> {
    match (pointer.is_null(), count::<T>(len)?) {
        (true, 0) => Ok(None),
        (true, _) => Err(Failure::Argument),
        // SAFETY: the caller promises it.
        (false, n) => Ok(Some(unsafe { std::slice::from_raw_parts(pointer, n) })),
    }
}

/// Writes numbers behind their count.
pub fn write_numbers<T: Item>(w: &mut Writer<'_>, all: Option<&[T]>) {
    w.u64(all.map_or(NOWHERE, |all| all.len() as u64));
    all.unwrap_or_default().iter().for_each(|number| number.write(w));
}

/// Text that a program hands over, without its zero byte; none for a null pointer.
///
/// # Safety
/// `pointer` is null or points to bytes of which one is zero.
pub unsafe fn text<'a>(pointer: *const u8) -> Option<&'a [u8]> {
    // SAFETY: the caller promises it.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer.cast()) }.to_bytes())
}

/// Places for so many answers.
///
/// # Safety
/// `pointer` is null or points to memory for `len` items that nobody else uses during the call.
pub unsafe fn places<'a, T>(
    pointer: *mut T,
    len: u64,
) -> Result<&'a mut [std::mem::MaybeUninit<T>], Failure> {
    match (pointer.is_null(), count::<T>(len)?) {
        (true, _) => Err(Failure::Argument),
        // SAFETY: the caller promises it; uninitialized items are allowed in this type.
        (false, n) => Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), n) }),
    }
}

/// Writes an answer of exactly as many bytes as there are places.
pub fn write_all(places: &mut [std::mem::MaybeUninit<u8>], bytes: &[u8]) {
    places.iter_mut().zip(bytes).for_each(|(place, byte)| {
        place.write(*byte);
    });
}

/// Reads an answer of exactly as many numbers as there are places.
pub fn read_all<T: Item>(
    places: &mut [std::mem::MaybeUninit<T>],
    r: &mut Reader<'_>,
) -> Result<(), Failure> {
    T::read(r, places.len(), |at, number| {
        places[at].write(number);
    })
}

/// A number that a call or an answer has several of.
pub trait Item: Copy {
    /// Reads so many of an answer.
    fn read(r: &mut Reader<'_>, count: usize, put: impl FnMut(usize, Self)) -> Result<(), Failure>;
    /// Writes one into a call.
    fn write(self, w: &mut Writer<'_>);
}

impl Item for u8 {
    fn read(
        r: &mut Reader<'_>,
        count: usize,
        mut put: impl FnMut(usize, u8),
    ) -> Result<(), Failure> {
        let bytes = r.bytes(count)?;
        bytes.iter().enumerate().for_each(|(at, byte)| put(at, *byte));
        Ok(())
    }
    fn write(self, w: &mut Writer<'_>) {
        w.u8(self);
    }
}

/// Numbers that travel one by one, a word each.
macro_rules! words {
    ($($ty:ident)*) => {$(
        impl Item for $ty {
            fn read(
                r: &mut Reader<'_>,
                count: usize,
                mut put: impl FnMut(usize, $ty),
            ) -> Result<(), Failure> {
                (0..count).try_for_each(|at| {
                    put(at, r.$ty()?);
                    Ok(())
                })
            }
            fn write(self, w: &mut Writer<'_>) {
                w.$ty(self);
            }
        }
    )*};
}

words!(u16 u32 u64 i16 i32 i64 f32 f64);

/// A place for items whose length the program says and gets to know in another place. A null
/// pointer asks for the length alone.
pub struct Room<'a, T> {
    pub(crate) to: Option<&'a mut [std::mem::MaybeUninit<T>]>,
    pub(crate) len: &'a mut u64,
    /// The host is asked for no more.
    pub(crate) most: u64,
}

impl<T: Item> Room<'_, T> {
    /// # Safety
    /// `len` is null or points to a length; `to` is null or points to memory for as many items.
    /// Nobody else uses them during the call.
    pub unsafe fn of(to: *mut T, len: *mut u64, most: u64) -> Result<Self, Failure> {
        // SAFETY: the caller promises it.
        let len = unsafe { len.as_mut() }.ok_or(Failure::Argument)?;
        let to = match to.is_null() {
            true => None,
            // SAFETY: the caller promises it.
            false => Some(unsafe { places(to, *len) }?),
        };
        Ok(Room { to, len, most })
    }

    /// The room that the guest names to the host, in items; [`NOWHERE`] if the program wants the
    /// length alone.
    pub fn asked(&self) -> u64 {
        let room = self.to.as_ref().map(|to| (to.len() as u64).min(self.most));
        room.unwrap_or(NOWHERE)
    }

    /// Reads the length, and the items if the call did what was asked.
    pub fn read(&mut self, r: &mut Reader<'_>, whole: bool) -> Result<(), Failure> {
        let (length, asked) = (r.u64()?, self.asked());
        match &mut self.to {
            Some(to) if whole => {
                if length > asked {
                    return Err(Failure::Internal);
                }
                T::read(r, length as usize, |at, item| {
                    to[at].write(item);
                })?;
            }
            // The program has the room, and no cell has.
            Some(to) if asked < length && length <= to.len() as u64 => return Err(Failure::Limit),
            _ => {}
        }
        *self.len = length;
        Ok(())
    }
}

/// The bytes of a place that a test filled before.
#[cfg(test)]
pub(crate) fn initialized(to: Vec<std::mem::MaybeUninit<u8>>) -> Vec<u8> {
    // SAFETY: tests make each byte of it.
    to.into_iter().map(|byte| unsafe { byte.assume_init() }).collect()
}
