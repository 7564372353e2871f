//! Commands at an address where another kind of server listens, at a server whose stores do not
//! answer, and at one without a lease.

use rustix::process::Signal;
use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use crate::dev::{DevServer, clean_command, expect_exit_code, expect_failure, free_port};

#[test]
fn command_at_a_store_says_that_an_alloc_is_needed() {
    let dev = DevServer::start();
    let store = format!("127.0.0.1:{}", dev.store_port);
    for command in [&["next", "42"][..], &["bench"], &["current", "42"]] {
        let args = [command, &["--server", &store]].concat();
        let errors = expect_failure(clean_command(&args), 2);
        for words in ["this is a StoreSvr", "call an AllocSvr", &*store] {
            assert!(errors.contains(words), "{args:?}: {errors}");
        }
    }
}

#[test]
fn command_at_a_port_of_another_protocol_names_the_port_of_grpc() {
    let (redis, http) = (free_port().to_string(), free_port().to_string());
    let _dev = DevServer::start_with(&["--redis-port", &redis, "--http-port", &http]);
    for port in [redis, http] {
        let server = format!("127.0.0.1:{port}");
        for command in [&["next", "42"][..], &["current", "42"], &["status"]] {
            let args = [command, &["--server", &server]].concat();
            let errors = expect_failure(clean_command(&args), 2);
            let text = format!("{server} does not speak gRPC");
            assert_eq!(errors.matches(&text).count(), 1, "{args:?}: {errors}");
            assert!(errors.contains("7700 by default"), "{args:?}: {errors}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_at_an_alloc_says_that_it_is_no_store() {
    let dev = DevServer::start();
    let alloc = format!("127.0.0.1:{}", dev.port);
    let init = clean_command(&["init", "--stores", &format!("1={alloc}")]);
    let errors = expect_failure(init, 2);
    let text = format!("{alloc} is no StoreSvr, so it cannot be store 1; correct --stores");
    assert!(errors.contains(&text), "{errors}");

    let listen = format!("127.0.0.1:{}", free_ports(1));
    let args = [
        "alloc", "--name", "a2", "--listen", &listen, "--stores", &alloc,
    ];
    let args = args.map(str::to_owned).to_vec();
    let other = ServerProcess::start(dev.dir.path(), "other", args);
    let text = format!("{alloc} -> no answer: it is no StoreSvr");
    wait_until(&text, TEST_TIMEOUT, async || {
        other.log().contains(&text).then_some(())
    })
    .await;
}

/// The server answers before the command stops to wait for it, so that the command knows the cause:
/// of a store that is silent, and of one that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_without_a_leader_names_the_stores() {
    let mut cluster = ProcessCluster::start(1, 1, 30_000).await;
    let server = cluster.alloc_addresses[0].clone();
    let cause = format!(
        "no store of {} answered as the leader; check that most of them run",
        cluster.store_addresses[0]
    );
    for is_gone in [false, true] {
        match is_gone {
            false => cluster.stores[0].signal(Signal::STOP),
            true => cluster.kill_store(0),
        }
        for command in [&["status"][..], &["member", "list"], &["namespace", "list"]] {
            let args = [command, &["--timeout", "3s", "--server", &server]].concat();
            let output = run_command(&args).await;
            let errors = expect_exit_code(&output, 3);
            let last = errors.lines().last().unwrap();
            assert!(last.contains(&cause), "gone {is_gone}: {errors}");
            assert!(!last.contains("the server runs"), "{errors}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_at_a_server_without_a_lease_ends_with_code_3() {
    let cluster = ProcessCluster::start(1, 1, 500).await;
    let server = cluster.alloc_addresses[0].clone();
    let next = ["next", "42", "--timeout", "3s", "--server", &server];
    assert!(run_command(&next).await.status.success());
    cluster.stores[0].signal(Signal::STOP);
    let errors = wait_until("the end of the lease", TEST_TIMEOUT, async || {
        let output = run_command(&next).await;
        (!output.status.success()).then(|| expect_exit_code(&output, 3))
    })
    .await;
    assert!(errors.contains("a1 holds no valid lease now"), "{errors}");
}
