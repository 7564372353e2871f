//! Choice of a server when the owner is unknown or does not answer.
//!
//! A server that could not be reached or did not respond is *suspect* for a moment. Calls go to
//! other servers (which forward), so that a dead machine costs one attempt and not one attempt a
//! call. A server of another cluster is suspect for longer: it answers, but its answers are not
//! useful.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// Time for which a server that did not respond is avoided.
const SUSPECT_PERIOD: Duration = Duration::from_secs(1);
/// Time for which a server of another cluster is avoided. The client's cluster may get the address
/// back.
const FOREIGN_PERIOD: Duration = Duration::from_secs(10);
/// Maximum suspects kept. Above it, expired ones are removed, and new ones are not added.
const SUSPECTS_MAX: usize = 1024;

/// Reason why a server is avoided. Foreign servers are tried last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suspicion {
    /// The server did not respond at this time.
    Unresponsive(Instant),
    /// The server named another cluster at this time.
    Foreign(Instant),
}

impl Suspicion {
    fn is_active(self) -> bool {
        match self {
            Suspicion::Unresponsive(since) => since.elapsed() < SUSPECT_PERIOD,
            Suspicion::Foreign(since) => since.elapsed() < FOREIGN_PERIOD,
        }
    }
}

/// Addresses of the configured servers, and which servers are suspect.
pub(crate) struct ServerSet {
    configured: Vec<String>,
    /// The last suspicion of each server. Expired entries stay until the server answers or they
    /// make room: they give the order in which unresponsive servers are tried again.
    suspects: Mutex<HashMap<String, Suspicion>>,
    /// Length of `suspects`, so that the usual case takes no lock.
    suspect_count: AtomicUsize,
    rng: Mutex<SmallRng>,
}

impl ServerSet {
    pub(crate) fn new(addresses: Vec<String>, seed: Option<u64>) -> ServerSet {
        let mut configured: Vec<String> = Vec::new();
        for address in addresses {
            if !configured.contains(&address) {
                configured.push(address);
            }
        }
        ServerSet {
            configured,
            suspects: Mutex::default(),
            suspect_count: AtomicUsize::new(0),
            rng: Mutex::new(SmallRng::seed_from_u64(seed.unwrap_or_else(rand::random))),
        }
    }

    /// Returns the configured addresses, each once; at least one.
    pub(crate) fn configured(&self) -> &[String] {
        &self.configured
    }

    pub(crate) fn is_configured(&self, address: &str) -> bool {
        self.configured.iter().any(|a| a == address)
    }

    /// Returns whether the client knows a server other than those of `except` that is not suspect
    /// now.
    pub(crate) fn has_other_than(
        &self,
        except: &[impl AsRef<str>],
        table_addresses: &[String],
    ) -> bool {
        let mut all = self.configured.iter().chain(table_addresses);
        let is_excepted = |other: &str| except.iter().any(|address| address.as_ref() == other);
        all.any(|other| !is_excepted(other) && !self.is_suspect(other))
    }

    /// Records that a server could not be reached or did not respond.
    pub(crate) fn mark_unresponsive(&self, address: &str) {
        self.add_suspicion(address, Suspicion::Unresponsive(Instant::now()));
    }

    /// Records that a server belongs to another cluster.
    pub(crate) fn mark_foreign(&self, address: &str) {
        let known = self.suspects.lock().get(address).copied();
        if !matches!(known, Some(Suspicion::Foreign(_))) {
            tracing::warn!(
                server = %address,
                "a server belongs to another cluster, which may give the same numbers; its answers are not used"
            );
        }
        self.add_suspicion(address, Suspicion::Foreign(Instant::now()));
    }

