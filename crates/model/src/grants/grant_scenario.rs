//! Scenarios of the model of grants: small bounds, each for one part of the rules.

use super::grant_action_counts::GrantActionCounts;
use super::grant_situation::GrantSituation;
use super::modeled_family::{LaneUse, ModeledFamily};

/// Bounds of one check of grants.
#[derive(Clone, Debug)]
pub(crate) struct GrantScenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Whether messages may be lost, repeated, late and out of order. Otherwise a request and its
    /// reply are one step.
    pub(crate) hostile_network: bool,
    /// Processes that make ids.
    pub(crate) holders: usize,
    /// Whether each acquisition claims the first worker number.
    pub(crate) claims_worker: bool,
    /// The family. No reading of the time is after its last tick.
    pub(crate) family: ModeledFamily,
    /// Limits of actions in a whole run.
    pub(crate) limits: GrantActionCounts,
    /// Situations that the checker must find.
    pub(crate) situations: &'static [GrantSituation],
}

/// A family with one worker, from which the others differ.
const EMPTY_FAMILY: ModeledFamily = ModeledFamily {
    workers: 1,
    is_sticky: false,
    lanes: LaneUse::One,
    last_tick: 5,
};

/// A scenario in which little happens, from which the others differ.
const EMPTY_SCENARIO: GrantScenario = GrantScenario {
    name: "",
    hostile_network: false,
    holders: 2,
    claims_worker: true,
    family: EMPTY_FAMILY,
    limits: GrantActionCounts::NONE,
    situations: &[],
};

/// All scenarios.
pub(crate) const GRANT_SCENARIOS: &[GrantScenario] = &[
    // Holders that pause, renew and are succeeded, over a hostile network. The time is set back.
    GrantScenario {
        name: "pauses",
        hostile_network: true,
        family: ModeledFamily {
            last_tick: 4,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 2,
            renewals: 1,
            set_backs: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[
            GrantSituation::WokenHolder,
            GrantSituation::PassedGrantTaken,
        ],
        ..EMPTY_SCENARIO
    },
    // Workers that are handed back, over a hostile network.
    GrantScenario {
        name: "releases",
        hostile_network: true,
        family: ModeledFamily {
            last_tick: 3,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 2,
            renewals: 1,
            releases: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[
            GrantSituation::LateRenewal,
            GrantSituation::LateRelease,
            GrantSituation::DuplicateReply,
        ],
        ..EMPTY_SCENARIO
    },
    // Two processes acquire two workers over a hostile network.
    GrantScenario {
        name: "retries",
        hostile_network: true,
        claims_worker: false,
        family: ModeledFamily {
            workers: 2,
            last_tick: 4,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 2,
            ..GrantActionCounts::NONE
        },
        situations: &[GrantSituation::PassedGrantTaken],
        ..EMPTY_SCENARIO
    },
    // One process renews one of its two workers.
    GrantScenario {
        name: "two-workers",
        claims_worker: false,
        family: ModeledFamily {
            workers: 2,
            last_tick: 4,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 3,
            renewals: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[GrantSituation::WokenHolder],
        ..EMPTY_SCENARIO
    },
    // Processes of one name take over from each other, and an operator revokes.
    GrantScenario {
        name: "sticky",
        claims_worker: false,
        family: ModeledFamily {
            is_sticky: true,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 3,
            releases: 1,
            revocations: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[
            GrantSituation::WokenHolder,
            GrantSituation::GrantInFront,
            GrantSituation::EndOfTime,
        ],
        ..EMPTY_SCENARIO
    },
    // An operator raises the floor and sets the store time back, with one lane.
    GrantScenario {
        name: "floors",
        limits: GrantActionCounts {
            acquisitions: 2,
            renewals: 2,
            set_backs: 1,
            floor_raises: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[GrantSituation::RenewalBelowFloor],
        ..EMPTY_SCENARIO
    },
    // The store time is set back, and workers have lanes.
    GrantScenario {
        name: "lanes-reuse",
        family: ModeledFamily {
            lanes: LaneUse::Reuse,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 2,
            renewals: 2,
            revocations: 1,
            set_backs: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[GrantSituation::OtherLane],
        ..EMPTY_SCENARIO
    },
    // The store time is set back, and a lane that was left is never used again.
    GrantScenario {
        name: "lanes-once",
        holders: 1,
        family: ModeledFamily {
            lanes: LaneUse::Once,
            ..EMPTY_FAMILY
        },
        limits: GrantActionCounts {
            acquisitions: 3,
            renewals: 1,
            revocations: 2,
            set_backs: 1,
            ..GrantActionCounts::NONE
        },
        situations: &[GrantSituation::OtherLane],
        ..EMPTY_SCENARIO
    },
];

/// Returns the scenarios with larger bounds, which take minutes.
pub(crate) fn deep_grant_scenarios() -> Vec<GrantScenario> {
    GRANT_SCENARIOS
        .iter()
        .map(|scenario| match scenario.name {
            "pauses" => GrantScenario {
                holders: 3,
                limits: GrantActionCounts {
                    acquisitions: 3,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "releases" => GrantScenario {
                holders: 3,
                limits: GrantActionCounts {
                    acquisitions: 3,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "sticky" => GrantScenario {
                limits: GrantActionCounts {
                    renewals: 1,
                    revocations: 2,
                    set_backs: 1,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "two-workers" => GrantScenario {
                limits: GrantActionCounts {
                    renewals: 2,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "lanes-once" => GrantScenario {
                limits: GrantActionCounts {
                    set_backs: 2,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            "lanes-reuse" => GrantScenario {
                limits: GrantActionCounts {
                    renewals: 2,
                    releases: 1,
                    ..scenario.limits
                },
                ..scenario.clone()
            },
            _ => scenario.clone(),
        })
        .collect()
}
