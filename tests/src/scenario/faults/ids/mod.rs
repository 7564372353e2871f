//! Ids of many makers under faults: no id is made twice, those of each maker rise, and the time in
//! them is true.

mod judge;
mod makers;
mod store_clocks;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seqsvr_client::{Admin, FamilyChange, FamilySpec};
use seqsvr_core::layout::TickScale;
use seqsvr_test_support::build_variant;
use seqsvr_test_support::in_process::create_family;
use seqsvr_test_support::process::{Signal, id_holder_binary};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;
use tokio::time::{sleep, sleep_until};

use crate::id_run::monotonic_ns;
use crate::scenario::{ScenarioOutcome, read_unix_ns};

use judge::{JudgedFamily, MakerRuns, TrueTime, check_runs};
use makers::Maker;
use store_clocks::{HOUR_MS, RIGHT_MS, StoreClocks};

/// Longest time in which a maker makes the ids of a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const AHEAD: Duration = Duration::from_millis(500);
/// Three windows of `orders`.
const PAUSE: Duration = Duration::from_secs(6);
/// Why a holder gets no worker.
const ALL_HELD: &str = "all 8 workers of family \"few\" are held";
const PYTHON: &str = "python";
/// 2026-01-01, the epoch of the families.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// Family of the makers that make most ids.
const ORDERS: JudgedFamily = JudgedFamily {
    name: "orders",
    epoch_ms: EPOCH_MS,
    worker_bits: 10,
    seq_bits: 12,
    window: Duration::from_secs(2),
    ahead: AHEAD,
};
/// Family with fewer workers than makers.
const FEW: JudgedFamily = JudgedFamily {
    name: "few",
    worker_bits: 3,
    // On a slow machine a holder that renews late must not lose its worker to one that waits.
    window: Duration::from_secs(6),
    ..ORDERS
};

/// How many ids are made.
struct Scale {
    /// By each maker after each fault, and by the holder in Python.
    step: u64,
    python_step: u64,
    /// By each maker in all, but for the one in Python.
    least: u64,
    /// Ids of a call of an AllocSvr, and the time between two calls.
    call: (u32, u64),
    /// Time between two turns of a holder, in which it makes the ids of a tick.
    interval_ms: u64,
    /// Whether the holders are release builds, and no fault may be skipped.
    is_acceptance: bool,
}

const TEST_SCALE: Scale = Scale {
    step: 20_000,
    python_step: 1_000,
    least: 200_000,
    call: (4_096, 50),
    interval_ms: 50,
    is_acceptance: false,
};
/// 2 x 10^8 ids.
const ACCEPTANCE_SCALE: Scale = Scale {
    step: 100_000,
    python_step: 100_000,
    least: 19_000_000,
    call: (8_192, 20),
    interval_ms: 10,
    is_acceptance: true,
};

