//! Applies newer routes and drops the sections of slots that changed hands.
//!
//! Invariant: the routes come from a StoreSvr, by a renewal or a Watch. Schedule that breaks it: a
//! process that has the address of an owner answers a forwarded call, and attaches a table of a
//! high version that names itself as the owner of every slot. Each later call goes there.

use std::sync::Arc;

use seqsvr_core::routing_table::{RoutingDelta, RoutingUpdateError as RouteError};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};

use crate::sections::section_map::SectionMap;
use crate::session::routing_table_cell::ApplyError;
use crate::shared_parts::SharedParts;

/// Updater of the routing table and of the sections that rest on it.
pub(crate) struct TableUpdater {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
}

impl TableUpdater {
    /// Applies routes that a StoreSvr sent.
    ///
    /// # Errors
    /// After the call the table is older than the routes: they are of another cluster, malformed,
    /// or build on a version that this process does not have.
    pub(crate) fn apply_routes(&self, routes: Option<&v1::RoutingTable>) -> Result<(), RpcError> {
        let Some(routes) = routes else { return Ok(()) };
        let malformed =
            |e: String| RpcError::new(Reason::Unspecified, format!("invalid routes: {e}"));
        let delta = RoutingDelta::try_from(routes).map_err(|e| malformed(e.to_string()))?;
        let version = delta.version;
        self.apply_delta(delta).map_err(|error| match error {
            ApplyError::ClusterMismatch(fault) => fault,
            unfit @ ApplyError::Unfit(_) => malformed(unfit.to_string()),
        })?;
        match self.shared.table.version() < version {
            true => Err(malformed("they build on a newer table".to_owned())),
            false => Ok(()),
        }
    }

    /// Applies a delta. If the table became newer, removes the sections that this node no longer
    /// owns.
    fn apply_delta(&self, delta: RoutingDelta) -> Result<bool, ApplyError> {
        let before = self.shared.table.load();
        let changed = delta.routes.iter().filter(|(slot, route)| {
            let known = before.as_deref().and_then(|table| table.route(*slot));
            known.is_some_and(|known| known.epoch < route.epoch)
        });
        let changed = changed.count() as u64;
        let newer = match self.shared.table.apply(delta) {
            Err(ApplyError::Unfit(RouteError::MissingVersions { .. })) => {
                self.shared.renewals.request_renewal();
                false
            }
            other => other?,
        };
        if newer {
            self.shared.counters.slot_epoch_changes.add(changed);
            if let Some(table) = self.shared.table.load() {
                self.sections.drop_stale(&table);
            }
        }
        Ok(newer)
    }
}
