//! Client processes: they call the cluster and record the answers.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_check::{Answer, Kind};
use seqsvr_client::{Client, CurrentKind, Error, Numbers};
use seqsvr_proto::v1::Reason;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::cluster;
use crate::faults::Order;
use crate::net::MachineId;
use crate::operator::{Operator, SECTION, new_client};
use crate::plan::{Draw, Load, Plan};
use crate::record::{Begun, NAMESPACE, Shared};

/// Runs one client process. The first one also initializes the cluster and executes orders.
pub async fn run_client(
    id: MachineId,
    plan: Plan,
    shared: Arc<Shared>,
    orders: Option<UnboundedReceiver<Order>>,
) {
    let setup = &plan.setup;
    let clients = Arc::new(Clients::new(id, &plan, shared.clone()));
    if let Some(orders) = orders {
        let operator = Operator::new(id, &plan, shared.clone());
        operator.make_cluster().await;
        tokio::spawn(operator.take_orders(orders));
    }
    while clients.get().next(NAMESPACE, 0_u64, 1).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    shared.ready.fetch_add(1, Relaxed);
    let place = cluster::clients(setup)
        .position(|client| client == id)
        .unwrap_or(0);
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
        let caller = Caller {
            id: caller,
            clients: clients.clone(),
            shared: shared.clone(),
        };
        tasks.push(tokio::spawn(caller.run(plan.load.clone(), think_ms, draw)));
    }
    for task in tasks {
        let _ = task.await;
    }
    while !shared.is_last_round.load(Relaxed) {
        sleep(Duration::from_millis(10)).await;
    }
    let last = Caller {
        id: u64::from(id) * 100 + 99,
        clients: clients,
        shared: shared.clone(),
    };
    last.ask_all(plan.load.keys).await;
    shared.finished.fetch_add(1, Relaxed);
    last.call_calmly(plan.load.keys).await;
    shared.calmed.fetch_add(1, Relaxed);
}

/// SDK client of a process. A new one replaces it when its cluster no longer exists.
struct Clients {
    id: MachineId,
    plan: Plan,
    shared: Arc<Shared>,
    current: Mutex<Client>,
}

impl Clients {
    fn new(id: MachineId, plan: &Plan, shared: Arc<Shared>) -> Clients {
        Clients {
            id,
            plan: plan.clone(),
            current: Mutex::new(new_client(id, plan, &shared)),
            shared,
        }
    }

    fn get(&self) -> Client {
        self.current.lock().clone()
    }

    /// Replaces the client if the error says that every server belongs to another cluster.
    fn replace_if_foreign(&self, client: &Client, error: Option<&Error>) {
        let is_foreign = error.is_some_and(|error| error.reason == Reason::ClusterMismatch);
        let mut current = self.current.lock();
        if is_foreign && current.cluster_tag() == client.cluster_tag() {
            seqsvr_core::reached!("client: it met another cluster only");
            *current = new_client(self.id, &self.plan, &self.shared);
        }
    }
}

/// Caller that makes one call after another.
struct Caller {
    id: u64,
    clients: Arc<Clients>,
    shared: Arc<Shared>,
}

fn draw_uid(draw: &mut Draw, load: &Load) -> u64 {
    draw.below(load.keys) * u64::from(SECTION) / 2
}

impl Caller {
    async fn run(self, load: Load, think_ms: u64, mut draw: Draw) {
        let shared = &self.shared;
        while shared.now() < shared.stop_at.load(Relaxed) {
            let uid = draw_uid(&mut draw, &load);
            let kind = draw.below(100);
            let many = load.many_percent;
            let current = many + load.current_percent;
            let raise = current + load.raise_percent;
            let strict = raise + load.strict_percent;
            if kind < many {
                let mut uids: Vec<u64> = (0..5).map(|_| draw_uid(&mut draw, &load)).collect();
                uids.sort_unstable();
                uids.dedup();
                self.next_many(&uids).await;
            } else if kind < current {
                self.current(uid).await;
            } else if kind < raise {
                self.raise_to(uid, draw.below(50)).await;
            } else {
                self.next(uid, kind < strict).await;
            }
            sleep(Duration::from_millis(draw.between(1, think_ms.max(1)))).await;
        }
    }

    async fn next(&self, uid: u64, is_strict: bool) -> bool {
        let client = self.clients.get();
        let begun = self.shared.begin(&client, self.id, uid, is_strict);
        let got = match is_strict {
            true => client.strict().next(NAMESPACE, uid, 1).await,
            false => client.next(NAMESPACE, uid, 1).await,
        };
        let answer = got.as_ref().map(next_answer);
        self.shared.record(&client, &begun, Kind::Next, answer);
        self.clients.replace_if_foreign(&client, got.as_ref().err());
        got.is_ok()
    }

    async fn next_many(&self, uids: &[u64]) {
        let client = self.clients.get();
        let begin = |uid: &u64| self.shared.begin(&client, self.id, *uid, false);
        let begun: Vec<Begun> = uids.iter().map(begin).collect();
        let got = client.next_many(NAMESPACE, uids).await;
        for (begun, got) in begun.iter().zip(&got) {
            let answer = got.as_ref().map(next_answer);
            self.shared.record(&client, begun, Kind::Next, answer);
        }
        let error = got.iter().find_map(|got| got.as_ref().err());
        self.clients.replace_if_foreign(&client, error);
    }

    async fn current(&self, uid: u64) {
        let client = self.clients.get();
        let begun = self.shared.begin(&client, self.id, uid, false);
        let got = client.current(NAMESPACE, uid).await;
        let answer = got.as_ref().map(|current| {
            let answer = match current.kind {
                CurrentKind::Exact => Answer::Exact(current.value),
                CurrentKind::Never => Answer::Never,
                CurrentKind::AtMost => Answer::AtMost(current.value),
            };
            (answer, current.epoch)
        });
        self.shared.record(&client, &begun, Kind::Current, answer);
        self.clients.replace_if_foreign(&client, got.as_ref().err());
    }

    async fn raise_to(&self, uid: u64, by: u64) {
        let client = self.clients.get();
        let begun = self.shared.begin(&client, self.id, uid, false);
        let asked = begun.floor + by + 1;
        let got = client.raise_to(NAMESPACE, uid, asked, false).await;
        let answer = got.as_ref().map(|raised| {
            let to = raised.value;
            (Answer::RaiseTo { asked, to }, raised.epoch)
        });
        self.shared.record(&client, &begun, Kind::RaiseTo, answer);
        self.clients.replace_if_foreign(&client, got.as_ref().err());
    }

    /// Makes calls during the calm phase, and calls each sequence once at its end.
    async fn call_calmly(&self, keys: u64) {
        let until = loop {
            match self.shared.calm_until.load(Relaxed) {
                0 => sleep(Duration::from_millis(5)).await,
                until => break until,
            }
        };
        let mut n = self.id;
        while self.shared.now() < until {
            self.next(n % keys * u64::from(SECTION) / 2, n % 5 == 0)
                .await;
            n += 1;
            sleep(Duration::from_millis(30)).await;
        }
        for n in 0..keys {
            self.next(n * u64::from(SECTION) / 2, false).await;
        }
    }

    /// Calls every sequence once more, and retries until the call succeeds.
    async fn ask_all(&self, keys: u64) {
        for n in 0..keys {
            let uid = n * u64::from(SECTION) / 2;
            while !self.next(uid, false).await {}
            while !self.next(uid, true).await {}
            self.current(uid).await;
        }
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
