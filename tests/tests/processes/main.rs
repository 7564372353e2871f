//! What must hold of the release binary run as real processes: it is started, loaded, broken and
//! started again, and the exact check of every call made must pass. The scenarios themselves are in
//! the library (`seqsvr_tests::scenario`).
//!
//! Those that load the machine run one after the other, whatever the number of test threads, and
//! beside them, one after the other as well, those that mostly wait.

#![expect(
    clippy::expect_used,
    reason = "a helper of tests: clippy allows it only inside test functions"
)]

use seqsvr_tests::scenario::ALL;
use tokio::sync::Mutex;

/// Held by the scenario that runs, of those that load the machine and of those that do not.
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

/// Runs a scenario in its turn, and prints its row.
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
