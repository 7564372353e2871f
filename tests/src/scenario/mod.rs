//! The scenarios: what must hold of a whole cluster of the release binary, each as one function
//! that panics when it does not hold, and otherwise says what it saw ([`Outcome`]).
//!
//! They stand in the library so that the tests (`cargo test -p seqsvr-tests --test processes`) and
//! `cargo xtask accept` run the same code. [`scenarios!`](crate::scenarios) is the one list of them:
//! [`ALL`] and the tests are made from it, so none can be in one and missing in the other.
//!
//! A new scenario: a file here, its `mod`, and its line in the list. Scenarios run one at a time,
//! each as the only load of the machine.

pub mod all_killed;
pub mod dev;
pub mod five_processes;
pub mod mistaken;
mod outcome;
pub mod owner_killed;
pub mod store_killed;

use futures::future::LocalBoxFuture;
use seqsvr_client::Client;

pub use outcome::Outcome;

use crate::caller::Caller;
use crate::cluster::Cluster;
use crate::plain::Plain;

/// Calls the macro `$each` with all scenarios, each as `module::function: "about";`. The function's
/// name is the scenario's.
#[macro_export]
macro_rules! scenarios {
    ($each:ident) => {
        $each! {
            dev::dev: "`seqsvr dev` is used, killed and started again";
            five_processes::five_processes: "200,000 mixed calls without a fault; the check convicts planted ones";
            owner_killed::owner_killed: "an owner is killed: served elsewhere within W + 2 s, others do not notice";
            store_killed::store_killed: "the store leader is killed, then a follower: no call fails";
            all_killed::all_killed: "every process is killed at once and started again";
            mistaken::second_of_a_name: "a second alloc of a name gives up and disturbs nobody";
            mistaken::directory_of_another_cluster: "a store on another cluster's directory stays out";
        }
    };
}

/// One scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What `--only` calls it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Runs it; panics when what must hold does not hold. It stays on the thread that blocks on it.
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

/// Two clients, and a plain caller each that asks these nodes; and one of the clients.
fn callers(cluster: &Cluster, asked_plainly: &[String]) -> (Vec<Caller>, Client) {
    let clients = [cluster.client(), cluster.client()];
    let plain = clients
        .clone()
        .map(|c| Caller::Plain(Plain::new(asked_plainly, c)));
    let one = clients[0].clone();
    (
        clients
            .map(Caller::Client)
            .into_iter()
            .chain(plain)
            .collect(),
        one,
    )
}
