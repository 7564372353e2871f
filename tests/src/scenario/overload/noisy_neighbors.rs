//! A caller next to hostile clients: its latencies stay about the same, and none of its calls
//! fails.
//!
//! Fault: the hostile clients. Measured: p50 and p99 alone and next to them, compared with a bare
//! service. Needs a quiet machine and `chrt`.

use std::time::{Duration, Instant};

use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_test_support::bare_service::BareService;
use seqsvr_test_support::callers::{TestCall, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::process_stats::ProcessStats;
use seqsvr_test_support::test_keys::{self, TestKey};

use super::hostile_clients::{HOSTILE_NAMESPACE, HOSTILE_UIDS, HostileClients, HostileTally};
use super::idle_class::{ThreadScope, move_to_idle_class};
use crate::scenario::ScenarioOutcome;

/// Rounds alone and next to hostile clients. Some are lost to pauses of the machine.
const ROUNDS: usize = 15;
const ROUND_DURATION: Duration = Duration::from_millis(700);
/// Time between the start of the hostile clients and the measurement.
const HOSTILE_LEAD_TIME: Duration = Duration::from_millis(200);
/// Section memory of the AllocSvr: little, so that the sections of hostile clients are closed
/// again.
const SECTION_MEMORY_MIB: u64 = 16;
/// Allowed further memory of the AllocSvr: code, connections, queued items, and closed sections
/// that are not reused yet.
const OTHER_MEMORY_MIB_MAX: u64 = 400;
/// Test keys of the measured caller, each in its own section.
const CALLER_KEYS: usize = 200;
/// Maximum ratio of a latency next to hostile clients to the one alone, on a machine where they do
/// not take the cores from the caller.
const LATENCY_RATIO_MAX: f64 = 2.0;
/// Where they do, the maximum factor over the ratio of a bare service under the same competition.
const BARE_SERVICE_FACTOR_MAX: f64 = 1.5;

/// Latencies of one round: of the service and of the bare one.
struct RoundLatencies {
    p50: Duration,
    p99: Duration,
    bare_p50: Duration,
    bare_p99: Duration,
}

/// Measures a caller alone and next to hostile clients, several times in turn.
pub async fn noisy_neighbors() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Start an AllocSvr with little memory. The stores run in the idle class.
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let alloc = &mut cluster.allocs[0];
    alloc.set_arg("--section-memory-mib", &SECTION_MEMORY_MIB.to_string());
    alloc.stop(Duration::from_secs(20)).await;
    alloc.restart();
    cluster.wait_until_assigned(1).await;
    for store in &cluster.stores {
        // A store has its own machine in production, with or without hostile clients.
        move_to_idle_class(store.pid(), ThreadScope::All);
    }
    let (address, pid) = (cluster.alloc_addresses[0].clone(), cluster.allocs[0].pid());
    let client = cluster.new_client();
    let dense = Geometry::Dense {
        section_size: 1_000,
        max_uid: HOSTILE_UIDS,
    };
    let (admin, spec) = (client.admin(), NamespaceSpec::new(HOSTILE_NAMESPACE, dense));
    let made = admin.create_namespace(&spec).await;
    made.expect("the namespace is created");

    // 2. Prepare the measured caller, and warm up.
    let mut history = History::create(cluster.dir());
    let caller = TestCaller::Sdk(client);
    let all = test_keys::all_test_keys().swap_remove(0);
    // The first 200 uids are in 200 sections, and the later ones in the same. So keys serve as new
    // sections.
    let mut measured = MeasuredCaller {
        test_keys: all.into_iter().take(CALLER_KEYS).collect(),
        fresh: test_keys::all_test_keys().swap_remove(1),
        history: &mut history,
        caller: &caller,
        outcome: &mut outcome,
        opened: Duration::ZERO,
        bare_service: BareService::start().await,
    };
    measured.measure_round(ROUND_DURATION, false).await;

    // 3. Measure it alone and next to hostile clients, in turn.
    let (mut alone, mut contended, mut sum) = (Vec::new(), Vec::new(), HostileTally::default());
    let mut memory = 0;
    for n in 0..ROUNDS {
        alone.push(measured.measure_round(ROUND_DURATION, false).await);
        let hostile_clients = HostileClients::start(&address, n as u64);
        tokio::time::sleep(HOSTILE_LEAD_TIME).await;
        let before = measured.outcome.calls;
        contended.push(measured.measure_round(ROUND_DURATION, true).await);
        measured.outcome.calls_during_fault += measured.outcome.calls - before;
        memory = memory.max(ProcessStats::read(pid, None).expect("it runs").memory_bytes);
        sum.add(hostile_clients.stop().await);
    }

    // 4. Print the rounds and the counters.
    let opened = measured.opened;
    for (at, (a, b)) in alone.iter().zip(&contended).enumerate() {
        eprintln!(
            "round {at}: alone p50 {:.0?} p99 {:.0?}; next to hostile clients p50 {:.0?} p99 {:.0?}; \
             bare service: p99 {:.0?}, {:.0?}",
            a.p50, a.p99, b.p50, b.p99, a.bare_p99, b.bare_p99
        );
    }
    for name in [
        "opens",
        "closes",
        "lease_renewals",
        "lease_renewal_failures",
        "queue_rejections",
        "requests_rejected",
        "numbers_discarded",
        "window_waits",
        "ownership_checks",
        "section_memory_bytes",
    ] {
        eprintln!("{name} {}", cluster.counter(&address, name).await);
    }
    outcome.note(format!(
        "hostile clients: {} items served, {} rejected, {} of them with a hint; the alloc's memory {} MiB at most; a new section of the caller's was opened within {opened:.0?}",
        sum.served, sum.rejected, sum.hinted, memory >> 20
    ));

    // 5. Judge the medians against the bare service.
    type LatencyField = fn(&RoundLatencies) -> Duration;
    let picks: [(&str, LatencyField, LatencyField); 2] = [
        ("p50", |t| t.p50, |t| t.bare_p50),
        ("p99", |t| t.p99, |t| t.bare_p99),
    ];
    for (name, service, bare) in picks {
        let medians = |pick| {
            [
                median_latency(&alone, pick),
                median_latency(&contended, pick),
            ]
        };
        match judge_latency(name, medians(service), medians(bare)) {
            Ok(text) => outcome.note(text),
            Err(text) => {
                outcome.missed_limits.push(text.clone());
                outcome.note(text);
            }
        }
    }

    // 6. The hostile clients had an effect, within the memory limit, and the session was kept.
    assert!(sum.served > 5_000 && sum.rejected > 50, "{sum:?}");
    assert!(
        cluster.counter(&address, "closes").await > 0,
        "nothing was closed"
    );
    assert!(
        memory >> 20 < SECTION_MEMORY_MIB + OTHER_MEMORY_MIB_MAX,
        "{} MiB",
        memory >> 20
    );
    assert_eq!(cluster.counter(&address, "sessions_opened").await, 1);
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Judges the latencies alone and next to the hostile clients by those of the bare service.
///
/// Caller, service and hostile clients share the cores. The competition costs the bare service as
/// much as any other, so only the rest is the cost of the service. The floor never lowers the limit
/// below [`LATENCY_RATIO_MAX`].
fn judge_latency(
    name: &str,
    [alone, contended]: [Duration; 2],
    [bare_alone, bare_contended]: [Duration; 2],
) -> Result<String, String> {
    let ratio = contended.as_secs_f64() / alone.as_secs_f64();
    let bare_ratio = bare_contended.as_secs_f64() / bare_alone.as_secs_f64();
    let limit = LATENCY_RATIO_MAX.max(BARE_SERVICE_FACTOR_MAX * bare_ratio);
    let text = format!(
        "{name}: {alone:.0?} alone, {contended:.0?} next to hostile clients, {ratio:.2} times; a bare service in the same run: \
         {bare_alone:.0?}, {bare_contended:.0?}, {bare_ratio:.2} times; at most {limit:.2}"
    );
    if ratio <= limit { Ok(text) } else { Err(text) }
}

/// The measured caller.
struct MeasuredCaller<'a> {
    test_keys: Vec<TestKey>,
    /// Test keys in sections not loaded yet, or closed since.
    fresh: Vec<TestKey>,
    history: &'a mut History,
    caller: &'a TestCaller,
    outcome: &'a mut ScenarioOutcome,
    /// Longest call for one of `fresh`.
    opened: Duration,
    bare_service: BareService,
}

