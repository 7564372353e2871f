//! Calls to the StoreSvr group: finds the leader, and retries within a time limit.
//!
//! Invariant: a renewal waits behind no call of another kind. Renewals and the Watch have
//! connections of their own, and so have the commands of this process, the calls that it relays,
//! and those of workers. Schedule that breaks it: a caller floods this process with status calls.
//! All of them are streams of the connection on which the renewal waits for its turn, beyond the
//! end of the lease. The connections of renewals also belong to the runtime of the lease, where no
//! call waits.
//!
//! Every request sent through here is idempotent or fenced (DESIGN section 4), so a retry after a
//! lost answer is harmless.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_net::ChannelPool;
use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::store_client::open_attempt::OpenAttempt;
use crate::store_client::store_preference::StorePreference;

/// Maximum members that are remembered; above it the others are ignored. A group has 3 or 5.
const MEMBERS_MAX: usize = 16;

/// Client of the StoreSvr group. Has the stores that were configured, and the members that a leader
/// last reported, so that it finds the group when all of the former have been replaced.
#[derive(Clone)]
pub(crate) struct StoreGroupClient {
    seeds: Arc<[String]>,
    members: Arc<Mutex<Vec<String>>>,
    channels: ChannelPool,
    /// Runtime of the connections, whichever task connects first: that of the lease for renewals,
    /// and for the others never the background runtime.
    runtime: Handle,
    preferred: Arc<Mutex<StorePreference>>,
    random: RandomSource,
    cluster: Arc<OwnCluster>,
    /// Whether each store that answered last named another cluster. A store that does not answer is
    /// removed.
    foreign: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl StoreGroupClient {
    /// Creates a client. Its connections belong to `runtime`.
    pub(crate) fn new(
        addresses: &[String],
        channels: ChannelPool,
        random: RandomSource,
        cluster: Arc<OwnCluster>,
        runtime: Handle,
    ) -> StoreGroupClient {
        let preferred = addresses.first().cloned().unwrap_or_default();
        StoreGroupClient {
            seeds: addresses.into(),
            members: Arc::default(),
            channels,
            runtime,
            preferred: Arc::new(Mutex::new(StorePreference::new(preferred))),
            random,
            cluster,
            foreign: Arc::default(),
        }
    }

    /// Creates a client of the same group with connections of its own, which belong to the current
    /// runtime.
    pub(crate) fn on_own_connections(&self) -> StoreGroupClient {
        StoreGroupClient {
            channels: self.channels.separate(),
            runtime: Handle::current(),
            ..self.clone()
        }
    }

    /// Creates a client for calls that this process relays. It finds the leader by itself: a
    /// relayed call that times out does not send the next renewal to another store.
    pub(crate) fn for_relayed_calls(&self) -> StoreGroupClient {
        let preferred = self.preferred.lock().address().to_owned();
        StoreGroupClient {
            preferred: Arc::new(Mutex::new(StorePreference::new(preferred))),
            ..self.on_own_connections()
        }
    }

    /// Returns why it is not decided yet to which cluster this process belongs.
    pub(crate) fn undecided_error(&self) -> Option<RpcError> {
        self.cluster.undecided_error()
    }

    /// Returns all addresses, for messages.
    pub(crate) fn address_list(&self) -> String {
        self.addresses().join(", ")
    }

    /// Sets the members that the leader reports.
    pub(crate) fn set_members(&self, mut members: Vec<String>) {
        members.truncate(MEMBERS_MAX);
        *self.members.lock() = members;
    }

    /// Returns the configured stores.
    pub(crate) fn configured(&self) -> &[String] {
        &self.seeds
    }

    /// Returns the members, then the configured stores that are not among them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let mut all = self.members.lock().clone();
        let seeds = self.seeds.iter();
        let more: Vec<_> = seeds.filter(|a| !all.contains(a)).cloned().collect();
        all.extend(more);
        all
    }

    /// Returns a channel to the store that last succeeded, or to the next one to try.
    pub(crate) fn preferred_channel(&self) -> Result<(String, Channel), RpcError> {
        let address = self.preferred.lock().address().to_owned();
        let channel = self.channel_to(&address).inspect_err(|_| {
            // Another store sent this address. It must not be tried without end.
            self.prefer_next(&address, "");
        })?;
        Ok((address, channel))
    }

    /// Returns a channel to the store at this address.
    pub(crate) fn channel_to(&self, address: &str) -> Result<Channel, RpcError> {
        let _in = self.runtime.enter();
        let channel = self.channels.get(address);
        channel.map_err(|e| RpcError::new(Reason::Unreachable, e.to_string()))
    }

    /// Records that the store at `address` answered as the leader.
    pub(crate) fn record_success(&self, address: &str) {
        self.preferred.lock().record_success(address);
    }

    /// Prefers the next store, because the one at `address` failed or does not lead; `leader` is
    /// its hint. Returns whether the hint was followed: see [`StorePreference`].
    pub(crate) fn prefer_next(&self, address: &str, leader: &str) -> bool {
        let all = self.addresses();
        self.preferred.lock().choose_next(address, leader, &all)
    }

