//! All scenarios with the bounds of the tests.

use super::situation::Situation;
use super::{EMPTY_SCENARIO, Scenario};
use crate::parameters::ClockBehavior;
use crate::world::action_counts::ActionCounts;
use crate::world::alloc_process::CallOperation;

/// All scenarios.
pub(crate) const SCENARIOS: &[Scenario] = &[
    // Two leaders, renewals and expiry within the drift bound.
    Scenario {
        name: "leases",
        clocks: ClockBehavior::Bounded,
        nodes: 2,
        timed_sessions: 0b10,
        terms: 2,
        answers_at_once: true,
        limits: ActionCounts {
            opens: 1,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::DeposedHoldsConfirmed,
            Situation::OldExpireProposed,
            Situation::RenewalWhileExpiring,
        ],
        ..EMPTY_SCENARIO
    },
    // One leader, renewals and expiry within the drift bound.
    Scenario {
        name: "expiry",
        clocks: ClockBehavior::Bounded,
        nodes: 1,
        timed_sessions: 0b10,
        limits: ActionCounts {
            opens: 1,
            ..ActionCounts::NONE
        },
        situations: &[Situation::SecondOwner, Situation::RenewalWhileExpiring],
        ..EMPTY_SCENARIO
    },
    // An expired process opens a new session and gets the slot back.
    Scenario {
        name: "rejoin",
        clocks: ClockBehavior::Bounded,
        timed_sessions: 0b10,
        limits: ActionCounts {
            opens: 2,
            moves: 1,
            sessions: 1,
            expiries: 1,
            assigns: 1,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::ReturnedProcess,
            Situation::OldObjectUnderLease,
        ],
        ..EMPTY_SCENARIO
    },
    // Two leaders assign one free slot.
    Scenario {
        name: "assigns",
        nodes: 2,
        terms: 3,
        answers_at_once: true,
        slot_free_at_start: true,
        limits: ActionCounts {
            opens: 2,
            ..ActionCounts::NONE
        },
        situations: &[Situation::OldAssignProposed],
        ..EMPTY_SCENARIO
    },
    // One owner opens, raises and closes over a hostile network.
    Scenario {
        name: "generations",
        hostile_network: true,
        processes: 1,
        members: 1,
        calls_in_flight_max: 2,
        takes_after_entering: true,
        step: 2,
        limits: ActionCounts {
            opens: 2,
            raises: 1,
            closes: 1,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::LateRaise,
            Situation::LateMark,
            Situation::GuardInSealed,
        ],
        ..EMPTY_SCENARIO
    },
    // RaiseTo and `current` while the owner also closes the section.
    Scenario {
        name: "raise-to",
        hostile_network: true,
        processes: 1,
        members: 1,
        section_unopened_at_start: true,
        step: 2,
        operations: &[
            CallOperation::Next,
            CallOperation::Current,
            CallOperation::RaiseTo,
        ],
        limits: ActionCounts {
            opens: 2,
            raises: 1,
            closes: 1,
            ..ActionCounts::NONE
        },
        situations: &[Situation::LateMark],
        ..EMPTY_SCENARIO
    },
    // Takeover with clocks unbounded over a hostile network.
    Scenario {
        name: "takeover",
        clocks: ClockBehavior::Unbounded,
        hostile_network: true,
        answers_at_once: true,
        limits: ActionCounts {
            opens: 2,
            raises: 1,
            closes: 1,
            expiries: 1,
            assigns: 1,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::LateRaise,
            Situation::LateMark,
        ],
        ..EMPTY_SCENARIO
    },
    // Planned moves there and back over a hostile network.
    Scenario {
        name: "moves",
        hostile_network: true,
        takes_after_entering: true,
        operations: &[CallOperation::Next, CallOperation::Current],
        limits: ActionCounts {
            opens: 2,
            moves: 2,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::TwoMoves,
            Situation::LateMove,
            Situation::LateMark,
        ],
        ..EMPTY_SCENARIO
    },
    // A late MoveSlot finds its sender owning the slot again.
    Scenario {
        name: "moved-back",
        hostile_network: true,
        answers_at_once: true,
        limits: ActionCounts {
            opens: 2,
            closes: 1,
            moves: 2,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::TwoMoves,
            Situation::LateMove,
        ],
        ..EMPTY_SCENARIO
    },
    // CloseSession after a planned move that timed out.
    Scenario {
        name: "leave",
        hostile_network: true,
        step: 2,
        limits: ActionCounts {
            opens: 2,
            moves: 1,
            leaves: 1,
            assigns: 1,
            ..ActionCounts::NONE
        },
        situations: &[
            Situation::SecondOwner,
            Situation::LateMove,
            Situation::LateMark,
        ],
        ..EMPTY_SCENARIO
    },
    // Fast restart with a proof.
    Scenario {
        name: "restart",
        hostile_network: true,
        processes: 3,
        members: 1,
        name_of_process: |_| 0,
        answers_at_once: true,
        limits: ActionCounts {
            opens: 2,
            sessions: 2,
            crashes: 2,
            ..ActionCounts::NONE
        },
        situations: &[Situation::FastRestart],
        ..EMPTY_SCENARIO
    },
    // Strict mode keeps the order with clocks unbounded.
    Scenario {
        name: "strict",
        clocks: ClockBehavior::Unbounded,
        strict: true,
        step: 2,
        limits: ActionCounts {
            opens: 2,
            sessions: 1,
            expiries: 2,
            assigns: 2,
            ..ActionCounts::NONE
        },
        situations: &[Situation::SecondOwner, Situation::ReturnedProcess],
        ..EMPTY_SCENARIO
    },
    // The stores are wiped and become another cluster, at the same addresses.
    Scenario {
        name: "clusters",
        hostile_network: true,
        members: 1,
        answers_at_once: true,
        limits: ActionCounts {
            opens: 2,
            moves: 1,
            sessions: 1,
            assigns: 1,
            new_clusters: 1,
            ..ActionCounts::NONE
        },
        situations: &[Situation::TwoClusters, Situation::LateMoveOfOtherCluster],
        ..EMPTY_SCENARIO
    },
];