/// Eight holders, callers of three AllocSvrs and a holder in Python make ids while holders and
/// AllocSvrs are killed and paused, the leader is killed, the clocks of stores are an hour wrong,
/// and more holders than workers want one.
pub async fn ids_under_faults() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let scale = match build_variant::is_rebuilt() {
        true => ACCEPTANCE_SCALE,
        false => TEST_SCALE,
    };
    let holder = match scale.is_acceptance {
        true => id_holder_binary().to_owned(),
        // `cargo test` has built it, beside the directory of the tests.
        false => {
            let test = std::env::current_exe().expect("the path of the test");
            test.parent()
                .expect("a directory")
                .with_file_name("id-holder")
        }
    };
    let mut cluster = ProcessCluster::start(3, 3, 3_000).await;
    let clocks = StoreClocks::start(&mut cluster).await;
    let admin = cluster.new_client().admin();
    for family in [ORDERS, FEW] {
        create(&admin, family).await;
    }
    let mut true_time = TrueTime {
        origin_ns: read_unix_ns() - monotonic_ns(),
        not_judged: Vec::new(),
    };

    // 1. Start all makers of `orders`.
    let mut makers = Makers {
        holder: Box::leak(holder.into_boxed_path()),
        dir: cluster.dir().to_owned(),
        servers: cluster.alloc_addresses.join(","),
        scale,
        running: Vec::new(),
        ended: Vec::new(),
    };
    for n in 1..=8 {
        makers.start_holder(ORDERS, &format!("holder-{n}"));
    }
    for (n, address) in (1..).zip(&cluster.alloc_addresses) {
        let (name, pace) = (format!("caller-{n}"), makers.scale.call);
        let caller = Maker::start_caller(&makers.dir, address, ORDERS, &name, pace);
        makers.running.push(caller);
    }
    match Maker::start_python(&makers.dir, &cluster.alloc_addresses[2], ORDERS, PYTHON) {
        Some(python) => makers.running.push(python),
        None => note_skipped(
            &mut outcome,
            "the holder in Python: SEQSVR_PYTHON is not set",
        ),
    }
    makers.step(&[]).await;

    // 2. Kill and pause a holder. No other one waits for it.
    makers.end("holder-1");
    makers.start_holder(ORDERS, "holder-9");
    makers.step(&[]).await;
    makers.get("holder-2").pause().await;
    makers.step_for(PAUSE, &["holder-2"]).await;
    makers.get("holder-2").process().signal(Signal::CONT);
    makers.step(&[]).await;

    // 3. Kill and pause an AllocSvr, which holds a worker as well.
    cluster.kill_alloc(0);
    makers.step(&["caller-1"]).await;
    cluster.allocs[0].restart();
    makers.step(&[]).await;
    cluster.allocs[1].signal(Signal::STOP);
    makers.step_for(PAUSE, &["caller-2"]).await;
    cluster.allocs[1].signal(Signal::CONT);
    makers.step(&[]).await;

    // 4. Kill the leader.
    let leader = cluster.leader().await;
    cluster.kill_store(leader);
    makers.step(&[]).await;
    cluster.restart_store(leader).await;
    makers.step(&[]).await;

    // 5. A ninth holder gets the worker of a paused one, which makes ids again with that of a
    //    killed one.
    use_up_workers(&mut makers).await;

    // 6. Make the rest, while the time in ids is true.
    makers.finish().await;

    // 7. Set the clock of the leader wrong, then those of all stores.
    match &clocks {
        Some(clocks) => {
            true_time.not_judged = set_clocks_wrong(&cluster, clocks, &mut makers).await
        }
        None => note_skipped(&mut outcome, "wall clocks: libfaketime is not installed"),
    }

    // 8. Judge all.
    let is_acceptance = makers.scale.is_acceptance;
    cluster.assert_none_ended();
    let made = makers.stop();
    let total: u64 = made.iter().map(MakerRuns::count).sum();
    let report = check_runs(&cluster.dir().join("history"), &made);
    let most = made.iter().map(MakerRuns::count).max().unwrap_or(0);
    outcome.note(format!(
        "{total} ids of {} makers, {most} of one at most, in {} lines of two views",
        made.len(),
        report.calls
    ));
    assert!(most <= total / 4, "{most} of {total} ids are of one maker");
    assert!(!is_acceptance || total >= 200_000_000, "{total} ids");
    eprintln!("{report}");
    assert!(
        report.is_ok(),
        "an id is made twice, or does not rise, see above"
    );
    let wrong = true_time.find_wrong(&made);
    assert!(wrong.is_empty(), "the time in ids is wrong: {wrong:#?}");
    outcome
}

/// Notes a fault that this machine cannot make. An acceptance run fails.
fn note_skipped(outcome: &mut ScenarioOutcome, what: &str) {
    assert!(
        !build_variant::is_rebuilt(),
        "an acceptance run needs {what}"
    );
    outcome.note(format!("skipped: {what}"));
}

/// Sets the clock of the leader an hour wrong, then those of all stores. Returns when the time in
/// ids was not true: store time follows clocks that all stores agree on, and never goes back.
async fn set_clocks_wrong(
    cluster: &ProcessCluster,
    clocks: &StoreClocks,
    makers: &mut Makers,
) -> Vec<Range<u64>> {
    let is_right = -RIGHT_MS..RIGHT_MS;
    for offset_ms in [HOUR_MS, -HOUR_MS] {
        clocks.set_leader(cluster, offset_ms).await;
        makers.step(&[]).await;
    }
    clocks.set_all(cluster, 0, is_right.clone()).await;
    let behind_from = monotonic_ns();
    clocks.set_all(cluster, -HOUR_MS, -HOUR_MS..-RIGHT_MS).await;
    makers.step(&[]).await;
    clocks.set_all(cluster, 0, is_right).await;
    // Holders learn of it by their next renewal.
    let behind = behind_from..monotonic_ns() + (ORDERS.window + AHEAD).as_nanos() as u64;
    makers.step(&[]).await;
    let ahead_from = monotonic_ns();
    let is_ahead = HOUR_MS / 2..HOUR_MS + RIGHT_MS;
    for offset_ms in [HOUR_MS, 0] {
        clocks.set_all(cluster, offset_ms, is_ahead.clone()).await;
        makers.step(&[]).await;
    }
    vec![behind, ahead_from..u64::MAX]
}

/// Plays the exhaustion of a family with eight workers.
async fn use_up_workers(makers: &mut Makers) {
    for n in 1..=8 {
        makers.start_holder(FEW, &format!("few-{n}"));
    }
    makers.step(&[]).await;
    makers.start_holder(FEW, "few-9");
    makers.wait_for_log("few-9", ALL_HELD).await;
    makers.get("few-1").pause().await;
    let lost = makers.worker_of("few-1");
    makers.step(&["few-1"]).await;
    assert_eq!(
        makers.worker_of("few-9"),
        lost,
        "the worker of the paused one"
    );
    makers.get("few-1").process().signal(Signal::CONT);
    makers.wait_for_log("few-1", ALL_HELD).await;
    let freed = makers.worker_of("few-2");
    makers.end("few-2");
    makers.step(&[]).await;
    assert_eq!(
        makers.worker_of("few-1"),
        freed,
        "the worker of the killed one"
    );
}

