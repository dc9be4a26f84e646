//! What a program hands over does not stay in memory that was freed. By itself, because it looks at
//! all memory that this process frees.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use vfun_remoting_guest::packed;

/// A byte that is in no other memory so often in a row.
const SECRET: u8 = 0xA7;
const ROW: usize = 16;

static FOUND: AtomicUsize = AtomicUsize::new(0);

struct Looks;

// SAFETY: the system's allocator does the work; memory is looked at before it is given back.
unsafe impl GlobalAlloc for Looks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as asked. Zeros, so that all of it may be read.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: it was given out with this layout, and all of it was written.
        let bytes = unsafe { std::slice::from_raw_parts(at, layout.size()) };
        let mut row = 0;
        for byte in bytes {
            row = if *byte == SECRET { row + 1 } else { 0 };
            if row == ROW {
                FOUND.fetch_add(1, Ordering::Relaxed);
            }
        }
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static LOOKS: Looks = Looks;

#[test]
fn a_template_leaves_no_copies_however_long_it_is() {
    let seen = || FOUND.load(Ordering::Relaxed);
    drop(vec![SECRET; 100]);
    assert_eq!(seen(), 1, "this looks at the right place");
    let secret = [SECRET; 700];
    for structs in [1, 3, 10, 100] {
        let bytes = packed(|w| {
            w.u64(structs);
            for _ in 0..structs {
                w.u64(17);
                w.blob(Some(&secret));
            }
            Ok(())
        })
        .expect("packed");
        assert_eq!(bytes.len(), 8 + structs as usize * (16 + 704));
        drop(bytes);
        assert_eq!(seen(), 1, "{structs} structs leave copies behind");
    }
}
