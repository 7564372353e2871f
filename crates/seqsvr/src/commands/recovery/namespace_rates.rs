//! Windows and rates of the namespaces of a backup, which help to choose the margins of a restore.

use seqsvr_core::ids::NamespaceId;
use seqsvr_core::state::restore::OpenWindows;
use seqsvr_store::backup::StateBackup;

/// Advice for the margins of a restore when the backup has no rates.
pub(super) const UNKNOWN_RATE_ADVICE: &str = "the rate is not known. Take the highest rate (numbers a second) from your own graphs, or the number of callers times the highest rate of one caller. Multiply it by the seconds from the backup until the last call, and double it.";

/// Returns a line for each namespace: its open windows and its rates.
pub(super) fn namespace_lines(backup: &StateBackup) -> Vec<String> {
    let windows = backup.state.open_windows();
    let line = |n: &seqsvr_core::namespace::Namespace| {
        let OpenWindows { open, largest } = windows.get(&n.id).copied().unwrap_or_default();
        let name = &n.spec.name;
        let rate = describe_rate(backup, n.id);
        format!("namespace {name}: {open} sections open, largest window {largest} numbers, {rate}")
    };
    backup.state.namespaces().map(line).collect()
}

/// Describes the rate of a namespace while the store measured it.
fn describe_rate(backup: &StateBackup, id: NamespaceId) -> String {
    if !has_rates(backup) {
        return String::from("the rate is not known");
    }
    let average = average_rate(backup, id);
    let peak = match peak_numbers(backup, id) {
        Some(peak) => format!("at most {peak} in a minute"),
        None => String::from("the peak is unknown"),
    };
    format!("{average:.1} numbers added a second on average, {peak}")
}

/// Returns whether the store that made the backup measured rates. A backup of a data directory
/// has none.
pub(super) fn has_rates(backup: &StateBackup) -> bool {
    backup.header.usage.watched_secs > 0
}

/// Returns the average numbers a second that were added in a namespace while the store measured.
/// It is no upper bound.
fn average_rate(backup: &StateBackup, id: NamespaceId) -> f64 {
    let usage = &backup.header.usage;
    numbers_of(&usage.added, id) as f64 / usage.watched_secs as f64
}

/// Returns the numbers that were added in a namespace in its busiest minute; None if the store
/// measured nothing, or if an older build made the backup.
pub(super) fn peak_numbers(backup: &StateBackup, id: NamespaceId) -> Option<u64> {
    let peak = &backup.header.usage.busiest_minute;
    (!peak.is_empty()).then(|| numbers_of(peak, id))
}

fn numbers_of(all: &[(NamespaceId, u64)], id: NamespaceId) -> u64 {
    let found = all.iter().find(|(namespace, _)| *namespace == id);
    found.map_or(0, |(_, n)| *n)
}

#[cfg(test)]
mod tests {
    use seqsvr_core::command::{Batch, Command};
    use seqsvr_core::ids::ClusterId;
    use seqsvr_core::state::State;
    use seqsvr_store::backup::{BackupHeader, UsageReport};

    use super::*;

    /// Returns a backup of a new cluster whose store measured for `watched` seconds.
    fn backup_with(watched: u64) -> StateBackup {
        let cluster = ClusterId(7);
        let mut state = State::default();
        let init = Command::Init {
            cluster,
            lease_ms: 3_000,
            slots: 1,
        };
        let batch = Batch {
            commands: vec![init],
        };
        state.apply(1, &batch, &mut Default::default());
        let usage = UsageReport {
            watched_secs: watched,
            added: vec![(NamespaceId(1), 50)],
            ..UsageReport::default()
        };
        StateBackup {
            header: BackupHeader {
                cluster,
                term: 1,
                index: 1,
                usage,
            },
            state,
        }
    }

    /// A rate of 0.0 would make an operator choose the smallest margin.
    #[test]
    fn backup_of_a_directory_has_no_rates() {
        let (directory, running) = (
            namespace_lines(&backup_with(0)),
            namespace_lines(&backup_with(10)),
        );
        assert!(!directory.is_empty());
        for line in directory {
            assert!(line.ends_with("the rate is not known"), "{line}");
        }
        let known = "5.0 numbers added a second on average, the peak is unknown";
        assert!(
            running.iter().any(|line| line.ends_with(known)),
            "{running:?}"
        );
    }
}
