//! Times as people type them.

use std::time::Duration;

/// `90s`, `15m`, `12h`, `30d`, `2w`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let t = text.trim();
    let digits = t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
    let unit = match t[digits..].trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => 0,
    };
    t[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit))
        // A hundred years: beyond that somebody has mistyped.
        .filter(|s| (1..=3_155_760_000).contains(s))
        .map(Duration::from_secs)
        .ok_or_else(|| format!("'{text}' is not a time: write it as 90s, 15m, 12h, 30d or 2w"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_type_them() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration(" 2 w"), Ok(Duration::from_secs(1_209_600)));
        for wrong in ["", "3", "0s", "d", "-1d", "1y", "99999999999d", "18446744073709551615w"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
