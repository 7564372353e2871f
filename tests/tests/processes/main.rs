//! The scenarios of `seqsvr_tests::scenario`, one test each: the release binary runs as real
//! processes, which are started, loaded, broken and restarted, and the exact check of every call
//! must pass.
//!
//! Scenarios that load the machine run one after the other, with any number of test threads.
//! Light scenarios run next to them, one after the other as well. The disk scenarios need root for
//! some cases.

#![expect(
    clippy::expect_used,
    reason = "a helper of tests: clippy allows it only inside test functions"
)]

use seqsvr_tests::scenario::ALL;
use tokio::sync::Mutex;

/// Held by the running scenario, one lock for those that load the machine and one for the light
/// ones.
static LOADED: Mutex<()> = Mutex::const_new(());
static WAITING: Mutex<()> = Mutex::const_new(());

/// Scenarios of a few calls.
const LIGHT: [&str; 9] = [
    "dev",
    "members_refused",
    "restored_too_low",
    "second_of_a_name",
    "directory_of_another_cluster",
    "address_reused",
    "address_reused_forwarder",
    "stores_made_again",
    "copied_store",
];

/// Runs a scenario when its lock is free, and prints its row.
async fn in_turn(name: &str) {
    let turn = match LIGHT.contains(&name) {
        true => &WAITING,
        false => &LOADED,
    };
    let _turn = turn.lock().await;
    let scenario = ALL.iter().find(|scenario| scenario.name == name);
    let outcome = (scenario.expect("made from the same list").run)().await;
    println!("{name}: {outcome}");
}

macro_rules! test_each {
    ($($module:ident::$name:ident: $about:literal;)*) => {
        $(
            #[doc = $about]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                in_turn(stringify!($name)).await;
            }
        )*
    };
}
seqsvr_tests::scenarios!(test_each);
