//! Where a call's arguments are and where its results go, for whoever calls a
//! driver: plain memory, or a checked range of a window.

use std::marker::PhantomData;

/// Where the arguments of a call are, and whether the caller can change them.
#[derive(Clone, Copy)]
pub struct ArgsAt<'a> {
    pub(super) ptr: *const u8,
    pub(super) len: usize,
    pub(super) shared: bool,
    life: PhantomData<&'a [u8]>,
}

impl<'a> ArgsAt<'a> {
    /// In memory that nobody else can change.
    #[inline]
    pub fn private(bytes: &'a [u8]) -> Self {
        ArgsAt { ptr: bytes.as_ptr(), len: bytes.len(), shared: false, life: PhantomData }
    }

    /// In pages that the caller writes.
    #[cfg(feature = "service")]
    #[inline]
    pub fn window(
        span: &'a vfun_window::ReadSpan,
        off: usize,
        len: usize,
    ) -> Result<Self, vfun_window::OutOfBounds> {
        if off > span.len() || len > span.len() - off {
            return Err(vfun_window::OutOfBounds);
        }
        let ptr = span.as_ptr().wrapping_add(off);
        Ok(ArgsAt { ptr, len, shared: true, life: PhantomData })
    }

    /// How many bytes of arguments the call has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether the caller can change them meanwhile.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared
    }
    /// Where they are; good for `len` bytes while the borrow lasts.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// Copies them, once, to the start of `to`; false if they do not fit.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> bool {
        let fits = self.len <= to.len();
        if fits {
            // SAFETY: `ptr` is good for `len` bytes while 'a lasts; `to` is
            // private memory of at least that size and cannot overlap them.
            // Should the caller change them meanwhile, some mix arrives: bytes
            // have no invalid values.
            unsafe { std::ptr::copy_nonoverlapping(self.ptr, to.as_mut_ptr(), self.len) };
        }
        fits
    }

    /// Copies `to.len()` of them from `at` on, once; false if they end earlier.
    #[inline]
    pub fn copy_part(&self, at: usize, to: &mut [u8]) -> bool {
        let fits = at.checked_add(to.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: as above, for a range that lies inside.
            unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(at), to.as_mut_ptr(), to.len()) };
        }
        fits
    }
}

/// Where the results of a call go, and how many bytes fit there.
pub struct OutAt<'a> {
    pub(super) ptr: *mut u8,
    pub(super) capacity: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> OutAt<'a> {
    /// In memory that nobody else sees.
    #[inline]
    pub fn private(bytes: &'a mut [u8]) -> Self {
        OutAt { ptr: bytes.as_mut_ptr(), capacity: bytes.len(), life: PhantomData }
    }

    /// In pages that this side writes.
    #[cfg(feature = "service")]
    #[inline]
    pub fn window(
        span: &'a vfun_window::WriteSpan,
        off: usize,
        capacity: usize,
    ) -> Result<Self, vfun_window::OutOfBounds> {
        if off > span.len() || capacity > span.len() - off {
            return Err(vfun_window::OutOfBounds);
        }
        let ptr = span.as_mut_ptr().wrapping_add(off);
        Ok(OutAt { ptr, capacity, life: PhantomData })
    }

    /// Most bytes that fit.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Where they go; good for `capacity` bytes while the borrow lasts.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }

    /// Copies `results` there; false if they do not fit.
    #[inline]
    pub fn write(&mut self, results: &[u8]) -> bool {
        let fits = results.len() <= self.capacity;
        if fits {
            // SAFETY: `ptr` is good for `capacity` bytes while 'a lasts, and
            // `results` is private memory that cannot overlap them.
            unsafe { std::ptr::copy_nonoverlapping(results.as_ptr(), self.ptr, results.len()) };
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_or_not_made() {
        let mut room = [9; 4];
        assert!(ArgsAt::private(b"abc").copy_to(&mut room));
        assert!(!ArgsAt::private(b"abcde").copy_to(&mut room));
        assert_eq!(&room, b"abc\x09");
        let mut two = [0; 2];
        assert!(ArgsAt::private(b"abc").copy_part(1, &mut two));
        assert_eq!(&two, b"bc");
        assert!(!ArgsAt::private(b"abc").copy_part(2, &mut two));
        assert!(!ArgsAt::private(b"abc").copy_part(usize::MAX, &mut two));
        assert!(OutAt::private(&mut room).write(b"xy"));
        assert!(!OutAt::private(&mut room).write(b"xyxyx"));
        assert_eq!(&room, b"xyc\x09");
    }
}
