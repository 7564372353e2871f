//! Random numbers, which a simulation can repeat by a seed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

/// Maximum wait between two attempts after a transient failure.
const BACK_OFF_MAX: Duration = Duration::from_millis(20);

/// Generator of one node; clones share it. Not for the fast path, because it takes a lock.
#[derive(Clone)]
pub(crate) struct RandomSource(Arc<Mutex<StdRng>>);

impl RandomSource {
    /// Creates a generator from a seed, or from the randomness of the operating system.
    pub(crate) fn new(seed: Option<u64>) -> RandomSource {
        let rng = match seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        RandomSource(Arc::new(Mutex::new(rng)))
    }

    /// Returns a random value.
    pub(crate) fn draw<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        self.0.lock().random()
    }

    /// Returns a random time between half of `base` and `base`.
    pub(crate) fn jitter(&self, base: Duration) -> Duration {
        base.mul_f64(self.0.lock().random_range(0.5..1.0))
    }

    /// Waits a short, random time before the next attempt after a transient failure.
    pub(crate) async fn back_off(&self) {
        sleep(self.jitter(BACK_OFF_MAX)).await;
    }
}
