//! A strict reader of OpenMetrics text: what `promtool check metrics` and the
//! specification would not accept is refused.

use std::collections::{BTreeMap, BTreeSet};

pub struct Exposition {
    samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

impl Exposition {
    /// The value of a sample with exactly these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut labels: Vec<_> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        labels.sort();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `a="b",c="d"` into pairs.
fn labels(mut text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = vec![];
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name) {
            return Err(format!("'{name}' is no label's name"));
        }
        let (mut value, mut end) = (String::new(), None);
        let mut letters = rest.char_indices();
        while let Some((at, c)) = letters.next() {
            match c {
                '"' => {
                    end = Some(at);
                    break;
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, c @ ('"' | '\\'))) => value.push(c),
                    other => return Err(format!("escape {other:?}")),
                },
                c => value.push(c),
            }
        }
        found.push((name.to_owned(), value));
        text = &rest[end.ok_or("a value without an end")? + 1..];
        text = match text.strip_prefix(',') {
            Some("") => return Err("a comma at the end".into()),
            Some(more) => more,
            None if text.is_empty() => text,
            None => return Err(format!("'{text}' after a label")),
        };
    }
    found.sort();
    let names: BTreeSet<_> = found.iter().map(|(n, _)| n).collect();
    if names.len() != found.len() {
        return Err("a label twice".into());
    }
    Ok(found)
}

#[derive(Default, Debug)]
struct Family {
    name: String,
    kind: String,
    help: bool,
    unit: Option<String>,
}

impl Family {
    fn takes(&self, sample: &str) -> bool {
        let suffixes: &[&str] = match self.kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        sample.strip_prefix(&self.name).is_some_and(|s| suffixes.contains(&s))
    }
}

pub fn parse(text: &str) -> Result<Exposition, String> {
    let text = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let (mut family, mut seen) = (Family::default(), BTreeSet::new());
    let mut samples = BTreeMap::new();
    for (n, line) in text.lines().enumerate() {
        let bad = |why: &str| Err(format!("line {}: {why}: {line}", n + 1));
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
            let name = name.unwrap_or_default();
            if !is_name(name) {
                return bad("no name");
            }
            if family.name != name {
                if !seen.insert(name.to_owned()) {
                    return bad("a family in two places");
                }
                family = Family { name: name.to_owned(), ..Family::default() };
            }
            match what {
                Some("HELP") if !rest.is_empty() && !family.help => family.help = true,
                Some("TYPE") if family.kind.is_empty() => {
                    if !["counter", "gauge", "histogram", "info"].contains(&rest) {
                        return bad("unknown type");
                    }
                    family.kind = rest.to_owned();
                }
                Some("UNIT") if family.unit.is_none() => {
                    if !name.ends_with(&format!("_{rest}")) {
                        return bad("the name does not end with its unit");
                    }
                    family.unit = Some(rest.to_owned());
                }
                _ => return bad("no comment that has a meaning, or twice"),
            }
            continue;
        }
        if !family.help || family.kind.is_empty() {
            return bad("a sample before its HELP and TYPE");
        }
        let (series, value) = line.rsplit_once(' ').ok_or(format!("line {}: no value", n + 1))?;
        let (name, found) = match series.split_once('{') {
            Some((name, rest)) => {
                let inner = rest.strip_suffix('}').ok_or(format!("line {}: no }}", n + 1))?;
                (name, labels(inner).map_err(|e| format!("line {}: {e}: {line}", n + 1))?)
            }
            None => (series, vec![]),
        };
        if !is_name(name) || !family.takes(name) {
            return bad("a sample outside its family");
        }
        let value: f64 = match value.parse() {
            Ok(v) => v,
            Err(_) => return bad("no number"),
        };
        if value.is_nan() || (value < 0.0 && family.kind != "gauge") {
            return bad("a value that cannot be");
        }
        if samples.insert((name.to_owned(), found), value).is_some() {
            return bad("the same series twice");
        }
    }
    histograms(&samples)?;
    Ok(Exposition { samples })
}

/// A sample's name and labels.
type Key = (String, Vec<(String, String)>);

/// Buckets rise, end with +Inf, and +Inf is the count.
fn histograms(samples: &BTreeMap<Key, f64>) -> Result<(), String> {
    let mut found: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples {
        if let Some(family) = name.strip_suffix("_bucket") {
            let mut labels = labels.clone();
            let le = labels.iter().position(|(n, _)| n == "le").ok_or("a bucket without le")?;
            let le = labels.remove(le).1;
            let le = if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| "le")? };
            found.entry((family.to_owned(), labels)).or_default().push((le, *value));
        }
    }
    for ((family, labels), mut buckets) in found {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        if buckets.windows(2).any(|w| w[0].1 > w[1].1) {
            return Err(format!("{family}{labels:?}: the buckets do not rise"));
        }
        let last = buckets.last().expect("one at least");
        let count = samples.get(&(format!("{family}_count"), labels.clone()));
        if last.0 != f64::INFINITY || count != Some(&last.1) {
            return Err(format!("{family}{labels:?}: +Inf is not the count"));
        }
        if !samples.contains_key(&(format!("{family}_sum"), labels.clone())) {
            return Err(format!("{family}{labels:?}: no sum"));
        }
    }
    Ok(())
}

#[test]
fn the_reader_refuses_what_is_wrong() {
    let good = "# HELP a x\n# TYPE a counter\na_total{b=\"c\\\"\"} 1\n# EOF\n";
    assert_eq!(parse(good).unwrap().value("a_total", &[("b", "c\"")]), Some(1.0));
    for wrong in [
        "# HELP a x\n# TYPE a counter\na_total 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a counter\na_total 1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na_total 1\na_total 2\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na_total{b=\"c} 1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na_total -1\n# EOF\n",
        "# HELP a x\n# TYPE a counter\na_total NaN\n# EOF\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n# EOF\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_sum 1\na_count 1\n# EOF\n",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