    fn add_suspicion(&self, address: &str, suspicion: Suspicion) {
        let mut suspects = self.suspects.lock();
        if suspects.len() >= SUSPECTS_MAX {
            suspects.retain(|_, suspicion| suspicion.is_active());
        }
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert(address.to_owned(), suspicion);
        }
        self.suspect_count.store(suspects.len(), Ordering::Relaxed);
    }

    /// Returns the configured addresses and those of the table, each once.
    fn all_addresses<'a>(
        &'a self,
        table_addresses: &'a [String],
    ) -> impl Iterator<Item = &'a String> {
        let more = table_addresses.iter().filter(|a| !self.is_configured(a));
        self.configured.iter().chain(more)
    }

    /// Counts the servers of another cluster among the configured ones and those of the table, if
    /// they are most of them and the others do not respond. Returns how many, and how many there
    /// are.
    ///
    /// One stray server is not enough: the client's own cluster may be down for a moment.
    pub(crate) fn count_foreign(&self, table_addresses: &[String]) -> Option<(usize, usize)> {
        let suspects = self.suspects.lock();
        let (mut foreign, mut all) = (0, 0);
        for address in self.all_addresses(table_addresses) {
            all += 1;
            match suspects.get(address)? {
                suspicion @ Suspicion::Foreign(_) if suspicion.is_active() => foreign += 1,
                Suspicion::Foreign(_) => return None,
                Suspicion::Unresponsive(_) => {}
            }
        }
        (2 * foreign > all).then_some((foreign, all))
    }

    /// Records that a server answered.
    pub(crate) fn mark_responsive(&self, address: &str) {
        if self.suspect_count.load(Ordering::Relaxed) > 0 {
            let mut suspects = self.suspects.lock();
            suspects.remove(address);
            self.suspect_count.store(suspects.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_suspect(&self, address: &str) -> bool {
        self.suspect_count.load(Ordering::Relaxed) > 0
            && self
                .suspects
                .lock()
                .get(address)
                .is_some_and(|suspicion| suspicion.is_active())
    }

    /// Returns a random server of the configured ones and the table's, but none of `except` unless
    /// there is no other one. If all are suspect, returns the one that failed longest ago, so that
    /// repeated calls try all of them in turn.
    pub(crate) fn pick_server(&self, table_addresses: &[String], except: &[String]) -> String {
        let all = self.all_addresses(table_addresses);
        let (excepted, kept): (Vec<_>, Vec<_>) = all.partition(|a| except.contains(a));
        let all = if kept.is_empty() { excepted } else { kept };
        let fresh: Vec<&&String> = all.iter().filter(|a| !self.is_suspect(a)).collect();
        if !fresh.is_empty() {
            let i = self.rng.lock().random_range(0..fresh.len());
            return fresh[i].to_string();
        }
        let suspects = self.suspects.lock();
        let oldest = all.iter().min_by_key(|a| suspects.get(a.as_str()));
        // `configured` is never empty: `Client::new` rejects that.
        oldest.map(|a| a.to_string()).unwrap_or_default()
    }

    /// Returns a random time in the upper half of `bound`.
    pub(crate) fn add_jitter(&self, bound: Duration) -> Duration {
        bound.mul_f64(self.rng.lock().random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn foreign_servers_are_tried_last_until_foreign_period_ends() {
        let servers = ServerSet::new(vec!["a:1".into(), "b:1".into()], Some(7));
        let table_addresses = ["b:1".to_owned(), "c:1".to_owned()];
        servers.mark_foreign("a:1");
        servers.mark_foreign("c:1");
        assert_eq!(
            servers.count_foreign(&table_addresses),
            None,
            "one has not answered"
        );
        servers.mark_unresponsive("b:1");
        assert_eq!(servers.count_foreign(&table_addresses), Some((2, 3)));
        assert_eq!(
            servers.pick_server(&table_addresses, &[]),
            "b:1",
            "an unresponsive one before a foreign one"
        );
        servers.mark_unresponsive("a:1");
        assert_eq!(
            servers.count_foreign(&table_addresses),
            None,
            "one stray server"
        );
        servers.mark_foreign("a:1");
        servers.mark_foreign("b:1");
        assert_eq!(servers.count_foreign(&table_addresses), Some((3, 3)));
        servers.mark_responsive("c:1");
        assert_eq!(servers.count_foreign(&table_addresses), None);
        servers.mark_foreign("c:1");
        tokio::time::advance(FOREIGN_PERIOD).await;
        assert!(servers.count_foreign(&table_addresses).is_none() && !servers.is_suspect("a:1"));
    }

    #[tokio::test(start_paused = true)]
    async fn suspect_servers_are_avoided_then_tried_in_turn() {
        let servers = ServerSet::new(vec!["a:1".into(), "b:1".into()], Some(7));
        let table_addresses = ["b:1".to_owned(), "c:1".to_owned()];
        servers.mark_unresponsive("a:1");
        tokio::time::advance(Duration::from_millis(1)).await;
        servers.mark_unresponsive("b:1");
        assert!((0..20).all(|_| servers.pick_server(&table_addresses, &[]) == "c:1"));
        tokio::time::advance(Duration::from_millis(1)).await;
        servers.mark_unresponsive("c:1");
        assert_eq!(servers.pick_server(&table_addresses, &[]), "a:1");
        let failed = ["a:1".to_owned(), "b:1".to_owned()];
        assert_eq!(servers.pick_server(&table_addresses, &failed), "c:1");
        servers.mark_responsive("b:1");
        assert_eq!(servers.pick_server(&table_addresses, &[]), "b:1");
        let all = [&failed[..], &["c:1".to_owned()]].concat();
        assert_eq!(
            servers.pick_server(&table_addresses, &all),
            "b:1",
            "no other"
        );
        tokio::time::advance(SUSPECT_PERIOD).await;
        assert!(!servers.is_suspect("a:1"));
    }
}
