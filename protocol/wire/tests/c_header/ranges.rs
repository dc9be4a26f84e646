//! The C check of ranges against the Rust one.

use vfun_wire::range::{Heap, Range, check};

const HEAP: Heap = Heap { window: 2, from: 90112, to: 1 << 20 };

/// Every next value of a field follows from the last, so that a failure comes again.
struct Pick(u64);

impl Pick {
    fn of(&mut self, from: &[u64]) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        from[(self.0 >> 33) as usize % from.len()]
    }

    fn range(&mut self) -> Range {
        let page = 4096;
        let offset: Vec<u64> = (20..30).map(|p| p * page).collect();
        let odd = [0, 90113, HEAP.to - page, HEAP.to, u64::MAX - 4095, u64::MAX - 8191];
        Range {
            window: (self.of(&[2, 2, 2, 2, 2, 2, 2, 2, 2, 0]) as u16).into(),
            access: self.of(&[1, 1, 2, 2, 3, 3, 3, 1, 2, 0, 4]) as u8,
            reserved0: self.of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]) as u8,
            reserved1: (self.of(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]) as u32).into(),
            offset: self.of(&[&offset[..], &offset[..], &offset[..], &odd[..]].concat()).into(),
            bytes: self
                .of(&[4096, 4096, 4096, 4096, 8192, 8192, 12288, 1, 0, 1 << 20, !4095])
                .into(),
        }
    }
}

/// Some hundred sets of ranges, good and bad, as expressions in C with Rust's verdict.
pub fn cases(e: &mut impl FnMut(String, u64)) {
    let mut pick = Pick(1);
    let mut passed = 0;
    for _ in 0..600 {
        let ranges: Vec<Range> = (0..pick.of(&[1, 1, 2, 3])).map(|_| pick.range()).collect();
        let c: Vec<String> = ranges
            .iter()
            .map(|r| {
                format!(
                    "{{{}, {}, {}, {}, {}u, {}u}}",
                    r.window, r.access, r.reserved0, r.reserved1, r.offset, r.bytes
                )
            })
            .collect();
        let good = check(&ranges, &[HEAP]).is_ok();
        passed += u64::from(good);
        e(
            format!(
                "vfun_ranges_good((struct vfun_range[]){{{}}}, {}, 2, {}, {})",
                c.join(", "),
                ranges.len(),
                HEAP.from,
                HEAP.to
            ),
            good.into(),
        );
    }
    assert!((50..400).contains(&passed), "{passed} of the cases pass");
}
