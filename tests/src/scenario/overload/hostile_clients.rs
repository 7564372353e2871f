//! Hostile clients: each repeats one bad operation on its own connections.

use std::time::Duration;

use prost::Message;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{CurrentManyRequest, NextManyRequest, NextRequest, Reason, next_request};
use seqsvr_test_support::raw_http2::RawHttp2;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::idle_class::{ThreadScope, move_to_idle_class};

/// Namespace of small sections: a random uid is always in a section that is not loaded.
pub(super) const HOSTILE_NAMESPACE: &str = "hostile";
/// Uids of the namespace.
pub(super) const HOSTILE_UIDS: u64 = 1 << 32;
/// Items of a batch.
const BATCH_ITEMS: usize = 500;
/// Pause of each client between two calls: the test loads the server, not the machine.
const CALL_PAUSE: Duration = Duration::from_millis(2);
/// Calls of the connection that reads no answer, and half-sent calls.
const STUCK_CALLS: u32 = 40;

/// Operation that a hostile client repeats.
#[derive(Clone, Copy, Debug)]
enum HostileOp {
    Uids,
    ManyUids,
    ManyKeys,
    Currents,
    Names,
    Floors,
    TooLarge,
}

const HOSTILE_OPS: [HostileOp; 7] = [
    HostileOp::Uids,
    HostileOp::ManyUids,
    HostileOp::ManyKeys,
    HostileOp::Currents,
    HostileOp::Names,
    HostileOp::Floors,
    HostileOp::TooLarge,
];

/// Results of hostile clients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostileTally {
    /// Items served.
    pub(super) served: u64,
    /// Items and calls rejected, as invalid or because of the load.
    pub(super) rejected: u64,
    /// Rejections with a retry hint.
    pub(super) hinted: u64,
}

impl HostileTally {
    pub(super) fn add(&mut self, other: HostileTally) {
        self.served += other.served;
        self.rejected += other.rejected;
        self.hinted += other.hinted;
    }
}

/// Running hostile clients.
pub(super) struct HostileClients {
    runtime: Runtime,
    stop: watch::Sender<bool>,
    tasks: JoinSet<HostileTally>,
}

impl HostileClients {
    /// Starts one client of each kind, on a thread of the idle class: they represent callers on
    /// other machines.
    pub(super) fn start(address: &str, seed: u64) -> HostileClients {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hostile")
            .on_thread_start(|| {
                move_to_idle_class(rustix::thread::gettid(), ThreadScope::One);
            })
            .enable_all()
            .build()
            .expect("a runtime");
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (op, n) in HOSTILE_OPS.into_iter().zip(0..) {
            let (address, stopped) = (address.to_owned(), stopped.clone());
            let rng = SmallRng::seed_from_u64(seed << 8 | n);
            tasks.spawn_on(
                run_hostile_client(op, address, stopped, rng),
                runtime.handle(),
            );
        }
        let stuck = hold_stuck_calls(address.to_owned(), stopped);
        tasks.spawn_on(stuck, runtime.handle());
        HostileClients {
            runtime,
            stop,
            tasks,
        }
    }

    /// Ends the clients and returns the sum of their results.
    pub(super) async fn stop(mut self) -> HostileTally {
        self.stop.send_replace(true);
        let mut sum = HostileTally::default();
        while let Some(one) = self.tasks.join_next().await {
            sum.add(one.expect("no hostile client panics"));
        }
        self.runtime.shutdown_background();
        sum
    }
}

