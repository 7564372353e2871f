//! Clients: they make the cluster, call it, record what they are answered, and carry out what operators do.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_check::{Answer, Call, Kind, Outcome, Sequence};
use seqsvr_client::{Channels, Client, CurrentKind, Error, Numbers};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{Limits, Spec};
use seqsvr_proto::convert::u128_bytes;
use seqsvr_proto::v1;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::cluster::{alloc_address, allocs, clients, store_address, stores};
use crate::faults::Order;
use crate::judge::online::Online;
use crate::net::{MachineId, Net};
use crate::plan::Draw;
use crate::plan::{Load, Plan, Setup};

/// Namespace of the calls.
const NAMESPACE: &str = "d";
/// Uids of a section.
const SECTION: u32 = 10;
const UID_MAX: u64 = 1_000;

/// What all clients of a run share with the world.
pub struct Shared {
    net: Net,
    /// World time, ms.
    pub now: AtomicU64,
    /// Counts stamps, so that each is unique.
    moment: AtomicU64,
    /// Clients that have been answered once.
    pub ready: AtomicU64,
    /// No call is begun after this (ms).
    pub stop_at: AtomicU64,
    /// Clients whose last calls were all answered.
    pub finished: AtomicU64,
    /// The last calls of each sequence may begin.
    pub is_last_round: AtomicBool,
    /// All calls.
    pub calls: Mutex<Vec<Call>>,
    /// Calls that were answered.
    pub answered: AtomicU64,
    /// Judges every answer.
    pub online: Mutex<Online>,
}

impl Shared {
    /// Nothing has been called.
    pub fn new(net: Net, is_ordered: bool) -> Shared {
        Shared {
            net,
            now: AtomicU64::new(0),
            moment: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            stop_at: AtomicU64::new(u64::MAX),
            finished: AtomicU64::new(0),
            is_last_round: AtomicBool::new(false),
            calls: Mutex::default(),
            answered: AtomicU64::new(0),
            online: Mutex::new(Online::new(is_ordered)),
        }
    }

    fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// World time in a form that is unique: later stamps are greater.
    fn stamp(&self) -> u64 {
        let moment = self.moment.fetch_add(1, Relaxed);
        self.now() * 1_000_000_000 + moment
    }

    fn record(&self, begun: &Begun, kind: Kind, answered: Result<(Answer, u64), &Error>) {
        let end = self.stamp();
        let (words, value) = match answered {
            Ok((answer, epoch)) => (format!("{answer:?} at epoch {epoch}"), value_of(&answer)),
            Err(e) => (format!("error: {e}"), 0),
        };
        let numbers = [3, begun.caller, begun.uid, value];
        self.net.with_trace(|now, trace| {
            trace.note(now, &numbers, || {
                format!("call {} {kind:?} uid {}: {words}", begun.caller, begun.uid)
            });
        });
        let outcome = match answered {
            Ok((answer, epoch)) => {
                self.answered.fetch_add(1, Relaxed);
                self.online.lock().judge(
                    self.now(),
                    begun.uid,
                    begun.floor,
                    begun.is_strict,
                    &answer,
                );
                Outcome::Ok {
                    end,
                    epoch: Some(epoch),
                    answer,
                }
            }
            Err(_) => Outcome::Error { end, kind },
        };
        self.calls.lock().push(Call {
            sequence: Sequence::uid(NAMESPACE, begun.uid),
            begin: begun.stamp,
            outcome,
        });
    }

    fn begin(&self, caller: u64, uid: u64, is_strict: bool) -> Begun {
        Begun {
            caller,
            uid,
            is_strict,
            stamp: self.stamp(),
            floor: self.online.lock().highest(uid),
        }
    }
}

struct Begun {
    caller: u64,
    uid: u64,
    is_strict: bool,
    stamp: u64,
    /// Highest number that had been answered when it began.
    floor: u64,
}