    /// Records which cluster an answer names, and returns the answer if it is of this process's
    /// cluster.
    pub(crate) fn check_answer<T: ClusterTagged>(
        &self,
        address: &str,
        answer: Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        let answer = self.cluster.check_answer(answer, T::cluster_tag);
        let foreign = match &answer {
            Ok(_) => Some(false),
            Err(fault) => match fault.reason() {
                Reason::ClusterMismatch => Some(true),
                Reason::Unspecified | Reason::Unreachable => None,
                _ => Some(false),
            },
        };
        let mut stores = self.foreign.lock();
        match foreign {
            Some(foreign) => stores.insert(address.to_owned(), foreign),
            None => stores.remove(address),
        };
        answer
    }

    /// Returns whether every store that answered last, and more than half of all stores, name
    /// another cluster. One stray store is not enough, even if the others do not answer.
    pub(crate) fn is_foreign(&self) -> bool {
        let all = self.addresses();
        let mut stores = self.foreign.lock();
        stores.retain(|address, _| all.contains(address));
        let every = stores.values().all(|foreign| *foreign);
        every && 2 * stores.len() > all.len()
    }

    /// Sends a request of the `Store` service with the tag of this process's cluster: see
    /// [`StoreGroupClient::call`]. A store of another cluster counts as one that does not lead.
    pub(crate) async fn send<R, T, F, Fut>(
        &self,
        deadline: Instant,
        attempt_timeout: Duration,
        request: R,
        send: F,
    ) -> Result<T, RpcError>
    where
        R: ClusterTagged + Clone,
        T: ClusterTagged,
        F: Fn(StoreClient<Channel>, R) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let send_once = |channel| {
            let mut request = request.clone();
            request.set_cluster_tag(self.cluster.tag());
            send(StoreClient::new(channel), request)
        };
        self.call_with_check(deadline, attempt_timeout, send_once, |address, answer| {
            self.check_answer(address, answer)
        })
        .await
    }

    /// Calls the leader until it answers, rejects permanently, or `deadline` passes. One attempt
    /// takes at most `attempt_timeout`.
    pub(crate) async fn call<T, F, Fut>(
        &self,
        deadline: Instant,
        attempt_timeout: Duration,
        send_once: F,
    ) -> Result<T, RpcError>
    where
        F: Fn(Channel) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        self.call_with_check(deadline, attempt_timeout, send_once, |_, answer| answer)
            .await
    }

    /// Returns the error of a call that no leader answered in time. `last` is the last rejection.
    pub(crate) fn no_leader_error(&self, last: &str) -> RpcError {
        let text = format!(
            "no store of {} answered as the leader{last}; check that most of them run and reach each other",
            self.address_list()
        );
        RpcError::new(Reason::Unreachable, text)
    }

    async fn call_with_check<T, F, Fut>(
        &self,
        deadline: Instant,
        attempt_timeout: Duration,
        send_once: F,
        check: impl Fn(&str, Result<T, RpcError>) -> Result<T, RpcError>,
    ) -> Result<T, RpcError>
    where
        F: Fn(Channel) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let mut attempts = 0u32;
        loop {
            let (address, channel) = self.preferred_channel()?;
            let until = deadline.min(Instant::now() + attempt_timeout);
            let attempt = OpenAttempt::begin(|| {
                self.prefer_next(&address, "");
            });
            let answered = timeout_at(until, send_once(channel)).await;
            attempt.end();
            let answer = match answered {
                Ok(Ok(response)) => Ok(response.into_inner()),
                Ok(Err(status)) => Err(RpcError::from_status(&status)),
                Err(_) => Err(RpcError::new(
                    Reason::Unreachable,
                    format!("{address} did not answer in time"),
                )),
            };
            let fault = match check(&address, answer) {
                Ok(answer) => {
                    self.record_success(&address);
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            if !should_retry(&fault) {
                return Err(fault);
            }
            attempts += 1;
            // A leader hint is followed at once. After a full round without success the next
            // attempt waits a little.
            let is_hinted = self.prefer_next(&address, &fault.detail.leader);
            let delay = match is_hinted && attempts <= 2 * self.addresses().len() as u32 {
                true => Duration::ZERO,
                false => self
                    .random
                    .jitter(Duration::from_millis(10 << attempts.min(4))),
            };
            if Instant::now() + delay >= deadline {
                // Which store failed last, and how, changes from attempt to attempt.
                let last = match fault.reason() {
                    Reason::Unreachable | Reason::Unspecified => String::new(),
                    _ => format!(": {fault}"),
                };
                return Err(self.no_leader_error(&last));
            }
            sleep(delay).await;
        }
    }
}

fn should_retry(fault: &RpcError) -> bool {
    match fault.reason() {
        Reason::NotLeader
        | Reason::NotInitialized
        | Reason::Unreachable
        | Reason::Overloaded
        | Reason::ClusterMismatch => true,
        Reason::Unspecified => !matches!(
            fault.code,
            tonic::Code::InvalidArgument | tonic::Code::Unimplemented
        ),
        // The leader answered. Its caller decides how long to wait for the time.
        Reason::ClockSuspect | Reason::TooFarAhead => false,
        _ => fault.code == tonic::Code::Unavailable,
    }
}

#[cfg(test)]
mod tests;
