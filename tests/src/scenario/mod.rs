//! Scenarios: guarantees of a whole cluster of the release binary. Each is one function that panics
//! when the guarantee is broken, and otherwise returns what it measured ([`Outcome`]).
//!
//! They are in the library so that the tests (`cargo test -p seqsvr-tests --test processes`) and
//! `cargo xtask accept` run the same code. [`scenarios!`](crate::scenarios) is the only list:
//! [`ALL`] and the tests are generated from it, so that both have the same scenarios. Only the
//! scenarios that judge measurements ([`FIGURES`]) are not tests.
//!
//! To add a scenario, add a file here, its `mod`, and its line in the list. Scenarios run one at a
//! time, each as the only load of the machine.

pub mod all_killed;
pub mod backup;
pub mod deposed;
pub mod dev;
pub mod disks;
pub mod fast_restart;
pub mod five_processes;
pub mod large;
pub mod members;
pub mod mistaken;
pub mod other_cluster;
mod outcome;
pub mod overload;
pub mod owner_killed;
pub mod paused;
pub mod planned;
pub mod rolling;
pub mod soak;
pub mod store_killed;

use std::time::Duration;

use futures::future::LocalBoxFuture;
use seqsvr_client::Client;

pub use outcome::Outcome;

use crate::caller::Caller;
use crate::cluster::Cluster;
use crate::door::Door;
use crate::plain::Plain;
use crate::subject::{self, Subject};
use crate::wait::until;

/// Timeout of [`owned_by`].
const OWNED_WITHIN: Duration = Duration::from_secs(60);

/// Calls the macro `$each` with all scenarios, each as `module::function: "about";`. The name of
/// the function is the name of the scenario.
#[macro_export]
macro_rules! scenarios {
    ($each:ident) => {
        $each! {
            dev::dev: "`seqsvr dev` is used, killed and started again";
            five_processes::five_processes: "200,000 mixed calls without a fault; the check convicts planted ones";
            owner_killed::owner_killed: "an owner is killed: served elsewhere within W + 2 s, others do not notice";
            store_killed::store_killed: "the store leader is killed, then a follower: no call fails";
            all_killed::all_killed: "every process is killed at once and started again";
            planned::planned_moves: "drain, SIGTERM, a new alloc, 200 moves by hand: no call fails, nothing is skipped";
            fast_restart::fast_restart: "an alloc with a state directory is killed: its keys are back within 1 s of exec";
            paused::owner_paused: "an owner is stopped for 3 D with requests in its sockets and a caller that sends more";
            paused::leader_paused: "the store leader is stopped for 3 D";
            paused::owner_and_leader_paused: "an owner and the store leader are stopped for 3 D";
            paused::majority_paused: "two of three stores are stopped for 3 D";
            deposed::deposed_owner: "an owner is stopped, loses its slots, and goes on alone: no number below the new owner's";
            rolling::rolling_restart: "every process is restarted in turn, by accept to a rebuilt binary: no call fails, nothing is skipped";
            rolling::level_1_upgrade: "a cluster of format level 1 is taken over under load; the older build refuses level 2";
            members::members: "stores join, leave, lead in turn and are replaced: no call fails";
            members::members_refused: "what must not become a member does not, and is told why";
            disks::disks_of_one: "every disk fault on one store of three: one clear line, no call fails";
            disks::disks_of_all: "the same on all three at once: refusal, and no number repeats after";
            backup::backup_restore: "backup under load, 100,000 more numbers, all is lost, restore: no number twice";
            backup::restored_too_low: "margins that were too small: who shows a greater floor or epoch is refused loudly";
            overload::connections: "10,000 connections to one alloc, others work; one too many is told so";
            mistaken::second_of_a_name: "a second alloc of a name gives up and disturbs nobody";
            other_cluster::address_reused: "`dev` is started on another directory at the same ports: a bench ends, and mixes nothing";
            other_cluster::address_reused_forwarder: "an owner's address is given to another cluster: no number of it is forwarded";
            other_cluster::stores_made_again: "stores are wiped and made again: an alloc ends once its lease is over; one stray store ends nothing";
            mistaken::directory_of_another_cluster: "a store on another cluster's directory stays out";
            mistaken::copied_store: "a store on a copy does not start, a clone ends: no call fails";
        }
    };
}

/// One scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name for `--only`.
    pub name: &'static str,
    /// Summary in one line.
    pub about: &'static str,
    /// Runs the scenario. Panics when its guarantee is broken. The future stays on the thread that
    /// blocks on it.
    pub run: fn() -> LocalBoxFuture<'static, Outcome>,
}

macro_rules! list {
    ($($module:ident::$name:ident: $about:literal;)*) => {
        /// All scenarios, in the order in which they run.
        pub const ALL: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            about: $about,
            run: || Box::pin($module::$name()),
        }),*];
    };
}
scenarios!(list);

/// Scenarios that judge measurements and need an otherwise idle machine. `cargo xtask accept` runs
/// them after [`ALL`], the tests do not.
pub const FIGURES: &[Scenario] = &[
    Scenario {
        name: "sprayers",
        about: "beside sprayers of uids, keys, names and stuck calls: latencies within 2 x of its own, or 1.5 x of a bare service's",
        run: || Box::pin(overload::sprayers()),
    },
    Scenario {
        name: "large",
        about: "stores of 429,500 sections start in 2 s, a new alloc answers in 300 ms, all slots change hands in W + 500 ms",
        run: || Box::pin(large::large()),
    },
];

/// Creates an SDK caller, a plain caller and endpoint callers for these nodes. Returns the SDK
/// client as well.
fn callers(cluster: &Cluster, asked_plainly: &[String]) -> (Vec<Caller>, Client) {
    let client = cluster.client();
    let plain = Plain::new(asked_plainly, client.clone());
    let [redis, http] = Door::both(cluster, asked_plainly).map(Caller::Door);
    let callers = vec![
        Caller::Client(client.clone()),
        Caller::Plain(plain),
        redis,
        http,
    ];
    (callers, client)
}

/// Creates callers that retry: no plain caller, because its call fails when the AllocSvr that it
/// calls ends. Returns one of the SDK clients as well.
fn callers_that_try_again(cluster: &Cluster) -> (Vec<Caller>, Client) {
    let client = cluster.client();
    let [redis, http] = Door::both(cluster, &cluster.alloc_addresses).map(Caller::Door);
    let other = Caller::Client(cluster.client());
    (
        vec![Caller::Client(client.clone()), other, redis, http],
        client,
    )
}

/// Returns the subjects of `default` that the AllocSvr of this name owns, once it owns `least` of
/// them. Slots move one after the other, and a client learns of a move from the answers to its
/// calls.
async fn owned_by(client: &Client, name: &str, least: usize) -> Vec<Subject> {
    let what = format!("{name} owns {least} of the subjects");
    until(&what, OWNED_WITHIN, async || {
        client.current("default", 0).await.ok()?;
        let table = client.routes().await.ok()?;
        let namespace = table.namespace("default")?;
        let mut subjects = subject::all().swap_remove(0);
        subjects.retain(|s| {
            let (_, slot) = table.place(namespace, s.key.as_ref()).expect("a place");
            let owner = table.route(slot).and_then(|r| r.owner.as_ref());
            owner.is_some_and(|o| o.name == name)
        });
        (subjects.len() >= least).then_some(subjects)
    })
    .await
}
