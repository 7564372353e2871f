//! Registers this process and renews its lease. A renewal also brings the routing table.
//!
//! Invariant: a lease is counted from t0, which is read *before* the keep-alive is sent. Schedule
//! that breaks it: a lease counted from the response outlives what the arbiter granted by the time
//! that the response was on its way.
//!
//! Invariant: a renewal waits behind no call. The keeper has a runtime, a thread and connections to
//! the stores of its own, and does nothing there that waits for another runtime. Schedule that
//! breaks it: callers keep sixteen thousand calls of `Routes` in flight. A runtime polls its tasks
//! in the order in which they became ready, so the keeper runs after seconds, when its lease is
//! over.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::command::SessionProof;
use seqsvr_core::ids::{Nonce, SessionId};
use seqsvr_core::lease::{Lease, renew_interval, renew_timeout};
use seqsvr_core::planted;
use seqsvr_net::with_open_files_remedy;
use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::{RpcError, cluster_mismatch_error};
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{KeepAliveRequest, OpenSessionRequest, Reason};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::lease::address_check::AddressCheck;
use crate::lease::cluster_record::record_cluster;
use crate::sections::section_map::SectionMap;
use crate::sections::table_updater::TableUpdater;
use crate::session::leased_session::LeasedSession;
use crate::session::state_dir::StateDir;
use crate::shared_parts::SharedParts;
use crate::slots::slot_mover::SlotMover;
use crate::store_client::store_group::StoreGroupClient;

/// Minimum time between two renewals that were requested out of turn.
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Maximum time of one attempt to register; after it the next store is tried.
const REGISTER_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Registers this process and renews its lease.
pub(crate) struct LeaseKeeper {
    pub(crate) shared: SharedParts,
    /// Maximum wait for an older session under the name or address to end.
    pub(crate) name_conflict_timeout: Duration,
    pub(crate) state_dir: Option<Arc<StateDir>>,
    pub(crate) address_check: Arc<AddressCheck>,
    pub(crate) stores: StoreGroupClient,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) table_updater: Arc<TableUpdater>,
    pub(crate) slot_mover: Arc<SlotMover>,
}

impl LeaseKeeper {
    /// Registers and renews until canceled. An error is fatal for this process.
    pub(crate) async fn run(self, cancel: CancellationToken) -> Result<(), Error> {
        // Together, so that neither makes a start slower.
        let ready = async {
            tokio::join!(
                self.address_check.wait_until_met(),
                self.shared.own_cluster.wait_until_decided()
            )
        };
        if cancel.run_until_cancelled(ready).await.is_none() {
            return Ok(());
        }
        loop {
            let registered = cancel.run_until_cancelled(self.register()).await;
            let Some(registered) = registered else {
                return Ok(());
            };
            let (session, lease) = registered?;
            match cancel
                .run_until_cancelled(self.renew_until_ended(&session, lease))
                .await
            {
                None => return Ok(()),
                Some(ended) => ended?,
            }
            // The session has ended at the store: nothing of it is ever served again.
            tracing::warn!(session = %session.id, "session has ended at the store; opening a new one");
            self.shared.session.replace(None);
            self.sections.end_session(&session);
        }
    }