fn value_of(answer: &Answer) -> u64 {
    match answer {
        Answer::Next { first, .. } => *first,
        Answer::Exact(n) | Answer::AtMost(n) => *n,
        Answer::Never => 0,
        Answer::RaiseTo { to, .. } => *to,
    }
}

/// What one client process does. The first one makes the cluster and takes orders.
pub async fn run_client(
    id: MachineId,
    plan: Plan,
    shared: Arc<Shared>,
    orders: Option<UnboundedReceiver<Order>>,
) {
    let setup = &plan.setup;
    let channels = Channels::over(shared.net.transport(id));
    let is_first = Some(id) == clients(setup).next();
    if is_first {
        make_cluster(&channels, setup).await;
    }
    let servers = allocs(setup).map(|id| alloc_address(id).to_string());
    let options = seqsvr_client::Options {
        seed: Some(seqsvr_core::sim::mix(plan.seed, u64::from(id))),
        ..seqsvr_client::Options::new(servers)
    };
    let Ok(client) = Client::over(channels, options) else {
        return;
    };
    if is_first {
        create_namespace(&client, setup).await;
    }
    while client.next(NAMESPACE, 0_u64, 1).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    shared.ready.fetch_add(1, Relaxed);
    if let Some(orders) = orders {
        tokio::spawn(carry_out(client.clone(), orders));
    }
    let place = clients(setup).position(|client| client == id).unwrap_or(0);
    let (callers, think_ms) = match place {
        0 => (plan.load.busy_callers, plan.load.busy_think_ms),
        n => (
            2,
            plan.load.slow_think_ms.get(n - 1).copied().unwrap_or(1_000),
        ),
    };
    let mut tasks = Vec::new();
    for n in 0..callers {
        let caller = u64::from(id) * 100 + u64::from(n);
        let draw = Draw::new(plan.seed, &format!("caller {caller}"));
        let (client, shared, load) = (client.clone(), shared.clone(), plan.load.clone());
        tasks.push(tokio::spawn(call(
            client, shared, load, caller, think_ms, draw,
        )));
    }
    for task in tasks {
        let _ = task.await;
    }
    while !shared.is_last_round.load(Relaxed) {
        sleep(Duration::from_millis(10)).await;
    }
    last_round(&client, &shared, u64::from(id) * 100 + 99, plan.load.keys).await;
    shared.finished.fetch_add(1, Relaxed);
}

