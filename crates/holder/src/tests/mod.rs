//! Holders over the real rules of the store, with lost, late and repeated messages, pauses, kills
//! and clocks that are wrong.

mod schedules;

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command, CommandRejection, Reply};
use seqsvr_core::family::{
    AcquireWorker, Family, FamilyChange, FamilyLimits, FamilySpec, IdsCommand, IdsRejectionCause,
};
use seqsvr_core::ids::{ClusterId, Nonce, WorkerEpoch, WorkerId, WorkerKey};
use seqsvr_core::layout::TickScale;
use seqsvr_core::state::State;
use seqsvr_ids::generator::NoId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::*;

const LAYOUT: &str = "0:1,time:41,lane:1,worker:2,seq:5";
const BEGIN_MS: u64 = 100_000_000;

/// Random numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// The store, and a network that is as bad as `is_bad` says.
struct FakeStore {
    state: Mutex<State>,
    dice: Mutex<Dice>,
    is_bad: Mutex<bool>,
    begin: Instant,
    /// How far an operator set store time back, in milliseconds.
    back_ms: AtomicU64,
    /// How long each answer takes, in milliseconds.
    answer_ms: AtomicU64,
}

impl FakeStore {
    fn new(seed: u64) -> Arc<FakeStore> {
        FakeStore::with_layout(seed, LAYOUT)
    }

    fn with_layout(seed: u64, layout: &str) -> Arc<FakeStore> {
        let mut state = State::default();
        let scale = TickScale::new(0, 1).unwrap();
        let mut spec = FamilySpec::new("snowflake", layout.parse().unwrap(), scale);
        spec.sticky = seed.is_multiple_of(2);
        let limits = FamilyLimits::DEFAULT;
        let create = Command::Ids(IdsCommand::CreateFamily { spec, limits });
        let init = Command::Init {
            cluster: ClusterId(1),
            lease_ms: 3_000,
            slots: 1,
        };
        for command in [init, Command::SetLevel { level: 3 }, create] {
            let reply = apply(&mut state, vec![command]).remove(0);
            assert!(!matches!(reply, Reply::Rejected(_)), "{reply:?}");
        }
        Arc::new(FakeStore {
            state: Mutex::new(state),
            dice: Mutex::new(Dice(seed)),
            is_bad: Mutex::new(true),
            begin: Instant::now(),
            back_ms: AtomicU64::new(0),
            answer_ms: AtomicU64::new(0),
        })
    }

    fn family(&self) -> Family {
        self.family_of(&self.state.lock())
    }

    fn family_of(&self, state: &State) -> Family {
        state.families().next().unwrap().family.clone()
    }

    fn roll(&self, end: u64) -> u64 {
        self.dice.lock().below(end)
    }

    fn apply(&self, command: IdsCommand) -> Reply {
        let mut state = self.state.lock();
        let resets = state.store_time().resets;
        let now_ms = BEGIN_MS + self.begin.elapsed().as_millis() as u64;
        let now_ms = now_ms - self.back_ms.load(Ordering::Relaxed);
        let time = Command::Ids(IdsCommand::AdvanceTime { now_ms, resets });
        apply(&mut state, vec![time, Command::Ids(command)]).remove(1)
    }

    /// Sends a command over the network.
    async fn call(self: &Arc<Self>, command: IdsCommand) -> Result<Reply, RpcError> {
        let lost = || RpcError::new(Reason::Unreachable, "lost");
        let chance = |percent| *self.is_bad.lock() && self.roll(100) < percent;
        if chance(10) {
            return Err(lost());
        }
        if chance(20) {
            sleep(Duration::from_millis(self.roll(15_000))).await;
        }
        let reply = self.apply(command.clone());
        sleep(Duration::from_millis(
            self.answer_ms.load(Ordering::Relaxed),
        ))
        .await;
        if chance(10) {
            // The network, or a relay, sends it a second time.
            let (store, late) = (self.clone(), self.roll(15_000));
            tokio::spawn(async move {
                sleep(Duration::from_millis(late)).await;
                store.apply(command);
            });
        }
        if chance(20) {
            sleep(Duration::from_millis(self.roll(15_000))).await;
        }
        match chance(10) {
            true => Err(lost()),
            false => Ok(reply),
        }
    }

