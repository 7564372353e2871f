//! Pipelines: many commands in flight are answered in their order.
//!
//! Some commands wait for their window, some are forwarded, and some share a batch.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, read_counter,
};

use super::open_endpoint;
use super::resp_caller::RespCaller;

/// A pipeline in which commands of one key follow each other closely, some of which must wait for
/// their window, through an AllocSvr that owns half of the keys. Each command is answered as if
/// they came one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_pipeline_takes_effect_in_order() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    // Windows of 100 numbers: most commands of more wait for a raise.
    create_namespace(&allocs, &dense_namespace("narrow", 1_000, 200_000, 100)).await;
    create_namespace(&allocs, &dense_namespace("wide", 1_000, 200_000, 10_000)).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut redis = RespCaller::connect(endpoint.local_addr()).await;
    let mut rng = SmallRng::seed_from_u64(5);
    let names = ["narrow", "wide"];
    let mut last = std::collections::HashMap::<String, u64>::new();
    let before = read_counter(&allocs[0], "raises").await;
    for round in 0..60 {
        let (mut bytes, mut sent_commands) = (String::new(), Vec::new());
        for _ in 0..200 {
            let key = match rng.random_range(0..4) {
                0 => format!("k{}", rng.random_range(0..6)),
                n => format!("@{}/{}", names[n % 2], rng.random_range(0..6) * 20_000),
            };
            let (line, what) = match rng.random_range(0..10) {
                0..5 => (format!("incr {key}"), 'n'),
                5..7 => (format!("incrby {key} {}", rng.random_range(1..40)), 'n'),
                7..9 => (format!("get {key}"), 'g'),
                _ => {
                    let to = last.get(&key).copied().unwrap_or(0) + rng.random_range(1..2_000);
                    (format!("set {key} {to}"), 's')
                }
            };
            bytes += &line;
            bytes += "\r\n";
            sent_commands.push((key, line, what));
        }
        redis.send(bytes.as_bytes()).await;
        for (key, line, what) in sent_commands {
            let answer = redis.read_answer().await;
            let seen = last.entry(key).or_default();
            let context = format!("round {round}: {line}: {answer:?} after {seen}");
            match what {
                'n' => {
                    let n: u64 = answer
                        .trim_start_matches(':')
                        .trim_end()
                        .parse()
                        .expect(&context);
                    let least = line
                        .split(' ')
                        .nth(2)
                        .map_or(1, |count| count.parse().unwrap());
                    assert!(n >= *seen + least, "{context}");
                    *seen = n;
                }
                'g' if answer == "$-1\r\n" => assert_eq!(*seen, 0, "{context}"),
                'g' => {
                    let n: u64 = answer
                        .split("\r\n")
                        .nth(1)
                        .unwrap()
                        .parse()
                        .expect(&context);
                    // Never touched here yet: a bound.
                    assert!(n == *seen || *seen == 0, "{context}");
                }
                _ if answer == "+OK\r\n" => {
                    *seen = line.rsplit(' ').next().unwrap().parse().unwrap();
                }
                _ => assert!(answer.starts_with("-ERR the number is"), "{context}"),
            }
        }
    }
    let raises = read_counter(&allocs[0], "raises").await - before;
    assert!(raises > 100, "{raises} raises: no command had to wait");
    assert!(
        read_counter(&allocs[0], "forwarded").await > 100,
        "nothing was forwarded"
    );
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Writes ten thousand commands of one key and of many before it reads an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_pipeline_of_ten_thousand_commands_is_answered() {
    const N: u64 = 10_000;
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut redis = RespCaller::connect(endpoint.local_addr()).await;
    redis
        .send("incr one\r\n".repeat(N as usize).as_bytes())
        .await;
    for n in 1..=N {
        assert_eq!(redis.read_number().await, n);
    }
    let many: String = (0..N).map(|i| format!("incr many:{i}\r\n")).collect();
    redis.send(many.as_bytes()).await;
    for _ in 0..N {
        assert_eq!(redis.read_number().await, 1);
    }
    let keys: String = (0..N).map(|i| format!(" many:{i}")).collect();
    let line = format!("*{}\r\n$4\r\nMGET\r\n", N + 1);
    let words = keys
        .split_whitespace()
        .map(|key| format!("${}\r\n{key}\r\n", key.len()));
    redis
        .send((line + &words.collect::<String>()).as_bytes())
        .await;
    let answer = redis.read_answer().await;
    assert_eq!(
        answer,
        format!("*{N}\r\n{}", "$1\r\n1\r\n".repeat(N as usize))
    );
    // Together more than the namespace allows in one call, each alone not.
    create_namespace(&allocs, &dense_namespace("small", 1_000, 1_000, 100)).await;
    let most = redis.run("incrby @small/1 100000").await;
    assert!(most.starts_with("-ERR"), "{most}");
    redis
        .send("incrby @small/1 30\r\n".repeat(100).as_bytes())
        .await;
    let mut last = 0;
    for _ in 0..100 {
        let n = redis.read_number().await;
        assert!(n >= last + 30, "{n} after {last}");
        last = n;
    }
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}
