//! Times as verbs write them.

/// Nanoseconds of an RNR timer's code (InfiniBand 9.7.5.2.8, table 45).
pub const fn rnr(code: u8) -> u64 {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    HUNDREDTHS_OF_MS[code as usize & 31] * 10_000
}

/// Nanoseconds of a local acknowledgment timeout: 4.096 µs times two to the code. `None` of 0,
/// which means for ever.
pub const fn timeout(code: u8) -> Option<u64> {
    match code & 31 {
        0 => None,
        code => Some(4096 << code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_specification() {
        assert_eq!([rnr(1), rnr(12), rnr(31), rnr(0)], [10_000, 640_000, 491_520_000, 655_360_000]);
        assert_eq!(timeout(14), Some(67_108_864));
        assert_eq!(timeout(0), None);
    }
}
