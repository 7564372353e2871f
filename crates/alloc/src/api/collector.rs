//! Metrics of an AllocSvr, in one list for `status --json` and Prometheus.

use std::fmt;
use std::sync::Arc;

use seqsvr_metrics::{
    Collector, DescriptorEncoder, MetricKind, MetricSample, ServerSecurity,
    dropped_log_lines_sample, encode_samples, to_counter_map,
};
use seqsvr_net::{CallLimiter, ConnectionLimiter};
use seqsvr_proto::v1::NodeStatusResponse;

use crate::ids::family_holders::FamilyHolders;
use crate::metrics::recent_load::RecentLoad;
use crate::sections::section_map::SectionMap;
use crate::sections::totals::{SectionTotals, top_sections};
use crate::shared_parts::SharedParts;
use crate::slots::slot_mover::SlotMover;
use crate::slow_path::SlowPath;

/// Collector of the metrics of one AllocSvr; clones share what they read.
#[derive(Clone)]
pub(crate) struct AllocCollector {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) slot_mover: Arc<SlotMover>,
    pub(crate) slow_path: Arc<SlowPath>,
    pub(crate) families: Arc<FamilyHolders>,
    pub(crate) connections: Arc<ConnectionLimiter>,
    pub(crate) calls: CallLimiter,
    pub(crate) recent_load: Arc<RecentLoad>,
    pub(crate) security: ServerSecurity,
}

impl AllocCollector {
    /// Returns the status of this AllocSvr. Walks over all sections.
    pub(crate) fn collect_status(&self) -> NodeStatusResponse {
        let sections = self.sections.all();
        let mut figures = self.collect_figures(SectionTotals::from_sections(sections.iter()));
        figures.extend(self.security.samples());
        figures.push(dropped_log_lines_sample());
        NodeStatusResponse {
            counters: to_counter_map("", figures),
            recent_load: self.recent_load.samples(),
            http_address: self
                .shared
                .identity
                .http_address
                .get()
                .cloned()
                .unwrap_or_default(),
            hottest: top_sections(&sections, self.shared.table.load().as_deref()),
            ..self.describe_process()
        }
    }

    /// Returns who this AllocSvr is: its status without figures.
    pub(crate) fn describe_process(&self) -> NodeStatusResponse {
        NodeStatusResponse {
            role: "alloc".into(),
            name: self.shared.identity.name.clone(),
            address: self.shared.identity.address.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            incarnation: self.shared.identity.incarnation,
            ..NodeStatusResponse::default()
        }
    }

    /// Returns all metrics, with these totals of the sections.
    fn collect_figures(&self, totals: SectionTotals) -> Vec<MetricSample> {
        let (gauge, counter) = (MetricSample::gauge, MetricSample::counter);
        let (draining, planned) = self.slot_mover.tracker.plan();
        let in_ms = |name, help, ms| MetricSample {
            kind: MetricKind::GaugeMillis,
            ..gauge(name, help, ms)
        };
        let mut all = self.shared.counters.to_figures();
        all.extend(self.shared.call_metrics.to_figures());
        all.extend(section_figures(totals));
        all.extend(self.families.samples());
        all.extend([
            gauge(
                "slots_owned",
                "Slots owned by this session",
                self.slot_mover.owned_slot_count().into(),
            ),
            gauge("draining", "1 while the AllocSvr drains", draining.into()),
            gauge(
                "moves_planned",
                "Slots planned to move away, as of the last renewal",
                planned.into(),
            ),
            gauge(
                "connections_open",
                "Open gRPC connections",
                self.connections.connections_open(),
            ),
            counter(
                "connections_rejected",
                "gRPC connections rejected at the connection limit",
                self.connections.connections_rejected(),
            ),
            gauge(
                "queued_items",
                "Items queued for a section, a window or a store",
                self.slow_path.waiting_count() as u64,
            ),
            gauge(
                "requests_in_flight",
                "gRPC requests in flight",
                self.calls.calls_in_flight(),
            ),
            counter(
                "requests_rejected",
                "gRPC requests rejected at the limit of requests or bytes",
                self.calls.calls_rejected(),
            ),
            gauge(
                "request_buffer_bytes",
                "Memory of requests in flight and of unread responses",
                self.calls.buffered_bytes(),
            ),
            gauge(
                "table_version",
                "Version of the routing table; 0 without a table",
                self.shared.table.version(),
            ),
            gauge(
                "lease_valid",
                "1 while the lease is valid",
                self.shared.session.has_lease().into(),
            ),
            gauge(
                "cluster_unrecorded",
                "1 while the state directory cannot record the cluster, so that nothing is served",
                self.shared.own_cluster.unrecorded().is_some().into(),
            ),
            gauge(
                "stray_stores",
                "Stores of the list that belong to another cluster",
                self.shared.own_cluster.stray_stores(),
            ),
            in_ms(
                "lease_remaining_ms",
                "Time until the lease expires, unless it is renewed",
                self.shared.session.lease_left().as_millis() as u64,
            ),
            in_ms(
                "lease_ms",
                "Lease D; 0 before the first renewal",
                self.shared.renewals.lease_ms(),
            ),
        ]);
        all
    }
}

/// Returns the metrics of the loaded sections, with these totals, and of their memory.
fn section_figures(totals: SectionTotals) -> [MetricSample; 10] {
    let gauge = MetricSample::gauge;
    let counter_memory = seqsvr_core::section::counter_memory();
    // The runs of a simulation share this memory. The size of an answer, and so the run, must not
    // depend on an earlier one.
    let memory_bytes = |bytes: usize| if cfg!(sim) { 0 } else { bytes as u64 };
    [
        gauge("sections_loaded", "Sections in memory", totals.sections),
        gauge(
            "keys_in_memory",
            "Keys with a counter in memory",
            totals.keys,
        ),
        gauge(
            "section_memory_bytes",
            "Memory of loaded sections",
            totals.bytes,
        ),
        gauge(
            "counter_bytes_mapped",
            "Counter memory allocated from the system",
            memory_bytes(counter_memory.mapped),
        ),
        gauge(
            "counter_bytes_free",
            "Counter memory that is free for new sections",
            memory_bytes(counter_memory.free),
        ),
        gauge(
            "window_waiters",
            "Calls waiting for a raise",
            totals.waiting,
        ),
        gauge(
            "window_remaining",
            "Numbers remaining in the windows of all loaded sections",
            totals.left,
        ),
        gauge(
            "window_remaining_min",
            "Numbers remaining in the smallest window; 0 without sections",
            totals.left_min,
        ),
        gauge(
            "sections_window_low",
            "Loaded sections with less than a tenth of a step remaining",
            totals.low,
        ),
        gauge(
            "max_seq_highest",
            "Greatest max_seq of a loaded section; a sequence ends at 2^63-1",
            totals.max_seq,
        ),
    ]
}

impl fmt::Debug for AllocCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AllocCollector")
            .field(&self.shared.identity.name)
            .finish()
    }
}

impl Collector for AllocCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let totals = SectionTotals::from_sections(self.sections.all().iter());
        encode_samples(&self.collect_figures(totals), &mut encoder)?;
        self.shared.call_metrics.encode_durations(&mut encoder)
    }
}
