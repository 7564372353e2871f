//! Result of a scenario: counts and latencies of its row, and notes.

use std::fmt;
use std::time::{Duration, Instant};

use seqsvr_test_support::recorded_load::LoadSummary;

/// Maximum failures of a load that are noted as text.
const FAILURE_NOTES_MAX: usize = 5;

/// Measurements of a scenario that passed.
#[derive(Clone, Debug, Default)]
pub struct ScenarioOutcome {
    /// Calls answered in all; each item of a batch counts as one.
    pub calls: u64,
    /// Calls answered during the fault.
    pub calls_during_fault: u64,
    /// Calls that failed, where the scenario allows failures.
    pub failed: u64,
    /// Longest call, answered or not.
    pub longest: Duration,
    /// Other measurements.
    pub notes: Vec<String>,
    /// Measurements over their limit. They fail an acceptance run. A test only prints them, because
    /// it may share its machine.
    pub missed_limits: Vec<String>,
}

impl ScenarioOutcome {
    /// Adds one answered call with this latency.
    pub fn add_call(&mut self, took: Duration) {
        self.calls += 1;
        self.longest = self.longest.max(took);
    }

    /// Makes one call, which must be answered, and adds it.
    pub async fn measure_call<T, E: fmt::Display>(
        &mut self,
        call: impl IntoFuture<Output = Result<T, E>>,
    ) -> T {
        let began = Instant::now();
        let answer = call.await;
        let took = began.elapsed();
        match answer {
            Ok(answer) => {
                self.add_call(took);
                answer
            }
            Err(error) => panic!("a call failed after {took:.1?}: {error}"),
        }
    }

    /// Adds all calls of a finished load.
    pub fn add_load(&mut self, what: &str, load: &LoadSummary) {
        self.calls += load.answered;
        self.failed += load.failed;
        self.longest = self.longest.max(load.longest.0);
        self.note(format!(
            "{what}: {} calls answered, {} of them through endpoints, {} failed; longest {:.0?}: {}",
            load.answered, load.through_endpoints, load.failed, load.longest.0, load.longest.1
        ));
        for failure in load.failures.iter().take(FAILURE_NOTES_MAX) {
            self.note(format!("  failed: {failure}"));
        }
    }

    /// Keeps a note and prints it to stderr at once, so that it is visible even if the scenario
    /// fails later.
    pub fn note(&mut self, text: String) {
        eprintln!("{text}");
        self.notes.push(text);
    }
}

impl fmt::Display for ScenarioOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls, {} inside the event, {} failed, longest {:.3?}",
            self.calls, self.calls_during_fault, self.failed, self.longest
        )
    }
}
