//! Sizes, counts and times as people read them. JSON has the plain numbers.

use std::time::Duration;

/// Bytes, in the largest unit that keeps them exact, else with one digit after the point.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut whole = n;
    while unit + 1 < UNITS.len() && whole >= 1024 && whole.is_multiple_of(1024) {
        whole /= 1024;
        unit += 1;
    }
    if whole < 1024 || unit + 1 == UNITS.len() {
        return format!("{whole} {}", UNITS[unit]);
    }
    let mut value = whole as f64;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count, in groups of three digits.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// How often a second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 100.0 => count(r.round() as u64),
        r if r > 0.0 => format!("{r:.1}"),
        _ => "0".into(),
    }
}

/// A short time, three digits.
pub fn duration(d: Duration) -> String {
    match d.as_nanos() {
        // No parts of a nanosecond were measured.
        whole @ 0..1000 => format!("{whole} ns"),
        more => ns(more as f64),
    }
}

/// A time given in nanoseconds, three digits.
pub fn ns(ns: f64) -> String {
    let (value, unit) = in_unit(ns);
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0} {unit}"),
        v if v >= 9.995 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// A round time given in nanoseconds, as on an axis: `20 µs`, not `20.0 µs`.
pub fn round_ns(ns: f64) -> String {
    let (value, unit) = in_unit(ns);
    let text = format!("{value:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn in_unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        n if n < 999.5 => (ns, "ns"),
        n if n < 999.5e3 => (ns / 1e3, "µs"),
        n if n < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    }
}

/// A share, in whole hundredths; `-` where there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |s| format!("{:.0}%", s * 100.0))
}

/// A long time, in its two largest units.
pub fn age(seconds: u64) -> String {
    let (d, h, m, s) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{m} min {s} s"),
        (0, _, _) => format!("{h} h {m} min"),
        _ => format!("{d} d {h} h"),
    }
}

/// A moment in Unix milliseconds, as UTC.
pub fn timestamp(unix_ms: i64) -> String {
    let (days, ms) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    let s = ms / 1000;
    // Days since 0000-03-01 in eras of 400 years: the leap day is then the last of its year.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03}Z",
        s / 3600,
        s / 60 % 60,
        s % 60,
        ms % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(
            [0, 48, 4096, 1500, 64 << 20, 1 << 40].map(bytes),
            ["0 B", "48 B", "4 KiB", "1.5 KiB", "64 MiB", "1 TiB"]
        );
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!([0.0, 0.25, 1234.4].map(rate), ["0", "0.2", "1 234"]);
        let d = |ns| duration(Duration::from_nanos(ns));
        assert_eq!(
            [0, 999, 1234, 45_600, 789_000_000, 2_000_000_000].map(d),
            ["0 ns", "999 ns", "1.23 µs", "45.6 µs", "789 ms", "2.00 s"]
        );
        assert_eq!([287.4, 999.6, 0.25].map(ns), ["287 ns", "1.00 µs", "0.25 ns"]);
        assert_eq!([20e3, 1e6, 1.5e9].map(round_ns), ["20 µs", "1 ms", "1.5 s"]);
        assert_eq!([Some(0.456), None].map(percent), ["46%", "-"]);
        assert_eq!([5, 65, 3700, 90_000].map(age), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_123), "2000-02-29 00:00:00.123Z");
        assert_eq!(timestamp(1_793_404_799_999), "2026-10-30 23:59:59.999Z");
    }
}