/// All makers of the scenario.
struct Makers {
    holder: &'static Path,
    dir: PathBuf,
    servers: String,
    scale: Scale,
    running: Vec<Maker>,
    ended: Vec<MakerRuns>,
}

impl Makers {
    fn start_holder(&mut self, family: JudgedFamily, name: &str) {
        let (dir, servers) = (&self.dir, &self.servers);
        let interval_ms = self.scale.interval_ms;
        let maker = Maker::start_holder(self.holder, dir, servers, family, name, interval_ms);
        self.running.push(maker);
    }

    fn get(&mut self, name: &str) -> &mut Maker {
        let mut makers = self.running.iter_mut();
        let maker = makers.find(|maker| maker.made.maker == name);
        maker.expect("a running maker")
    }

    /// Returns the worker of the last ids of a maker.
    fn worker_of(&mut self, name: &str) -> u32 {
        let maker = self.get(name);
        maker.read();
        maker.made.runs.last().expect("it made ids").worker
    }

    /// Kills a maker.
    fn end(&mut self, name: &str) {
        let at = self.running.iter().position(|m| m.made.maker == name);
        let maker = self.running.swap_remove(at.expect("a running maker"));
        self.ended.push(maker.stop());
    }

    /// Waits until each of the others has made the ids of a step.
    async fn step(&mut self, without: &[&str]) {
        let (step, python_step) = (self.scale.step, self.scale.python_step);
        self.wait_for_ids(without, |made| match made.maker == PYTHON {
            true => made.count() + python_step,
            false => made.count() + step,
        })
        .await;
    }

    /// Steps, for this time at least.
    async fn step_for(&mut self, time: Duration, without: &[&str]) {
        let until = Instant::now() + time;
        self.step(without).await;
        sleep_until(until.into()).await;
        self.step(without).await;
    }

    /// Waits until each has made its least number of ids.
    async fn finish(&mut self) {
        let least = self.scale.least;
        let is_many = |made: &MakerRuns| made.maker != PYTHON && made.family.name == ORDERS.name;
        self.wait_for_ids(&[], |made| if is_many(made) { least } else { 0 })
            .await;
    }

    /// Waits until each of the others has made as many ids as the goal says.
    async fn wait_for_ids(&mut self, without: &[&str], goal: impl Fn(&MakerRuns) -> u64) {
        let makers = self.running.iter_mut();
        let makers = makers.filter(|maker| !without.contains(&&*maker.made.maker));
        let mut waiting: Vec<(&mut Maker, u64)> = makers
            .map(|maker| {
                maker.read();
                let goal = goal(&maker.made);
                (maker, goal)
            })
            .collect();
        let started = Instant::now();
        while !waiting.is_empty() {
            waiting.retain_mut(|(maker, goal)| {
                maker.read();
                maker.made.count() < *goal
            });
            let names = || waiting.iter().map(|(maker, _)| &*maker.made.maker);
            let is_late = started.elapsed() > STEP_TIMEOUT;
            assert!(!is_late, "too few ids of {:?}", names().collect::<Vec<_>>());
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the process of a maker writes this text from now on.
    async fn wait_for_log(&mut self, name: &str, text: &str) {
        let process = self.get(name).process();
        let before = process.log().len();
        let is_logged = async || process.log()[before..].contains(text).then_some(());
        wait_until(&format!("{text:?} of {name}"), STEP_TIMEOUT, is_logged).await;
    }

    /// Ends all makers, and returns what each has made.
    fn stop(mut self) -> Vec<MakerRuns> {
        self.ended.extend(self.running.into_iter().map(Maker::stop));
        self.ended
    }
}

async fn create(admin: &Admin, family: JudgedFamily) {
    let (name, worker_bits) = (family.name, family.worker_bits);
    let layout = format!("0:1,time:41,worker:{worker_bits},seq:{}", family.seq_bits);
    let layout = layout.parse().expect("a layout");
    let scale = TickScale::new(EPOCH_MS, 1).expect("a scale");
    let spec = FamilySpec::new(name, layout, scale);
    create_family(admin, &spec).await;
    let short = FamilyChange {
        window_ms: Some(family.window.as_millis() as u32),
        ahead_ms: Some(AHEAD.as_millis() as u32),
        workers_per_holder: Some(1),
        ..FamilyChange::default()
    };
    admin
        .alter_family(name, short)
        .await
        .expect("it is altered");
}
