//! The scenarios of `seqsvr_tests::scenario`, one test each: the release binary runs as real
//! processes, which are started, loaded, broken and restarted, and the exact check of every call
//! must pass.
//!
//! Scenarios that load the machine run one after the other, with any number of test threads.
//! Those that mostly wait run next to them, one after the other as well. The disk scenarios need
//! root for some cases.

#![expect(
    clippy::expect_used,
    reason = "a helper of tests: clippy allows it only inside test functions"
)]

use seqsvr_tests::scenario::ALL;
use tokio::sync::Mutex;

/// Held by the running scenario, one lock for those that load the machine and one for those that
/// mostly wait.
static LOADING_LOCK: Mutex<()> = Mutex::const_new(());
static WAITING_LOCK: Mutex<()> = Mutex::const_new(());

/// Scenarios of a few calls, or that wait for disks and starts for most of their time. None of them
/// judges a time below the lease.
const WAITING_SCENARIOS: [&str; 14] = [
    "dev",
    "disk_faults_of_one_store",
    "disk_faults_of_all_stores",
    "backup_restore",
    "invalid_members_rejected",
    "restore_with_low_margins",
    "backup_restored_twice",
    "second_alloc_of_a_name",
    "store_on_foreign_directory",
    "address_reused",
    "address_reused_forwarder",
    "stores_reinitialized",
    "copied_store",
    "ids_under_faults",
];

/// Runs a scenario when its lock is free, and prints its row.
async fn run_in_turn(name: &str) {
    let turn = match WAITING_SCENARIOS.contains(&name) {
        true => &WAITING_LOCK,
        false => &LOADING_LOCK,
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
                run_in_turn(stringify!($name)).await;
            }
        )*
    };
}
seqsvr_tests::scenarios!(test_each);
