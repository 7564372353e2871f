//! Transactions in front of real AllocSvrs: keys of two owners, and what a rejected one takes.

use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_namespace, dense_namespace};

use super::open_endpoint;
use super::resp_caller::RespCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_transaction_is_executed_by_exec_alone() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_namespace(&allocs, &dense_namespace("spread", 1_000, 200_000, 10_000)).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut redis = RespCaller::connect(endpoint.local_addr()).await;
    // Some of these uids are another AllocSvr's.
    let uids: Vec<u64> = (0..20).map(|n| n * 10_000).collect();
    for round in 1..=3 {
        for (end, is_executed) in [
            ("exec", true),
            ("nosuch\r\nexec", false),
            ("discard", false),
        ] {
            let mut lines = String::from("multi\r\n");
            for uid in &uids {
                lines += &format!("incr @spread/{uid}\r\n");
            }
            redis.send(format!("{lines}{end}\r\n").as_bytes()).await;
            assert_eq!(redis.read_answer().await, "+OK\r\n");
            for _ in &uids {
                assert_eq!(redis.read_answer().await, "+QUEUED\r\n");
            }
            let mut answers = Vec::new();
            for _ in end.split("\r\n") {
                answers.push(redis.read_answer().await);
            }
            let numbers = format!(":{round}\r\n").repeat(uids.len());
            let array = format!("*{}\r\n{numbers}", uids.len());
            assert_eq!(answers.last() == Some(&array), is_executed, "{answers:?}");
        }
    }
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}
