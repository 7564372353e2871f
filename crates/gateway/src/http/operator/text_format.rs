//! Metrics as text: OpenMetrics for clients that accept it, as Prometheus does, and the older
//! Prometheus text format for all others.

use std::collections::HashSet;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The two formats of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    OpenMetrics,
    Text,
}

impl MetricsFormat {
    /// Returns the format that a request with these headers accepts.
    pub(super) fn accepted_by(headers: &HeaderMap) -> MetricsFormat {
        let accepted = headers.get_all(ACCEPT).iter();
        let mut accepted = accepted.filter_map(|value| value.to_str().ok());
        match accepted.any(|value| value.contains(OPEN_METRICS)) {
            true => MetricsFormat::OpenMetrics,
            false => MetricsFormat::Text,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a text in OpenMetrics to this format.
    pub(super) fn convert(self, text: String) -> String {
        match self {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Text => to_text_format(&text),
        }
    }
}

/// Converts OpenMetrics to the older format. There the description of a counter has its full name,
/// with `_total`, and there are no units and no end mark.
fn to_text_format(text: &str) -> String {
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = typed.filter_map(|t| t.strip_suffix(" counter")).collect();
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for line in text.lines() {
        let prefix = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|prefix| Some((prefix, line.strip_prefix(prefix)?.split_once(' ')?)));
        match prefix {
            Some((prefix, (name, rest))) => {
                let total = if counters.contains(name) {
                    "_total"
                } else {
                    ""
                };
                out.extend([prefix, name, total, " ", rest, "\n"]);
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
    fn metrics_text_format_has_full_counter_names() {
        let text = "# HELP a Counts.\n# TYPE a counter\na_total 1\n# HELP b Stands\n# TYPE b gauge\nb 2\n# EOF\n";
        let expected = "# HELP a_total Counts.\n# TYPE a_total counter\na_total 1\n# HELP b Stands\n# TYPE b gauge\nb 2\n";
        assert_eq!(MetricsFormat::Text.convert(text.into()), expected);
        assert_eq!(MetricsFormat::OpenMetrics.convert(text.into()), text);
    }
}
