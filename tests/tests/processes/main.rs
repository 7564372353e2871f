//! What must hold of the release binary run as real processes: it is started, loaded, broken and
//! started again, and the exact check of every call made must pass. The scenarios themselves are in
//! the library (`seqsvr_tests::scenario`).
//!
//! They run one after the other, whatever the number of test threads: each is the load of the
//! machine.

#![expect(
    clippy::expect_used,
    reason = "a helper of tests: clippy allows it only inside test functions"
)]

use seqsvr_tests::scenario::ALL;

/// Held by the scenario that runs.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Runs a scenario when no other runs, and prints its row.
async fn alone(name: &str) {
    let _alone = ALONE.lock().await;
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
                alone(stringify!($name)).await;
            }
        )*
    };
}
seqsvr_tests::scenarios!(test_each);
