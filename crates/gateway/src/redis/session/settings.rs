//! The answer to CONFIG GET.

use super::glob::matches_glob;
use crate::redis::reply::ReplyBuffer;

/// Settings that redis-benchmark and client libraries request.
const CONFIG_VALUES: [(&str, &str); 5] = [
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
];

/// Writes the settings that match one of the patterns. As in Redis, a name without a pattern is
/// answered as it was written.
pub(super) fn write_settings(patterns: &[&[u8]], replies: &mut ReplyBuffer) {
    let mut matching: Vec<(&[u8], &str)> = Vec::new();
    for (name, value) in CONFIG_VALUES {
        let is_match = |pattern: &&&[u8]| matches_glob(pattern, name.as_bytes());
        let Some(pattern) = patterns.iter().find(is_match) else {
            continue;
        };
        let is_name = pattern.eq_ignore_ascii_case(name.as_bytes());
        let name = if is_name { pattern } else { name.as_bytes() };
        matching.push((name, value));
    }
    replies.begin_map(matching.len());
    for (name, value) in matching {
        replies.write_bulk(name);
        replies.write_bulk(value.as_bytes());
    }
}
