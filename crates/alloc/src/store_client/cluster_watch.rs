//! Requests the cluster of every store: at the start to decide the cluster of this process, then to
//! find stores of another one.
//!
//! Invariant: at the start all stores are requested at once, and none delays the decision of the
//! others. Schedule that breaks it: the first of three stores swallows packets, and the others are
//! requested after its timeout.
//!
//! The decision does not wait for a silent store. For [`SILENT_STORE_TIMEOUT`] after the start, a
//! store of another cluster still ends this process, so the outcome of a start with healthy stores
//! depends on no order of their answers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::v1::DescribeRequest;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::shared_parts::SharedParts;
use crate::store_client::cluster_votes::{ClusterVotes, ExpectedCluster, StoreCluster};
use crate::store_client::store_group::StoreGroupClient;

/// Time after the start in which a store of another cluster ends this process. After it the store
/// is logged and counted.
const SILENT_STORE_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum time of one request; after it the store counts as silent and is requested again.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two requests to one store before the decision.
const START_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two requests to all stores after the decision.
const STRAY_INTERVAL: Duration = Duration::from_secs(5);
/// Answers that wait to be counted. Above it, requests wait.
const ANSWERS_MAX: usize = 16;

/// Requests the cluster of every store.
pub(crate) struct ClusterWatch {
    pub(crate) shared: SharedParts,
    pub(crate) stores: StoreGroupClient,
    pub(crate) expected: Option<ExpectedCluster>,
}

impl ClusterWatch {
    /// Decides the cluster, then looks for stores of another one until canceled. An error is fatal
    /// for this process.
    ///
    /// # Errors
    /// [`Error::ClusterConflict`], at the start only.
    pub(crate) async fn run(self, cancel: CancellationToken) -> Result<(), Error> {
        match cancel.run_until_cancelled(self.decide_cluster()).await {
            Some(decided) => decided?,
            None => return Ok(()),
        }
        cancel.run_until_cancelled(self.find_stray_stores()).await;
        Ok(())
    }

    async fn decide_cluster(&self) -> Result<(), Error> {
        let patience = Instant::now() + SILENT_STORE_TIMEOUT;
        let mut votes = ClusterVotes::new(self.stores.configured(), self.expected.clone());
        let (sender, mut answers) = mpsc::channel(ANSWERS_MAX);
        let mut requests = JoinSet::new();
        for address in votes.addresses() {
            let (address, sender) = (address.clone(), sender.clone());
            let (stores, random) = (self.stores.clone(), self.shared.random.clone());
            requests.spawn(async move {
                loop {
                    let answer = request_cluster(&stores, &address).await;
                    if sender.send((address.clone(), answer)).await.is_err() {
                        return;
                    }
                    sleep(random.jitter(START_INTERVAL)).await;
                }
            });
        }
        loop {
            let is_decided = self.shared.own_cluster.id().is_some();
            if is_decided && (votes.is_complete() || Instant::now() >= patience) {
                return Ok(());
            }
            let answer = match is_decided {
                true => timeout_at(patience, answers.recv()).await.unwrap_or(None),
                false => answers.recv().await,
            };
            // None: no store answered in time. The channel is open, because `sender` lives.
            let Some((address, answer)) = answer else {
                continue;
            };
            votes.record(&address, answer);
            if let Err(conflict) = votes.check() {
                // A process that may have begun to serve ends at once.
                if is_decided {
                    return Err(Error::ClusterConflict(conflict));
                }
                return Err(complete_conflict(conflict, votes, answers, patience).await);
            }
            if is_decided {
                continue;
            }
            if let Some(cluster) = votes.decided() {
                tracing::info!(%cluster, "this AllocSvr belongs to the cluster");
                // The first request must not go to a store that is silent.
                if let (Some(first), Some(named)) =
                    (self.stores.configured().first(), votes.first_named())
                    && first != named
                {
                    self.stores.prefer_next(first, named);
                }
                self.shared.own_cluster.decide(cluster);
                continue;
            }
            let why = votes.undecided_error();
            let text = why.message.clone();
            // Logged once for each new reason, and not while the stores are still answering.
            let is_settled = votes.is_complete() || Instant::now() >= patience;
            if is_settled && self.shared.own_cluster.set_undecided(why) {
                tracing::info!(reason = %text, "waiting to be registered");
            }
        }
    }

