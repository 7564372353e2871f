//! Patterns of Redis: `*`, `?`, `[a-c]`, `[^a]` and `\` before a character.

/// Maximum bytes of a pattern: the names that it is for are shorter. A longer one matches nothing.
const PATTERN_MAX: usize = 64;

/// Returns whether a text without upper-case letters matches a pattern, in any case. Only the last
/// `*` is tried again.
pub(super) fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    if pattern.len() > PATTERN_MAX {
        return false;
    }
    let (mut at, mut read) = (0, 0);
    // The place after the last `*`, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, read));
            continue;
        }
        match match_one(&pattern[at..], text[read]) {
            Some(length) => {
                at += length;
                read += 1;
            }
            None => {
                let Some((after_star, end)) = star else {
                    return false;
                };
                star = Some((after_star, end + 1));
                (at, read) = (after_star, end + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the first element of a pattern, if a byte matches it.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (length, contains) = match_set(set, byte);
            contains.then_some(1 + length)
        }
        [b'\\', escaped, ..] => (escaped.to_ascii_lowercase() == byte).then_some(2),
        [other, ..] => (other.to_ascii_lowercase() == byte).then_some(1),
    }
}

/// Returns the length of a set, whose `[` is read, with its `]`, and whether it contains a byte.
fn match_set(set: &[u8], byte: u8) -> (usize, bool) {
    let is_negated = set.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut contains = false;
    loop {
        let (length, matches) = match &set[at..] {
            [] => return (at, contains != is_negated),
            [b']', ..] => return (at + 1, contains != is_negated),
            [b'\\', escaped, ..] => (2, escaped.to_ascii_lowercase() == byte),
            [low, b'-', high, ..] => {
                let (low, high) = (low.to_ascii_lowercase(), high.to_ascii_lowercase());
                (3, (low.min(high)..=low.max(high)).contains(&byte))
            }
            [other, ..] => (1, other.to_ascii_lowercase() == byte),
        };
        at += length;
        contains |= matches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_matches_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "save", true),
            ("SAVE", "save", true),
            ("s?ve", "save", true),
            ("s?ve", "sve", false),
            ("sav[ae]", "save", true),
            ("sav[a-f]", "save", true),
            ("sav[^e]", "save", false),
            ("s*v*e*", "save", true),
            ("*max*memory", "maxmemory", true),
            ("a*b", "aab", true),
            ("a*bc", "abbc", true),
            ("sav", "save", false),
            ("save?", "save", false),
            ("sa\\ve", "save", true),
            ("sav[e", "save", true),
            ("sav[", "save", false),
            ("", "save", false),
        ] {
            let matches = matches_glob(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matches, expected, "{pattern} {text}");
        }
        let stars = "*a".repeat(PATTERN_MAX / 2);
        assert!(!matches_glob(stars.as_bytes(), &[b'a'; 31]));
        for (bytes, expected) in [(PATTERN_MAX, true), (PATTERN_MAX + 1, false)] {
            let long_set = format!("sav[{}", "e".repeat(bytes - 4));
            assert_eq!(matches_glob(long_set.as_bytes(), b"save"), expected);
        }
    }
}
