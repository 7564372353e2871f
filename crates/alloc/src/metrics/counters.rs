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
            /// Returns all counters as metrics, with the texts above as help.
            pub(crate) fn to_figures(&self) -> Vec<MetricSample> {
                vec![$(MetricSample::counter(stringify!($name), $doc, self.$name.get()),)*]
            }
        }
    };
}

counters! {
    /// Numbers issued to callers.
    numbers_issued,
    /// Next calls and NextMany items answered from own sections.
    next_items,
    /// Numbers discarded because the check after the take failed.
    numbers_discarded,
    /// Raises confirmed by the store.
    raises,
    /// Sections opened.
    opens,
    /// Slots handed over to other AllocSvrs.
    slots_moved,
    /// Sections closed because they were idle or memory was over its budget.
    closes,
    /// Calls that waited for a raise.
    window_waits,
    /// Calls with items rejected because the queue was full.
    queue_rejections,
    /// Items forwarded to another AllocSvr.
    forwarded,
    /// Answers of NOT_OWNER or NO_LEASE.
    not_owner,
    /// Ownership checks at the store, for strict calls and callers that had seen more.
    ownership_checks,
    /// Calls whose floor or epoch was ahead of the cluster.
    causality_violations,
    /// Lease renewals confirmed by the store.
    lease_renewals,
    /// Failed attempts to renew the lease.
    lease_renewal_failures,
    /// Sessions opened.
    sessions_opened,
    /// Slot epoch changes in routing table updates.
    slot_epoch_changes,
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
