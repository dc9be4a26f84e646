//! Where the members of a struct, of arguments and of results lie. All of it
//! at compile time.

use crate::BYTES_MAX;

/// Members one after the other, each at its alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// End of the members so far, bytes.
    pub end: usize,
    /// Largest alignment so far.
    pub align: usize,
}

/// Bytes of arguments or results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Bytes of the C struct of what has a fixed size, padding at its end
    /// included where nothing follows.
    pub fixed: usize,
    /// Where the variable array begins, if there is one.
    pub tail: usize,
    /// Bytes of one of its elements; 0 without one.
    pub each: usize,
}

const fn up(n: usize, align: usize) -> usize {
    n.div_ceil(align) * align
}

impl Layout {
    /// A struct before its first member.
    pub const NEW: Layout = Layout { end: 0, align: 1 };

    /// Where a member of that alignment begins, which comes next.
    pub const fn next(self, align: usize) -> usize {
        up(self.end, align)
    }

    /// With one more member.
    pub const fn with(self, bytes: usize, align: usize) -> Layout {
        let end = self.next(align) + bytes;
        assert!(end <= BYTES_MAX, "arguments, results and structs have at most 1 GiB");
        Layout { end, align: if align > self.align { align } else { self.align } }
    }

    /// Bytes of the struct, padding at its end included.
    pub const fn bytes(self) -> usize {
        up(self.end, self.align)
    }

    /// Arguments or results of these members and nothing else.
    pub const fn closed(self) -> Record {
        Record { fixed: self.bytes(), tail: self.bytes(), each: 0 }
    }

    /// The same, with a variable array of such elements at the end.
    pub const fn open(self, each: usize, align: usize) -> Record {
        assert!(each > 0, "elements of a variable array have at least a byte");
        let tail = self.next(align);
        Record { fixed: tail, tail, each }
    }
}

impl Record {
    /// Most bytes that there can be.
    pub const fn most(self) -> usize {
        match self.each {
            0 => self.fixed,
            each => self.tail + (BYTES_MAX - self.tail) / each * each,
        }
    }

    /// Elements of the variable array in so many bytes; `None` if no value of
    /// the type has so many.
    pub const fn elements(self, bytes: usize) -> Option<usize> {
        match self.each {
            0 if bytes == self.fixed => Some(0),
            each if each > 0 && bytes >= self.tail && (bytes - self.tail).is_multiple_of(each) => {
                Some((bytes - self.tail) / each)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_where_c_puts_them() {
        let l = Layout::NEW.with(1, 1);
        assert_eq!(l.next(8), 8);
        let l = l.with(8, 8).with(2, 2);
        assert_eq!((l.end, l.bytes()), (18, 24));
        assert_eq!(l.closed().fixed, 24);
        // A variable array begins at its own alignment, not after the padding.
        assert_eq!(l.open(4, 4), Record { fixed: 20, tail: 20, each: 4 });
    }

    #[test]
    fn lengths_are_checked() {
        let closed = Layout::NEW.with(8, 8).closed();
        assert_eq!(
            (closed.elements(8), closed.elements(9), closed.elements(0)),
            (Some(0), None, None)
        );
        let open = Layout::NEW.with(1, 1).open(8, 8);
        assert_eq!(
            (open.elements(8), open.elements(24), open.elements(20)),
            (Some(0), Some(2), None)
        );
        assert_eq!(open.elements(7), None);
        assert!(open.most() <= BYTES_MAX && open.most() > BYTES_MAX - 8);
    }
}
