//! The places where a program wants its answers, and what it hands over by pointer.
//!
//! The edge to C: each function here takes a raw pointer of the program's. C's rules hold for
//! them: a pointer that is not null points to memory of its type.
#![allow(unsafe_code)]

use crate::failure::Failure;

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
