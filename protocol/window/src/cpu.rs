//! Small processor primitives that have no safe wrapper elsewhere.

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

/// Tells the processor that this is a spin loop.
#[inline]
pub fn pause() {
    core::hint::spin_loop();
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
