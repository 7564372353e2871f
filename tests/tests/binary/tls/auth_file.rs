//! `seqsvr alloc --auth-file`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use seqsvr_net::tls::CaTransport;
use seqsvr_net::{TcpTransport, Transport};
use seqsvr_test_support::process::{ServerProcess, free_ports};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{TestAuthority, text_of};
use crate::dev::{clean_command, expect_failure, run_ok};

const HOST: &[&str] = &["--host", "127.0.0.1"];

/// Sends bytes to an endpoint under TLS, without a certificate, and returns all that arrives until
/// it closes the connection.
async fn exchange_by_ca(ca: &Path, address: &str, bytes: &str) -> String {
    let network = CaTransport::from_file(ca).unwrap();
    exchange_over(&*network, address, bytes).await
}

/// Sends bytes without TLS, and returns all that arrives until the other end closes.
async fn exchange(address: &str, bytes: &str) -> String {
    exchange_over(&TcpTransport, address, bytes).await
}

async fn exchange_over(network: &dyn Transport, address: &str, bytes: &str) -> String {
    let exchanged = async {
        let mut stream = network.connect(address.to_owned()).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        String::from_utf8(received).unwrap()
    };
    timeout(TEST_TIMEOUT, exchanged).await.unwrap()
}

/// Returns the sum of the counts of wrong tokens that the log has.
fn logged_guesses(log: &str) -> u64 {
    let lines = log
        .lines()
        .filter(|line| line.contains("callers sent wrong"));
    let counts = lines.map(|line| {
        let (_, count) = line.split_once(" count=").unwrap();
        count.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    counts.sum()
}

fn start(dir: &Path, name: &str, args: &[&str]) -> ServerProcess {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ServerProcess::start(dir, name, args)
}

/// Schedules: the file is half-written, open to other users, or the server has no TLS; and an
/// operator relies on a file that the server does not use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auth_file_closes_an_alloc_server_or_it_does_not_start() {
    let pki = TestAuthority::create();
    let [store, alloc] = ["store", "alloc"].map(|role| pki.issue(role, "x1", HOST));
    let admin = pki.issue("admin", "alice", &[]);
    let [known, unlisted] = ["billing", "other"].map(|name| pki.issue("client", name, &[]));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (file, token) = (path("auth.toml"), path("billing.token"));
    let add = ["auth", "add", &file, "--principal", "billing"];
    run_ok(&[&add[..], &["--next", "default", "--out", &token]].concat());
    let first = free_ports(5);
    let [store_at, alloc_at, redis_at, http_at, metrics_at] =
        [0, 1, 2, 3, 4].map(|offset| format!("127.0.0.1:{}", first + offset));
    let base = ["alloc", "--name=x1", "--stores", &store_at];
    let listen = [
        "--listen",
        &alloc_at,
        "--redis-listen",
        &redis_at,
        "--http-listen",
        &http_at,
        "--metrics-listen",
        &metrics_at,
    ];
    let secure = ["--tls-dir", text_of(&alloc)];

    // 1. It does not start with a file that does not close it, or that it cannot use.
    let starts =
        |args: &[&str]| expect_failure(clean_command(&[&base[..], &listen, args].concat()), 2);
    let error = starts(&["--auth-file", &file]);
    assert!(error.contains("--auth-file without --tls-dir"), "{error}");
    let error = starts(&["--auth-file", &file, "--insecure"]);
    assert!(error.contains("--auth-file without --tls-dir"), "{error}");
    let with_file = |file: &str| starts(&[&secure[..], &["--auth-file", file]].concat());
    assert!(with_file(&path("none.toml")).contains("none.toml: cannot be read"));
    let broken = path("broken.toml");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    fs::set_permissions(&broken, Permissions::from_mode(0o600)).unwrap();
    let error = with_file(&broken);
    assert!(error.contains("broken.toml: line 3: not TOML"), "{error}");
    fs::write(&broken, &whole).unwrap();
    fs::set_permissions(&broken, Permissions::from_mode(0o644)).unwrap();
    assert!(
        with_file(&broken).contains("chmod"),
        "other users may read it"
    );

    // 2. With it, a certificate has the rights of its principal.
    let data = path("data");
    let flags = [
        "store",
        "--id=1",
        "--listen",
        &store_at,
        "--data-dir",
        &data,
    ];
    let secured = [&flags[..], &["--tls-dir", text_of(&store)]].concat();
    let mut store = start(dir.path(), "store", &secured);
    let stores = format!("1={store_at}");
    let init = ["init", "--stores", &stores, "--tls-dir", text_of(&admin)];
    wait_until("the cluster", TEST_TIMEOUT, async || {
        let output = clean_command(&init).output().ok()?;
        output.status.success().then_some(())
    })
    .await;
    let flags = [&base[..], &listen, &secure, &["--auth-file", &file]].concat();
    let mut alloc = start(dir.path(), "alloc", &flags);
    let next = |tls_dir: &Path| {
        let flags = [
            "next",
            "42",
            "--server",
            &alloc_at,
            "--tls-dir",
            text_of(tls_dir),
        ];
        clean_command(&flags)
    };
    wait_until("numbers", TEST_TIMEOUT, async || {
        let output = next(&known).output().ok()?;
        output.status.success().then_some(())
    })
    .await;
    let banner = alloc.log();
    assert!(
        banner.contains("auth.toml: principals 1, tokens 1"),
        "{banner}"
    );
    let denied = next(&unlisted).output().unwrap();
    assert!(!denied.status.success(), "{denied:?}");
    let status = ["status", "--server", &alloc_at, "--tls-dir"];
    let denied = clean_command(&[&status[..], &[text_of(&known)]].concat()).output();
    let denied = String::from_utf8(denied.unwrap().stderr).unwrap();
    assert!(denied.contains("needs the right status"), "{denied}");
    run_ok(&[&status[..], &[text_of(&admin)]].concat());

    // 3. With a token and the CA, at each endpoint, no certificate is needed.
    let secret = fs::read_to_string(&token).unwrap();
    let secret = secret.trim();
    let ca = pki.path().join("ca.pem");
    let shown = ["--ca", text_of(&ca), "--token-file", &token];
    let next = ["next", "42", "--server", &alloc_at];
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    let by_grpc = number(&run_ok(&[&next[..], &shown].concat()));
    let redis = format!("AUTH billing {secret}\r\nINCR @default/42\r\nQUIT\r\n");
    let answer = exchange_by_ca(&ca, &redis_at, &redis).await;
    assert_eq!(answer, format!("+OK\r\n:{}\r\n+OK\r\n", by_grpc + 1));
    let request = |path: &str, head: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}connection: close\r\n\r\n")
    };
    let bearer = format!("authorization: Bearer {secret}\r\n");
    let http = request("/v1/next?uid=42", &bearer);
    let answer = exchange_by_ca(&ca, &http_at, &http).await;
    assert!(
        answer.contains(&format!("\"last\":{},", by_grpc + 2)),
        "{answer}"
    );

    // 4. A stranger takes nothing, by no endpoint. A guess takes a second.
    let answer = exchange_by_ca(&ca, &redis_at, "INCR @default/42\r\nQUIT\r\n").await;
    assert!(
        answer.starts_with("-NOAUTH ") && answer.ends_with("+OK\r\n"),
        "{answer}"
    );
    let answer = exchange_by_ca(&ca, &http_at, &request("/v1/next?uid=42", "")).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let guess = format!("sq_{}", "0".repeat(64));
    let guesses = format!("AUTH {guess}\r\n").repeat(1_000);
    let began = Instant::now();
    let answer = exchange_by_ca(&ca, &redis_at, &guesses).await;
    assert_eq!(answer.matches("-WRONGPASS ").count(), 3, "{answer}");
    assert_eq!(answer.lines().count(), 3, "{answer}");
    assert!(
        began.elapsed() >= Duration::from_secs(3),
        "three guesses are slow"
    );
    let began = Instant::now();
    let wrong = format!("authorization: Bearer {guess}\r\n");
    let answer = exchange_by_ca(&ca, &http_at, &request("/v1/next?uid=42", &wrong)).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(began.elapsed() >= Duration::from_secs(1), "a guess is slow");
    let answer = exchange(&redis_at, "INCR @default/42\r\n").await;
    assert!(
        answer.starts_with("-ERR this port speaks TLS only"),
        "{answer}"
    );
    let answer = exchange(&http_at, &request("/v1/next?uid=42", "")).await;
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("TLS only"),
        "{answer}"
    );
    let answer = exchange_by_ca(&ca, &http_at, &request("/metrics", &bearer)).await;
    assert!(
        answer.starts_with("HTTP/1.1 403 "),
        "it has not the right metrics: {answer}"
    );
    let answer = exchange(&metrics_at, &request("/metrics", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "on loopback: {answer}");
    let by_grpc_now = number(&run_ok(&[&next[..], &shown].concat()));
    assert_eq!(by_grpc_now, by_grpc + 3, "what was refused took numbers");

    // 5. No log has a token. It counts the guesses.
    assert!(alloc.stop(TEST_TIMEOUT).await.success());
    let log = alloc.log();
    assert!(!log.contains(secret) && !log.contains(&guess), "{log}");
    assert_eq!(logged_guesses(&log), 4, "{log}");
    assert!(store.stop(TEST_TIMEOUT).await.success());
}
