//! Sizes, as people write them.

/// A size as people write it: `64 MiB`, `1GiB`, `1048576`.
pub fn size(text: &str) -> Result<u64, String> {
    let t = text.trim();
    let digits = t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
    let unit = match t[digits..].trim() {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1u64 << 30,
        other => return Err(format!("'{other}' is not a unit of size: write KiB, MiB or GiB")),
    };
    t[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| format!("'{text}' is not a size: write it as 64 MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64 MiB"), Ok(64 << 20));
        assert_eq!(size("1G"), Ok(1 << 30));
        assert!(size("999999999999 GiB").is_err());
        assert!(size("").is_err());
    }
}
