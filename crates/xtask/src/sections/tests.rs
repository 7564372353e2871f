//! The command with few sections.

use seqsvr_test_support::process::release_binary;

use super::*;

const COUNT: u64 = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_catches_up_with_few_sections() {
    // Built here, not within the time of a step.
    tokio::task::spawn_blocking(release_binary).await.unwrap();
    let options = Options {
        count: COUNT,
        rate: 100,
    };
    let measured = measure(&options).await.unwrap();
    let table = measured.table(&options);
    println!("{table}");
    assert_eq!(measured.joins.len(), 2);
    assert!(measured.caught_up <= CAUGHT_UP_WITHIN, "{table}");
    assert!(measured.snapshot_bytes > 10 * COUNT, "{table}");
    assert!(measured.seen.memory >= measured.at_rest, "{table}");
    assert!(measured.load.answered > 0, "{table}");
    assert_eq!(measured.load.failed, 0, "{table}");
    assert!(measured.seen.entries_per_second > 0.0, "{table}");
}

#[test]
fn the_state_has_the_sections_that_are_wanted() {
    let made = build_state::make(1_050_000).unwrap();
    assert_eq!(made.sections_known(), 1_050_000);
    assert_eq!(made.sections_open(), 525_000);
}
