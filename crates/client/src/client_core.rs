//! State that all clones of a client share.

use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwapOption;
use seqsvr_core::ids::Slot;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::{Reason, RoutingTable};
use tokio::sync::Mutex;

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::attempt::wait_status::WaitStatus;
use crate::pipe::{FRAME_ITEMS_MAX, PipeConnection, PipeObserver, PipePool};
use crate::routing::family_cache::FamilyCache;
use crate::routing::jump_check::{JumpCheck, JumpVerdict};
use crate::routing::locate::{RouteOwner, route_owner};
use crate::routing::server_set::ServerSet;
use crate::routing::table_cache::{EpochVerdict, TableCache, TableSnapshot};
use seqsvr_net::ChannelPool;
use seqsvr_net::tls::Role;

/// Routing table with the last used pipe to each owner.
pub(crate) type OwnerTable = TableSnapshot<ArcSwapOption<PipeConnection>>;

/// State that all clones of a client share.
pub(crate) struct ClientCore {
    pub(crate) channels: ChannelPool,
    /// Channels to StoreSvrs that another server named: they lead to no server of another role.
    pub(crate) store_channels: ChannelPool,
    /// Channels to AllocSvrs that another one named.
    pub(crate) alloc_channels: ChannelPool,
    pub(crate) pipes: PipePool,
    pub(crate) servers: ServerSet,
    pub(crate) table: TableCache<ArcSwapOption<PipeConnection>>,
    pub(crate) families: FamilyCache,
    /// Pipe to the server that gave the last ids. Calls for ids stay there while it answers.
    pub(crate) ids_pipe: ArcSwapOption<PipeConnection>,
    pub(crate) jump_check: JumpCheck,
    pub(crate) wait_status: WaitStatus,
    /// Maximum items of one frame.
    pub(crate) frame_items_max: usize,
    /// Lock held while a table is fetched; failure of the last fetch, if it failed.
    pub(crate) last_fetch: Mutex<Option<AttemptError>>,
    /// Server from which the last table was fetched.
    pub(crate) last_fetched_from: parking_lot::Mutex<Option<String>>,
    /// Number of fetches that ended.
    pub(crate) fetches_ended: AtomicU64,
}

impl ClientCore {
    /// Creates the state of a client that has no table and no connection yet.
    pub(crate) fn new(
        channels: ChannelPool,
        servers: ServerSet,
        batch_items_max: usize,
    ) -> ClientCore {
        let frame_items_max = batch_items_max.min(FRAME_ITEMS_MAX);
        ClientCore {
            pipes: PipePool::new(channels.clone(), frame_items_max),
            store_channels: channels.for_role(Role::Store),
            alloc_channels: channels.for_role(Role::Alloc),
            channels,
            servers,
            table: TableCache::default(),
            families: FamilyCache::default(),
            ids_pipe: ArcSwapOption::empty(),
            jump_check: JumpCheck::default(),
            wait_status: WaitStatus::new(),
            frame_items_max,
            last_fetch: Mutex::new(None),
            last_fetched_from: parking_lot::Mutex::default(),
            fetches_ended: AtomicU64::new(0),
        }
    }

    /// Returns this failure with the count of foreign servers, if it is about servers and most of
    /// them belong to another cluster; None: the failure stands as it is.
    pub(crate) fn with_foreign_servers(&self, failure: &AttemptError) -> Option<AttemptError> {
        if !matches!(
            failure.reason,
            Reason::Unreachable | Reason::ClusterMismatch
        ) {
            return None;
        }
        let snapshot = self.table.snapshot();
        let addresses = snapshot.as_ref().map_or(&[][..], |known| &known.addresses);
        let (foreign, all) = self.servers.count_foreign(addresses)?;
        Some(failure.with_foreign_count(foreign, all))
    }

    /// Returns the address to send to: the owner's, by its index in the table's addresses; any
    /// other server if there is none, it is suspect, or it is `avoided`.
    pub(crate) fn choose_address(
        &self,
        snapshot: &OwnerTable,
        owner: Option<usize>,
        avoided: Option<&String>,
    ) -> String {
        let may_serve =
            |address: &String| !self.servers.is_suspect(address) && Some(address) != avoided;
        match owner.and_then(|index| snapshot.addresses.get(index)) {
            Some(address) if may_serve(address) => address.clone(),
            _ => {
                let except = avoided.map(std::slice::from_ref).unwrap_or_default();
                self.servers.pick_server(&snapshot.addresses, except)
            }
        }
    }