    /// Opens a session, and waits for an older session under the name or address to end.
    async fn register(&self) -> Result<(Arc<LeasedSession>, Duration), Error> {
        // Time since which the name or the address is taken.
        let mut taken_since: Option<Instant> = None;
        let nonce = Nonce(self.shared.random.draw());
        let proof = self
            .state_dir
            .as_ref()
            .and_then(|dir| dir.load_proof(&self.shared.identity.name));
        let request = OpenSessionRequest {
            name: self.shared.identity.name.clone(),
            address: self.shared.identity.address.clone(),
            incarnation: self.shared.identity.incarnation,
            nonce: u128_to_bytes(nonce.0),
            proof_session: proof.map(|p| p.session.0),
            cluster_tag: 0,
            proof_nonce: proof.map(|p| u128_to_bytes(p.nonce.0)).unwrap_or_default(),
        };
        let mut last_logged_reason = String::new();
        loop {
            let opened = self
                .stores
                .send(
                    Instant::now() + REGISTER_ATTEMPT_TIMEOUT,
                    REGISTER_ATTEMPT_TIMEOUT,
                    request.clone(),
                    |mut store, request| async move { store.open_session(request).await },
                )
                .await;
            let fault = match opened {
                Ok(opened) if self.shared.own_cluster.check(opened.cluster_tag()).is_ok() => {
                    self.shared.counters.sessions_opened.add(1);
                    let session = Arc::new(LeasedSession::new(SessionId(opened.session)));
                    tracing::info!(session = %session.id, name = %self.shared.identity.name, "session opened");
                    if let Some(dir) = &self.state_dir {
                        record_cluster(dir, &self.shared.own_cluster, &self.shared.random).await;
                    }
                    self.store_proof(SessionProof {
                        session: session.id,
                        nonce,
                    });
                    self.shared.session.replace(Some(session.clone()));
                    return Ok((session, Duration::from_millis(u64::from(opened.lease_ms))));
                }
                // The answer of a store of another cluster.
                Ok(opened) => {
                    cluster_mismatch_error(opened.cluster_tag(), self.shared.own_cluster.tag())
                }
                Err(fault) => fault,
            };
            self.check_cluster_of_stores()?;
            // An older session of this name or address may live for W, and for W again if the
            // store's leader changes; the hint is W. Times in which no store answers do not count.
            let taken_for = match fault.reason() {
                Reason::NameTaken | Reason::AddressTaken => {
                    taken_since.get_or_insert_with(Instant::now).elapsed()
                }
                _ => {
                    taken_since = None;
                    Duration::ZERO
                }
            };
            let takeover_wait = Duration::from_millis(u64::from(fault.detail.retry_after_ms));
            let has_waited = taken_for > self.name_conflict_timeout.max(3 * takeover_wait);
            match fault.reason() {
                Reason::NameTaken if has_waited => {
                    return Err(Error::NameTaken {
                        name: self.shared.identity.name.clone(),
                        holder: fault.message,
                    });
                }
                Reason::AddressTaken if has_waited => {
                    return Err(Error::AddressTaken {
                        address: self.shared.identity.address.clone(),
                        holder: fault.message,
                    });
                }
                Reason::Rejected | Reason::Invalid | Reason::PermissionDenied => {
                    return Err(Error::Rejected(fault.message));
                }
                _ => {}
            }
            // Logged once for each new reason, not at each attempt.
            if fault.message != last_logged_reason {
                tracing::info!(reason = %fault.message, "waiting to be registered");
                last_logged_reason = fault.message;
            }
            sleep(self.shared.random.jitter(Duration::from_millis(200))).await;
        }
    }

    /// Stores the proof that lets the next process take the place of this session. Without it the
    /// next process waits.
    fn store_proof(&self, proof: SessionProof) {
        let Some(dir) = self.state_dir.clone() else {
            return;
        };
        let name = self.shared.identity.name.clone();
        // The write is not awaited. If the process dies before it completes, the next process must
        // wait for this session to expire.
        let stored = seqsvr_os::spawn_blocking(move || {
            if let Err(e) = dir.write_proof(&name, proof) {
                let error = with_open_files_remedy(e.to_string());
                tracing::warn!(%error, "session proof not stored; a restart waits for this session to expire");
            }
        });
        self.shared.tasks.spawn(stored);
    }