    /// Requests the cluster of all stores again and again, also of members that are not configured.
    async fn find_stray_stores(&self) {
        let mut strays: BTreeMap<String, ClusterId> = BTreeMap::new();
        loop {
            sleep(self.shared.random.jitter(STRAY_INTERVAL)).await;
            let addresses = self.stores.addresses();
            let requests = addresses
                .iter()
                .map(|address| request_cluster(&self.stores, address));
            let answers = join_all(requests).await;
            strays.retain(|address, _| addresses.contains(address));
            for (address, answer) in addresses.into_iter().zip(answers) {
                match answer {
                    StoreCluster::Named(cluster) if self.is_stray(cluster) => {
                        if strays.insert(address.clone(), cluster) != Some(cluster) {
                            tracing::warn!(
                                store = %address,
                                %cluster,
                                own = self.shared.own_cluster.id().map(|own| own.to_string()),
                                "a store belongs to another cluster, which may give the same numbers; correct --stores, or stop that store"
                            );
                        }
                    }
                    // What it last said still holds.
                    StoreCluster::Silent(_) | StoreCluster::Pending => {}
                    StoreCluster::Named(_) | StoreCluster::NotInitialized => {
                        strays.remove(&address);
                    }
                }
            }
            self.shared.own_cluster.set_stray_stores(strays.len());
        }
    }

    fn is_stray(&self, cluster: ClusterId) -> bool {
        self.shared
            .own_cluster
            .id()
            .is_some_and(|own| own != cluster)
    }
}

/// Returns a conflict with the answers of all stores that come in time. Operators correct their
/// settings by it, and the first answer alone may name the wrong cluster to join.
async fn complete_conflict(
    mut conflict: String,
    mut votes: ClusterVotes,
    mut answers: mpsc::Receiver<(String, StoreCluster)>,
    patience: Instant,
) -> Error {
    while !votes.is_complete() {
        let Ok(Some((address, answer))) = timeout_at(patience, answers.recv()).await else {
            break;
        };
        votes.record(&address, answer);
        if let Err(newer) = votes.check() {
            conflict = newer;
        }
    }
    Error::ClusterConflict(conflict)
}

/// Requests the cluster of one store, once.
async fn request_cluster(stores: &StoreGroupClient, address: &str) -> StoreCluster {
    let channel = match stores.channel_to(address) {
        Ok(channel) => channel,
        Err(fault) => return StoreCluster::Silent(fault.message),
    };
    let mut store = StoreClient::new(channel);
    let described = timeout(DESCRIBE_TIMEOUT, store.describe(DescribeRequest {})).await;
    match described {
        Err(_) => StoreCluster::Silent(format!("none within {DESCRIBE_TIMEOUT:?}")),
        Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => {
            StoreCluster::Silent("it is no StoreSvr".into())
        }
        // Never the text of the status: another process may have written it.
        Ok(Err(status)) => StoreCluster::Silent(
            local_cause(&status).unwrap_or_else(|| format!("status {:?}", status.code())),
        ),
        Ok(Ok(described)) => {
            let cluster = described.into_inner().cluster;
            if cluster.is_empty() {
                return StoreCluster::NotInitialized;
            }
            match u128_from(&cluster, "cluster id: 16 bytes") {
                Ok(cluster) => StoreCluster::Named(ClusterId(cluster)),
                Err(_) => StoreCluster::Silent("its cluster id has not 16 bytes".into()),
            }
        }
    }
}
