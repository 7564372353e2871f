//! `seqsvr alloc --auth-file`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use seqsvr_test_support::process::{ServerProcess, free_ports};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use super::{TestAuthority, text_of};
use crate::dev::{clean_command, expect_failure, run_ok};

const HOST: &[&str] = &["--host", "127.0.0.1"];

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
    let first = free_ports(3);
    let [store_at, alloc_at, redis_at] =
        [0, 1, 2].map(|offset| format!("127.0.0.1:{}", first + offset));
    let base = ["alloc", "--name=x1", "--stores", &store_at];
    let listen = ["--listen", &alloc_at, "--redis-listen", &redis_at];
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
    let routable = ["--redis-listen", "0.0.0.0:1"];
    let flags = [&base[..], &["--listen", &alloc_at], &secure, &routable].concat();
    let flags = [&flags[..], &["--auth-file", &file]].concat();
    let error = expect_failure(clean_command(&flags), 2);
    assert!(error.contains("--redis-listen 0.0.0.0:1"), "{error}");

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

    // 3. No log has the token.
    let secret = fs::read_to_string(&token).unwrap();
    assert!(alloc.stop(TEST_TIMEOUT).await.success());
    assert!(!alloc.log().contains(secret.trim()));
    assert!(store.stop(TEST_TIMEOUT).await.success());
}