async fn make_cluster(channels: &Channels, setup: &Setup) {
    let mut members = Vec::new();
    for id in stores(setup) {
        let address = store_address(id).to_string();
        let who = loop {
            if let Ok(channel) = channels.get(&address)
                && let Ok(who) = StoreClient::new(channel)
                    .describe(v1::DescribeRequest {})
                    .await
            {
                break who.into_inner();
            }
            sleep(Duration::from_millis(20)).await;
        };
        members.push(v1::Member {
            id: who.node,
            address: who.address,
            incarnation: who.incarnation,
        });
    }
    let init = v1::InitRequest {
        cluster: u128_bytes(7),
        members,
        lease_ms: setup.lease_ms as u32,
        slots: setup.slots,
    };
    let address = store_address(1).to_string();
    loop {
        if let Ok(channel) = channels.get(&address)
            && StoreClient::new(channel).init(init.clone()).await.is_ok()
        {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn create_namespace(client: &Client, setup: &Setup) {
    let geometry = Geometry::Dense {
        section_size: SECTION,
        max_uid: UID_MAX,
    };
    let spec = Spec {
        step: setup.step,
        limits: Limits {
            step_max: 2 * setup.step,
            ..Limits::DEFAULT
        },
        ..Spec::new(NAMESPACE, geometry)
    };
    while client.admin().create_namespace(&spec).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}

async fn carry_out(client: Client, mut orders: UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let admin = client.admin();
        // Some fail, as the world is; the next ones are carried out all the same.
        match order {
            Order::Move(slot, to) => drop(admin.move_slot(slot, &to).await),
            Order::Drain(name, undo) => drop(admin.drain(&name, undo).await),
            Order::Transfer => drop(admin.transfer_leader(None).await),
            Order::Leave(_) => {}
        }
    }
}

async fn call(
    client: Client,
    shared: Arc<Shared>,
    load: Load,
    caller: u64,
    think_ms: u64,
    mut draw: Draw,
) {
    let strict = client.strict();
    while shared.now() < shared.stop_at.load(Relaxed) {
        let uid = |draw: &mut Draw| draw.below(load.keys) * u64::from(SECTION) / 2;
        let key = uid(&mut draw);
        let kind = draw.below(100);
        let bounds = [
            load.many_percent,
            load.many_percent + load.current_percent,
            load.many_percent + load.current_percent + load.raise_percent,
            load.many_percent + load.current_percent + load.raise_percent + load.strict_percent,
        ];
        if kind < bounds[0] {
            let mut keys: Vec<u64> = (0..5).map(|_| uid(&mut draw)).collect();
            keys.sort_unstable();
            keys.dedup();
            next_many(&client, &shared, caller, &keys).await;
        } else if kind < bounds[1] {
            current(&client, &shared, caller, key).await;
        } else if kind < bounds[2] {
            raise_to(&client, &shared, caller, key, draw.below(50)).await;
        } else if kind < bounds[3] {
            next(&strict, &shared, caller, key, true).await;
        } else {
            next(&client, &shared, caller, key, false).await;
        }
        sleep(Duration::from_millis(draw.between(1, think_ms.max(1)))).await;
    }
}

fn next_answer(numbers: &Numbers) -> (Answer, u64) {
    let answer = Answer::Next {
        first: numbers.first,
        last: numbers.last,
        stride: NonZeroU64::MIN,
    };
    (answer, numbers.epoch)
}

async fn next(client: &Client, shared: &Shared, caller: u64, uid: u64, is_strict: bool) -> bool {
    let begun = shared.begin(caller, uid, is_strict);
    let got = client.next(NAMESPACE, uid, 1).await;
    shared.record(&begun, Kind::Next, got.as_ref().map(next_answer));
    got.is_ok()
}

async fn next_many(client: &Client, shared: &Shared, caller: u64, uids: &[u64]) {
    let begun: Vec<Begun> = uids
        .iter()
        .map(|uid| shared.begin(caller, *uid, false))
        .collect();
    let got = client.next_many(NAMESPACE, uids).await;
    for (begun, got) in begun.iter().zip(&got) {
        shared.record(begun, Kind::Next, got.as_ref().map(next_answer));
    }
}

async fn current(client: &Client, shared: &Shared, caller: u64, uid: u64) {
    let begun = shared.begin(caller, uid, false);
    let got = client.current(NAMESPACE, uid).await;
    let answer = got.as_ref().map(|current| {
        let answer = match current.kind {
            CurrentKind::Exact => Answer::Exact(current.value),
            CurrentKind::Never => Answer::Never,
            CurrentKind::AtMost => Answer::AtMost(current.value),
        };
        (answer, current.epoch)
    });
    shared.record(&begun, Kind::Current, answer);
}

async fn raise_to(client: &Client, shared: &Shared, caller: u64, uid: u64, by: u64) {
    let begun = shared.begin(caller, uid, false);
    let asked = begun.floor + by + 1;
    let got = client.raise_to(NAMESPACE, uid, asked, false).await;
    let answer = got.as_ref().map(|raised| {
        let to = raised.value;
        (Answer::RaiseTo { asked, to }, raised.epoch)
    });
    shared.record(&begun, Kind::RaiseTo, answer);
}

/// Asks for every sequence once more, until it is answered.
async fn last_round(client: &Client, shared: &Shared, caller: u64, keys: u64) {
    for n in 0..keys {
        let uid = n * u64::from(SECTION) / 2;
        while !next(client, shared, caller, uid, false).await {}
        while !next(&client.strict(), shared, caller, uid, true).await {}
        current(client, shared, caller, uid).await;
    }
}
