//! Each command is answered as Redis answers it, or rejected with the reason.
//!
//! Sends commands one by one and compares the bytes of their answers.

use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_namespace, dense_namespace};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use super::open_endpoint;
use super::resp_caller::RespCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_commands_are_answered_as_redis_does() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("orders", 1_000, 1_000, 10_000)).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut redis = RespCaller::connect(endpoint.local_addr()).await;
    let long = format!("incr {}", "k".repeat(129));
    for (line, answer) in [
        ("PING", "+PONG\r\n"),
        ("ping hello", "$5\r\nhello\r\n"),
        ("echo \"a b\"", "$3\r\na b\r\n"),
        ("get alice", "$-1\r\n"),
        ("exists alice", ":0\r\n"),
        ("type alice", "+none\r\n"),
        ("incr alice", ":1\r\n"),
        ("INCRBY alice 5", ":6\r\n"),
        ("get alice", "$1\r\n6\r\n"),
        ("type alice", "+string\r\n"),
        ("exists alice alice bob", ":2\r\n"),
        (
            "mget alice bob alice",
            "*3\r\n$1\r\n6\r\n$-1\r\n$1\r\n6\r\n",
        ),
        ("set alice 100", "+OK\r\n"),
        ("set alice 100", "+OK\r\n"),
        (
            "set alice 99",
            "-ERR the number is 100 already, above 99: numbers only rise, and nothing was changed\r\n",
        ),
        ("incr alice", ":101\r\n"),
        // A key of a namespace of uids, and of `keys` by its name.
        ("incr @orders/42", ":1\r\n"),
        ("get @orders/42", "$1\r\n1\r\n"),
        ("get 42", "$-1\r\n"),
        ("incr @keys/alice", ":102\r\n"),
        ("select 0", "+OK\r\n"),
        ("client setname me", "+OK\r\n"),
        ("client getname", "$2\r\nme\r\n"),
        ("client setinfo lib-name x", "+OK\r\n"),
        ("config get save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("command info nosuch", "*1\r\n$-1\r\n"),
        ("reset", "+RESET\r\n"),
        ("client getname", "$-1\r\n"),
    ] {
        assert_eq!(redis.run(line).await, answer, "{line}");
    }
    for (line, expected) in [
        ("incr @nosuch/1", "-ERR there is no namespace \"nosuch\""),
        ("incr @orders/alice", "-ERR"),
        ("incr @orders/99999999999", "-ERR"),
        (&*long, "-ERR a key of 129 bytes: a key has 1 to 128 bytes"),
        ("incr \"\"", "-ERR an empty key"),
        (
            "set alice 10 EX 5",
            "-ERR SET takes a key, a number and NX here: EX is not supported, because a key here holds a number",
        ),
        (
            "set alice -4",
            "-ERR SET takes a number from 0 to 2^63-1 here",
        ),
        ("set alice 9223372036854775807", "-ERR"),
        (
            "incrby alice 100001",
            "-ERR INCRBY takes 1 to 100000 numbers here",
        ),
        ("decr alice", "-ERR decr would lower or delete a number"),
        ("watch alice", "-ERR watch is not supported"),
        (
            "auth secret",
            "-ERR AUTH <password> called without any password",
        ),
        (
            "nonsense a",
            "-ERR unknown command 'nonsense', with args beginning with: 'a'",
        ),
        ("hello 4", "-NOPROTO"),
    ] {
        let answer = redis.run(line).await;
        assert!(answer.starts_with(expected), "{line}: {answer}");
    }
    // More namespaces than one command batch has, in one command and in several.
    let wide: String = (0..17).map(|n| format!(" @none{n}/1")).collect();
    let answer = redis.run(&format!("mget{wide}")).await;
    assert!(
        answer.starts_with("-ERR keys of more than 16 namespaces"),
        "{answer}"
    );
    let lines: Vec<String> = wide
        .split_whitespace()
        .map(|key| format!("get {key}\r\n"))
        .collect();
    redis.send(lines.concat().as_bytes()).await;
    for _ in lines {
        let answer = redis.read_answer().await;
        assert!(answer.starts_with("-ERR there is no namespace"), "{answer}");
    }
    // None of that changed the number.
    assert_eq!(redis.run("get alice").await, "$3\r\n102\r\n");
    let hello = redis.run("hello 3 setname me").await;
    assert!(
        hello.starts_with("%7\r\n$6\r\nserver\r\n$6\r\nseqsvr\r\n"),
        "{hello}"
    );
    assert_eq!(redis.run("get bob").await, "_\r\n");
    assert_eq!(redis.run("command docs").await, "%0\r\n");
    assert!(redis.run("info").await.contains("\r\nloading:0\r\n"));
    // A key of any bytes, in an array.
    for _ in 0..2 {
        redis
            .send(b"*2\r\n$4\r\nINCR\r\n$5\r\n\r\n\0\xff@\r\n")
            .await;
    }
    assert_eq!(
        (redis.read_number().await, redis.read_number().await),
        (1, 2)
    );
    redis.send(b"quit\r\nincr alice\r\n").await;
    assert_eq!(redis.read_to_end().await, "+OK\r\n");
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Clients that check INFO before they send commands wait for a server that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_info_says_loading_while_there_is_no_lease() {
    let mut cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let address = endpoint.local_addr();
    let wait_for = async |field: &str| {
        wait_until(field, TEST_TIMEOUT, async || {
            let mut redis = RespCaller::connect(address).await;
            let info = redis.run("info persistence").await;
            info.contains(&format!("\r\n{field}\r\n")).then_some(())
        })
        .await;
    };
    wait_for("loading:0").await;
    cluster.stop_store(0).await;
    wait_for("loading:1").await;
    cluster.restart_store(0).await;
    wait_for("loading:0").await;
    endpoint.shutdown().await;
    cluster.stop(&allocs).await;
}