    /// Returns the address of the former owner, if the table still has it.
    pub(crate) fn owner_address(&self, previous_owner: RouteOwner) -> Option<String> {
        let (_, session) = previous_owner?;
        let snapshot = self.table.snapshot()?;
        let mut owners = snapshot
            .table
            .routes()
            .filter_map(|(_, r)| r.owner.as_ref());
        let owner = owners.find(|owner| Some(owner.session) == session)?;
        Some(owner.address.clone())
    }

    /// Returns whether to take a table whose version is far above ours from this server.
    fn may_jump(&self, address: &str) -> bool {
        let snapshot = self.table.snapshot();
        let addresses = snapshot.as_ref().map_or(&[][..], |known| &known.addresses);
        let other_answers = self.servers.has_other_than(&[address], addresses);
        match self.jump_check.judge(address, other_answers) {
            JumpVerdict::Apply => true,
            JumpVerdict::Ignore => false,
            JumpVerdict::AskAnother => {
                self.table.request_second_opinion();
                false
            }
        }
    }

    /// Completes the failure of a request about a slot with what the table says now.
    /// `previous_owner` is the route by which the request was sent.
    pub(crate) fn with_route_context(
        &self,
        slot: Slot,
        previous_owner: RouteOwner,
        mut failure: AttemptError,
    ) -> AttemptError {
        // A namespace in the table of this client exists: a server that lacks it is only behind.
        if failure.reason == Reason::NamespaceNotFound {
            failure.decision = RetryDecision::Retry;
        }
        let Some(now) = self.table.snapshot() else {
            return failure;
        };
        let route = now.table.route(slot);
        if route_owner(route) != previous_owner {
            failure.rerouted = route.is_some_and(|r| r.owner.is_some());
        }
        if failure.reason == Reason::NotOwner && route.is_some_and(|r| r.owner.is_none()) {
            failure.message = format!("slot {slot} has no owner yet (takeover in progress)");
        } else if failure.reason == Reason::NotOwner && !failure.rerouted {
            self.table.note_contradiction();
        }
        if failure.reason == Reason::FloorAhead && failure.confirmed_epoch > 0 {
            let (requested, confirmed) = (failure.requested_epoch, failure.confirmed_epoch);
            match self.table.contradict_epoch(slot, requested, confirmed) {
                EpochVerdict::Dropped => failure.decision = RetryDecision::Retry,
                EpochVerdict::TableDisagrees => self.table.note_contradiction(),
                EpochVerdict::NotAbove => {}
            }
        }
        failure
    }
}

impl PipeObserver for ClientCore {
    fn cluster_tag(&self) -> ClusterTag {
        self.table.cluster_tag()
    }

    fn record_failure(&self, address: &str, failure: &AttemptError) {
        if failure.reason == Reason::ClusterMismatch {
            self.servers.mark_foreign(address);
        } else if failure.unanswered || failure.refused {
            self.mark_unresponsive(address);
        } else {
            self.servers.mark_responsive(address);
        }
    }

    fn learn_routes(&self, address: &str, routes: &RoutingTable) -> Result<(), AttemptError> {
        let may_jump = || self.may_jump(address);
        let applied = self.table.apply_update(address, routes, may_jump);
        let is_newer = applied.map_err(|other| {
            self.servers.mark_foreign(address);
            AttemptError::foreign_cluster(address, other.theirs, other.ours)
        })?;
        if is_newer && let Some(snapshot) = self.table.snapshot() {
            let in_table = |a: &str| snapshot.addresses.iter().any(|b| a == b);
            let keep = |a: &str| in_table(a) || self.servers.is_configured(a);
            self.channels.retain(keep);
            self.pipes.retain(keep);
        }
        Ok(())
    }

    fn mark_responsive(&self, address: &str) {
        self.servers.mark_responsive(address);
    }

    fn mark_unresponsive(&self, address: &str) {
        self.servers.mark_unresponsive(address);
        let snapshot = self.table.snapshot();
        if snapshot.is_some_and(|known| known.addresses.iter().any(|owner| owner == address)) {
            self.table.note_contradiction();
        }
    }
}
