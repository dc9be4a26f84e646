//! Patterns of names and paths.

/// Whether a name fits a pattern in which each `*` stands for any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    // The first place that fits is as good as any, but for the last part.
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, yes, no) in [
            ("*", &["", "a", "a*b"][..], &[][..]),
            ("app", &["app"], &["", "apps", "my-app"]),
            ("app-*", &["app-", "app-1"], &["app", "my-app-1"]),
            ("*-app", &["-app", "my-app"], &["app", "my-app-1"]),
            ("a*b*c", &["abc", "a-b-b-c", "aXbXc"], &["ab", "acb", "abcd"]),
            ("a*a", &["aa", "aba"], &["a", "ab"]),
            ("", &[""], &["a"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }
}
