//! `seqsvr restore`: creates the first StoreSvr of a new cluster from a backup of an old one.
//!
//! Invariant: nothing is created unless the operator gives margins for everything that the old
//! cluster can have done after the backup. Only the operator can know that; the command prints
//! the facts of the backup that help. Why the margins suffice: `seqsvr_core::state::restore`.

use std::time::{Duration, SystemTime};

use rand::RngExt;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_core::server_address::is_unspecified_address;
use seqsvr_core::state::restore::{RestoreError, RestoreMargin, RestoreMargins};
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::backup::{self, StateBackup};
use seqsvr_store::{Options, restore};

use super::family_line;
use super::namespace_rates::{UNKNOWN_RATE_ADVICE, has_rates, namespace_lines, peak_numbers};
use crate::cli;
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::output::stdout;
use crate::server::private_dir;

pub(crate) async fn run(args: cli::RestoreArgs) -> anyhow::Result<()> {
    let backup = match backup::read_backup_file(&args.file) {
        Err(backup::Error::Io { file, reason }) => {
            let name = file.display().to_string();
            return Err(unreadable_input(
                &name,
                &reason,
                "name a file that `seqsvr backup` made",
            ));
        }
        read => read?,
    };
    let (Some(max_seq), Some(start), Some(epoch)) =
        (args.max_seq_margin, args.start_margin, args.epoch_margin)
    else {
        let flags = match backup.state.families().next() {
            Some(_) => "--max-seq-margin, --start-margin, --epoch-margin and --ids-from",
            None => "--max-seq-margin, --start-margin and --epoch-margin",
        };
        return Err(BadInput(format!(
            "margins are missing; set {flags} so that they cover all that the old cluster can have done since {} was made. Numbers issued after the backup are issued again unless the margins cover them; a margin that is too large only makes every sequence skip ahead.\n{}",
            args.file.display(),
            margin_advice(&backup)
        ))
        .into());
    };
    let margins = RestoreMargins {
        max_seq,
        start,
        epoch,
        ids_from_ms: args.ids_from,
    };
    let cluster = ClusterId(rand::rng().random());
    let state = backup.state.restored(cluster, margins);
    let state = state.map_err(|e| BadInput(describe_rejection(&e, &backup)))?;
    let identity = args.identity;
    let listen = cli::resolve_address(&identity.listen, STORE_PORT)?;
    if identity.advertise.is_none() && is_unspecified_address(&listen.to_string()) {
        return Err(BadInput(format!(
            "other servers cannot reach {listen}; set --advertise to the address under which they reach this store"
        ))
        .into());
    }
    private_dir::close_dir("--data-dir", &identity.data_dir)?;
    let address = identity.advertise.unwrap_or_else(|| listen.to_string());
    let options = Options::new(identity.id, listen, &identity.data_dir);
    restore::prepare_data_dir(&state, &options.raft_options(address.clone())).await?;
    let (id, dir) = (identity.id, identity.data_dir.display());
    stdout::print_line(format_args!("cluster   {cluster}"))?;
    stdout::print_line(format_args!("from      {}", backup.header.cluster))?;
    stdout::print_line(format_args!("store     {id} at {address} in {dir}"))?;
    stdout::print_line("")?;
    stdout::print_line(
        "Restore a backup once, on one host: each further restore is another cluster that gives the same numbers.",
    )?;
    stdout::print_line("")?;
    stdout::print_line("start it with")?;
    let advertise = match address == listen.to_string() {
        true => String::new(),
        false => format!(" --advertise {address}"),
    };
    stdout::print_line(format_args!(
        "  seqsvr store --id {id} --listen {listen}{advertise} --data-dir {dir}"
    ))?;
    stdout::print_line("and add others, on empty directories, with")?;
    stdout::print_line("  seqsvr member add ID=ADDR --server ADDR")?;
    Ok(())
}

/// Describes why the margins are rejected, with the flags of the command line.
fn describe_rejection(error: &RestoreError, backup: &StateBackup) -> String {
    match error {
        RestoreError::TooSmall {
            margin,
            given,
            least,
        } => format!(
            "--{margin}-margin {given} is too small: the backup itself proves that at least {least} is needed ({}).\n{}",
            match margin {
                RestoreMargin::MaxSeq => "an owner had a window of that size open",
                RestoreMargin::Start =>
                    "that is one step, which a section gets when it is first used",
                RestoreMargin::Epoch => "every slot became free when the old cluster ended",
            },
            margin_advice(backup)
        ),
        RestoreError::IdsFromTooEarly { .. } => {
            format!("{error}.\n{}", margin_advice(backup))
        }
        other => format!("no cluster can be created from this backup: {other}"),
    }
}

/// Returns the facts of the backup that help to choose margins.
#[expect(
    clippy::disallowed_methods,
    reason = "shows a person the age of the backup; no decision depends on it"
)]
fn margin_advice(backup: &StateBackup) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    margin_advice_at(backup, now.map_or(0, |d| d.as_secs()))
}