async fn run_hostile_client(
    op: HostileOp,
    address: String,
    stopped: watch::Receiver<bool>,
    mut rng: SmallRng,
) -> HostileTally {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect().await.expect("it listens");
    let mut client = SequenceClient::new(channel).max_encoding_message_size(64 << 20);
    let mut sum = HostileTally::default();
    while !*stopped.borrow() {
        match make_hostile_call(op, &mut client, &mut rng).await {
            Ok(one) => sum.add(one),
            Err(status) => {
                let fault = RpcError::from_status(&status);
                sum.rejected += 1;
                sum.hinted += u64::from(fault.detail.retry_after_ms > 0);
                let expected = match op {
                    HostileOp::Names => fault.reason() == Reason::NamespaceNotFound,
                    HostileOp::Floors => fault.reason() == Reason::FloorAhead,
                    HostileOp::TooLarge => fault.code != Code::Internal,
                    _ => false,
                };
                let too_many = fault.code == Code::ResourceExhausted;
                assert!(expected || too_many, "{op:?}: {status:?}");
            }
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
    sum
}

async fn make_hostile_call(
    op: HostileOp,
    client: &mut SequenceClient<Channel>,
    rng: &mut SmallRng,
) -> Result<HostileTally, Status> {
    let served_tally = HostileTally {
        served: 1,
        ..HostileTally::default()
    };
    let uids = |rng: &mut SmallRng, n| (0..n).map(|_| rng.random_range(0..HOSTILE_UIDS)).collect();
    let uid = |namespace: &str, uid, floor| NextRequest {
        namespace: namespace.to_owned(),
        key_kind: Some(next_request::KeyKind::Uid(uid)),
        floor,
        ..NextRequest::default()
    };
    let many = match op {
        HostileOp::Uids => {
            let request = uid(HOSTILE_NAMESPACE, rng.random_range(0..HOSTILE_UIDS), None);
            return client.next(request).await.map(|_| served_tally);
        }
        HostileOp::Names => {
            let name = format!("n{:x}", rng.random::<u64>());
            return client.next(uid(&name, 1, None)).await.map(|_| served_tally);
        }
        HostileOp::Floors => {
            let request = uid("default", rng.random_range(0..HOSTILE_UIDS), Some(1 << 60));
            return client.next(request).await.map(|_| served_tally);
        }
        HostileOp::Currents => {
            let request = CurrentManyRequest {
                namespace: HOSTILE_NAMESPACE.to_owned(),
                uids: uids(rng, BATCH_ITEMS),
                ..CurrentManyRequest::default()
            };
            let errors = client.current_many(request).await?.into_inner().errors;
            let hints = errors.iter().filter(|e| e.retry_after_ms > 0).count();
            return Ok(batch_tally(errors.len(), hints));
        }
        HostileOp::ManyUids => NextManyRequest {
            namespace: HOSTILE_NAMESPACE.to_owned(),
            uids: uids(rng, BATCH_ITEMS),
            ..NextManyRequest::default()
        },
        HostileOp::ManyKeys => NextManyRequest {
            keys: (0..BATCH_ITEMS)
                .map(|_| format!("{:032x}", rng.random::<u128>()).into())
                .collect(),
            ..NextManyRequest::default()
        },
        // Too many items, or too many bytes.
        HostileOp::TooLarge => NextManyRequest {
            namespace: HOSTILE_NAMESPACE.to_owned(),
            uids: match rng.random_bool(0.9) {
                true => vec![1; 10_001],
                false => vec![u64::MAX; 500_000],
            },
            ..NextManyRequest::default()
        },
    };
    let errors = client.next_many(many).await?.into_inner().errors;
    let hints = errors.iter().filter(|e| e.retry_after_ms > 0).count();
    Ok(batch_tally(errors.len(), hints))
}

fn batch_tally(rejected: usize, hinted: usize) -> HostileTally {
    HostileTally {
        served: (BATCH_ITEMS - rejected) as u64,
        rejected: rejected as u64,
        hinted: hinted as u64,
    }
}

/// Three connections: one reads no answer of its many calls but answers pings, one leaves its calls
/// half sent, one sends nothing at all.
async fn hold_stuck_calls(address: String, mut stopped: watch::Receiver<bool>) -> HostileTally {
    let request = NextManyRequest {
        uids: (0..10_000).map(|i| i * 7).collect(),
        ..NextManyRequest::default()
    };
    let message = request.encode_to_vec();
    let path = "/seqsvr.v1.Sequence/NextMany";
    let mute = tokio::net::TcpStream::connect(&address).await;
    let mut reader = RawHttp2::connect(&address, 0).await.expect("it listens");
    let mut sender = RawHttp2::connect(&address, 65_535)
        .await
        .expect("it listens");
    for n in 0..STUCK_CALLS {
        let small = NextManyRequest {
            uids: (0..2_000).collect(),
            ..NextManyRequest::default()
        };
        let small = small.encode_to_vec();
        let sent = reader
            .start_call(2 * n + 1, path, small.len(), &small)
            .await;
        let half = sender.start_call(2 * n + 1, path, message.len(), &message[..8_000]);
        if sent.is_err() || half.await.is_err() {
            // The server may close the connection.
            break;
        }
    }
    let reading = async {
        // Ends only if the server closes the connection.
        while reader.next_event().await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = reading => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    drop((mute, sender));
    HostileTally::default()
}
