//! Calls to the StoreSvr group: finds the leader, retries, bounded by time.
//!
//! Every request sent through here is idempotent or fenced (DESIGN section 4), so asking again
//! after a lost answer is harmless.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_client::Channels;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::random::Random;

/// Most members learnt; a group has 3 or 5.
const LEARNT_MAX: usize = 16;

/// The StoreSvr group as seen from here: the stores it was told of at the start, and the members as
/// a leader last told them, so that it finds the group when all of the former have been replaced.
#[derive(Clone)]
pub(crate) struct Stores {
    given: Arc<[String]>,
    learnt: Arc<Mutex<Vec<String>>>,
    channels: Channels,
    /// Where the connections live: leases hang on them, so never in the background, whoever asks first.
    runtime: Handle,
    preferred: Arc<Mutex<String>>,
    random: Random,
}

impl Stores {
    /// Its connections live in the runtime this is called in.
    pub(crate) fn new(addresses: &[String], channels: Channels, random: Random) -> Stores {
        let preferred = addresses.first().cloned().unwrap_or_default();
        Stores {
            given: addresses.into(),
            learnt: Arc::default(),
            channels,
            runtime: Handle::current(),
            preferred: Arc::new(Mutex::new(preferred)),
            random,
        }
    }

    /// All addresses, for messages.
    pub(crate) fn list(&self) -> String {
        self.addresses().join(", ")
    }

    /// Notes the members as the leader tells them.
    pub(crate) fn learn(&self, mut members: Vec<String>) {
        members.truncate(LEARNT_MAX);
        *self.learnt.lock() = members;
    }

    /// Those learnt, then those given that are not among them.
    fn addresses(&self) -> Vec<String> {
        let mut all = self.learnt.lock().clone();
        let given = self.given.iter();
        let more: Vec<_> = given.filter(|a| !all.contains(a)).cloned().collect();
        all.extend(more);
        all
    }

    /// Channel to the store asked last with success, or the next to try.
    pub(crate) fn preferred(&self) -> Result<(String, Channel), Fault> {
        let address = self.preferred.lock().clone();
        let _in = self.runtime.enter();
        let channel = self
            .channels
            .get(&address)
            .map_err(|e| Fault::new(Reason::Unreachable, e.to_string()))?;
        Ok((address, channel))
    }

    /// Notes that the store at `address` was of no use; `leader` is its hint. A reply that comes
    /// late, after somebody else has moved on already, changes nothing.
    pub(crate) fn turn_from(&self, address: &str, leader: &str) {
        let mut preferred = self.preferred.lock();
        if *preferred != address {
            return;
        }
        if !leader.is_empty() && leader != address {
            *preferred = leader.to_owned();
            return;
        }
        let all = self.addresses();
        let at = all.iter().position(|a| a == address);
        let next = at.map_or(0, |i| i + 1) % all.len().max(1);
        if let Some(address) = all.get(next) {
            *preferred = address.clone();
        }
    }

    /// Asks the leader until it answers, refuses for good, or `deadline` passes. One try takes at
    /// most `try_for`.
    pub(crate) async fn call<T, F, Fut>(
        &self,
        deadline: Instant,
        try_for: Duration,
        ask: F,
    ) -> Result<T, Fault>
    where
        F: Fn(Channel) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 0u32;
        loop {
            let (address, channel) = self.preferred()?;
            let until = deadline.min(Instant::now() + try_for);
            let fault = match timeout_at(until, ask(channel)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => Fault::from_status(&status),
                Err(_) => Fault::new(
                    Reason::Unreachable,
                    format!("store {address} did not answer within {try_for:?}"),
                ),
            };
            if !worth_another(&fault) {
                return Err(fault);
            }
            tries += 1;
            self.turn_from(&address, &fault.detail.leader);
            // A leader hint is followed at once; a full round without success waits a little.
            let pause =
                if fault.detail.leader.is_empty() || tries > 2 * self.addresses().len() as u32 {
                    self.random
                        .jitter(Duration::from_millis(10 << tries.min(4)))
                } else {
                    Duration::ZERO
                };
            if Instant::now() + pause >= deadline {
                let text = format!(
                    "no store answered ({}) after {tries} tries: {fault}",
                    self.list()
                );
                return Err(Fault::new(Reason::Unreachable, text));
            }
            sleep(pause).await;
        }
    }
}

fn worth_another(fault: &Fault) -> bool {
    match fault.reason() {
        Reason::NotLeader | Reason::NotInitialised | Reason::Unreachable | Reason::TooMany => true,
        Reason::Unspecified => !matches!(
            fault.code,
            tonic::Code::InvalidArgument | tonic::Code::Unimplemented
        ),
        _ => fault.code == tonic::Code::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tonic::transport::server::{Server, TcpIncoming};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    /// Schedule: a command from the background is the first to ask a new leader; then the background gets
    /// no processor. Were the connection one of its tasks, no keep-alive would come through.
    #[tokio::test]
    async fn a_connection_outlives_a_background_that_made_it() {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap().to_string();
        let (_, health) = tonic_health::server::health_reporter();
        tokio::spawn(
            Server::builder()
                .add_service(health)
                .serve_with_incoming(incoming),
        );
        let stores = Stores::new(&[address], Channels::new(), Random::new(Some(1)));
        let background = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let asking = stores.clone();
        let made = background.spawn(async move { asking.preferred().unwrap().1 });
        let channel = made.await.unwrap();
        let (give_back, taken) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        background.spawn(async move {
            begun.send(()).unwrap();
            let _ = taken.recv();
        });
        has_begun.recv().unwrap();
        let mut client = HealthClient::new(channel);
        let asked = client.check(HealthCheckRequest::default());
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        answer.expect("an answer").expect("it serves");
        drop(give_back);
        background.shutdown_background();
    }
}
