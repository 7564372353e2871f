//! `seqsvr restore`: creates the first StoreSvr of a new cluster from a backup of an old one.
//!
//! Invariant: nothing is created unless the operator gives margins for everything that the old
//! cluster can have done after the backup. Only the operator can know that; the command prints
//! the facts of the backup that help. Why the margins suffice: `seqsvr_core::state::restore`.

use std::time::{Duration, SystemTime};

use rand::RngExt;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::restore::{RestoreError, RestoreMargin, RestoreMargins};
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::backup::{self, StateBackup};
use seqsvr_store::{Options, restore};

use super::namespace_rates::{UNKNOWN_RATE_ADVICE, has_rates, namespace_lines, peak_numbers};
use crate::cli;
use crate::output::exit_code::BadInput;
use crate::output::stdout;
use crate::server::private_dir;

pub(crate) async fn run(args: cli::RestoreArgs) -> anyhow::Result<()> {
    let backup = backup::read_backup_file(&args.file)?;
    let (Some(max_seq), Some(start), Some(epoch)) =
        (args.max_seq_margin, args.start_margin, args.epoch_margin)
    else {
        return Err(BadInput(format!(
            "margins are missing; set --max-seq-margin, --start-margin and --epoch-margin so that they cover all that the old cluster can have done since {} was made. Numbers issued after the backup are issued again unless the margins cover them; a margin that is too large only makes every sequence skip ahead.\n{}",
            args.file.display(),
            margin_advice(&backup)
        ))
        .into());
    };
    let margins = RestoreMargins {
        max_seq,
        start,
        epoch,
    };
    let cluster = ClusterId(rand::rng().random());
    let state = backup.state.restored(cluster, margins);
    let state = state.map_err(|e| BadInput(describe_rejection(&e, &backup)))?;
    let identity = args.identity;
    let listen = cli::resolve_address(&identity.listen, STORE_PORT)?;
    if identity.advertise.is_none() && listen.ip().is_unspecified() {
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
        other => format!("no cluster can be created from this backup: {other}"),
    }
}

/// Returns the facts of the backup that help to choose margins.
#[expect(
    clippy::disallowed_methods,
    reason = "shows a person the age of the backup; no decision depends on it"
)]
fn margin_advice(backup: &StateBackup) -> String {
    let usage = &backup.header.usage;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let age_seconds = now
        .map_or(0, |d| d.as_secs())
        .saturating_sub(usage.taken_at);
    let least = backup.state.least_margins();
    let peaks = backup
        .state
        .namespaces()
        .map(|n| peak_numbers(backup, n.id));
    let highest_peak = peaks.flatten().max();
    let mut lines = vec![
        format!(
            "The backup was made {} ago by the clock of this machine, at log index {}, of cluster {}. The store that made it had measured rates for {}.",
            format_age(age_seconds),
            backup.header.index,
            backup.header.cluster,
            format_age(usage.watched_secs)
        ),
        String::from("Windows and rates of that store:"),
    ];
    lines.extend(
        namespace_lines(backup)
            .into_iter()
            .map(|line| format!("  {line}")),
    );
    lines.extend(highest_peak.map(|highest| format!(
        "If every minute since the backup was like the busiest minute that was measured, and all numbers went to one section, {} numbers were added to it. A minute before the measurement, or after the backup, may have been busier.",
        u128::from(highest) * u128::from(age_seconds.div_ceil(60).max(1))
    )));
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
