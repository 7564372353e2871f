//! A caller next to hostile clients: its latencies stay about the same, and none of its calls
//! fails.
//!
//! Fault: the hostile clients. Measured: p50 and p99 alone and next to them, compared with a bare
//! service. Needs a quiet machine and `chrt`.

use std::time::{Duration, Instant};

use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::Spec;

use super::idle::{Threads, move_to_idle_class};
use super::spray::{SPRAYED, Spray, Sprayed, UIDS};
use crate::caller::{Ask, Caller};
use crate::cluster::Cluster;
use crate::floor::Floor;
use crate::history::History;
use crate::process::Signal;
use crate::scenario::Outcome;
use crate::subject::{self, Subject};
use crate::vitals::Vitals;

/// Rounds alone and next to hostile clients. Some are lost to pauses of the machine.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(700);
/// Time between the start of the hostile clients and the measurement.
const BEGIN: Duration = Duration::from_millis(200);
/// Section memory of the AllocSvr: little, so that the sections of hostile clients are closed
/// again.
const MEMORY_MIB: u64 = 16;
/// Allowed further memory of the AllocSvr: code, connections, queued items, and closed sections
/// that are not reused yet.
const BESIDE_MIB: u64 = 400;
/// Subjects of the measured caller, each in its own section.
const SUBJECTS: usize = 200;
/// Maximum ratio of a latency next to hostile clients to the one alone, on a machine where they do
/// not take the cores from the caller.
const TIMES_MAX: f64 = 2.0;
/// Where they do, the maximum factor over the ratio of a bare service under the same competition.
const FLOOR_TIMES_MAX: f64 = 1.5;

/// Latencies of one round: of the service and of the bare one.
struct Times {
    p50: Duration,
    p99: Duration,
    floor_p50: Duration,
    floor_p99: Duration,
}

/// Measures a caller alone and next to hostile clients, several times in turn.
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
        // A store has its own machine in production, with or without hostile clients.
        move_to_idle_class(store.pid(), Threads::All);
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
    // The first 200 uids are in 200 sections, and the later ones in the same. So keys serve as new
    // sections.
    let mut own = Own {
        subjects: all.into_iter().take(SUBJECTS).collect(),
        fresh: subject::all().swap_remove(1),
        history: &mut history,
        caller: &caller,
        outcome: &mut outcome,
        opened: Duration::ZERO,
        floor: Floor::start().await,
    };
    // Warm-up: sections are loaded and connections made.
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
            "round {at}: alone p50 {:.0?} p99 {:.0?}; beside sprayers p50 {:.0?} p99 {:.0?}; \
             bare service: p99 {:.0?}, {:.0?}",
            a.p50, a.p99, b.p50, b.p99, a.floor_p99, b.floor_p99
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
    type Pick = fn(&Times) -> Duration;
    let picks: [(&str, Pick, Pick); 2] = [
        ("p50", |t| t.p50, |t| t.floor_p50),
        ("p99", |t| t.p99, |t| t.floor_p99),
    ];
    for (name, service, bare) in picks {
        let medians = |pick| [median(&alone, pick), median(&beside, pick)];
        match judge(name, medians(service), medians(bare)) {
            Ok(text) => outcome.note(text),
            Err(text) => {
                outcome.missed.push(text.clone());
                outcome.note(text);
            }
        }
    }
    // The hostile clients had an effect.
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

/// Judges the latencies alone and next to the hostile clients by those of the bare service.
///
/// Caller, service and hostile clients share the cores. The competition costs the bare service as
/// much as any other, so only the rest is the cost of the service. The floor never lowers the limit
/// below [`TIMES_MAX`].
fn judge(
    name: &str,
    [alone, beside]: [Duration; 2],
    [bare_alone, bare_beside]: [Duration; 2],
) -> Result<String, String> {
    let times = beside.as_secs_f64() / alone.as_secs_f64();
    let floor = bare_beside.as_secs_f64() / bare_alone.as_secs_f64();
    let bar = TIMES_MAX.max(FLOOR_TIMES_MAX * floor);
    let text = format!(
        "{name}: {alone:.0?} alone, {beside:.0?} beside sprayers, {times:.2} times; a bare service in the same run: \
         {bare_alone:.0?}, {bare_beside:.0?}, {floor:.2} times; at most {bar:.2}"
    );
    if times <= bar { Ok(text) } else { Err(text) }
}

/// The measured caller.
struct Own<'a> {
    subjects: Vec<Subject>,
    /// Subjects in sections not loaded yet, or closed since.
    fresh: Vec<Subject>,
    history: &'a mut History,
    caller: &'a Caller,
    outcome: &'a mut Outcome,
    /// Longest call for one of `fresh`.
    opened: Duration,
    floor: Floor,
}

impl Own<'_> {
    /// Makes calls one after the other for `time`. With `fresh`, some of them are in sections that
    /// are not loaded, and are timed apart. Each call is followed by one of the bare service, so
    /// that both meet the same competition.
    async fn round(&mut self, time: Duration, fresh: bool) -> Times {
        let until = Instant::now() + time;
        let (mut times, mut floor) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            let subject = self.subjects[times.len() % self.subjects.len()].clone();
            times.push(self.call(&subject).await);
            floor.push(self.floor.call().await);
            if fresh && times.len().is_multiple_of(500) {
                let subject = self.fresh.pop().expect("some are left");
                self.opened = self.opened.max(self.call(&subject).await);
            }
        }
        times.sort_unstable();
        floor.sort_unstable();
        Times {
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
            floor_p50: floor[floor.len() / 2],
            floor_p99: floor[floor.len() * 99 / 100],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_judged_against_the_floor_of_its_run() {
        let micros = |a, b| [a, b].map(Duration::from_micros);
        for (service, bare, fine) in [
            // The hostile clients take no time from the bare service: the plain limit applies.
            (micros(100, 200), micros(50, 50), true),
            (micros(100, 201), micros(50, 50), false),
            // They take a little: the plain limit still applies.
            (micros(100, 201), micros(50, 60), false),
            // They take a lot from any service.
            (micros(100, 330), micros(50, 110), true),
            (micros(100, 331), micros(50, 110), false),
            // A bare service that was disturbed while alone does not lower the limit.
            (micros(100, 200), micros(90, 30), true),
        ] {
            let judged = judge("p99", service, bare);
            assert_eq!(judged.is_ok(), fine, "{judged:?}");
        }
    }
}
