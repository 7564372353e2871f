//! The Redis endpoint: bytes in, bytes out, over sockets, in front of real AllocSvrs.
//!
//! Compares whole answers, in pieces, pipelines and with bad input.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_alloc::AllocServer;
use seqsvr_gateway::{RedisOptions, RedisServer};
use seqsvr_net::TcpTransport;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, any_port, create_namespace, dense_namespace, read_counter,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A caller that sends bytes and reads answers.
struct RespCaller {
    stream: TcpStream,
    read: Vec<u8>,
}

impl RespCaller {
    async fn connect(address: SocketAddr) -> RespCaller {
        RespCaller {
            stream: TcpStream::connect(address).await.unwrap(),
            read: Vec::new(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Returns the bytes of the next answer.
    async fn read_answer(&mut self) -> String {
        let answer = async {
            loop {
                if let Some(end) = find_answer_end(&self.read) {
                    let rest = self.read.split_off(end);
                    let answer = std::mem::replace(&mut self.read, rest);
                    return String::from_utf8_lossy(&answer).into_owned();
                }
                let n = self.stream.read_buf(&mut self.read).await.unwrap();
                assert!(
                    n > 0,
                    "closed after {:?}",
                    String::from_utf8_lossy(&self.read)
                );
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, answer)
            .await
            .expect("an answer")
    }

    /// Sends a line of words and returns its answer.
    async fn run(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.read_answer().await
    }

    /// Returns an answer that must be a number.
    async fn read_number(&mut self) -> u64 {
        let answer = self.read_answer().await;
        let digits = answer.strip_prefix(':').map(str::trim_end);
        digits
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// Returns all bytes until the other end closes.
    async fn read_to_end(mut self) -> String {
        let read = self.stream.read_to_end(&mut self.read);
        let read = tokio::time::timeout(TEST_TIMEOUT, read)
            .await
            .expect("an end");
        read.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

/// Returns the end of the first answer, if it is complete.
fn find_answer_end(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let head = std::str::from_utf8(&bytes[1..line - 2]).unwrap();
    let number = || head.parse::<i64>().unwrap();
    let parts = match bytes[0] {
        b'+' | b'-' | b':' | b'_' => return Some(line),
        b'$' if number() < 0 => return Some(line),
        b'$' => {
            let end = line + number() as usize + 2;
            return (bytes.len() >= end).then_some(end);
        }
        b'*' => number(),
        b'%' => 2 * number(),
        other => panic!("no answer begins with {:?}", char::from(other)),
    };
    (0..parts).try_fold(line, |at, _| {
        Some(at + find_answer_end(bytes.get(at..).filter(|b| !b.is_empty())?)?)
    })
}

async fn open_endpoint(alloc: &AllocServer) -> RedisServer {
    open_endpoint_with(alloc, RedisOptions::new(any_port())).await
}

async fn open_endpoint_with(alloc: &AllocServer, options: RedisOptions) -> RedisServer {
    RedisServer::start(options, &TcpTransport, alloc.sequence())
        .await
        .unwrap()
}

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
        ("command", "*0\r\n"),
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
            "-ERR SET takes a key and a number here: EX is not there",
        ),
        (
            "set alice -4",
            "-ERR SET takes a number from 1 to 2^63-1 here",
        ),
        ("set alice 9223372036854775807", "-ERR"),
        (
            "incrby alice 100001",
            "-ERR INCRBY takes 1 to 100000 numbers here",
        ),
        ("decr alice", "-ERR decr would lower or delete a number"),
        ("multi", "-ERR multi: a transaction is not there"),
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
    assert!(redis.run("info").await.contains("redis_version:"));
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
    assert!(raises > 100, "{raises} raises: nothing had to wait");
    assert!(
        read_counter(&allocs[0], "forwarded").await > 100,
        "nothing was sent on"
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_endpoint_enforces_limits_and_closes_in_order() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint_with(
        &allocs[0],
        RedisOptions {
            connections_max: 3,
            password: Some("secret".into()),
            idle_timeout: Some(Duration::from_secs(3)),
            ..RedisOptions::new(any_port())
        },
    )
    .await;
    let at = endpoint.local_addr();
    let mut redis = RespCaller::connect(at).await;
    // A command after the password is answered, one before it is not.
    redis
        .send(b"incr a\r\nauth wrong\r\nincr a\r\nauth secret\r\nincr a\r\n")
        .await;
    for expected in ["-NOAUTH", "-WRONGPASS", "-NOAUTH", "+OK", ":1"] {
        let answer = redis.read_answer().await;
        assert!(answer.starts_with(expected), "{answer} for {expected}");
    }
    let mut other = RespCaller::connect(at).await;
    let hello = other.run("hello 2 auth default secret").await;
    assert!(hello.starts_with("*14\r\n"), "{hello}");
    // A third connection that sends nothing; a fourth is over the limit.
    let silent = RespCaller::connect(at).await;
    let rejection = wait_until("a rejection", TEST_TIMEOUT, async || {
        let received = RespCaller::connect(at).await.read_to_end().await;
        (received == "-ERR max number of clients reached (--redis-connections-max)\r\n")
            .then_some(())
    });
    rejection.await;
    // A malformed request gets an error, after the earlier commands were answered.
    other.send(b"incr a\r\n*1\r\n:5\r\n").await;
    let received = other.read_to_end().await;
    assert_eq!(
        received,
        ":2\r\n-ERR Protocol error: expected '$', got ':'\r\n"
    );
    // Idle and half a request: both are closed in time.
    let began = Instant::now();
    assert_eq!(silent.read_to_end().await, "");
    assert!(began.elapsed() < Duration::from_secs(15));
    let mut half = RespCaller::connect(at).await;
    half.send(b"auth secret\r\n*2\r\n$4\r\nINC").await;
    let received = half.read_to_end().await;
    assert!(received.starts_with("+OK\r\n"), "{received}");
    // An endpoint that closes answers the commands that it has received.
    let mut last = RespCaller::connect(at).await;
    last.run("auth secret").await;
    last.send("incr a\r\n".repeat(1_000).as_bytes()).await;
    let (received, ()) = tokio::join!(last.read_to_end(), endpoint.shutdown());
    let answered = received.lines().count();
    assert!(
        received.ends_with("\r\n") && answered <= 1_000,
        "{received:?}"
    );
    TcpStream::connect(at).await.unwrap_err();
    cluster.stop(&allocs).await;
}
