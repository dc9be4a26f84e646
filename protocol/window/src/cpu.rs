//! Small processor primitives that have no safe wrapper elsewhere.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// A counter of (nearly) constant rate, for telling durations apart while
/// spinning: 8 to 20 ns to read where the system clock takes 25 (90 in an
/// emulated guest). Its rate is not known here; compare, do not convert.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: `rdtsc` has no preconditions; every x86-64 has it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::time::Instant;
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Whether the pause instruction costs so much that it is left out.
static PAUSE_IS_DEAR: AtomicBool = AtomicBool::new(false);

/// Measures what a pause costs here. A processor takes 20 to 60 ns for it and
/// leaves the bus to its sibling; an emulated one (QEMU's TCG) leaves its
/// translated code altogether, which takes longer than a whole call.
pub(crate) fn calibrate_pause() {
    const TRIES: u64 = 8;
    const PAUSES: u64 = 16;
    // About 150 ns at the usual 2 to 3 GHz of the counter.
    const DEAR: u64 = 400;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let once = || {
            let from = cycles();
            (0..PAUSES).for_each(|_| core::hint::spin_loop());
            cycles().wrapping_sub(from) / PAUSES
        };
        let least = (0..TRIES).map(|_| once()).min().unwrap_or(0);
        PAUSE_IS_DEAR.store(least > DEAR, Ordering::Relaxed);
    });
}

/// Tells the processor that this is a spin loop, unless that is dear here.
#[inline(always)]
pub fn pause() {
    if !PAUSE_IS_DEAR.load(Ordering::Relaxed) {
        core::hint::spin_loop();
    }
}

/// Asks for the line at `p` without waiting. Harmless for any address.
#[inline]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch(p.cast(), core::arch::x86_64::_MM_HINT_T0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Asks for the line at `p`, to be written, without waiting. Harmless for any address.
#[inline(always)]
pub fn prefetch_write<T>(p: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address. In assembly, because the compiler asks for a line to be
    // read where it is not told that the processor has this instruction; one that lacks it does nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = p;
}
