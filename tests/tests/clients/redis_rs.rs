//! The crate `redis` with RESP2 and RESP3, and next to redis-benchmark.
//!
//! Fault: SIGKILL of both AllocSvrs in turn. Checked without a fault: every number that the crate
//! and redis-benchmark take together is exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, RedisError, RedisResult, Value, cmd, pipe};
use seqsvr_check::{CallAnswer, SequenceName};
use seqsvr_client::Key;
use seqsvr_test_support::callers::TestCall;
use seqsvr_test_support::history::History;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::test_keys::TestKey;
use seqsvr_test_support::wait::wait_until;
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::redis::{TEST_TIMEOUT, start_cluster};
use crate::{CLUSTER_LOCK, command_succeeds};

async fn connect(port: u16, query: &str) -> RedisResult<MultiplexedConnection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}/{query}"))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    // The crate's default timeout of half a second may be shorter than one sync of a busy disk.
    connection.set_response_timeout(Duration::from_secs(30));
    Ok(connection)
}

fn expect_error<T: std::fmt::Debug>(result: RedisResult<T>, words: &str) {
    let error: RedisError = result.expect_err(words);
    assert!(error.to_string().contains(words), "{error}, not {words}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_rs_conforms() {
    let _alone = CLUSTER_LOCK.lock().await;
    let (mut cluster, [port, other]) = start_cluster().await;
    for (protocol, query) in [(2, ""), (3, "?protocol=resp3")] {
        let mut r = connect(port, query).await.expect("a connection");
        let key = format!("rs{protocol}:a");
        let odd = [b"\r\n\x00\xff $*:@", key.as_bytes()].concat();
        let ping: String = cmd("PING").query_async(&mut r).await.expect("a pong");
        assert_eq!(ping, "PONG");
        assert_eq!(r.get(&key).await, Ok(None::<u64>));
        assert_eq!(r.exists(&key).await, Ok(false));
        assert_eq!(r.incr(&key, 1).await, Ok(1));
        assert_eq!(r.incr(&key, 10).await, Ok(11));
        assert_eq!(r.get(&key).await, Ok(11));
        assert_eq!(r.mget(&[&*key, "none"]).await, Ok([Some(11), None]));
        assert_eq!(r.set(&key, 100).await, Ok(()));
        assert_eq!(r.incr(&key, 1).await, Ok(101));
        expect_error(r.set::<_, _, ()>(&key, 50).await, "101 already, above 50");
        expect_error(
            r.set_ex::<_, _, ()>(&key, 500, 5).await,
            "a number never expires",
        );
        expect_error(r.decr::<_, _, u64>(&key, 1).await, "numbers only rise");
        expect_error(r.del::<_, u64>(&key).await, "numbers only rise");
        expect_error(
            r.incr::<_, _, u64>("@nosuch/1", 1).await,
            "there is no namespace",
        );
        expect_error(
            r.incr::<_, _, u64>("k".repeat(129), 1).await,
            "1 to 128 bytes",
        );
        let watch = cmd("WATCH").arg(&key).query_async::<Value>(&mut r).await;
        expect_error(watch, "numbers of its own");
        let atomic_key = format!("{key}:atomic");
        let mut atomic = pipe();
        atomic.atomic().incr(&atomic_key, 1).incr(&atomic_key, 5);
        assert_eq!(atomic.query_async(&mut r).await, Ok((1, 6)));
        assert_eq!(r.incr(&odd, 1).await, Ok(1));
        assert_eq!(r.incr(&odd, 1).await, Ok(2));
        assert_eq!(r.incr(format!("@default/430000{protocol}"), 1).await, Ok(1));
        let mut many = pipe();
        for _ in 0..10_000 {
            many.incr(format!("{key}:many"), 1);
        }
        let numbers: Vec<u64> = many.query_async(&mut r).await.expect("10,000 numbers");
        assert_eq!(numbers, (1..=10_000).collect::<Vec<_>>());
    }
    // The client's AllocSvr is killed: the key continues, there and elsewhere, above its last
    // number.
    let mut last = 0;
    for (kill, port) in [
        (None, port),
        (Some(0), port),
        (Some(1), other),
        (None, port),
    ] {
        if let Some(n) = kill {
            cluster.kill_alloc(n);
            cluster.allocs[n].restart();
        }
        let next = wait_until("a number", TEST_TIMEOUT, async || {
            let mut r = connect(port, "").await.ok()?;
            r.incr::<_, _, u64>("rs:killed", 1).await.ok()
        });
        let next = next.await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

const LEASE_MS: u32 = 30_000;
const KEYS: u64 = 1_000_000;
const BENCHMARK_CALLS: u64 = 1_500_000;
/// Keys of one MGET.
const MGET_KEYS: u64 = 10_000;

/// redis-benchmark does not show its numbers, so they are counted at the end. Without a fault no
/// number is skipped, and the sum over all keys is the count of all callers. The numbers of the
/// other callers are checked one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incr_next_to_redis_benchmark_is_exact() {
    if !command_succeeds("redis-benchmark", &["--version"]) {
        return println!("SKIPPED: no redis-benchmark (Debian: redis-tools)");
    }
    let _alone = CLUSTER_LOCK.lock().await;

    // 1. Take numbers with the crate, through both AllocSvrs.
    // A lease that no stall of the machine outlasts: an epoch that ends skips the rest of its
    // windows.
    let cluster = ProcessCluster::start(3, 2, LEASE_MS).await;
    let [port, other] = [
        cluster.endpoint_ports[0].redis,
        cluster.endpoint_ports[1].redis,
    ];
    let history = History::create(cluster.dir());
    let (stop, taken) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut callers = JoinSet::new();
    for n in 0..50 {
        // On both AllocSvrs, so that half of the calls are forwarded.
        let port = if n % 2 == 0 { port } else { other };
        let (mut history, stop, taken) = (history.clone(), stop.clone(), taken.clone());
        callers.spawn(async move {
            let mut r = connect(port, "").await.expect("a connection");
            let mut rng = SmallRng::seed_from_u64(n);
            while !stop.load(Relaxed) {
                // A hundredth of the keys, so that callers use the same ones.
                let key = benchmark_key(rng.random_range(0..KEYS / 100));
                let begin = history.now_ns();
                let number: u64 = r.incr(&key, 1).await.expect("a number");
                let (end, stride) = (history.now_ns(), std::num::NonZeroU64::MIN);
                let test_key = TestKey {
                    namespace: "keys",
                    sequence: SequenceName::for_key("keys", &key),
                    key: Key::from(key),
                    stride,
                };
                let answer = CallAnswer::Next {
                    first: number,
                    last: number,
                    stride,
                };
                history.record(
                    &test_key,
                    TestCall::Next(1),
                    begin,
                    end,
                    &Ok((None, answer)),
                );
                taken.fetch_add(1, Relaxed);
            }
        });
    }

    // 2. Run redis-benchmark during that time.
    for pipeline in ["1", "16", "100"] {
        let calls = match pipeline {
            "1" => BENCHMARK_CALLS / 15,
            _ => BENCHMARK_CALLS / 15 * 7,
        };
        let args = [
            "-c",
            "50",
            "-P",
            pipeline,
            "-r",
            &KEYS.to_string(),
            "-n",
            &calls.to_string(),
        ];
        let ran = Command::new("redis-benchmark")
            .args(["-p", &port.to_string(), "--csv"])
            .args(args)
            .args(["INCR", "user:__rand_int__"])
            .output();
        let ran = ran.await.expect("it was found before");
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && output.contains("INCR"), "{ran:?}");
    }

    // 3. The numbers of the crate are in order.
    stop.store(true, Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.expect("every number came");
    }
    let taken = taken.load(Relaxed);
    let report = history.check();
    assert!(
        taken > 10_000 && report.ordered_pairs > 5_000,
        "{taken} numbers: {report}"
    );

    // 4. The sum over all keys is the count of all numbers.
    let mut r = connect(other, "").await.expect("a connection");
    let mut sum = 0;
    for begin in (0..KEYS).step_by(MGET_KEYS as usize) {
        let keys: Vec<String> = (begin..begin + MGET_KEYS).map(benchmark_key).collect();
        let values: Vec<Option<u64>> = r.mget(keys).await.expect("numbers");
        sum += values.into_iter().flatten().sum::<u64>();
    }
    assert_eq!(
        sum,
        BENCHMARK_CALLS + taken,
        "the sum over all keys is the count of all numbers"
    );
    println!("{taken} numbers checked one by one, {BENCHMARK_CALLS} of redis-benchmark counted");
}

/// Returns a key as redis-benchmark writes it.
fn benchmark_key(n: u64) -> String {
    format!("user:{n:012}")
}
