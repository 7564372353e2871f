//! Random numbers, and the seam through which a simulation repeats them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

/// Maximum wait between two attempts after a transient failure.
const BACK_OFF_MAX: Duration = Duration::from_millis(20);

/// One generator for all of a node; clones share it. Not for the hot path: it takes a lock.
#[derive(Clone)]
pub(crate) struct RandomSource(Arc<Mutex<StdRng>>);

impl RandomSource {
    /// From a seed, or from the operating system's randomness.
    pub(crate) fn new(seed: Option<u64>) -> RandomSource {
        let rng = match seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        RandomSource(Arc::new(Mutex::new(rng)))
    }

    /// A random value.
    pub(crate) fn draw<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        self.0.lock().random()
    }

    /// Between half of `base` and `base`.
    pub(crate) fn jitter(&self, base: Duration) -> Duration {
        base.mul_f64(self.0.lock().random_range(0.5..1.0))
    }

    /// Waits a short, random time before the next attempt after a transient failure.
    pub(crate) async fn back_off(&self) {
        sleep(self.jitter(BACK_OFF_MAX)).await;
    }
}
