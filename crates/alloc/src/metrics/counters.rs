//! Counters of this process since its start; `status --json` and Prometheus have them by these
//! names.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seqsvr_metrics::MetricSample;

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident),* $(,)?) => {
        /// Counters of one AllocSvr.
        #[derive(Debug, Default)]
        pub(crate) struct AllocCounters {
            $(#[doc = $doc] pub(crate) $name: EventCounter,)*
        }

        impl AllocCounters {
            /// All, with what is said of them above.
            pub(crate) fn to_figures(&self) -> Vec<MetricSample> {
                vec![$(MetricSample::counter(stringify!($name), $doc, self.$name.get()),)*]
            }
        }
    };
}

counters! {
    /// Numbers handed out, and answered.
    numbers,
    /// Calls of Next and items of NextMany answered from this node's own sections.
    nexts,
    /// Numbers taken and not answered, because the check after taking failed.
    burned,
    /// Raises answered by the store.
    raises,
    /// Sections opened.
    opens,
    /// Slots handed over to other owners.
    moves,
    /// Sections closed because idle, or over the memory budget.
    closes,
    /// Calls that had to wait for a raise.
    waited_for_refill,
    /// Calls of which items were refused because too many wait already.
    waiting_refused,
    /// Items sent on to another AllocSvr.
    forwarded,
    /// Answers of NOT_OWNER or NO_LEASE.
    not_owner,
    /// Confirmations asked of the store because a caller had seen more than we have.
    guard_rounds,
    /// Callers whose floor or epoch was above anything given out.
    guard_alarms,
    /// Renewals that were answered.
    renewals,
    /// Renewal tries that failed.
    renewal_failures,
    /// Sessions opened.
    sessions_opened,
    /// Slots seen to change their epoch.
    epochs_changed,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct EventCounter(AtomicU64);

impl EventCounter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
