//! Scenarios: guarantees of a whole cluster of the release binary. Each is one function that panics
//! when the guarantee is broken, and otherwise returns what it measured ([`ScenarioOutcome`]).
//!
//! They are in the library so that the tests (`cargo test -p seqsvr-tests --test processes`) and
//! `cargo xtask accept` run the same code. [`scenarios!`](crate::scenarios) is the only list:
//! [`ALL`] and the tests are generated from it, so that both have the same scenarios. Only the
//! scenarios that judge measurements ([`MEASURED_SCENARIOS`]) are not tests.
//!
//! To add a scenario, add a file in this folder, its `mod`, and its line in the list. Scenarios
//! run one at a time, each as the only load of the machine.

pub mod access;
pub mod dev;
pub mod faults;
pub mod five_processes;
pub mod large_cluster;
pub mod misconfiguration;
pub mod operations;
pub mod other_cluster;
mod outcome;
pub mod overload;
pub mod soak;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::LocalBoxFuture;
use seqsvr_client::Client;
use seqsvr_test_support::callers::{EndpointCaller, GrpcCaller, TestCaller};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::test_keys::{self, TestKey};
use seqsvr_test_support::wait::wait_until;

pub use outcome::ScenarioOutcome;

use faults::{
    deposed_owner, disk_faults, fast_restart, full_outage, ids, owner_killed, paused_processes,
    store_killed,
};
use operations::{backup, membership, planned_moves, rolling_restart};
use overload::call_floods;

/// Timeout of [`wait_for_owned_keys`].
const OWNERSHIP_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls the macro `$each` with all scenarios, each as `module::function: "about";`. The name of
/// the function is the name of the scenario.
#[macro_export]
macro_rules! scenarios {
    ($each:ident) => {
        $each! {
            access::strangers_change_nothing: "strangers forge a close and fill the stores with half-sent messages: refused under TLS, no call fails";
            dev::dev: "`seqsvr dev` is used, killed and started again";
            five_processes::five_processes: "200,000 mixed calls without a fault; the check finds planted ones";
            owner_killed::owner_killed: "an owner is killed: served elsewhere within W + 2 s, calls for other keys do not fail";
            store_killed::store_killed: "the store leader is killed, then a follower: no call fails";
            full_outage::full_outage: "every process is killed at once and started again";
            planned_moves::planned_moves: "drain, SIGTERM, a new alloc, 200 moves by hand: no call fails, no window is skipped";
            fast_restart::fast_restart: "an alloc with a state directory is killed: its keys are back within 1 s of exec";
            paused_processes::owner_paused: "an owner is paused for 3 D with requests in its sockets and a caller that sends more";
            paused_processes::leader_paused: "the store leader is paused for 3 D";
            paused_processes::owner_and_leader_paused: "an owner and the store leader are paused for 3 D";
            paused_processes::majority_paused: "two of three stores are paused for 3 D";
            deposed_owner::deposed_owner: "an owner is paused, loses its slots, and continues alone: no number below the new owner's";
            rolling_restart::rolling_restart: "every process is restarted in turn, by accept to a rebuilt binary: no call fails, no window is skipped";
            rolling_restart::level_1_upgrade: "a cluster of format level 1 is upgraded under load; the older build refuses the new level";
            rolling_restart::level_2_upgrade: "a cluster of format level 2 is upgraded under load; the older build refuses the new level";
            membership::members: "stores join, leave, lead in turn and are replaced: no call fails";
            membership::invalid_members_rejected: "invalid members are rejected, with the reason";
            disk_faults::disk_faults_of_one_store: "every disk fault on one store of three: one clear line, no call fails";
            disk_faults::disk_faults_of_all_stores: "every disk fault on all three stores at once: no service, and no number repeats afterwards";
            backup::backup_restore: "backup under load, 100,000 more numbers, loss of everything, restore: no number repeats";
            backup::restore_with_low_margins: "restore with too small margins: a caller with a greater floor or epoch gets an error";
            backup::backup_restored_twice: "a backup is restored on two hosts: an alloc with both stores is rejected, also after a restart";
            overload::ten_thousand_connections: "10,000 connections to one alloc while others work; one over the limit is rejected with the reason";
            call_floods::call_floods: "floods of Routes, of status calls and of half-sent messages: no lease is lost, no store is elected";
            ids::ids_under_faults: "holders and AllocSvrs make ids, are killed and paused, the clocks of stores are an hour wrong: no id twice";
            misconfiguration::second_alloc_of_a_name: "a second alloc of a name gives up and disturbs no session";
            other_cluster::address_reused: "`dev` is started on another directory at the same ports: a bench ends, and mixes no numbers";
            other_cluster::address_reused_forwarder: "an owner's address is reused by another cluster: none of its numbers is forwarded";
            other_cluster::stores_reinitialized: "stores are wiped and initialized again: an alloc ends once its lease has expired; one stray store ends nothing";
            misconfiguration::store_on_foreign_directory: "a store on another cluster's directory stays out";
            misconfiguration::copied_store: "a store on a copy does not start, a clone ends: no call fails";
        }
    };
}

