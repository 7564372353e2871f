//! One run of a plan: the loop of the world.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seqsvr_core::sim::{self, mix};
use seqsvr_store::sim as disks;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::callers::{Shared, run_client};
use crate::cluster::{Cluster, clients, stores};
use crate::faults::{Faults, Order};
use crate::judge::state::StateJudge;
use crate::net::{MachineId, Net};
use crate::plan::{Draw, Plan};
use crate::shim;
use crate::trace::Trace;

/// Answers below which a run says nothing.
pub const ANSWERS_MIN: u64 = 100;
/// World time in which a cluster must come up, ms.
const READY_MAX_MS: u64 = 120_000;
/// Ends of turns at which the insides are looked at.
const LOOK_EVERY: u64 = 10;

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rules that were broken, in words.
    pub broken: Vec<String>,
    /// Hash over all events.
    pub hash: u64,
    /// Events.
    pub events: u64,
    /// Calls that were made, and answered.
    pub calls: u64,
    /// See `calls`.
    pub answered: u64,
    /// World time of the run, ms.
    pub virtual_ms: u64,
    /// Real time of the run.
    pub real: Duration,
    /// Branches that were reached, and how often.
    pub reached: BTreeMap<&'static str, u64>,
    /// The last events in words.
    pub last: Vec<String>,
}

impl Outcome {
    /// Whether too few calls were answered to say anything.
    pub fn is_starved(&self) -> bool {
        self.answered < ANSWERS_MIN
    }
}

/// Runs a plan on this thread, which should be a fresh one.
///
/// # Errors
/// The file system or the system refuse.
pub fn run(plan: &Plan, prints: bool) -> io::Result<Outcome> {
    let began = Instant::now();
    let root = directory()?;
    sim::begin(mix(plan.seed, 1), plan.planted.clone());
    disks::forget_all();
    shim::set_seed(Some(mix(plan.seed, 2)));
    shim::set_now(Some(0));
    let outcome = World::new(plan, root.path(), prints).and_then(|mut world| world.run());
    shim::set_now(None);
    shim::set_seed(None);
    let reached = sim::take_reached();
    outcome.map(|outcome| Outcome {
        real: began.elapsed(),
        reached,
        ..outcome
    })
}

