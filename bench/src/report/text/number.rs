//! Numbers of reports: three or four digits, and a unit. Times and sizes are those of
//! the command line.

pub use vfun_cli::out::{bytes, ns, round_ns};

/// A ratio: three decimals near 1, where they matter, and fewer far from it.
pub fn times(ratio: f64) -> String {
    match ratio.abs() {
        r if r < 9.9995 => {
            format!("{ratio:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        r if r < 99.95 => format!("{ratio:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{ratio:.0}"),
    }
}

/// The same with all its decimals, for columns.
pub fn times_column(ratio: f64) -> String {
    match ratio.abs() {
        r if r < 9.9995 => format!("{ratio:.3}"),
        r if r < 99.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

/// A number of calls a second, for people.
pub fn rate(per_s: f64) -> String {
    format!("{}/s", scaled(per_s))
}

/// Bytes a second, in powers of 1000.
pub fn bandwidth(per_s: f64) -> String {
    format!("{}B/s", scaled(per_s))
}

/// Memory in bytes, in powers of 1000 as targets are given.
pub fn megabytes(n: u64) -> String {
    format!("{:.1} MB", n as f64 / 1e6)
}

/// A share of a processor; small ones keep two decimals.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Mean and deviation in seconds, with decimals that show a few digits of the mean.
pub fn seconds(mean: f64, sd: Option<f64>) -> String {
    let decimals = match mean {
        m if m >= 100.0 => 2,
        m if m >= 1.0 => 3,
        m if m >= 0.1 => 4,
        m if m >= 0.01 => 5,
        _ => 6,
    };
    match sd {
        Some(sd) => format!("{mean:.decimals$} ± {sd:.decimals$}"),
        None => format!("{mean:.decimals$}"),
    }
}

fn scaled(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_they_should() {
        assert_eq!(rate(15e6), "15.0 M/s");
        assert_eq!(bandwidth(15.26e9), "15.3 GB/s");
        assert_eq!(
            (times(1.25), times(20.0), times(1219.4)),
            ("1.25".into(), "20".into(), "1219".into())
        );
        assert_eq!(seconds(12.3456, Some(0.0123)), "12.346 ± 0.012");
        assert_eq!(seconds(0.045_678_9, None), "0.04568");
    }
}