/// One scenario.
#[derive(Clone, Copy)]
pub struct ClusterScenario {
    /// Name for `--only`.
    pub name: &'static str,
    /// Summary in one line.
    pub about: &'static str,
    /// Runs the scenario. Panics when its guarantee is broken. The future stays on the thread that
    /// blocks on it.
    pub run: fn() -> LocalBoxFuture<'static, ScenarioOutcome>,
}

macro_rules! list {
    ($($module:ident::$name:ident: $about:literal;)*) => {
        /// All scenarios, in the order in which they run.
        pub const ALL: &[ClusterScenario] = &[$(ClusterScenario {
            name: stringify!($name),
            about: $about,
            run: || Box::pin($module::$name()),
        }),*];
    };
}
scenarios!(list);

/// Scenarios that judge measurements and need an otherwise idle machine. `cargo xtask accept` runs
/// them after [`ALL`], the tests do not.
pub const MEASURED_SCENARIOS: &[ClusterScenario] = &[
    ClusterScenario {
        name: "sprayers",
        about: "next to hostile clients with random uids, keys, names and stuck calls: latencies within 2 x of its own, or 1.5 x of a bare service's",
        run: || Box::pin(overload::noisy_neighbors()),
    },
    ClusterScenario {
        name: "large",
        about: "stores of 429,500 sections start in 2 s, a new alloc answers in 300 ms, all slots change hands in W + 500 ms",
        run: || Box::pin(large_cluster::large()),
    },
];

/// Creates an SDK caller, a plain caller and endpoint callers for these nodes. Returns the SDK
/// client as well.
fn new_callers(cluster: &ProcessCluster, plain_addresses: &[String]) -> (Vec<TestCaller>, Client) {
    let client = cluster.new_client();
    let plain = GrpcCaller::new(plain_addresses, client.clone());
    let [redis, http] =
        EndpointCaller::redis_and_http(cluster, plain_addresses).map(TestCaller::Endpoint);
    let callers = vec![
        TestCaller::Sdk(client.clone()),
        TestCaller::Grpc(plain),
        redis,
        http,
    ];
    (callers, client)
}

/// Creates callers that retry: no plain caller, because its call fails when the AllocSvr that it
/// calls ends. Returns one of the SDK clients as well.
fn new_retrying_callers(cluster: &ProcessCluster) -> (Vec<TestCaller>, Client) {
    let client = cluster.new_client();
    let [redis, http] =
        EndpointCaller::redis_and_http(cluster, &cluster.alloc_addresses).map(TestCaller::Endpoint);
    let other = TestCaller::Sdk(cluster.new_client());
    (
        vec![TestCaller::Sdk(client.clone()), other, redis, http],
        client,
    )
}

/// Returns the test keys of `default` that the AllocSvr of this name owns, once it owns `least` of
/// them. Slots move one after the other, and a client learns of a move from the answers to its
/// calls.
async fn wait_for_owned_keys(client: &Client, name: &str, least: usize) -> Vec<TestKey> {
    let what = format!("{name} owns {least} of the test keys");
    wait_until(&what, OWNERSHIP_TIMEOUT, async || {
        client.namespace("default").current(0).await.ok()?;
        let table = client.routes().await.ok()?;
        let namespace = table.namespace("default")?;
        let mut test_keys = test_keys::all_test_keys().swap_remove(0);
        test_keys.retain(|test_key| {
            let (_, slot) = table
                .locate(namespace, test_key.key.as_ref())
                .expect("a place");
            let owner = table.route(slot).and_then(|r| r.owner.as_ref());
            owner.is_some_and(|o| o.name == name)
        });
        (test_keys.len() >= least).then_some(test_keys)
    })
    .await
}

/// Returns the true Unix time in nanoseconds.
#[expect(
    clippy::disallowed_methods,
    reason = "ids carry the time, and are judged beside it"
)]
fn read_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a time after 1970").as_nanos() as u64
}
