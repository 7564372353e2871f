//! Every command of the Redis endpoint of an AllocSvr with a file of principals, sent over TLS with
//! each right alone.

use seqsvr_access::Secret;
use seqsvr_gateway::{REDIS_ANSWER_WITHOUT_TLS, RedisOptions, RedisServer};
use seqsvr_net::LocalSequence;
use seqsvr_net::tls::CaTransport;
use seqsvr_proto::v1::CurrentKind;
use seqsvr_test_support::in_process::any_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::principal_cluster::{CURRENT, NEXT, PrincipalCluster, RAISE, RIGHTS};
use super::*;
use crate::endpoints::redis::resp_caller::RespCaller;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// Returns what a command needs of a principal, None if it is open to each, and lines of it for a
/// namespace. A command that is not here fails the test.
fn lines_of(command: &str, namespace: &str) -> (Option<&'static str>, Vec<String>) {
    let (right, lines): (_, &[&str]) = match command {
        "incr" => (Some(NEXT), &["incr @NAME/1"]),
        "incrby" => (Some(NEXT), &["incrby @NAME/1 2"]),
        "get" | "type" | "strlen" | "persist" | "ttl" | "pttl" | "expiretime" | "pexpiretime" => {
            (Some(CURRENT), &["COMMAND @NAME/1"])
        }
        "mget" | "exists" | "touch" => (Some(CURRENT), &["COMMAND @NAME/1 @NAME/3"]),
        "object" => (
            Some(CURRENT),
            &["object encoding @NAME/1", "object refcount @NAME/1"],
        ),
        "set" => (Some(RAISE), &["set @NAME/2 5", "set @NAME/2 5 nx"]),
        "setnx" => (Some(RAISE), &["setnx @NAME/2 5"]),
        "auth" => (None, &["auth TOKEN", "auth default TOKEN"]),
        "hello" => (None, &["hello 3 auth default TOKEN", "hello 2"]),
        "client" => (
            None,
            &[
                "client id",
                "client info",
                "client list",
                "client setname me",
            ],
        ),
        "command" => (None, &["command", "command count", "command docs"]),
        "config" => (None, &["config get *"]),
        "echo" => (None, &["echo hello"]),
        "wait" => (None, &["wait 0 0"]),
        "select" => (None, &["select 0"]),
        "multi" | "exec" => (None, &["multi", "exec"]),
        "discard" => (None, &["multi", "discard"]),
        "info" | "ping" | "role" | "time" | "unwatch" => (None, &["COMMAND"]),
        "reset" => (None, &["reset", "auth TOKEN"]),
        "quit" => (None, &["quit"]),
        other => panic!("{other} is not in the table of rights; add it"),
    };
    let fill = |line: &&str| line.replace("COMMAND", command).replace("NAME", namespace);
    (right, lines.iter().map(fill).collect())
}

/// Opens the Redis endpoint of the AllocSvr a1 under TLS.
async fn open_endpoint(secured: &SecuredCluster) -> RedisServer {
    let sequence = secured.allocs[0].sequence();
    let own = TlsDir::read(&secured.dir.path().join("alloc-a1")).unwrap();
    let transport = TlsTransport::new(Arc::new(TcpTransport), Arc::new(own));
    let transport = transport.for_endpoint(REDIS_ANSWER_WITHOUT_TLS);
    let transport = match sequence.access().has_principals() {
        true => transport.with_optional_certificates(),
        false => transport,
    };
    let options = RedisOptions::new(any_port());
    RedisServer::start(options, &transport, sequence)
        .await
        .unwrap()
}

async fn connect(endpoint: &RedisServer, network: &dyn Transport) -> RespCaller {
    let address = endpoint.local_addr().to_string();
    RespCaller::over(network.connect(address).await.unwrap())
}

/// Each principal by its token and by its certificate, at one endpoint.
struct RedisPrincipals {
    cluster: PrincipalCluster,
    endpoint: RedisServer,
}

impl RedisPrincipals {
    async fn start() -> RedisPrincipals {
        let cluster = PrincipalCluster::start().await;
        let endpoint = open_endpoint(&cluster.secured).await;
        RedisPrincipals { cluster, endpoint }
    }

    fn token(&self, principal: usize) -> &str {
        self.cluster.tokens[principal].expose()
    }

    async fn connect(&self, network: &dyn Transport) -> RespCaller {
        connect(&self.endpoint, network).await
    }

    async fn certified(&self, role: &str, name: &str) -> RespCaller {
        self.connect(&*self.cluster.network_of(role, name)).await
    }

    async fn stranger(&self) -> RespCaller {
        self.connect(&*self.cluster.network_of_strangers()).await
    }

