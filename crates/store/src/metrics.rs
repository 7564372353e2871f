//! Metrics of a StoreSvr, one list for `status --json` and for Prometheus, and its health checks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seqsvr_metrics::{
    Collector, DescriptorEncoder, HealthCheck, MetricKind, MetricSample, Registry, encode_samples,
    register_dropped_log_lines,
};

use crate::context::StoreContext;

/// Prefix of the names; those of the Raft node have their own.
const METRIC_PREFIX: &str = "seqsvr_store";
/// Most entries committed and not applied in a store that keeps up: it applies a burst of them in
/// well under a second.
const UNAPPLIED_ENTRIES_MAX: u64 = 1_000;

/// Returns all samples except those of the Raft node.
pub(crate) fn collect_samples(context: &StoreContext) -> Vec<MetricSample> {
    let (gauge, counter) = (MetricSample::gauge, MetricSample::counter);
    let arbiter = context.arbiter.lock().counters();
    let sessions_stamped = context.renewal_ages().len() as u64;
    let (sessions, slots, free) = context.node.with_state(|state| {
        let slots = state.slots();
        let free = slots.iter().filter(|slot| slot.owner.is_none()).count();
        (state.sessions().count(), slots.len(), free)
    });
    let mut samples = context.proposer.collect_samples();
    samples.extend(clock_samples(context));
    samples.extend([
        counter(
            "arbiter_timer_resets",
            "Resets of all arbiter timers",
            arbiter.timer_resets,
        ),
        counter(
            "arbiter_late_ticks",
            "Arbiter ticks late by more than D/4",
            arbiter.late_ticks,
        ),
        counter(
            "arbiter_lease_renewals",
            "Lease renewals confirmed",
            arbiter.lease_renewals,
        ),
        counter(
            "arbiter_lease_renewals_rejected",
            "Lease renewals rejected: the session had ended or was expiring",
            arbiter.lease_renewals_rejected,
        ),
        counter(
            "arbiter_sessions_expired",
            "Sessions expired",
            arbiter.sessions_expired,
        ),
        gauge(
            "arbiter_sessions_renewed",
            "Sessions renewed in this term; 0 on a follower",
            sessions_stamped,
        ),
        counter(
            "read_index_rounds",
            "Quorum rounds that confirmed the leadership",
            context.read_index.rounds_started(),
        ),
        gauge(
            "own_address_reached",
            "1 once this store has reached itself at its advertised address",
            u64::from(context.own_address_reached.load(Ordering::Relaxed)),
        ),
        gauge("sessions", "Open sessions", sessions as u64),
        gauge("slots", "Slots of the cluster", slots as u64),
        gauge("slots_free", "Slots without an owner", free as u64),
        gauge(
            "connections_open",
            "Open connections",
            context.connections.connections_open(),
        ),
        counter(
            "connections_rejected",
            "Connections rejected at the connection limit",
            context.connections.connections_rejected(),
        ),
        gauge(
            "requests_in_flight",
            "Calls in flight, Raft's among them",
            context.calls.calls_in_flight(),
        ),
        gauge(
            "request_buffer_bytes",
            "Bytes of received requests and unread answers",
            context.calls.buffered_bytes(),
        ),
        counter(
            "requests_rejected",
            "Calls rejected at the limit of calls or bytes",
            context.calls.calls_rejected(),
        ),
    ]);
    samples
}

/// Returns what this store knows of the wall clocks. Only the leader of a cluster with families
/// knows those of others.
fn clock_samples(context: &StoreContext) -> Vec<MetricSample> {
    let suspect = MetricSample::gauge(
        "clock_suspect",
        "1 while store time does not follow the clocks of the stores",
        u64::from(context.store_time.suspect().is_some()),
    );
    let own = (context.node.identity().node, 0);
    let offsets = context.store_time.clock_offsets_ms().into_iter();
    let offset = |(store, offset_ms): (u64, i64)| {
        let sample = MetricSample {
            kind: MetricKind::GaugeMillis,
            ..MetricSample::gauge(
                "clock_offset_ms",
                "Distance of a store's wall clock from that of this store",
                offset_ms.unsigned_abs(),
            )
        };
        sample.with_label("store", store.to_string())
    };
    offsets.chain([own]).map(offset).chain([suspect]).collect()
}

/// Metrics of a store that Prometheus scrapes.
struct StoreCollector(Arc<StoreContext>);

impl fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreCollector")
            .field(&self.0.address)
            .finish()
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        encode_samples(&collect_samples(&self.0), &mut encoder)
    }
}

/// Registers the metrics of the store and of its Raft node.
pub(crate) fn register_collectors(context: &Arc<StoreContext>, registry: &mut Registry) {
    let own_registry = registry.sub_registry_with_prefix(METRIC_PREFIX);
    own_registry.register_collector(Box::new(StoreCollector(context.clone())));
    context.node.register(registry);
    context.security.register(registry);
    register_dropped_log_lines(registry);
}

/// Returns the health checks of a store.
pub(crate) fn health_checks(context: &StoreContext) -> Vec<HealthCheck> {
    let node = &context.node;
    let counters = node.counters();
    let unapplied = counters
        .committed_index
        .saturating_sub(counters.applied_index);
    vec![
        HealthCheck::new("cluster", context.require_cluster().is_ok(), || {
            "this store belongs to no cluster yet: run `seqsvr init`, or `seqsvr member add` to add it to a cluster".into()
        }),
        HealthCheck::new("leader", node.has_responsive_leader(), || {
            "no leader answers: check that a majority of the stores runs and that they reach each other (`seqsvr member list`)".into()
        }),
        HealthCheck::new("applied", unapplied < UNAPPLIED_ENTRIES_MAX, || {
            format!(
                "{unapplied} committed entries are not applied yet: wait while the store catches up; if it does not, check its disk"
            )
        }),
    ]
}