impl MeasuredCaller<'_> {
    /// Makes calls one after the other for `time`. With `fresh`, some of them are in sections that
    /// are not loaded, and are timed apart. Each call is followed by one of the bare service, so
    /// that both meet the same competition.
    async fn measure_round(&mut self, time: Duration, fresh: bool) -> RoundLatencies {
        let until = Instant::now() + time;
        let (mut times, mut bare_service) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            let test_key = self.test_keys[times.len() % self.test_keys.len()].clone();
            times.push(self.call_recorded(&test_key).await);
            bare_service.push(self.bare_service.time_call().await);
            if fresh && times.len().is_multiple_of(500) {
                let test_key = self.fresh.pop().expect("some are left");
                self.opened = self.opened.max(self.call_recorded(&test_key).await);
            }
        }
        times.sort_unstable();
        bare_service.sort_unstable();
        RoundLatencies {
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
            bare_p50: bare_service[bare_service.len() / 2],
            bare_p99: bare_service[bare_service.len() * 99 / 100],
        }
    }

    async fn call_recorded(&mut self, test_key: &TestKey) -> Duration {
        let begin = self.history.now_ns();
        let results = self.caller.call(0, TestCall::Next(1), &[test_key]).await;
        let end = self.history.now_ns();
        self.history
            .record(test_key, TestCall::Next(1), begin, end, &results[0]);
        if let Err(error) = &results[0] {
            panic!("a call of the caller failed: {error}");
        }
        let took = Duration::from_nanos(end - begin);
        self.outcome.add_call(took);
        took
    }
}

fn median_latency(times: &[RoundLatencies], pick: fn(&RoundLatencies) -> Duration) -> Duration {
    let mut times: Vec<Duration> = times.iter().map(pick).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_ratio_is_judged_against_the_bare_service() {
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
            let judged = judge_latency("p99", service, bare);
            assert_eq!(judged.is_ok(), fine, "{judged:?}");
        }
    }
}
