//! SETNX and SET … NX: the owner decides and raises in one step.

use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_namespace, dense_namespace};

use super::open_endpoint;
use super::resp_caller::RespCaller;

/// Callers at two AllocSvrs set the same keys at the same time, some within the window and some
/// above it, some at their owner and some forwarded. For each key one of them gets 1, and the key
/// continues above the value of that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_setnx_of_several_callers_succeeds_once() {
    const CALLERS: u64 = 6;
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_namespace(&allocs, &dense_namespace("starts", 1_000, 200_000, 100)).await;
    let endpoints = [
        open_endpoint(&allocs[0]).await,
        open_endpoint(&allocs[1]).await,
    ];
    let mut callers = Vec::new();
    for i in 0..CALLERS {
        let address = endpoints[i as usize % 2].local_addr();
        callers.push(RespCaller::connect(address).await);
    }
    // A section has 1,000 uids, of which one is used: none of the others has a number.
    for uid in (0..40).map(|n| n * 5_000) {
        let step = if uid % 10_000 == 0 { 5_000 } else { 10 };
        let answers = callers.iter_mut().zip(1..).map(|(caller, i)| async move {
            let line = format!("setnx @starts/{uid} {}", step * i);
            (step * i, caller.run(&line).await)
        });
        let answers = futures::future::join_all(answers).await;
        let winners: Vec<u64> = answers
            .iter()
            .filter(|(_, answer)| answer == ":1\r\n")
            .map(|(value, _)| *value)
            .collect();
        let losers = answers.iter().filter(|(_, answer)| answer == ":0\r\n");
        assert_eq!(losers.count() as u64, CALLERS - 1, "{answers:?}");
        let [winner] = winners[..] else {
            panic!("{answers:?}");
        };
        let redis = &mut callers[0];
        let next = redis.run(&format!("incr @starts/{uid}")).await;
        assert_eq!(next, format!(":{}\r\n", winner + 1));
        for (line, expected) in [
            (format!("set @starts/{uid} 90000 nx"), "$-1\r\n"),
            (format!("setnx @starts/{uid} 0"), ":0\r\n"),
            (format!("set @starts/{uid} 0 NX"), "$-1\r\n"),
        ] {
            assert_eq!(redis.run(&line).await, expected, "{line}");
        }
        let next = redis.run(&format!("incr @starts/{uid}")).await;
        assert_eq!(next, format!(":{}\r\n", winner + 2));
        let zero = redis.run(&format!("set @starts/{uid} 0")).await;
        assert!(zero.starts_with("-ERR the number is"), "{zero}");
    }
    for endpoint in endpoints {
        endpoint.shutdown().await;
    }
    cluster.stop(&allocs).await;
}
