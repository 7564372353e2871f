//! Metrics of an AllocSvr, in one list for `status --json` and Prometheus.

use std::fmt;
use std::sync::Arc;

use seqsvr_metrics::{
    Collector, DescriptorEncoder, MetricKind, MetricSample, encode_samples, to_counter_map,
};
use seqsvr_net::{CallLimiter, ConnectionLimiter};
use seqsvr_proto::v1::NodeStatusResponse;

use crate::alloc_identity::AllocIdentity;
use crate::metrics::call_metrics::CallMetrics;
use crate::metrics::counters::AllocCounters;
use crate::sections::section_map::SectionMap;
use crate::sections::totals::{SectionTotals, top_sections};
use crate::session::current_session::CurrentSession;
use crate::session::renewal_signal::RenewalSignal;
use crate::session::routing_table_cell::RoutingTableCell;
use crate::slots::slot_mover::SlotMover;
use crate::slow_path::SlowPath;

/// Collector of the metrics of one AllocSvr; clones share what they read.
#[derive(Clone)]
pub(crate) struct AllocCollector {
    identity: Arc<AllocIdentity>,
    session: Arc<CurrentSession>,
    table: Arc<RoutingTableCell>,
    renewals: Arc<RenewalSignal>,
    sections: Arc<SectionMap>,
    slot_mover: Arc<SlotMover>,
    slow_path: Arc<SlowPath>,
    counters: Arc<AllocCounters>,
    call_metrics: Arc<CallMetrics>,
    connections: Arc<ConnectionLimiter>,
    calls: CallLimiter,
}

impl AllocCollector {
    #[expect(
        clippy::too_many_arguments,
        reason = "dependencies, no two of one type"
    )]
    pub(crate) fn new(
        identity: Arc<AllocIdentity>,
        session: Arc<CurrentSession>,
        table: Arc<RoutingTableCell>,
        renewals: Arc<RenewalSignal>,
        sections: Arc<SectionMap>,
        slot_mover: Arc<SlotMover>,
        slow_path: Arc<SlowPath>,
        counters: Arc<AllocCounters>,
        call_metrics: Arc<CallMetrics>,
        connections: Arc<ConnectionLimiter>,
        calls: CallLimiter,
    ) -> AllocCollector {
        AllocCollector {
            identity,
            session,
            table,
            renewals,
            sections,
            slot_mover,
            slow_path,
            counters,
            call_metrics,
            connections,
            calls,
        }
    }

    /// Returns the status of this AllocSvr. Walks over all sections.
    pub(crate) fn collect_status(&self) -> NodeStatusResponse {
        let sections = self.sections.all();
        let figures = self.collect_figures(SectionTotals::from_sections(sections.iter()));
        NodeStatusResponse {
            role: "alloc".into(),
            name: self.identity.name.clone(),
            address: self.identity.address.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            counters: to_counter_map("", figures),
            hottest: top_sections(&sections, self.table.load().as_deref()),
        }
    }

    /// Returns all metrics, with these totals of the sections.
    fn collect_figures(&self, totals: SectionTotals) -> Vec<MetricSample> {
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
            gauge(
                "keys_in_memory",
                "Keys with a counter in memory",
                totals.keys,
            ),
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

impl fmt::Debug for AllocCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AllocCollector")
            .field(&self.identity.name)
            .finish()
    }
}

impl Collector for AllocCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let totals = SectionTotals::from_sections(self.sections.all().iter());
        encode_samples(&self.collect_figures(totals), &mut encoder)?;
        self.call_metrics.encode_durations(&mut encoder)
    }
}
