//! Calls without an answer, for the report of a failure.

use std::collections::BTreeMap;

/// Time after its last attempt for which a call is reported, ms: longer than the deadline of calls.
const REPORTED_FOR_MS: u64 = 10_000;
/// Maximum calls in a report. Above it, the ones that began last are left out.
const REPORTED_CALLS_MAX: usize = 20;

/// Attempts of a caller at a sequence since its last answer.
struct UnansweredCall {
    begun_at_ms: u64,
    tried_at_ms: u64,
    last_error: Option<String>,
}

/// Calls that have no answer, by caller and uid.
#[derive(Default)]
pub struct UnansweredCalls(BTreeMap<(u64, u64), UnansweredCall>);

impl UnansweredCalls {
    /// Records the begin of an attempt.
    pub fn record_attempt(&mut self, caller: u64, uid: u64, now: u64) {
        let call = self.0.entry((caller, uid)).or_insert(UnansweredCall {
            begun_at_ms: now,
            tried_at_ms: now,
            last_error: None,
        });
        call.tried_at_ms = now;
    }

    /// Records the end of an attempt.
    pub fn record_end(&mut self, caller: u64, uid: u64, error: Option<String>) {
        match error {
            None => drop(self.0.remove(&(caller, uid))),
            Some(error) => {
                if let Some(call) = self.0.get_mut(&(caller, uid)) {
                    call.last_error = Some(error);
                }
            }
        }
    }

    /// Returns a line for each call that is still attempted at the time `now`, the oldest first.
    pub fn describe(&self, now: u64) -> Vec<String> {
        let calls = self.0.iter();
        let mut calls: Vec<_> = calls
            .filter(|(_, call)| call.tried_at_ms + REPORTED_FOR_MS >= now)
            .collect();
        calls.sort_by_key(|(_, call)| call.begun_at_ms);
        calls.truncate(REPORTED_CALLS_MAX);
        let line = |((caller, uid), call): (&(u64, u64), &UnansweredCall)| {
            let error = call.last_error.as_deref().unwrap_or("none yet");
            format!(
                "caller {caller} has no answer for uid {uid} since {}; last error: {error}",
                call.begun_at_ms
            )
        };
        calls.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unanswered_call_is_reported_with_last_error_until_answered() {
        let mut calls = UnansweredCalls::default();
        calls.record_attempt(1, 7, 100);
        calls.record_end(1, 7, Some("first".into()));
        calls.record_attempt(1, 7, 200);
        calls.record_end(1, 7, Some("second".into()));
        calls.record_attempt(2, 7, 300);
        calls.record_end(2, 7, None);
        let lines = calls.describe(300);
        assert_eq!(
            lines,
            ["caller 1 has no answer for uid 7 since 100; last error: second"]
        );
        assert!(calls.describe(201 + REPORTED_FOR_MS).is_empty());
    }
}
