//! Metrics as text: OpenMetrics for a caller that requests it, as Prometheus does, and its older
//! format for all others.

use std::collections::HashSet;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The two formats of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the format that a request accepts.
    pub(super) fn asked(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(ACCEPT).iter();
        let mut accepted = accepted.filter_map(|value| value.to_str().ok());
        match accepted.any(|value| value.contains(OPEN_METRICS)) {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts text, written as OpenMetrics, to this format.
    pub(super) fn of(self, text: String) -> String {
        match self {
            Format::OpenMetrics => text,
            Format::Text => older(&text),
        }
    }
}

/// Converts OpenMetrics to the older format. There a counter has its whole name, `_total` included,
/// in its description as well; and there are no units and no end mark.
fn older(text: &str) -> String {
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = typed.filter_map(|t| t.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.lines() {
        let about = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|about| Some((about, line.strip_prefix(about)?.split_once(' ')?)));
        match about {
            Some((about, (name, rest))) => {
                let total = if counters.contains(name) {
                    "_total"
                } else {
                    ""
                };
                out.extend([about, name, total, " ", rest, "\n"]);
            }
            None if line.starts_with('#') => {}
            None => out.extend([line, "\n"]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_in_full() {
        let text = "# HELP a Counts.\n# TYPE a counter\na_total 1\n# HELP b Stands\n# TYPE b gauge\nb 2\n# EOF\n";
        let wanted = "# HELP a_total Counts.\n# TYPE a_total counter\na_total 1\n# HELP b Stands\n# TYPE b gauge\nb 2\n";
        assert_eq!(Format::Text.of(text.into()), wanted);
        assert_eq!(Format::OpenMetrics.of(text.into()), text);
    }
}
