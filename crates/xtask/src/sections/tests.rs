//! The measurement with few sections.

use seqsvr_test_support::process::release_binary;

use super::*;

const COUNT: u64 = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_catches_up_with_few_sections() {
    // Built here, so that the time of a step does not include the build.
    tokio::task::spawn_blocking(release_binary).await.unwrap();
    let options = SectionsOptions {
        count: COUNT,
        rate: 100,
    };
    let measured = measure(&options).await.unwrap();
    let table = measured.format_table(options.count, options.rate);
    println!("{table}");
    assert_eq!(measured.joins.len(), 2);
    assert!(measured.is_caught_up_in_time(), "{table}");
    assert!(measured.snapshot_bytes > 10 * COUNT, "{table}");
    let peak = measured.observed.memory_bytes;
    assert!(peak >= measured.bytes_at_rest, "{table}");
    assert!(measured.load.answered > 0, "{table}");
    assert_eq!(measured.load.failed, 0, "{table}");
    assert!(measured.observed.entries_per_second > 0.0, "{table}");
}

#[test]
fn built_state_has_the_requested_sections() {
    let state = build_state(1_050_000).unwrap();
    assert_eq!(state.sections_known(), 1_050_000);
    assert_eq!(state.sections_open(), 525_000);
}
