//! First contact of a client with several servers: all are requested at once, so that the first one
//! that answers does not decide the cluster. The rule is in [`crate::routing::cluster_answers`].
//!
//! Invariant: no server is waited for longer than [`SILENT_SERVER_TIMEOUT`] after the first answer,
//! and none after a majority. Schedule that breaks it: one of three machines swallows packets, and
//! each start of a caller waits for it.
//!
//! A client with one server makes no such request. A server that answers later is checked by each
//! call to it, like every other one: see [`seqsvr_proto::cluster_tag`].

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Request};

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::Rpc;
use crate::client_core::ClientCore;
use crate::pipe::PipeObserver;
use crate::routing::cluster_answers::ClusterAnswers;

/// Maximum time for which silent servers are waited for, once one has named its cluster and no
/// majority has. After it the answers so far decide.
const SILENT_SERVER_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum time of the requests to one server; after it the server counts as silent.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Answer of one server.
struct FirstAnswer {
    cluster: ClusterId,
    /// Its table; None: it is a StoreSvr, which has none for clients.
    table: Option<v1::RoutingTable>,
}

/// Returns whether this client has several servers, and they have not decided its cluster yet.
pub(crate) fn is_due(core: &ClientCore) -> bool {
    !core.table.has_cluster() && core.servers.configured().len() > 1
}

/// Decides the cluster of this client. Applies the tables that come with the answers.
///
/// # Errors
/// The servers belong to different clusters, or none of them named one.
pub(crate) async fn decide_cluster(
    core: &ClientCore,
    budget: &mut RetryBudget,
) -> Result<(), AttemptError> {
    let servers = core.servers.configured();
    let time = budget.attempt_timeout().min(REQUEST_TIMEOUT_MAX);
    for address in servers {
        budget.record_attempt_at(address);
    }
    let mut requests: FuturesUnordered<_> = servers
        .iter()
        .map(async |address| (address, request_cluster(core, address, time).await))
        .collect();
    let mut silent: Vec<&String> = servers.iter().collect();
    let mut answers = ClusterAnswers::new(servers.len());
    let mut tables = Vec::new();
    let mut last_failure: Option<AttemptError> = None;
    let mut patience: Option<Instant> = None;
    while !answers.has_majority() {
        let next = match patience {
            None => requests.next().await,
            Some(patience) => match timeout_at(patience, requests.next()).await {
                Ok(next) => next,
                Err(_) => {
                    // The next call does not wait for them again.
                    silent.iter().for_each(|a| core.mark_unresponsive(a));
                    None
                }
            },
        };
        let Some((address, answer)) = next else {
            break;
        };
        silent.retain(|other| *other != address);
        match answer {
            Ok(FirstAnswer { cluster, table }) => {
                core.mark_responsive(address);
                answers.record(address, cluster).map_err(conflict_error)?;
                tables.extend(table.map(|table| (address, table)));
                patience.get_or_insert_with(|| Instant::now() + SILENT_SERVER_TIMEOUT);
            }
            Err(failure) => {
                core.record_failure(address, &failure);
                // One that a retry may cure says more than that of a program of another kind.
                if last_failure
                    .as_ref()
                    .is_none_or(|last| last.decision == RetryDecision::Stop)
                {
                    last_failure = Some(failure);
                }
            }
        }
    }
    let Some(cluster) = answers.cluster() else {
        let text = "no server named its cluster".into();
        let no_answer = || AttemptError::new(Reason::Unreachable, RetryDecision::Retry, text);
        return Err(last_failure.unwrap_or_else(no_answer));
    };
    // Another call may have decided first.
    core.table.decide_cluster(cluster).map_err(|other| {
        conflict_error(format!(
            "the servers named cluster ..{} first, then ..{}; give the addresses of one cluster",
            other.ours, other.theirs
        ))
    })?;
    // A version far above that of the others needs a second server.
    tables.sort_by_key(|(_, table)| table.version);
    for (address, table) in tables {
        core.learn_routes(address, &table)?;
    }
    Ok(())
}

async fn request_cluster(
    core: &ClientCore,
    address: &str,
    time: Duration,
) -> Result<FirstAnswer, AttemptError> {
    let channel = core
        .channels
        .get(address)
        .map_err(|bad| AttemptError::unreachable(address, &bad.to_string()))?;
    let mut request = Request::new(v1::RoutesRequest::default());
    request.set_timeout(time);
    let authorized = core.channels.authorize(address, request.metadata_mut());
    authorized.map_err(|why| AttemptError::unauthorized(address, &why))?;
    let status = match timeout(time, v1::RoutesRequest::send(channel.clone(), request)).await {
        Err(_) => return Err(AttemptError::timed_out(address, time)),
        Ok(Ok(table)) => {
            let table = table.into_inner();
            return Ok(FirstAnswer {
                cluster: decode_cluster(address, &table.cluster)?,
                table: Some(table),
            });
        }
        Ok(Err(status)) => status,
    };
    if status.code() != Code::Unimplemented {
        return Err(AttemptError::from_status(address, &status, time));
    }
    // A StoreSvr serves no `Sequence`. An operator's call may go to one.
    let mut store = StoreClient::new(channel);
    match timeout(time, store.describe(v1::DescribeRequest {})).await {
        Err(_) => Err(AttemptError::timed_out(address, time)),
        // The certificate is that of a client: the first answer says which address to give.
        Ok(Err(denied)) if denied.code() == Code::PermissionDenied => {
            Err(AttemptError::from_status(address, &status, time))
        }
        Ok(Err(status)) => Err(AttemptError::from_status(address, &status, time)),
        Ok(Ok(described)) => Ok(FirstAnswer {
            cluster: decode_cluster(address, &described.into_inner().cluster)?,
            table: None,
        }),
    }
}

fn decode_cluster(address: &str, bytes: &[u8]) -> Result<ClusterId, AttemptError> {
    let cluster = u128_from(bytes, "cluster id: 16 bytes");
    cluster.map(ClusterId).map_err(|_| {
        AttemptError::new(
            Reason::NotInitialized,
            RetryDecision::Retry,
            format!("the server at {address} belongs to no cluster yet"),
        )
    })
}

fn conflict_error(text: String) -> AttemptError {
    AttemptError::new(Reason::ClusterMismatch, RetryDecision::Stop, text)
}
