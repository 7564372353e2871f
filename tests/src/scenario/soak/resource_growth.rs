//! Whether the resources of a process grew between two parts of a run.

use seqsvr_test_support::process_stats::ProcessStats;

/// Allowed growth until the last part, in addition to a tenth.
const MEMORY_SLACK_BYTES: u64 = 4 << 20;
/// Log files are closed and dropped as wholes of this size.
const DISK_SLACK_BYTES: u64 = 16 << 20;
const COUNT_SLACK: u64 = 3;

/// Returns a text for each resource that grew between the first and the last part.
pub(super) fn find_growth(first: &ProcessStats, last: &ProcessStats) -> Vec<String> {
    let tenth = |n: u64| n + n / 10;
    let mut grown = Vec::new();
    let mut judge = |what: &str, first: u64, last: u64, most: u64| {
        if last > most {
            grown.push(format!(
                "{what} {first} -> {last}, at most {most} would be flat"
            ));
        }
    };
    let most = tenth(first.memory_bytes) + MEMORY_SLACK_BYTES;
    judge("memory", first.memory_bytes, last.memory_bytes, most);
    let most = tenth(first.disk) + DISK_SLACK_BYTES;
    judge("disk", first.disk, last.disk, most);
    judge(
        "threads",
        first.threads,
        last.threads,
        first.threads + COUNT_SLACK,
    );
    let most = first.descriptors + COUNT_SLACK;
    judge("descriptors", first.descriptors, last.descriptors, most);
    grown
}

/// Returns the row of a process for both parts.
pub(super) fn format_row(name: &str, first: &ProcessStats, last: &ProcessStats) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{name}: memory {:.1} -> {:.1} MiB, disk {:.1} -> {:.1} MiB, threads {} -> {}, descriptors {} -> {}",
        mib(first.memory_bytes),
        mib(last.memory_bytes),
        mib(first.disk),
        mib(last.disk),
        first.threads,
        last.threads,
        first.descriptors,
        last.descriptors
    )
}

#[test]
fn soak_growth_names_each_grown_resource() {
    let first = ProcessStats {
        memory_bytes: 100 << 20,
        threads: 10,
        descriptors: 50,
        disk: 40 << 20,
    };
    assert_eq!(find_growth(&first, &first), Vec::<String>::new());
    let within = ProcessStats {
        memory_bytes: 113 << 20,
        threads: 13,
        descriptors: 53,
        disk: 59 << 20,
    };
    assert_eq!(find_growth(&first, &within), Vec::<String>::new());
    let more = ProcessStats {
        memory_bytes: 115 << 20,
        threads: 14,
        descriptors: 54,
        disk: 61 << 20,
    };
    let named = find_growth(&first, &more);
    assert_eq!(named.len(), 4, "{named:?}");
}