    /// Returns an error, which ends this process, when its lease is over and its stores belong to
    /// another cluster: it can never serve again. While the lease holds, or a store of its own
    /// cluster answers, it continues.
    fn check_cluster_of_stores(&self) -> Result<(), Error> {
        // `has_lease` is not used: without lease checks (`--cfg unleased`) a session serves beyond
        // its lease.
        if !self.shared.session.lease_left().is_zero() || !self.stores.is_foreign() {
            return Ok(());
        }
        Err(Error::OtherCluster {
            own: self.shared.own_cluster.tag(),
            stores: self.stores.address_list(),
        })
    }

    /// Renews until the store reports that the session has ended.
    async fn renew_until_ended(
        &self,
        session: &Arc<LeasedSession>,
        mut lease: Duration,
    ) -> Result<(), Error> {
        loop {
            let started = Instant::now();
            self.shared.renewals.record_start();
            let renewed = self.renew_once(session, lease).await;
            match renewed {
                Ok(d) => {
                    self.shared.renewals.record_success();
                    lease = d;
                    self.shared.renewals.set_lease(d);
                    self.shared.counters.lease_renewals.add(1);
                    let rest = renew_interval(lease).saturating_sub(started.elapsed());
                    // A renewal may be requested out of turn, but not in a tight loop.
                    sleep(RENEWAL_INTERVAL_MIN.min(rest)).await;
                    let _ = timeout(
                        rest.saturating_sub(RENEWAL_INTERVAL_MIN),
                        self.shared.renewals.wait_for_request(),
                    )
                    .await;
                }
                Err(fault) if fault.reason() == Reason::SessionNotFound => return Ok(()),
                Err(fault) => {
                    self.check_cluster_of_stores()?;
                    self.shared.counters.lease_renewal_failures.add(1);
                    tracing::debug!(%fault, "renewal failed");
                    sleep(self.shared.random.jitter(RENEWAL_INTERVAL_MIN)).await;
                }
            }
        }
    }

    /// Makes one attempt to renew at one store. Returns the lease D.
    async fn renew_once(
        &self,
        session: &Arc<LeasedSession>,
        lease: Duration,
    ) -> Result<Duration, RpcError> {
        let (address, channel) = self.stores.preferred_channel()?;
        let is_draining = self.slot_mover.tracker.is_draining();
        let request = KeepAliveRequest {
            session: session.id.0,
            table_version: self.shared.table.version(),
            draining: is_draining,
            cluster_tag: self.shared.own_cluster.tag().0,
        };
        let t0 = self.shared.session.read_clock();
        let answer = timeout(
            renew_timeout(lease),
            StoreClient::new(channel).keep_alive(request),
        )
        .await;
        let answer = match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(RpcError::from_status(&status)),
            Err(_) => Err(RpcError::new(
                Reason::Unreachable,
                format!("store {address} did not answer within D/6"),
            )),
        };
        // Applies the routes first: a lease never serves an epoch older than the one it came with.
        // Schedule that breaks it: the routes are not applied, because they are of another cluster
        // or malformed, and the lease is renewed nevertheless. Then slots are served that moved
        // long ago.
        let renewed = self
            .stores
            .check_answer(&address, answer)
            .and_then(
                |response| match self.table_updater.apply_routes(response.routes.as_ref()) {
                    Err(fault) if !planted!(NameNoCluster) => Err(fault),
                    _ => Ok(response),
                },
            );
        let fault = match renewed {
            Ok(response) => {
                let lease = Duration::from_millis(u64::from(response.lease_ms));
                let t0 = match planted!(LeaseFromAnswer) {
                    true => self.shared.session.read_clock(),
                    false => t0,
                };
                session.renew(Lease::new(t0, lease));
                self.stores.record_success(&address);
                self.stores.set_members(response.stores);
                self.slot_mover.start_planned_moves(
                    session,
                    is_draining,
                    response.moves_planned,
                    &response.moves,
                );
                return Ok(lease);
            }
            Err(fault) => fault,
        };
        if fault.reason() != Reason::SessionNotFound {
            self.stores.prefer_next(&address, &fault.detail.leader);
        }
        Err(fault)
    }
}