    fn to_grant(&self, reply: Reply) -> Result<v1::WorkerGrant, RpcError> {
        match reply {
            Reply::Grant(grant) => Ok(v1::WorkerGrant {
                worker: grant.worker.worker.0,
                epoch: grant.epoch.0,
                lane: grant.lane,
                from: grant.from,
                until: grant.until,
                store_time_ms: grant.high_ms,
                family: Some(v1::Family::from(&self.family())),
            }),
            Reply::Rejected(CommandRejection::Ids(rejection)) => {
                let reason = match rejection.cause {
                    IdsRejectionCause::StaleWorker => Reason::StaleWorker,
                    IdsRejectionCause::TooFarAhead => Reason::TooFarAhead,
                    _ => Reason::NoWorker,
                };
                Err(RpcError::new(reason, rejection.to_string()).with_retry_after_ms(10))
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Takes a worker from its holder, as an operator does.
    fn revoke_any(&self) {
        let held = {
            let state = self.state.lock();
            let rows = state.workers(self.family_of(&state).id, WorkerId(0));
            let held = rows.filter(|(_, row)| row.is_held);
            held.map(|(worker, row)| (worker, row.epoch))
                .collect::<Vec<_>>()
        };
        if !held.is_empty() {
            let (worker, epoch) = held[self.roll(held.len() as u64) as usize];
            let worker = self.key(worker.0);
            self.apply(IdsCommand::RevokeWorker { worker, epoch });
        }
    }

    fn set_back(&self, ms: u64) {
        let time = self.state.lock().store_time();
        self.back_ms.store(ms, Ordering::Relaxed);
        self.apply(IdsCommand::SetTime {
            now_ms: time.high_ms - ms,
            resets: time.resets,
        });
    }

    fn alter(&self, change: FamilyChange) {
        let id = self.family().id;
        let reply = self.apply(IdsCommand::AlterFamily { id, change });
        assert!(!matches!(reply, Reply::Rejected(_)), "{reply:?}");
    }

    fn key(&self, worker: u32) -> WorkerKey {
        let family = self.family().id;
        let worker = WorkerId(worker);
        WorkerKey { family, worker }
    }
}

fn apply(state: &mut State, commands: Vec<Command>) -> Vec<Reply> {
    state.apply(1, &Batch { commands }, &mut BTreeSet::new())
}

/// Calls of one process.
struct Calls {
    store: Arc<FakeStore>,
    /// Answers to its acquisitions, some of which it receives again.
    granted: Mutex<Vec<v1::WorkerGrant>>,
    /// While it is paused it sends and receives nothing.
    is_paused: watch::Receiver<bool>,
}

impl Calls {
    async fn call(&self, command: IdsCommand) -> Result<Reply, RpcError> {
        let mut is_paused = self.is_paused.clone();
        // The process may have ended.
        let _ = is_paused.wait_for(|paused| !paused).await;
        let reply = self.store.call(command).await;
        let _ = is_paused.wait_for(|paused| !paused).await;
        reply
    }
}

impl WorkerCalls for Calls {
    async fn acquire(
        &self,
        request: v1::AcquireWorkerRequest,
    ) -> Result<v1::WorkerGrant, RpcError> {
        let store = &self.store;
        let old = self.granted.lock().clone();
        if !old.is_empty() && *store.is_bad.lock() && store.roll(100) < 10 {
            return Ok(old[store.roll(old.len() as u64) as usize].clone());
        }
        let acquire = AcquireWorker {
            family: store.family().id,
            holder: request.holder,
            nonce: Nonce(u128_from(&request.nonce, "nonce").unwrap()),
            worker: request.worker.map(WorkerId),
            window_ms: request.window_ms,
        };
        let reply = self.call(IdsCommand::AcquireWorker(acquire)).await?;
        let grant = store.to_grant(reply)?;
        self.granted.lock().push(grant.clone());
        Ok(grant)
    }

    async fn renew(&self, renewal: v1::Renewal) -> Result<v1::WorkerGrant, RpcError> {
        let renew = IdsCommand::RenewWorker {
            worker: self.store.key(renewal.worker),
            epoch: WorkerEpoch(renewal.epoch),
            window_ms: renewal.window_ms,
            nonce: Nonce(u128_from(&renewal.nonce, "nonce").unwrap()),
        };
        let reply = self.call(renew).await?;
        self.store.to_grant(reply)
    }

    async fn release(&self, request: v1::ReleaseWorkerRequest) -> Result<(), RpcError> {
        let release = IdsCommand::ReleaseWorker {
            worker: self.store.key(request.worker),
            epoch: WorkerEpoch(request.epoch),
            used: request.used,
            nonce: Nonce(u128_from(&request.nonce, "nonce").unwrap()),
        };
        self.call(release).await.map(drop)
    }
}

/// A process that holds workers, whose clock may be wrong.
struct Process {
    holder: FamilyHolder,
    /// How far its BOOTTIME is from the true one, in milliseconds.
    skew_ms: Arc<AtomicI64>,
    pause: watch::Sender<bool>,
    last_id: u64,
}

impl Process {
    fn start(store: &Arc<FakeStore>, name: u64, workers: RangeInclusive<usize>) -> Process {
        Process::start_with_window(store, name, workers, 0)
    }

    fn start_with_window(
        store: &Arc<FakeStore>,
        name: u64,
        workers: RangeInclusive<usize>,
        window_ms: u32,
    ) -> Process {
        let (pause, is_paused) = watch::channel(false);
        let skew_ms = Arc::new(AtomicI64::new(0));
        let (skew, begin) = (skew_ms.clone(), store.begin);
        let boot_ns = move || {
            let true_ms = 100_000_000 + begin.elapsed().as_millis() as u64;
            true_ms.saturating_add_signed(skew.load(Ordering::Relaxed)) * 1_000_000
        };
        let calls = Calls {
            store: store.clone(),
            granted: Mutex::default(),
            is_paused,
        };
        let options = HolderOptions {
            name: format!("p{name}"),
            workers,
            claimed: None,
            window_ms,
        };
        let clock = StoreClock::new(BootClock::Given(Arc::new(boot_ns)));
        Process {
            holder: FamilyHolder::start(store.family(), clock, Arc::new(calls), options),
            skew_ms,
            pause,
            last_id: 0,
        }
    }

    /// Takes ids; returns how many it got.
    fn take(&mut self, count: u32, seen: &mut HashSet<u64>) -> usize {
        let mut ids = Vec::new();
        let count = NonZeroU32::new(count).unwrap();
        // A shortage is no fault here.
        let _ = self
            .holder
            .take(count, None, |worker, run| worker.append_ids(run, &mut ids));
        for id in &ids {
            assert!(seen.insert(*id), "{id:#x} was made twice");
            assert!(
                *id > self.last_id,
                "{id:#x} is not above {:#x}",
                self.last_id
            );
            self.last_id = *id;
        }
        ids.len()
    }
}

/// Returns the names of the holders in the store, by worker.
fn holders_in(store: &FakeStore) -> Vec<String> {
    let state = store.state.lock();
    let rows = state.workers(store.family_of(&state).id, WorkerId(0));
    rows.filter(|(_, row)| row.is_held)
        .map(|(_, row)| row.holder.clone())
        .collect()
}

/// Any schedule of messages, pauses, kills and wrong clocks: no id is made twice, those of a
/// process rise, and once all is well each process has ids.
#[test]
fn ids_of_all_processes_are_unique_and_rise() {
    for seed in 1..=100 {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(seed));
    }
}

async fn play(seed: u64) {
    let store = FakeStore::new(seed);
    let (mut seen, mut taken, mut names) = (HashSet::new(), 0, 0);
    let mut start = || {
        names += 1;
        Process::start(&store, names, 1..=1)
    };
    let mut processes: Vec<Process> = (0..3).map(|_| start()).collect();
    for _ in 0..150 {
        let at = store.roll(3) as usize;
        let process = &mut processes[at];
        match store.roll(20) {
            0 => process.pause.send_replace(true),
            1..3 => process.pause.send_replace(false),
            // It is killed: it sends nothing more, and another one starts.
            3 => {
                process.pause.send_replace(true);
                std::mem::forget(std::mem::replace(process, start()));
                false
            }
            4 => {
                let mut closed = std::mem::replace(process, start());
                let held = closed.holder.workers();
                closed.holder.close().await;
                assert_eq!(closed.take(1, &mut seen), 0);
                // A caller that found the worker before.
                let late = held
                    .iter()
                    .map(|w| w.generator.take(NonZeroU32::MIN, 0, u64::MAX));
                assert!(late.into_iter().all(|late| late == Err(NoId::Sealed)));
                false
            }
            6 => {
                store.revoke_any();
                false
            }
            5 => {
                let skew_ms = store.roll(7_200_000) as i64 - 3_600_000;
                process.skew_ms.store(skew_ms, Ordering::Relaxed);
                false
            }
            _ => {
                sleep(Duration::from_millis(store.roll(3_000))).await;
                false
            }
        };
        for process in &mut processes {
            if !*process.pause.borrow() {
                taken += process.take(1 + store.roll(100) as u32, &mut seen);
            }
        }
    }
    assert!(taken > 100, "seed {seed}: {taken} ids");
    *store.is_bad.lock() = false;
    for process in &mut processes {
        process.pause.send_replace(false);
        process.skew_ms.store(0, Ordering::Relaxed);
    }
    sleep(Duration::from_secs(60)).await;
    for process in &mut processes {
        process.take(1, &mut seen);
    }
    // A clock that was ahead has used ids ahead of the time, at most to the end of its grant.
    sleep(Duration::from_secs(20)).await;
    for (at, process) in processes.iter_mut().enumerate() {
        let count = process.take(1, &mut seen);
        let shared = &process.holder.shared;
        let (failure, now) = (shared.failure.lock().clone(), shared.now_tick());
        let held = process.holder.workers();
        let held: Vec<_> = held
            .iter()
            .map(|w| (w.worker(), w.epoch(), w.until()))
            .collect();
        assert_eq!(
            count, 1,
            "seed {seed}: process {at} at {now} of {held:?}: {failure:?}"
        );
    }
}
