//! A caller beside sprayers: its calls take about as long as without them, and none fails.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::Spec;

use super::spray::{SPRAYED, Spray, Sprayed, UIDS};
use crate::caller::{Ask, Caller};
use crate::cluster::Cluster;
use crate::history::History;
use crate::process::Signal;
use crate::scenario::Outcome;
use crate::subject::{self, Subject};
use crate::vitals::Vitals;

/// Alone and beside sprayers, so many times: some fall where the machine is taken away for a while.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(700);
/// Sprayers begin this long before they are beside somebody.
const BEGIN: Duration = Duration::from_millis(200);
/// Counters' memory the alloc may take: little, so that the sprayed sections are closed again.
const MEMORY_MIB: u64 = 16;
/// The alloc's memory beside that: code, connections, what waits, what was closed and is not
/// reused yet.
const BESIDE_MIB: u64 = 400;
/// Subjects of the caller, in sections of their own.
const SUBJECTS: usize = 200;
/// Times of one caller's own.
const TIMES_MAX: f64 = 2.0;

/// Times of one round.
struct Times {
    p50: Duration,
    p99: Duration,
}

/// A caller is measured alone and beside sprayers, several times in turn.
pub async fn sprayers() -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 1, 3_000).await;
    let alloc = &mut cluster.allocs[0];
    alloc.set_arg("--memory-mib", &MEMORY_MIB.to_string());
    alloc.signal(Signal::TERM);
    alloc.wait_exit(Duration::from_secs(20)).await;
    alloc.restart();
    cluster.whole(1).await;
    for store in &cluster.stores {
        stands_back(store.pid());
    }
    let (address, pid) = (cluster.alloc_addresses[0].clone(), cluster.allocs[0].pid());
    let client = cluster.client();
    let dense = Geometry::Dense {
        section_size: 1_000,
        max_uid: UIDS,
    };
    let (admin, spec) = (client.admin(), Spec::new(SPRAYED, dense));
    let made = admin.create_namespace(&spec).await;
    made.expect("the namespace is made");

    let mut history = History::create(cluster.dir());
    let caller = Caller::Client(client);
    let all = subject::all().swap_remove(0);
    // The first 200 are in 200 sections; the later ones in the same, so new sections are of keys.
    let mut own = Own {
        subjects: all.into_iter().take(SUBJECTS).collect(),
        fresh: subject::all().swap_remove(1),
        history: &mut history,
        caller: &caller,
        outcome: &mut outcome,
        opened: Duration::ZERO,
    };
    // Loaded, and connections made.
    own.round(ROUND, false).await;
    let (mut alone, mut beside, mut sum) = (Vec::new(), Vec::new(), Sprayed::default());
    let mut memory = 0;
    for n in 0..ROUNDS {
        alone.push(own.round(ROUND, false).await);
        let spray = Spray::start(&address, n as u64);
        tokio::time::sleep(BEGIN).await;
        let before = own.outcome.calls;
        beside.push(own.round(ROUND, true).await);
        own.outcome.inside += own.outcome.calls - before;
        memory = memory.max(Vitals::read(pid, None).expect("it runs").memory);
        sum.add(spray.stop().await);
    }
    let opened = own.opened;
    for (at, (a, b)) in alone.iter().zip(&beside).enumerate() {
        eprintln!(
            "round {at}: alone p50 {:.0?} p99 {:.0?}; beside sprayers p50 {:.0?} p99 {:.0?}",
            a.p50, a.p99, b.p50, b.p99
        );
    }
    let one = [address.clone()];
    for name in [
        "opens",
        "closes",
        "renewals",
        "renewal_failures",
        "waiting_refused",
        "calls_refused",
        "burned",
        "waited_for_refill",
        "guard_rounds",
        "section_bytes",
    ] {
        eprintln!("{name} {}", cluster.counter(&one, name).await);
    }
    outcome.note(format!(
        "sprayed: {} items served, {} refused, {} of them with a hint; the alloc's memory {} MiB at most; a new section of the caller's was opened within {opened:.0?}",
        sum.served, sum.refused, sum.hinted, memory >> 20
    ));
    for (name, pick) in [
        ("p50", (|t: &Times| t.p50) as fn(&Times) -> Duration),
        ("p99", |t| t.p99),
    ] {
        let (alone, beside) = (median(&alone, pick), median(&beside, pick));
        let times = beside.as_secs_f64() / alone.as_secs_f64();
        let text =
            format!("{name}: {alone:.0?} alone, {beside:.0?} beside sprayers, {times:.2} times");
        if times > TIMES_MAX {
            outcome.missed.push(format!("{text}, above {TIMES_MAX}"));
        }
        outcome.note(text);
    }
    // What was sprayed did something.
    assert!(sum.served > 5_000 && sum.refused > 50, "{sum:?}");
    assert!(
        cluster.counter(&one, "closes").await > 0,
        "nothing was closed"
    );
    assert!(
        memory >> 20 < MEMORY_MIB + BESIDE_MIB,
        "{} MiB",
        memory >> 20
    );
    assert_eq!(cluster.counter(&one, "sessions_opened").await, 1);
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Lets the alloc and whoever is measured go before a store, alone and beside sprayers: on a machine
/// of its own, as it should have, a store would take them no time. A lower priority alone does not do
/// that: Linux leaves a running thread its slice of about a millisecond, unless it is an idle one.
fn stands_back(store: Pid) {
    let id = store.as_raw_nonzero().to_string();
    let mut set = Command::new("chrt");
    set.args(["--all-tasks", "--idle", "--pid", "0", &id]);
    let set = set.status().expect("`chrt` of util-linux is installed");
    assert!(set.success(), "chrt: {set}");
}

/// The caller who is measured.
struct Own<'a> {
    subjects: Vec<Subject>,
    /// In sections not loaded yet, or closed since.
    fresh: Vec<Subject>,
    history: &'a mut History,
    caller: &'a Caller,
    outcome: &'a mut Outcome,
    /// The longest that one of `fresh` took.
    opened: Duration,
}

impl Own<'_> {
    /// Calls one after the other for so long; with `fresh`, some in sections that are not loaded,
    /// which are timed apart.
    async fn round(&mut self, time: Duration, fresh: bool) -> Times {
        let until = Instant::now() + time;
        let mut times = Vec::new();
        while Instant::now() < until {
            let subject = self.subjects[times.len() % self.subjects.len()].clone();
            times.push(self.call(&subject).await);
            if fresh && times.len().is_multiple_of(500) {
                let subject = self.fresh.pop().expect("some are left");
                self.opened = self.opened.max(self.call(&subject).await);
            }
        }
        times.sort_unstable();
        Times {
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
        }
    }

    async fn call(&mut self, subject: &Subject) -> Duration {
        let begin = self.history.now();
        let results = self.caller.ask(0, Ask::Next(1), &[subject]).await;
        let end = self.history.now();
        self.history
            .record(subject, Ask::Next(1), begin, end, &results[0]);
        if let Err(error) = &results[0] {
            panic!("a call of the caller failed: {error}");
        }
        let took = Duration::from_nanos(end - begin);
        self.outcome.add_call(took);
        took
    }
}

fn median(times: &[Times], pick: fn(&Times) -> Duration) -> Duration {
    let mut times: Vec<Duration> = times.iter().map(pick).collect();
    times.sort_unstable();
    times[times.len() / 2]
}
