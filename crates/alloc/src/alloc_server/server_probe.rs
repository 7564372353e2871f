//! Metrics and health checks of a running AllocSvr.

use seqsvr_metrics::{HealthCheck, Registry, ServerProbe, register_dropped_log_lines};

use super::AllocServer;
use super::components::AllocComponents;
use crate::shared_parts::SharedParts;

/// Prefix of the names of metrics.
const METRIC_PREFIX: &str = "seqsvr_alloc";

impl ServerProbe for AllocServer {
    fn register_metrics(&self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix(METRIC_PREFIX);
        ours.register_collector(Box::new(self.components.collector.clone()));
        self.components.collector.security.register(registry);
        register_dropped_log_lines(registry);
    }

    fn permanent_failure(&self) -> Option<String> {
        self.failed.borrow().as_ref().map(ToString::to_string)
    }

    fn health_checks(&self) -> Vec<HealthCheck> {
        let AllocComponents {
            shared,
            stores,
            address_check,
            ..
        } = &*self.components;
        let SharedParts {
            session,
            table,
            renewals,
            own_cluster,
            ..
        } = shared;
        let left = session.lease_left().as_millis() as u64;
        let lease = renewals.lease_ms();
        let unmet = address_check.failure();
        let undecided = stores.undecided_error();
        let stores = stores.address_list();
        let unrecorded = own_cluster.unrecorded();
        vec![
            HealthCheck::new("address", unmet.is_none(), || unmet.unwrap_or_default()),
            HealthCheck::new("state directory", unrecorded.is_none(), || {
                unrecorded.unwrap_or_default()
            }),
            HealthCheck::new("lease", session.has_lease(), || {
                format!(
                    "no valid lease, so no request is served; check that the stores {stores} run and have a leader (`seqsvr status`)"
                )
            }),
            HealthCheck::new("routing table", table.version() > 0, || match undecided {
                Some(why) => format!("no routing table yet: {why}"),
                None => format!(
                    "no routing table yet; check that a store is reachable at {stores} and that the cluster is initialized (`seqsvr init`)"
                ),
            }),
            // Renewals are sent every D/3: at least the last two were not answered.
            HealthCheck::new("store", left > 0 && left >= lease / 3, || {
                format!(
                    "no store of {stores} has confirmed a lease renewal for {} ms; the lease expires in {left} ms; check that the stores run and are reachable",
                    lease.saturating_sub(left)
                )
            }),
        ]
    }
}
