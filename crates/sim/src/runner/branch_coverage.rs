//! Branches that a sweep must reach. If no plan of a large sweep reaches one, the simulation no
//! longer tests it.

use std::collections::BTreeMap;

/// Each branch, with the number of seeds of which at least one must reach it.
const EXPECTED_BRANCHES: &[(&str, u64)] = &[
    ("a process was stopped in the middle of a clock read", 100),
    ("alloc: a call waited for the window", 100),
    ("alloc: a holding was stale", 1_000),
    ("alloc: numbers discarded, the lease was over", 100),
    ("alloc: numbers withdrawn, the slot moved on", 10_000),
    (
        "arbiter: a renewal came while the session was being expired",
        10_000,
    ),
    ("arbiter: timers were restarted", 100),
    ("client: it met another cluster only", 100),
    ("holder: a worker was lost", 100),
    ("operator: a store joined", 100),
    ("operator: a store was removed", 100),
    ("operator: an id was not given again", 1_000),
    ("raft: a snapshot was installed", 100),
    ("raft: rows were damaged", 1_000),
    ("raft: rows were not borne out by the log", 1_000),
    ("raft: the log was truncated", 1_000),
    ("state: a command of another epoch was refused", 1_000),
    ("state: a name was taken", 100),
    (
        "state: a session took the place of its own earlier one",
        100,
    ),
    ("state: an Open was repeated", 1_000),
    ("state: an expiry of another term had no effect", 10_000),
    ("store: a command of another AllocSvr was rejected", 100),
    ("store: clocks ahead were not followed", 10_000),
    ("store: time was slowed", 100),
];

/// Number of seeds that reached each branch.
pub type ReachedSeeds = BTreeMap<&'static str, u64>;

/// Returns one line for each branch that `seeds` seeds must reach and did not, and for each reached
/// branch that is not listed.
pub fn find_missed_branches(reached: &ReachedSeeds, seeds: u64) -> Vec<String> {
    let expected = EXPECTED_BRANCHES
        .iter()
        .filter(|(_, seeds_max)| *seeds_max <= seeds);
    let missing = expected.filter(|(branch, _)| !reached.contains_key(branch));
    let missing = missing.map(|(branch, seeds_max)| {
        format!("not reached in {seeds} seeds, and {seeds_max} should be enough: {branch}")
    });
    let is_listed = |branch: &str| {
        EXPECTED_BRANCHES
            .iter()
            .any(|(listed, _)| *listed == branch)
    };
    let unlisted = reached.keys().filter(|branch| !is_listed(branch));
    let unlisted = unlisted.map(|branch| format!("not listed in branch_coverage.rs: {branch}"));
    missing.chain(unlisted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_branch_is_reported_once_enough_seeds_ran() {
        let mut reached: ReachedSeeds = EXPECTED_BRANCHES
            .iter()
            .map(|(branch, _)| (*branch, 1))
            .collect();
        assert_eq!(find_missed_branches(&reached, u64::MAX), [""; 0]);
        let (rare, seeds_max) = EXPECTED_BRANCHES
            .iter()
            .max_by_key(|(_, seeds_max)| seeds_max)
            .unwrap();
        reached.remove(rare);
        assert_eq!(find_missed_branches(&reached, seeds_max - 1), [""; 0]);
        assert_eq!(find_missed_branches(&reached, *seeds_max).len(), 1);
        reached.insert("a new branch", 1);
        assert_eq!(find_missed_branches(&reached, 0).len(), 1);
    }
}