    async fn shutdown(self) {
        self.endpoint.shutdown().await;
        self.cluster.secured.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_redis_command_is_open_to_its_right_only() {
    let redis = RedisPrincipals::start().await;
    let mut operator = redis.certified("admin", "alice").await;
    let listed = operator.run("command list").await;
    let commands: Vec<&str> = listed.lines().skip(2).step_by(2).collect();
    assert!(
        commands.len() > 30 && commands.contains(&"incr"),
        "{listed}"
    );
    let mut taken = 0;
    for (principal, right) in RIGHTS.iter().enumerate() {
        let certificate = redis.cluster.network_of("client", &format!("p{principal}"));
        let strangers = redis.cluster.network_of_strangers();
        for (network, has_certificate) in [(certificate, true), (strangers, false)] {
            for command in &commands {
                let mut caller = redis.connect(&*network).await;
                let who = format!("{right:?} sends {command}, by certificate {has_certificate}");
                let auth = format!("auth p{principal} {}", redis.token(principal));
                if !has_certificate {
                    assert_eq!(caller.run("incr @orders/1").await, NOAUTH, "{who}");
                    assert_eq!(caller.run(&auth).await, "+OK\r\n", "{who}");
                }
                let (needed, lines) = lines_of(command, "orders");
                let may = needed.is_none_or(|needed| needed == *right);
                for line in &lines {
                    let line = line.replace("TOKEN", redis.token(principal));
                    let answer = caller.run(&line).await;
                    assert_eq!(answer.starts_with("-NOPERM "), !may, "{who}: {answer}");
                    assert_eq!(answer.starts_with('-'), !may, "{who}: {answer}");
                    if needed.is_none() {
                        let names_one = answer.contains("orders") || answer.contains("other");
                        assert!(!names_one, "{who}: {answer}");
                    }
                }
                taken += match *command {
                    "incr" if may => 1,
                    "incrby" if may => 2,
                    _ => 0,
                };
                if needed.is_none() {
                    continue;
                }
                // One that is not granted and one that does not exist are denied alike.
                let [other, missing] = ["other", "missing"].map(|name| lines_of(command, name).1);
                for (other, missing) in other.iter().zip(&missing) {
                    let denied = caller.run(other).await;
                    assert!(denied.starts_with("-NOPERM "), "{who}: {denied}");
                    assert_eq!(denied, caller.run(missing).await, "{who}");
                }
            }
        }
    }
    let (last, _) = redis.cluster.last_number("orders").await;
    assert_eq!(last, taken, "denied commands take nothing");
    assert_eq!(
        redis.cluster.last_number("other").await.1,
        CurrentKind::Never
    );
    let numbers = operator
        .run("mget @orders/2 @orders/3 @other/1 @other/2")
        .await;
    assert_eq!(numbers, "*4\r\n$1\r\n5\r\n$-1\r\n$-1\r\n$-1\r\n");
    redis.shutdown().await;
}

/// Schedules: a batch has keys of many namespaces; judged once, it would be open for all. And a SET
/// that raises nothing is a read for the service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_of_a_pipeline_is_judged_by_its_namespace() {
    let redis = RedisPrincipals::start().await;
    let lines = [
        "incr @orders/1",
        "incr @other/1",
        "incr @missing/1",
        "incr @other/text",
        "incr @other/99999999999",
        "incr alice",
        "incr @default/1",
        "incr @orders/1",
        "mget @orders/1 @other/1",
        "set @orders/3 0",
        "set @orders/3 0 nx",
        "setnx @orders/3 0",
        "set @other/3 0",
        "setnx @missing/3 0",
    ];
    let mut taken = 0;
    for (principal, right) in RIGHTS.iter().enumerate() {
        let mut caller = redis.certified("client", &format!("p{principal}")).await;
        let mut expected = None;
        for is_transaction in [false, true] {
            let pipeline = lines.join("\r\n");
            let mut answers = Vec::new();
            match is_transaction {
                false => {
                    caller.send(format!("{pipeline}\r\n").as_bytes()).await;
                    for _ in lines {
                        answers.push(caller.read_answer().await);
                    }
                }
                true => {
                    let pipeline = format!("multi\r\n{pipeline}\r\nexec\r\n");
                    caller.send(pipeline.as_bytes()).await;
                    for _ in 0..=lines.len() {
                        assert!(caller.read_answer().await.starts_with('+'));
                    }
                    let all = caller.read_answer().await;
                    answers.extend(all.split_inclusive("\r\n").skip(1).map(str::to_owned));
                }
            }
            for (line, answer) in lines.iter().zip(&answers) {
                let may = *right == NEXT && *line == "incr @orders/1";
                assert_eq!(
                    answer.starts_with("-NOPERM "),
                    !may,
                    "{right} {line}: {answer}"
                );
                taken += u64::from(may);
            }
            assert!(answers[1..7].iter().all(|answer| *answer == answers[1]));
            assert_eq!(answers[12], answers[13], "{right}");
            answers.retain(|answer| !answer.starts_with(':'));
            assert_eq!(expected.get_or_insert(answers.clone()), &answers, "{right}");
        }
        // A command that arrives alone goes another way.
        let single = caller.run("incr @other/1").await;
        assert_eq!(
            Some(&single),
            expected.unwrap().iter().find(|a| a.contains("next"))
        );
    }
    let (last, _) = redis.cluster.last_number("orders").await;
    assert_eq!(last, taken, "denied commands take nothing");
    assert_eq!(
        redis.cluster.last_number("other").await.1,
        CurrentKind::Never
    );
    redis.shutdown().await;
}

/// Schedules: a proxy with a certificate passes on a token that was removed. A stranger has only
/// the certificate of the CA, or no TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_connection_has_one_right_identity_or_none() {
    let redis = RedisPrincipals::start().await;
    let right = redis.token(1).to_owned();
    let wrong = Secret::generate().unwrap();
    let wrong = wrong.expose();
    // Both ways to another identity, and back.
    let mut caller = redis.certified("client", "p1").await;
    assert_eq!(caller.run("incr @orders/1").await, ":1\r\n");
    for failing in [
        format!("auth p1 {wrong}"),
        format!("hello 3 auth p2 {right}"),
    ] {
        assert_eq!(caller.run(&failing).await, WRONGPASS);
        assert_eq!(caller.run("incr @orders/1").await, NOAUTH);
        assert_eq!(caller.run("get @orders/1").await, NOAUTH);
        assert_eq!(caller.run("reset").await, "+RESET\r\n");
    }
    assert_eq!(caller.run("incr @orders/1").await, ":2\r\n");
    for (role, name, may) in [
        ("client", "p2", false),
        ("client", "unlisted", false),
        ("admin", "alice", true),
        ("alloc", "a9", true),
    ] {
        let mut caller = redis.certified(role, name).await;
        let answer = caller.run("incr @orders/2").await;
        assert_eq!(answer.starts_with(':'), may, "{role} {name}: {answer}");
        assert_eq!(
            answer.starts_with("-NOPERM "),
            !may,
            "{role} {name}: {answer}"
        );
        assert_eq!(caller.run("ping").await, "+PONG\r\n");
        // A token acts for its principal alone.
        assert_eq!(caller.run(&format!("auth p1 {right}")).await, "+OK\r\n");
        let answer = caller.run("incr @orders/1").await;
        assert!(answer.starts_with(':'), "{role} {name}: {answer}");
        for line in ["incr @other/1", "get @orders/1", "set @orders/1 5000"] {
            let answer = caller.run(line).await;
            assert!(answer.starts_with("-NOPERM "), "{role} {name}: {answer}");
        }
    }
    let mut stranger = redis.stranger().await;
    for line in ["ping", "incr @orders/1", "info", "command", "multi", "exec"] {
        assert_eq!(stranger.run(line).await, NOAUTH, "{line}");
    }
    let address = redis.endpoint.local_addr();
    let mut plaintext = RespCaller::connect(address).await;
    plaintext
        .send(format!("auth {right}\r\nincr @orders/1\r\n").as_bytes())
        .await;
    let answer = plaintext.read_to_end().await;
    assert_eq!(answer.as_bytes(), REDIS_ANSWER_WITHOUT_TLS);
    assert!(
        answer.starts_with("-ERR this port speaks TLS only; "),
        "{answer}"
    );
    assert_eq!(redis.cluster.last_number("orders").await.0, 6);
    redis.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_server_without_principals_accepts_certificates_only() {
    let secured = SecuredCluster::start().await;
    let endpoint = open_endpoint(&secured).await;
    let dir = secured.dir.path();
    for role in ["client", "admin"] {
        let network = write_certificate(&secured.ca, dir, role, "x");
        let mut caller = connect(&endpoint, &*network).await;
        let answer = wait_until("a number", TEST_TIMEOUT, async || {
            let answer = caller.run("incr alice").await;
            answer.starts_with(':').then_some(answer)
        });
        answer.await;
        assert_eq!(caller.run("auth default x").await, "+OK\r\n", "{role}");
    }
    let ca = dir.join("alloc-a1").join("ca.pem");
    let strangers = CaTransport::from_file(&ca).unwrap();
    let address = endpoint.local_addr().to_string();
    let mut stream = strangers.connect(address).await.unwrap();
    let exchange = async {
        stream.write_all(b"ping\r\n").await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.map(|_| answer)
    };
    let answer = timeout(TEST_TIMEOUT, exchange).await.unwrap();
    assert!(answer.is_err(), "{answer:?}");
    endpoint.shutdown().await;
    secured.shutdown().await;
}
