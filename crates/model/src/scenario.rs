//! Scenarios: small bounds, each turned to one part of the protocol, and what they must reach.
//!
//! A scenario that never reaches the situation it is for proves nothing; so each names
//! situations that the checker must find (`sometimes` properties).

use crate::alloc_process::Kind;
use crate::coverage::*;

/// What clocks may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Time stands still: leases once held are held, nobody is expired.
    Still,
    /// Clocks drift within the bound.
    Bounded,
    /// Clocks mean nothing: every lease seems valid and W seems passed at any moment.
    Unbounded,
}

/// Bounds of one check. Counts are totals over a whole run, `calls` and `renewals` those in
/// flight per process.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "counts are named after what they bound")]
pub struct Scenario {
    pub name: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
    pub clocks: Clocks,
    /// Messages may be lost, repeated, late and out of order; otherwise a call is one step.
    pub hostile: bool,
    pub processes: u8,
    /// How many of the processes have a session at the start (ids 1, 2, ...).
    pub members: u8,
    /// The name under which a process registers.
    pub names: fn(u8) -> u8,
    /// StoreSvr nodes with an arbiter and renewals; 0 leaves them out.
    pub nodes: u8,
    /// Bits of sessions that are subject to time; the others are never expired.
    pub timed: u8,
    pub terms: u8,
    pub expiries: u8,
    pub assigns: u8,
    /// How often the stores are wiped and made again as another cluster.
    pub remakes: u8,
    pub opens: u8,
    pub raises: u8,
    pub closes: u8,
    pub moves: u8,
    pub leaves: u8,
    pub sessions: u8,
    pub crashes: u8,
    pub calls: usize,
    pub renewals: usize,
    /// Entering and taking are two steps.
    pub adders: bool,
    /// A call enters, takes, is checked and answered in one step.
    pub prompt: bool,
    pub kinds: &'static [Kind],
    /// Calls are answered after a store confirmation instead of a lease check.
    pub strict: bool,
    pub step: u8,
    /// Nobody owns the slot at the start.
    pub free_at_start: bool,
    /// The slot is owned at the start, but its section was never opened.
    pub cold: bool,
    pub reaches: &'static [Reached],
}

/// All else zero, to be filled in by each scenario.
const EMPTY: Scenario = Scenario {
    name: "",
    about: "",
    clocks: Clocks::Still,
    hostile: false,
    processes: 2,
    members: 2,
    names: |process| process,
    nodes: 0,
    timed: 0,
    terms: 1,
    expiries: 0,
    assigns: 0,
    remakes: 0,
    opens: 0,
    raises: 0,
    closes: 0,
    moves: 0,
    leaves: 0,
    sessions: 0,
    crashes: 0,
    calls: 1,
    renewals: 1,
    adders: false,
    prompt: false,
    kinds: &[Kind::Next],
    strict: false,
    step: 1,
    free_at_start: false,
    cold: false,
    reaches: &[],
};

