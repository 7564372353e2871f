//! The choice of a server when the owner is unknown or does not answer.
//!
//! A server that could not be reached or stayed silent is *suspect* for a moment. Calls go to other
//! servers (which forward), so that a dead machine costs one try and not one try a call. A server
//! of another cluster is suspect for longer: it answers, but its answers are not useful.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// How long a suspicion lasts.
const SUSPECT_FOR: Duration = Duration::from_secs(1);
/// How long a server of another cluster is avoided. The client's cluster may get the address back.
const FOREIGN_FOR: Duration = Duration::from_secs(10);
/// Most suspects kept.
const SUSPECTS_MAX: usize = 1024;

/// The reason why a server is avoided. Foreign servers are tried last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suspicion {
    /// The server was silent at this time.
    Silent(Instant),
    /// The server named another cluster at this time.
    Foreign(Instant),
}

impl Suspicion {
    fn holds(self) -> bool {
        match self {
            Suspicion::Silent(since) => since.elapsed() < SUSPECT_FOR,
            Suspicion::Foreign(since) => since.elapsed() < FOREIGN_FOR,
        }
    }
}

pub(crate) struct Servers {
    given: Vec<String>,
    /// The last suspicion of each server. Expired entries stay until the server answers or they
    /// make room: they give the order in which silent servers are tried again.
    suspects: Mutex<HashMap<String, Suspicion>>,
    /// Length of `suspects`, so that the usual case takes no lock.
    suspected: AtomicUsize,
    rng: Mutex<SmallRng>,
}

impl Servers {
    pub(crate) fn new(given: Vec<String>, seed: Option<u64>) -> Servers {
        Servers {
            given,
            suspects: Mutex::default(),
            suspected: AtomicUsize::new(0),
            rng: Mutex::new(SmallRng::seed_from_u64(seed.unwrap_or_else(rand::random))),
        }
    }

    pub(crate) fn is_given(&self, address: &str) -> bool {
        self.given.iter().any(|a| a == address)
    }

    pub(crate) fn silent(&self, address: &str) {
        self.suspect(address, Suspicion::Silent(Instant::now()));
    }

    /// Notes that a server belongs to another cluster.
    pub(crate) fn note_foreign(&self, address: &str) {
        self.suspect(address, Suspicion::Foreign(Instant::now()));
    }

    fn suspect(&self, address: &str, suspicion: Suspicion) {
        let mut suspects = self.suspects.lock();
        if suspects.len() >= SUSPECTS_MAX {
            suspects.retain(|_, suspicion| suspicion.holds());
        }
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert(address.to_owned(), suspicion);
        }
        self.suspected.store(suspects.len(), Ordering::Relaxed);
    }

    /// Counts the servers of another cluster among all, given or known, if they are most of them
    /// and the others are silent. Returns how many, and how many there are.
    ///
    /// One stray server is not enough: the client's own cluster may be down for a moment.
    pub(crate) fn count_foreign(&self, known: &[String]) -> Option<(usize, usize)> {
        let suspects = self.suspects.lock();
        let more = known.iter().filter(|address| !self.is_given(address));
        let (mut foreign, mut all) = (0, 0);
        for address in self.given.iter().chain(more) {
            all += 1;
            match suspects.get(address)? {
                suspicion @ Suspicion::Foreign(_) if suspicion.holds() => foreign += 1,
                Suspicion::Foreign(_) => return None,
                Suspicion::Silent(_) => {}
            }
        }
        (2 * foreign > all).then_some((foreign, all))
    }

    pub(crate) fn answered(&self, address: &str) {
        if self.suspected.load(Ordering::Relaxed) > 0 {
            let mut suspects = self.suspects.lock();
            suspects.remove(address);
            self.suspected.store(suspects.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_suspect(&self, address: &str) -> bool {
        self.suspected.load(Ordering::Relaxed) > 0
            && self
                .suspects
                .lock()
                .get(address)
                .is_some_and(|suspicion| suspicion.holds())
    }

    /// Returns a random server of the given ones and the table's. If all are suspect, returns the
    /// one that was silent longest ago, so that repeated calls try all of them in turn.
    pub(crate) fn any(&self, known: &[String]) -> String {
        let all: Vec<&String> = {
            let more = known.iter().filter(|a| !self.is_given(a));
            self.given.iter().chain(more).collect()
        };
        let fresh: Vec<&&String> = all.iter().filter(|a| !self.is_suspect(a)).collect();
        if !fresh.is_empty() {
            let i = self.rng.lock().random_range(0..fresh.len());
            return fresh[i].to_string();
        }
        let suspects = self.suspects.lock();
        let oldest = all.iter().min_by_key(|a| suspects.get(a.as_str()));
        // `given` is never empty: Client::new rejects that.
        oldest.map(|a| a.to_string()).unwrap_or_default()
    }

    /// Returns a random time in the upper half of `bound`.
    pub(crate) fn jitter(&self, bound: Duration) -> Duration {
        bound.mul_f64(self.rng.lock().random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn foreign_servers_are_asked_last_until_their_time_is_over() {
        let servers = Servers::new(vec!["a:1".into(), "b:1".into()], Some(7));
        let known = ["b:1".to_owned(), "c:1".to_owned()];
        servers.note_foreign("a:1");
        servers.note_foreign("c:1");
        assert_eq!(servers.count_foreign(&known), None, "one has not answered");
        servers.silent("b:1");
        assert_eq!(servers.count_foreign(&known), Some((2, 3)));
        assert_eq!(
            servers.any(&known),
            "b:1",
            "a silent one before a foreign one"
        );
        servers.silent("a:1");
        assert_eq!(servers.count_foreign(&known), None, "one stray server");
        servers.note_foreign("a:1");
        servers.note_foreign("b:1");
        assert_eq!(servers.count_foreign(&known), Some((3, 3)));
        servers.answered("c:1");
        assert_eq!(servers.count_foreign(&known), None);
        servers.note_foreign("c:1");
        tokio::time::advance(FOREIGN_FOR).await;
        assert!(servers.count_foreign(&known).is_none() && !servers.is_suspect("a:1"));
    }

    #[tokio::test(start_paused = true)]
    async fn suspects_are_avoided_then_asked_in_turn() {
        let servers = Servers::new(vec!["a:1".into(), "b:1".into()], Some(7));
        let known = ["b:1".to_owned(), "c:1".to_owned()];
        servers.silent("a:1");
        tokio::time::advance(Duration::from_millis(1)).await;
        servers.silent("b:1");
        assert!((0..20).all(|_| servers.any(&known) == "c:1"));
        tokio::time::advance(Duration::from_millis(1)).await;
        servers.silent("c:1");
        assert_eq!(servers.any(&known), "a:1");
        servers.answered("b:1");
        assert_eq!(servers.any(&known), "b:1");
        tokio::time::advance(SUSPECT_FOR).await;
        assert!(!servers.is_suspect("a:1"));
    }
}
