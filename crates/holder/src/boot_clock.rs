//! BOOTTIME, by which a holder continues store time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Source of BOOTTIME, the clock that also counts during a suspend.
#[derive(Clone)]
pub enum BootClock {
    /// Read from the system each time.
    Exact,
    /// Read from a number that a thread updates each millisecond.
    Ticker(Arc<Ticker>),
    /// Given by the caller, such as a simulation, in nanoseconds.
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl BootClock {
    /// Returns the time in nanoseconds. That of a ticker may be late.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            BootClock::Ticker(ticker) => ticker.now_ns.load(Ordering::Relaxed),
            clock => clock.exact_ns(),
        }
    }

    /// Returns the time in nanoseconds, read now.
    #[inline]
    pub(crate) fn exact_ns(&self) -> u64 {
        match self {
            BootClock::Exact | BootClock::Ticker(_) => read_ns(),
            BootClock::Given(read) => read(),
        }
    }
}

/// BOOTTIME that a thread reads each millisecond, while the ticker is in use. If the thread is
/// late, ids carry an older time; they never repeat.
pub struct Ticker {
    now_ns: AtomicU64,
}

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start() -> std::io::Result<Arc<Ticker>> {
        let ticker = Arc::new(Ticker {
            now_ns: AtomicU64::new(read_ns()),
        });
        let weak = Arc::downgrade(&ticker);
        let tick = move || {
            while let Some(ticker) = weak.upgrade() {
                ticker.now_ns.store(read_ns(), Ordering::Relaxed);
                drop(ticker);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let name = "seqsvr-ticker".to_owned();
        std::thread::Builder::new().name(name).spawn(tick)?;
        Ok(ticker)
    }
}

fn read_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