/// The bounds used by the tests.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "leases",
        about: "two leaders, renewals and expiry within the drift bound",
        clocks: Clocks::Bounded,
        nodes: 2,
        timed: 0b10,
        terms: 2,
        opens: 1,
        prompt: true,
        reaches: &[
            SECOND_OWNER,
            DEPOSED_HOLDS_CONFIRMED,
            OLD_DECISION_PROPOSED,
            RENEWAL_WHILE_EXPIRING,
        ],
        ..EMPTY
    },
    Scenario {
        name: "expiry",
        about: "one leader, renewals and expiry within the drift bound",
        clocks: Clocks::Bounded,
        nodes: 1,
        timed: 0b10,
        opens: 1,
        reaches: &[SECOND_OWNER, RENEWAL_WHILE_EXPIRING],
        ..EMPTY
    },
    Scenario {
        name: "rejoin",
        about: "an expired process opens a new session and gets the slot back",
        clocks: Clocks::Bounded,
        timed: 0b10,
        expiries: 1,
        assigns: 1,
        opens: 2,
        moves: 1,
        sessions: 1,
        reaches: &[SECOND_OWNER, BACK_AGAIN, OLD_OBJECT_WHILE_LEASED],
        ..EMPTY
    },
    Scenario {
        name: "assigns",
        about: "two leaders assign one free slot",
        nodes: 2,
        terms: 3,
        opens: 2,
        prompt: true,
        free_at_start: true,
        reaches: &[OLD_ASSIGN_PROPOSED],
        ..EMPTY
    },
    Scenario {
        name: "generations",
        about: "one owner opens, raises and closes over a hostile network",
        hostile: true,
        processes: 1,
        members: 1,
        opens: 2,
        raises: 1,
        closes: 1,
        calls: 2,
        adders: true,
        step: 2,
        reaches: &[LATE_RAISE, LATE_FINAL, ADDER_IN_SEALED],
        ..EMPTY
    },
    Scenario {
        name: "raise-to",
        about: "RaiseTo and `current` beside closes",
        hostile: true,
        processes: 1,
        members: 1,
        cold: true,
        opens: 2,
        raises: 1,
        closes: 1,
        step: 2,
        kinds: &[Kind::Next, Kind::Current, Kind::RaiseTo],
        reaches: &[LATE_FINAL],
        ..EMPTY
    },
    Scenario {
        name: "takeover",
        about: "takeover with clocks unbounded over a hostile network",
        clocks: Clocks::Unbounded,
        hostile: true,
        expiries: 1,
        assigns: 1,
        opens: 2,
        prompt: true,
        raises: 1,
        closes: 1,
        reaches: &[SECOND_OWNER, LATE_RAISE, LATE_FINAL],
        ..EMPTY
    },
    Scenario {
        name: "moves",
        about: "planned moves there and back over a hostile network",
        hostile: true,
        moves: 2,
        opens: 2,
        adders: true,
        kinds: &[Kind::Next, Kind::Current],
        reaches: &[SECOND_OWNER, TWO_MOVES, STALE_MOVE, LATE_FINAL],
        ..EMPTY
    },
    Scenario {
        name: "moved-back",
        about: "a late MoveSlot finds its sender owning the slot again",
        hostile: true,
        moves: 2,
        opens: 2,
        closes: 1,
        prompt: true,
        reaches: &[SECOND_OWNER, TWO_MOVES, STALE_MOVE],
        ..EMPTY
    },
    Scenario {
        name: "leave",
        about: "CloseSession after a planned move that timed out",
        hostile: true,
        moves: 1,
        leaves: 1,
        assigns: 1,
        opens: 2,
        step: 2,
        reaches: &[SECOND_OWNER, STALE_MOVE, LATE_FINAL],
        ..EMPTY
    },
    Scenario {
        name: "restart",
        about: "fast restart with a proof",
        hostile: true,
        processes: 3,
        members: 1,
        names: |_| 0,
        opens: 2,
        prompt: true,
        sessions: 2,
        crashes: 2,
        reaches: &[FAST_RESTART],
        ..EMPTY
    },
    Scenario {
        name: "strict",
        about: "strict mode keeps the order with clocks unbounded",
        clocks: Clocks::Unbounded,
        strict: true,
        expiries: 2,
        assigns: 2,
        opens: 2,
        sessions: 1,
        step: 2,
        reaches: &[SECOND_OWNER, BACK_AGAIN],
        ..EMPTY
    },
    Scenario {
        name: "clusters",
        about: "the stores are made again as another cluster, at the same addresses",
        hostile: true,
        members: 1,
        remakes: 1,
        sessions: 1,
        assigns: 1,
        opens: 2,
        moves: 1,
        prompt: true,
        reaches: &[TWO_CLUSTERS, LATE_OF_OTHER_CLUSTER],
        ..EMPTY
    },
];

/// Larger bounds, for a machine with minutes to spare.
pub fn deep() -> Vec<Scenario> {
    SCENARIOS
        .iter()
        .map(|scenario| match scenario.name {
            "leases" => Scenario {
                terms: 3,
                prompt: false,
                ..scenario.clone()
            },
            "moves" => Scenario {
                step: 2,
                ..scenario.clone()
            },
            "takeover" => Scenario {
                step: 2,
                prompt: false,
                ..scenario.clone()
            },
            "generations" => Scenario {
                closes: 2,
                ..scenario.clone()
            },
            "raise-to" => Scenario {
                closes: 2,
                raises: 2,
                ..scenario.clone()
            },
            "restart" => Scenario {
                raises: 1,
                step: 2,
                ..scenario.clone()
            },
            "strict" => Scenario {
                calls: 2,
                opens: 3,
                ..scenario.clone()
            },
            _ => scenario.clone(),
        })
        .collect()
}
