//! Metrics of an AllocSvr, in one list for `status --json` and Prometheus, and its health checks.

use std::fmt;
use std::sync::Arc;

use seqsvr_metrics::{
    Collector, DescriptorEncoder, HealthCheck, MetricKind, MetricSample, Registry, ServerProbe,
    encode_samples,
};

use crate::AllocServer;
use crate::node::Node;
use crate::sections::totals::SectionTotals;

/// Prefix of the names.
const METRIC_PREFIX: &str = "seqsvr_alloc";

impl Node {
    /// Returns all metrics, with these totals of the sections.
    pub(crate) fn collect_figures(&self, totals: SectionTotals) -> Vec<MetricSample> {
        let (gauge, counter) = (MetricSample::gauge, MetricSample::counter);
        let (draining, planned) = self.slot_mover.tracker().plan();
        let counter_memory = seqsvr_core::section::counter_memory();
        let in_ms = |name, help, ms| MetricSample {
            kind: MetricKind::GaugeMillis,
            ..gauge(name, help, ms)
        };
        let mut all = self.counters.to_figures();
        all.extend(self.call_metrics.to_figures());
        all.extend([
            gauge("sections_loaded", "Sections in memory", totals.sections),
            gauge("keys_touched", "Keys with a counter in memory", totals.keys),
            gauge("section_bytes", "Memory of loaded sections", totals.bytes),
            gauge(
                "counter_bytes_mapped",
                "Memory of counters that the process has taken from the system",
                counter_memory.mapped as u64,
            ),
            gauge(
                "counter_bytes_free",
                "Memory of counters that no section has now, kept for the next ones",
                counter_memory.free as u64,
            ),
            gauge(
                "waiting_for_refill",
                "Calls that wait for a raise now",
                totals.waiting,
            ),
            gauge(
                "windows_left",
                "Numbers left in the windows of all loaded sections together",
                totals.left,
            ),
            gauge(
                "window_left_min",
                "Numbers left in the window that has the fewest; 0 without sections",
                totals.left_min,
            ),
            gauge(
                "windows_low",
                "Loaded sections with less than a tenth of a step left",
                totals.low,
            ),
            gauge(
                "max_seq_highest",
                "Greatest max_seq of a loaded section; a sequence ends at 2^63-1",
                totals.max_seq,
            ),
            gauge(
                "slots_owned",
                "Slots owned by this session",
                self.slot_mover.owned_slot_count().into(),
            ),
            gauge("draining", "1 while it wants no slots", draining.into()),
            gauge(
                "moves_planned",
                "Slots still to be handed over, by the last renewal",
                planned.into(),
            ),
            gauge(
                "connections",
                "gRPC connections open",
                self.connections.connections_open(),
            ),
            counter(
                "connections_refused",
                "gRPC connections refused as too many",
                self.connections.connections_rejected(),
            ),
            gauge(
                "waiting",
                "Items of calls that wait for a section, a window or a store",
                self.slow_path.waiting_count() as u64,
            ),
            gauge(
                "calls",
                "gRPC calls under way",
                self.calls.calls_in_flight(),
            ),
            counter(
                "calls_refused",
                "gRPC calls refused: too many of them, or too many bytes",
                self.calls.calls_rejected(),
            ),
            gauge(
                "calls_bytes",
                "Memory of requests and of answers not taken",
                self.calls.buffered_bytes(),
            ),
            gauge(
                "table_version",
                "Version of the routing table; 0 before there is one",
                self.table.version(),
            ),
            gauge(
                "lease_valid",
                "1 while the lease holds",
                self.session.has_lease().into(),
            ),
            in_ms(
                "lease_left_ms",
                "Time until the lease ends, unless it is renewed",
                self.session.lease_left().as_millis() as u64,
            ),
            in_ms(
                "lease_ms",
                "Lease D; 0 before it is known",
                self.renewals.lease_ms(),
            ),
        ]);
        all
    }
}

/// Collector of the metrics of a node.
struct AllocCollector(Arc<Node>);

impl fmt::Debug for AllocCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scraped")
            .field(&self.0.identity.name)
            .finish()
    }
}

impl Collector for AllocCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let totals = SectionTotals::from_sections(self.0.sections.all().iter());
        encode_samples(&self.0.collect_figures(totals), &mut encoder)?;
        self.0.call_metrics.encode_durations(&mut encoder)
    }
}

impl ServerProbe for AllocServer {
    fn register_metrics(&self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix(METRIC_PREFIX);
        ours.register_collector(Box::new(AllocCollector(self.node.clone())));
    }

    fn permanent_failure(&self) -> Option<String> {
        self.failed.borrow().as_ref().map(ToString::to_string)
    }

    fn health_checks(&self) -> Vec<HealthCheck> {
        let node = &self.node;
        let left = node.session.lease_left().as_millis() as u64;
        let lease = node.renewals.lease_ms();
        let stores = node.stores.address_list();
        vec![
            HealthCheck::new("lease", node.session.has_lease(), || {
                format!(
                    "this AllocSvr holds no valid lease, so it answers nothing; are the stores {stores} up, and do they have a leader (`seqsvr status`)?"
                )
            }),
            HealthCheck::new("routing table", node.table.version() > 0, || {
                format!(
                    "no routing table was learnt yet; is a store reachable at {stores} and the cluster initialised (`seqsvr init`)?"
                )
            }),
            // Renewals are sent every D/3: at least the last two were not answered.
            HealthCheck::new("store", left > 0 && left >= lease / 3, || {
                format!(
                    "no store of {stores} has answered a renewal for {} ms; the lease ends in {left} ms: see that they run and are reached from here",
                    lease.saturating_sub(left)
                )
            }),
        ]
    }
}