/// Runs a plan on a thread of its own, so that all thread-locals are new.
///
/// # Errors
/// As [`run`], and panics in words.
pub fn run_apart(plan: &Plan, prints: bool) -> Result<Outcome, String> {
    let plan = plan.clone();
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    let handle = thread
        .spawn(move || run(&plan, prints))
        .map_err(|e| e.to_string())?;
    match handle.join() {
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

/// Runs of this process so far.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Makes a directory for a run. Errors that travel name files in it, so all names must be of one length in HTTP/2:
/// these ten letters have codes of 5 bits (RFC 7541, appendix B).
fn directory() -> io::Result<tempfile::TempDir> {
    const LETTERS: [char; 10] = ['0', '1', '2', 'a', 'c', 'e', 'i', 'o', 's', 't'];
    let run = RUNS.fetch_add(1, Relaxed);
    let number = format!("{:010}{run:010}", std::process::id());
    let digits = number.chars().filter_map(|c| c.to_digit(10));
    let name: String = digits.map(|digit| LETTERS[digit as usize]).collect();
    tempfile::Builder::new()
        .prefix(&format!("seqsvr-sim-{name}"))
        .rand_bytes(0)
        .tempdir_in(memory_dir())
}

/// A file system in memory, if there is one.
fn memory_dir() -> std::path::PathBuf {
    let memory = std::path::PathBuf::from("/dev/shm");
    match memory.is_dir() {
        true => memory,
        false => std::env::temp_dir(),
    }
}

struct World {
    plan: Plan,
    cluster: Cluster,
    shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    judge: StateJudge,
    turns: Draw,
    broken: Vec<String>,
}

impl World {
    fn new(plan: &Plan, root: &std::path::Path, prints: bool) -> io::Result<World> {
        let mut trace = Trace::default();
        if prints {
            trace.print_all();
        }
        let net = Net::new(mix(plan.seed, 3), plan.setup.net, trace);
        let mut cluster = Cluster::new(plan, net.clone(), root);
        for id in stores(&plan.setup) {
            disks::set_syncs(&cluster.machines[&id].data_dir(), plan.setup.sync_ms, false);
        }
        let all: Vec<MachineId> = cluster.machines.keys().copied().collect();
        for id in all {
            cluster.start(id)?;
        }
        let shared = Arc::new(Shared::new(net, plan.has_bounded_clocks));
        let (orders, receiver) = unbounded_channel();
        let mut receiver = Some(receiver);
        for id in clients(&plan.setup) {
            let task = run_client(id, plan.clone(), shared.clone(), receiver.take());
            if let Some(process) = &cluster.machines[&id].process {
                process.spawn(task);
            }
        }
        Ok(World {
            plan: plan.clone(),
            cluster,
            shared,
            orders,
            judge: StateJudge::default(),
            turns: Draw::new(plan.seed, "turns"),
            broken: Vec::new(),
        })
    }

    fn run(&mut self) -> io::Result<Outcome> {
        let client_count = u64::from(self.plan.setup.clients);
        while self.shared.ready.load(Relaxed) < client_count && self.broken.is_empty() {
            self.turn();
            if self.cluster.now > READY_MAX_MS {
                self.broken
                    .push(String::from("live: the cluster did not come up"));
            }
        }
        let begin = self.cluster.now;
        let mut faults = Faults::new(&self.plan, begin);
        let heal_at = begin + self.plan.heal_at_ms;
        while self.cluster.now < heal_at && self.broken.is_empty() {
            let orders = faults.step(&mut self.cluster)?;
            self.order(orders);
            self.turn();
        }
        if self.broken.is_empty() {
            let orders = faults.heal(&mut self.cluster)?;
            self.order(orders);
            self.live_on();
        }
        Ok(self.outcome())
    }

    /// After the healing everything must work again within a bounded time.
    fn live_on(&mut self) {
        let setup = &self.plan.setup;
        let wait = setup.lease_ms * 5 / 4;
        // Elections, takeovers, and calls that wait for their deadline of 5 s.
        let elections = 12 * 4 * setup.heartbeat_ms;
        let within = 2 * wait + 2 * setup.lease_ms + 10_000 + elections;
        let began = self.cluster.now;
        self.shared.stop_at.store(began + within / 2, Relaxed);
        self.shared.is_last_round.store(true, Relaxed);
        let client_count = u64::from(self.plan.setup.clients);
        // The last round takes some calls of each key.
        let deadline = began + 2 * within + 200 * self.plan.load.keys;
        while self.shared.finished.load(Relaxed) < client_count && self.broken.is_empty() {
            self.turn();
            if self.cluster.now > deadline {
                let left = client_count - self.shared.finished.load(Relaxed);
                self.broken.push(format!(
                    "live: {left} clients had not all answers at {}",
                    self.cluster.now
                ));
            }
        }
    }

    fn order(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Leave(id) => {
                    let machine = &self.cluster.machines[&id];
                    if let (Some(alloc), Some(process)) = (machine.alloc(), &machine.process) {
                        process.spawn(async move { alloc.shutdown().await });
                    }
                }
                other => {
                    // The client lives as long as the run.
                    let _ = self.orders.send(other);
                }
            }
        }
    }

    /// One step of the world: what is due arrives, everybody has a turn, and the judges look.
    fn turn(&mut self) {
        let tick = self.plan.setup.tick_ms;
        self.cluster.now += tick;
        let now = self.cluster.now;
        shim::set_now(Some(now * 1_000_000));
        self.shared.now.store(now, Relaxed);
        self.cluster.net.advance(now);
        let mut order: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.turns.below(at as u64 + 1) as usize);
        }
        for id in order {
            let Some(machine) = self.cluster.machines.get_mut(&id) else {
                continue;
            };
            machine.clock.set_now(now);
            if let Some(process) = &mut machine.process {
                process.step(now);
            }
        }
        sim::enter(0);
        if let Some(broken) = self.shared.online.lock().broken.take() {
            self.broken.push(format!("answer: {broken}"));
        }
        if (now / tick).is_multiple_of(LOOK_EVERY) {
            let broken = self.judge.look(&self.cluster, self.plan.has_bounded_clocks);
            self.broken
                .extend(broken.map(|broken| format!("at {now}: invariant {broken}")));
        }
    }

    fn outcome(&mut self) -> Outcome {
        let calls = std::mem::take(&mut *self.shared.calls.lock());
        if self.broken.is_empty() && self.plan.has_bounded_clocks {
            match seqsvr_check::check(&calls) {
                Ok(report) => {
                    let violations = report.violations.iter().take(3);
                    self.broken
                        .extend(violations.map(|v| format!("check: {}", v.sentence)));
                }
                Err(e) => self.broken.push(format!("check: {e}")),
            }
        }
        // Processes end before what they write to.
        let all: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for id in all {
            self.cluster.net.power_off(id);
            let _ = self.cluster.end(id, true, crate::plan::RowsFate::Lose(0));
        }
        let (hash, events, last) = self
            .cluster
            .net
            .with_trace(|_, trace| (trace.hash(), trace.count(), trace.last()));
        Outcome {
            broken: std::mem::take(&mut self.broken),
            hash,
            events,
            calls: calls.len() as u64,
            answered: self.shared.answered.load(Relaxed),
            virtual_ms: self.cluster.now,
            last,
            ..Outcome::default()
        }
    }
}
