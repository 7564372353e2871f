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
    Ticker(Arc<AtomicU64>),
    /// Given by the caller, such as a simulation, in nanoseconds.
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl BootClock {
    /// Starts a thread that reads BOOTTIME each millisecond, while the clock is in use. If the
    /// thread is late, ids carry an older time; they never repeat.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start_ticker() -> std::io::Result<BootClock> {
        let now_ns = Arc::new(AtomicU64::new(read_ns()));
        let weak = Arc::downgrade(&now_ns);
        let tick = move || {
            while let Some(now_ns) = weak.upgrade() {
                now_ns.store(read_ns(), Ordering::Relaxed);
                drop(now_ns);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let name = "seqsvr-ticker".to_owned();
        std::thread::Builder::new().name(name).spawn(tick)?;
        Ok(BootClock::Ticker(now_ns))
    }

    /// Returns the time in nanoseconds. That of a ticker may be late.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            BootClock::Ticker(now_ns) => now_ns.load(Ordering::Relaxed),
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

fn read_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
