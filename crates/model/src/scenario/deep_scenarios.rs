//! The scenarios with larger bounds.

use super::Scenario;
use super::table::SCENARIOS;
use crate::world::action_counts::ActionCounts;

/// Returns the scenarios with larger bounds, which take minutes.
pub(crate) fn deep_scenarios() -> Vec<Scenario> {
    SCENARIOS
        .iter()
        .map(|scenario| match scenario.name {
            "leases" => Scenario {
                terms: 3,
                answers_at_once: false,
                ..scenario.clone()
            },
            "moves" => Scenario {
                step: 2,
                ..scenario.clone()
            },
            "takeover" => Scenario {
                step: 2,
                answers_at_once: false,
                ..scenario.clone()
            },
            "generations" => Scenario {
                limits: ActionCounts {
                    closes: 2,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "raise-to" => Scenario {
                limits: ActionCounts {
                    raises: 2,
                    closes: 2,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "restart" => Scenario {
                step: 2,
                limits: ActionCounts {
                    raises: 1,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "strict" => Scenario {
                calls_in_flight_max: 2,
                limits: ActionCounts {
                    opens: 3,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            _ => scenario.clone(),
        })
        .collect()
}
