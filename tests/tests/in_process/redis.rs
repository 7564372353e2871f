//! The Redis endpoint: bytes in, bytes out, over sockets, in front of real AllocSvrs.
//!
//! Compares whole answers, in pieces, pipelines and with bad input.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_alloc::Alloc;
use seqsvr_gateway::{RedisDoor, RedisOptions};
use seqsvr_proto::transport::Tcp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Cluster, D, PATIENCE, any, counter, create, dense, until};

/// A caller that sends bytes and reads answers.
struct Redis {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Redis {
    async fn connect(address: SocketAddr) -> Redis {
        Redis {
            stream: TcpStream::connect(address).await.unwrap(),
            read: Vec::new(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Returns the bytes of the next answer.
    async fn answer(&mut self) -> String {
        let answer = async {
            loop {
                if let Some(end) = end_of(&self.read) {
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
        tokio::time::timeout(PATIENCE, answer)
            .await
            .expect("an answer")
    }

    /// Sends a line of words and returns its answer.
    async fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.answer().await
    }

    /// Returns an answer that must be a number.
    async fn number(&mut self) -> u64 {
        let answer = self.answer().await;
        let digits = answer.strip_prefix(':').map(str::trim_end);
        digits
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// Returns all bytes until the other end closes.
    async fn rest(mut self) -> String {
        let read = self.stream.read_to_end(&mut self.read);
        let read = tokio::time::timeout(PATIENCE, read).await.expect("an end");
        read.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

/// Returns the end of the first answer, if it is complete.
fn end_of(bytes: &[u8]) -> Option<usize> {
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
        Some(at + end_of(bytes.get(at..).filter(|b| !b.is_empty())?)?)
    })
}

async fn open(alloc: &Alloc) -> RedisDoor {
    open_with(alloc, RedisOptions::new(any())).await
}

async fn open_with(alloc: &Alloc, options: RedisOptions) -> RedisDoor {
    RedisDoor::open(options, &Tcp, alloc.sequence())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_answered_as_redis_answers_them() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    create(&allocs, &dense("orders", 1_000, 1_000, 10_000)).await;
    let door = open(&allocs[0]).await;
    let mut redis = Redis::connect(door.local_addr()).await;
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
        assert_eq!(redis.ask(line).await, answer, "{line}");
    }
    for (line, told) in [
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
        let answer = redis.ask(line).await;
        assert!(answer.starts_with(told), "{line}: {answer}");
    }
    // More namespaces than one command batch has, in one command and in several.
    let wide: String = (0..17).map(|n| format!(" @none{n}/1")).collect();
    let answer = redis.ask(&format!("mget{wide}")).await;
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
        let answer = redis.answer().await;
        assert!(answer.starts_with("-ERR there is no namespace"), "{answer}");
    }
    // None of that changed the number.
    assert_eq!(redis.ask("get alice").await, "$3\r\n102\r\n");
    let hello = redis.ask("hello 3 setname me").await;
    assert!(
        hello.starts_with("%7\r\n$6\r\nserver\r\n$6\r\nseqsvr\r\n"),
        "{hello}"
    );
    assert_eq!(redis.ask("get bob").await, "_\r\n");
    assert_eq!(redis.ask("command docs").await, "%0\r\n");
    assert!(redis.ask("info").await.contains("redis_version:"));
    // A key of any bytes, in an array.
    for _ in 0..2 {
        redis
            .send(b"*2\r\n$4\r\nINCR\r\n$5\r\n\r\n\0\xff@\r\n")
            .await;
    }
    assert_eq!((redis.number().await, redis.number().await), (1, 2));
    redis.send(b"quit\r\nincr alice\r\n").await;
    assert_eq!(redis.rest().await, "+OK\r\n");
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// A pipeline in which commands of one key follow each other closely, some of which must wait for
/// their window, through an AllocSvr that owns half of the keys. Each command is answered as if
/// they came one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_takes_effect_in_its_order() {
    let cluster = Cluster::start(3, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    // Windows of 100 numbers: most commands of more wait for a raise.
    create(&allocs, &dense("narrow", 1_000, 200_000, 100)).await;
    create(&allocs, &dense("wide", 1_000, 200_000, 10_000)).await;
    let door = open(&allocs[0]).await;
    let mut redis = Redis::connect(door.local_addr()).await;
    let mut rng = SmallRng::seed_from_u64(5);
    let names = ["narrow", "wide"];
    let mut last = std::collections::HashMap::<String, u64>::new();
    let before = counter(&allocs[0], "raises").await;
    for round in 0..60 {
        let (mut bytes, mut asked) = (String::new(), Vec::new());
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
            asked.push((key, line, what));
        }
        redis.send(bytes.as_bytes()).await;
        for (key, line, what) in asked {
            let answer = redis.answer().await;
            let seen = last.entry(key).or_default();
            let told = format!("round {round}: {line}: {answer:?} after {seen}");
            match what {
                'n' => {
                    let n: u64 = answer
                        .trim_start_matches(':')
                        .trim_end()
                        .parse()
                        .expect(&told);
                    let least = line
                        .split(' ')
                        .nth(2)
                        .map_or(1, |count| count.parse().unwrap());
                    assert!(n >= *seen + least, "{told}");
                    *seen = n;
                }
                'g' if answer == "$-1\r\n" => assert_eq!(*seen, 0, "{told}"),
                'g' => {
                    let n: u64 = answer.split("\r\n").nth(1).unwrap().parse().expect(&told);
                    // Never touched here yet: a bound.
                    assert!(n == *seen || *seen == 0, "{told}");
                }
                _ if answer == "+OK\r\n" => {
                    *seen = line.rsplit(' ').next().unwrap().parse().unwrap();
                }
                _ => assert!(answer.starts_with("-ERR the number is"), "{told}"),
            }
        }
    }
    let raises = counter(&allocs[0], "raises").await - before;
    assert!(raises > 100, "{raises} raises: nothing had to wait");
    assert!(
        counter(&allocs[0], "forwarded").await > 100,
        "nothing was sent on"
    );
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

/// Writes ten thousand commands of one key and of many before it reads an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_commands_in_one_pipeline() {
    const N: u64 = 10_000;
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let door = open(&allocs[0]).await;
    let mut redis = Redis::connect(door.local_addr()).await;
    redis
        .send("incr one\r\n".repeat(N as usize).as_bytes())
        .await;
    for n in 1..=N {
        assert_eq!(redis.number().await, n);
    }
    let many: String = (0..N).map(|i| format!("incr many:{i}\r\n")).collect();
    redis.send(many.as_bytes()).await;
    for _ in 0..N {
        assert_eq!(redis.number().await, 1);
    }
    let keys: String = (0..N).map(|i| format!(" many:{i}")).collect();
    let line = format!("*{}\r\n$4\r\nMGET\r\n", N + 1);
    let words = keys
        .split_whitespace()
        .map(|key| format!("${}\r\n{key}\r\n", key.len()));
    redis
        .send((line + &words.collect::<String>()).as_bytes())
        .await;
    let answer = redis.answer().await;
    assert_eq!(
        answer,
        format!("*{N}\r\n{}", "$1\r\n1\r\n".repeat(N as usize))
    );
    // Together more than the namespace allows in one call, each alone not.
    create(&allocs, &dense("small", 1_000, 1_000, 100)).await;
    let most = redis.ask("incrby @small/1 100000").await;
    assert!(most.starts_with("-ERR"), "{most}");
    redis
        .send("incrby @small/1 30\r\n".repeat(100).as_bytes())
        .await;
    let mut last = 0;
    for _ in 0..100 {
        let n = redis.number().await;
        assert!(n >= last + 30, "{n} after {last}");
        last = n;
    }
    door.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_is_bounded_and_closes_in_order() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let door = open_with(
        &allocs[0],
        RedisOptions {
            connections_max: 3,
            password: Some("secret".into()),
            idle_max: Some(Duration::from_secs(3)),
            ..RedisOptions::new(any())
        },
    )
    .await;
    let at = door.local_addr();
    let mut redis = Redis::connect(at).await;
    // A command after the password is answered, one before it is not.
    redis
        .send(b"incr a\r\nauth wrong\r\nincr a\r\nauth secret\r\nincr a\r\n")
        .await;
    for told in ["-NOAUTH", "-WRONGPASS", "-NOAUTH", "+OK", ":1"] {
        let answer = redis.answer().await;
        assert!(answer.starts_with(told), "{answer} for {told}");
    }
    let mut other = Redis::connect(at).await;
    let hello = other.ask("hello 2 auth default secret").await;
    assert!(hello.starts_with("*14\r\n"), "{hello}");
    // A third connection that sends nothing; a fourth is over the limit.
    let silent = Redis::connect(at).await;
    let refused = until("a refusal", async || {
        let told = Redis::connect(at).await.rest().await;
        told.starts_with("-ERR max number of clients reached")
            .then_some(())
    });
    refused.await;
    // A malformed request gets an error, after the earlier commands were answered.
    other.send(b"incr a\r\n*1\r\n:5\r\n").await;
    let told = other.rest().await;
    assert_eq!(told, ":2\r\n-ERR Protocol error: expected '$', got ':'\r\n");
    // Idle and half a request: both are closed in time.
    let began = Instant::now();
    assert_eq!(silent.rest().await, "");
    assert!(began.elapsed() < Duration::from_secs(15));
    let mut half = Redis::connect(at).await;
    half.send(b"auth secret\r\n*2\r\n$4\r\nINC").await;
    let told = half.rest().await;
    assert!(told.starts_with("+OK\r\n"), "{told}");
    // An endpoint that closes answers the commands that it has received.
    let mut last = Redis::connect(at).await;
    last.ask("auth secret").await;
    last.send("incr a\r\n".repeat(1_000).as_bytes()).await;
    let (told, ()) = tokio::join!(last.rest(), door.shutdown());
    let answered = told.lines().count();
    assert!(told.ends_with("\r\n") && answered <= 1_000, "{told:?}");
    TcpStream::connect(at).await.unwrap_err();
    cluster.stop(&allocs).await;
}
