//! Choice of the store that receives the next call.
//!
//! Invariant: a store that failed is tried again only after each other known store was tried once,
//! so each known store is tried within a bounded number of attempts under any leader hints.
//! Schedule that breaks it: s4 replaces s1, leads, and loses its disk; s2 leads then. s1 did not
//! learn that it was removed: its hint is s4. The list that s4 last sent names s1 after it. An
//! AllocSvr that follows each hint calls s1 and s4 in turn without end, and never s2.

use seqsvr_core::planted;

/// Maximum hints to unknown stores that are followed before each known store was tried; above it
/// they are ignored. A group has 3 or 5 stores.
const UNKNOWN_HINTS_MAX: usize = 5;

/// Store to try, and the stores that failed since one succeeded.
pub(super) struct StorePreference {
    address: String,
    /// Stores that failed since the last success or the begin of this round. A round ends when it
    /// has every known store.
    failed: Vec<String>,
}

impl StorePreference {
    pub(super) fn new(address: String) -> StorePreference {
        StorePreference {
            address,
            failed: Vec::new(),
        }
    }

    /// Returns the address of the store to try.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Records that the store at `address` succeeded. A late answer of another store says nothing
    /// about the one that is tried now.
    pub(super) fn record_success(&mut self, address: &str) {
        if self.address == address {
            self.failed.clear();
        }
    }

    /// Chooses the next store, because the one at `address` failed or does not lead; `hint` is the
    /// leader that it names, or empty. Returns whether the hint was followed. A late answer, after
    /// another task has changed the choice, changes nothing.
    pub(super) fn choose_next(&mut self, address: &str, hint: &str, known: &[String]) -> bool {
        if self.address != address {
            return false;
        }
        if planted!(ForgetFailedStores) {
            self.failed.clear();
        }
        self.add_failed(address);
        if !self.can_follow(hint, known) && known.iter().all(|store| self.has_failed(store)) {
            self.failed.clear();
            self.add_failed(address);
        }
        if self.can_follow(hint, known) {
            self.address = hint.to_owned();
            return true;
        }
        let position = known.iter().position(|store| store == address);
        let begin = position.map_or(0, |i| i + 1);
        let in_turn = known.iter().cycle().skip(begin).take(known.len());
        if let Some(next) = { in_turn }.find(|store| !self.has_failed(store)) {
            self.address = next.clone();
        }
        false
    }

    fn can_follow(&self, hint: &str, known: &[String]) -> bool {
        let is_known = |store: &str| known.iter().any(|k| k == store);
        let unknown_count = || self.failed.iter().filter(|store| !is_known(store)).count();
        !hint.is_empty()
            && !self.has_failed(hint)
            && (is_known(hint) || unknown_count() < UNKNOWN_HINTS_MAX)
    }

    fn has_failed(&self, address: &str) -> bool {
        self.failed.iter().any(|store| store == address)
    }

    fn add_failed(&mut self, address: &str) {
        if !self.has_failed(address) {
            self.failed.push(address.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails calls until `leader` is tried. Returns the stores that failed before it, or None after
    /// 40 of them.
    fn search(
        preference: &mut StorePreference,
        known: &[String],
        hint: impl Fn(&str) -> String,
        leader: &str,
    ) -> Option<Vec<String>> {
        let mut tried = Vec::new();
        while preference.address() != leader {
            let address = preference.address().to_owned();
            preference.choose_next(&address, &hint(&address), known);
            tried.push(address);
            if tried.len() > 40 {
                return None;
            }
        }
        Some(tried)
    }

    fn known(addresses: &[&str]) -> Vec<String> {
        addresses.iter().map(|a| String::from(*a)).collect()
    }

    /// Schedule: see the head of this file. s4 is dead and sent its list as its own leader.
    #[test]
    fn removed_store_that_names_dead_leader_hides_no_other_store() {
        let known = known(&["s4", "s2", "s3", "s1"]);
        let hint = |store: &str| String::from(if store == "s1" { "s4" } else { "" });
        for first in ["s1", "s4"] {
            let mut preference = StorePreference::new(first.into());
            let tried = search(&mut preference, &known, hint, "s2");
            assert!(tried.is_some_and(|tried| tried.len() <= 2), "from {first}");
        }
        // The list in the other order, in which s1 follows s4.
        let known = [&known[3..], &known[..3]].concat();
        let mut preference = StorePreference::new("s1".into());
        let tried = search(&mut preference, &known, hint, "s3").unwrap();
        assert_eq!(tried, ["s1", "s4", "s2"]);
    }

    /// Schedule: s1 is dead. s2 is cut off from the other stores, so it names s1 as long as the
    /// partition lasts. s3 leads.
    #[test]
    fn follower_without_stores_that_names_dead_leader_hides_no_other_store() {
        let known = known(&["s1", "s2", "s3"]);
        let hint = |store: &str| String::from(if store == "s2" { "s1" } else { "" });
        let mut preference = StorePreference::new("s1".into());
        let tried = search(&mut preference, &known, hint, "s3");
        assert_eq!(tried.unwrap(), ["s1", "s2"]);
    }

    /// Every store may name every other one, a dead one or a stranger: all are tried all the same.
    #[test]
    fn each_known_store_is_tried_in_each_round_with_any_hints() {
        let addresses = known(&["s1", "s2", "s3", "s4"]);
        let hints = known(&["", "s1", "s2", "s3", "s4", "x1"]);
        for n in 0..hints.len().pow(4) {
            let hint_of = |store: &str| {
                let index = addresses.iter().position(|a| a == store);
                let digit = |i: usize| n / hints.len().pow(i as u32) % hints.len();
                index.map_or_else(|| format!("{store}x"), |i| hints[digit(i)].clone())
            };
            let mut preference = StorePreference::new("s1".into());
            let mut last_tried = vec![0; addresses.len()];
            for attempt in 1..100 {
                let address = preference.address().to_owned();
                if let Some(i) = addresses.iter().position(|a| *a == address) {
                    last_tried[i] = attempt;
                }
                let longest = last_tried.iter().map(|last| attempt - last).max();
                let bound = 2 * (addresses.len() + UNKNOWN_HINTS_MAX);
                assert!(longest <= Some(bound), "hints {n}: {last_tried:?}");
                preference.choose_next(&address, &hint_of(&address), &addresses);
            }
        }
    }

    #[test]
    fn hint_is_followed_after_success_and_in_next_round() {
        let known = known(&["s1", "s2"]);
        let mut preference = StorePreference::new("s1".into());
        assert!(preference.choose_next("s1", "s2", &known));
        assert!(!preference.choose_next("s1", "s2", &known), "a late answer");
        preference.record_success("s2");
        assert!(preference.choose_next("s2", "s1", &known), "a new leader");
        // s1 does not lead yet. Now both have failed, so a round begins.
        assert!(preference.choose_next("s1", "s2", &known));
        assert_eq!(preference.address(), "s2");
        // One store alone is tried again and again.
        let mut preference = StorePreference::new("s1".into());
        assert!(!preference.choose_next("s1", "s1", &known[..1]));
        assert_eq!(preference.address(), "s1");
    }
}
