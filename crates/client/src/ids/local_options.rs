//! The settings of ids that a process makes itself.

use std::ops::RangeInclusive;
use std::time::Duration;

use seqsvr_core::ids::WorkerId;
use seqsvr_holder::HolderOptions;

/// Settings of [`LocalIds`](crate::LocalIds).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalOptions {
    /// An empty name is the default name.
    pub(super) holder: HolderOptions,
    pub(super) ticker: bool,
}

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        LocalOptions {
            holder: HolderOptions {
                name: String::new(),
                workers: 1..=1,
                claimed: None,
                window_ms: 0,
            },
            ticker: false,
        }
    }
}

impl LocalOptions {
    /// Sets how many workers are always held, and how many at most: further ones are acquired while
    /// callers are short of ids, and released at a renewal after 10 minutes without use. Of ids of
    /// several workers a later one may be smaller, by the window and `ahead` at most. Default: 1,
    /// whose ids rise, unless an operator sets store time back and the family has lanes.
    #[must_use]
    pub fn with_workers(mut self, workers: RangeInclusive<usize>) -> LocalOptions {
        self.holder.workers = workers;
        self
    }

    /// Sets how far grants reach, so for how long ids are made without a store: half of it at
    /// least. A process that is killed blocks its worker as long. Above the `window-max` of the
    /// family, that is used. Default: the window of the family.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> LocalOptions {
        self.holder.window_ms = u32::try_from(window.as_millis()).unwrap_or(u32::MAX);
        self
    }

    /// Reads the time from a thread that updates it each millisecond, which is faster than a read
    /// of the system's clock. Ids are as much older; they never repeat.
    #[must_use]
    pub fn with_ticker(mut self) -> LocalOptions {
        self.ticker = true;
        self
    }

    /// Sets the name of the holder, 1 to 128 printable ASCII characters. In a sticky family a
    /// process gets its worker again by its name. Default: the host and the id of the process.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> LocalOptions {
        self.holder.name = name.into();
        self
    }

    /// Claims a worker by its number, and no other one. Default: any that is free.
    #[must_use]
    pub fn with_worker(mut self, worker: WorkerId) -> LocalOptions {
        self.holder.claimed = Some(worker.0);
        self
    }
}