/// Returns [`margin_advice`] by a clock that shows `now`, in seconds since 1970.
///
/// A clock that is behind the backup gives no age and no figure. Schedule that breaks it otherwise:
/// the operator restores on a new machine whose clock is not set. The command says that the backup
/// was made 0 s ago, and that one minute's numbers suffice as margin.
fn margin_advice_at(backup: &StateBackup, now: u64) -> String {
    let usage = &backup.header.usage;
    let age_seconds = now.checked_sub(usage.taken_at);
    let age = match age_seconds {
        Some(age) => format!("{} ago", format_age(age)),
        None => String::from("in the future"),
    };
    let least = backup.state.least_margins();
    let peaks = backup
        .state
        .namespaces()
        .map(|n| peak_numbers(backup, n.id));
    let highest_peak = peaks.flatten().max();
    let mut lines = vec![
        format!(
            "The backup was made on {}, {age} by the clock of this machine, at log index {}, of cluster {}. The store that made it had measured rates for {}.",
            format_utc(usage.taken_at),
            backup.header.index,
            backup.header.cluster,
            format_age(usage.watched_secs)
        ),
        String::from("Windows and rates of that store:"),
    ];
    lines.extend(
        namespace_lines(backup)
            .into_iter()
            .chain([family_line(backup)])
            .map(|line| format!("  {line}")),
    );
    let peak_advice = |highest: u64| match age_seconds {
        Some(age) => format!(
            "If every minute since the backup was like the busiest minute that was measured, and all numbers went to one section, {} numbers were added to it. A minute before the measurement, or after the backup, may have been busier.",
            u128::from(highest) * u128::from(age.div_ceil(60).max(1))
        ),
        None => format!(
            "The clock of this machine is wrong, or that of the store was: take the time since the backup from another clock. The busiest minute that was measured added {highest} numbers: multiply them by the minutes from the backup until the last call."
        ),
    };
    lines.extend(highest_peak.map(peak_advice));
    if !has_rates(backup) {
        lines.push(format!(
            "For --max-seq-margin and --start-margin: {UNKNOWN_RATE_ADVICE}"
        ));
    }
    lines.push(format!(
        "  --max-seq-margin N  numbers added to any one section since the backup: at least {}",
        least.max_seq
    ));
    lines.push(format!(
        "  --start-margin N    numbers added to any one section first used after the backup: at least {}",
        least.start
    ));
    lines.push(format!(
        "  --epoch-margin N    changes of owner of any one slot since the backup (each death, move and restart is one or two): at least {}",
        least.epoch
    ));
    let bound = match least.ids_from_ms {
        Some(least_ms) => format!("{} or later", format_utc_ms(least_ms)),
        None => String::from("needed only if families were made after the backup"),
    };
    lines.push(format!(
        "  --ids-from TIME     a time after all ticks that holders of workers can have been granted, with all holders stopped: the present time, plus the longest window and ahead of all families, plus the time by which the clocks of the old stores may have been ahead; {bound}. No family gives an id until then",
    ));
    lines.join("\n")
}

fn format_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!(
            "{:.0} days",
            Duration::from_secs(seconds).as_secs_f64() / 86_400.0
        ),
    }
}

/// Formats a time in seconds since 1970 as date and time of day in UTC.
fn format_utc(seconds: u64) -> String {
    let text = format_utc_ms(seconds.saturating_mul(1_000));
    let (to_the_second, _) = text.split_once('.').unwrap_or_default();
    format!("{} UTC", to_the_second.replace('T', " "))
}

#[cfg(test)]
mod tests {
    use seqsvr_core::ids::NamespaceId;
    use seqsvr_store::backup::{BackupHeader, UsageReport};

    use super::*;

    const TAKEN_AT: u64 = 1_700_000_000;

    fn backup_with_peak(peak: u64) -> StateBackup {
        let mut state = seqsvr_core::state::State::default();
        let init = seqsvr_core::command::Command::Init {
            cluster: ClusterId(7),
            lease_ms: 3_000,
            slots: 1,
        };
        let commands = vec![init];
        state.apply(
            1,
            &seqsvr_core::command::Batch { commands },
            &mut Default::default(),
        );
        let usage = UsageReport {
            taken_at: TAKEN_AT,
            watched_secs: 600,
            busiest_minute: vec![(NamespaceId(1), peak)],
            ..UsageReport::default()
        };
        let header = BackupHeader {
            cluster: ClusterId(7),
            term: 1,
            index: 1,
            usage,
        };
        StateBackup { header, state }
    }

    #[test]
    fn backup_in_the_future_has_no_age_and_no_figure() {
        let backup = backup_with_peak(12_345);
        for now in [0, TAKEN_AT - 1] {
            let advice = margin_advice_at(&backup, now);
            let made =
                "made on 2023-11-14 22:13:20 UTC, in the future by the clock of this machine";
            assert!(advice.contains(made), "{advice}");
            for wrong in [" ago", "If every minute"] {
                assert!(!advice.contains(wrong), "{advice}");
            }
            assert!(
                advice.contains("busiest minute that was measured added 12345"),
                "{advice}"
            );
        }
        let advice = margin_advice_at(&backup, TAKEN_AT + 61);
        assert!(
            advice.contains("2023-11-14 22:13:20 UTC, 61 s ago"),
            "{advice}"
        );
        assert!(advice.contains("24690 numbers were added"), "{advice}");
    }

    /// Families may have been made after a backup that has none.
    #[test]
    fn backup_without_families_names_the_margin_of_ids() {
        let advice = margin_advice_at(&backup_with_peak(1), TAKEN_AT);
        for words in ["  families  0\n", "needed only if families were made after"] {
            assert!(advice.contains(words), "{advice}");
        }
    }

    #[test]
    fn time_is_formatted_as_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(format_utc(seconds), expected);
        }
        // A backup may hold any number.
        assert!(format_utc(u64::MAX).ends_with(" UTC"));
    }
}
