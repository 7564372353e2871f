//! `seqsvr restore`: creates the first StoreSvr of a new cluster from a backup of an old one.
//!
//! Invariant: nothing is created unless the operator gives margins for everything that the old
//! cluster can have done after the backup. Only the operator can know that; the command prints
//! what the backup has to help. Why the margins suffice: `seqsvr_core::state::restore`.

use std::time::{Duration, SystemTime};

use rand::RngExt;
use seqsvr_core::id::ClusterId;
use seqsvr_core::state::restore::{Error, Margin, Margins};
use seqsvr_proto::limits::STORE_PORT;
use seqsvr_store::backup::{self, Backup};
use seqsvr_store::{Options, restore};

use super::backup::{PACE_UNKNOWN, knows_pace, namespaces, peak};
use crate::exit::BadInput;
use crate::{cli, out};

pub(crate) async fn run(args: cli::Restore) -> anyhow::Result<()> {
    let taken = backup::read(&args.file)?;
    let (Some(max_seq), Some(start), Some(epoch)) =
        (args.lift_max_seq, args.lift_start, args.lift_epoch)
    else {
        return Err(BadInput(format!(
            "say how far the old cluster can have gone on since {} was made: --lift-max-seq, --lift-start and --lift-epoch are all needed. What it handed out after the backup is handed out again unless they cover it; one too large costs nothing but a jump.\n{}",
            args.file.display(),
            help(&taken)
        ))
        .into());
    };
    let margins = Margins {
        max_seq,
        start,
        epoch,
    };
    let cluster = ClusterId(rand::rng().random());
    let state = taken.state.restored(cluster, margins);
    let state = state.map_err(|e| BadInput(words(&e, &taken)))?;
    let place = args.place;
    let listen = cli::socket_addr(&place.listen, STORE_PORT)?;
    if place.advertise.is_none() && listen.ip().is_unspecified() {
        return Err(BadInput(format!(
            "others cannot reach {listen}: give --advertise, the address under which they reach this store"
        ))
        .into());
    }
    let address = place.advertise.unwrap_or_else(|| listen.to_string());
    let options = Options::new(place.id, listen, &place.data_dir);
    restore::prepare(&state, &options.raft(address.clone())).await?;
    let (id, dir) = (place.id, place.data_dir.display());
    out::line(format_args!("cluster   {cluster}"))?;
    out::line(format_args!("from      {}", taken.about.cluster))?;
    out::line(format_args!("store     {id} at {address} in {dir}"))?;
    out::line("start it with")?;
    let advertise = match address == listen.to_string() {
        true => String::new(),
        false => format!(" --advertise {address}"),
    };
    out::line(format_args!(
        "  seqsvr store --id {id} --listen {listen}{advertise} --data-dir {dir}"
    ))?;
    out::line("and add others, on empty directories, with")?;
    out::line("  seqsvr member add ID=ADDR --server ADDR")?;
    Ok(())
}

/// Describes why the margins are rejected, with the flags of the command line.
fn words(error: &Error, taken: &Backup) -> String {
    match error {
        Error::TooSmall {
            margin,
            given,
            least,
        } => format!(
            "--lift-{margin} {given} is too little: the backup itself proves that at least {least} is needed ({}).\n{}",
            match margin {
                Margin::MaxSeq => "an owner had a window of that size open",
                Margin::Start => "that is one step, which a section gets when it is first used",
                Margin::Epoch => "every slot became free when the old cluster ended",
            },
            help(taken)
        ),
        other => format!("no cluster can be made of this backup: {other}"),
    }
}

/// Returns the facts of the backup that help to choose margins.
#[expect(
    clippy::disallowed_methods,
    reason = "shows a person the age of the backup; no decision depends on it"
)]
fn help(taken: &Backup) -> String {
    let seen = &taken.about.seen;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ago = now.map_or(0, |d| d.as_secs()).saturating_sub(seen.taken_at);
    let least = taken.state.least_margins();
    let peaks = taken.state.namespaces().map(|n| peak(taken, n.id));
    let highest = peaks.flatten().max();
    let mut lines = vec![
        format!(
            "The backup was made {} ago by the clock of this machine, at log index {}, of cluster {}. The store that made it had watched for {}.",
            span(ago),
            taken.about.index,
            taken.about.cluster,
            span(seen.watched)
        ),
        String::from("What that store saw:"),
    ];
    lines.extend(
        namespaces(taken)
            .into_iter()
            .map(|line| format!("  {line}")),
    );
    lines.extend(highest.map(|highest| format!(
        "If every minute since was like the busiest one it saw, {} numbers were added, if all of them went to one section. A minute before it watched, or after the backup, may have been busier.",
        u128::from(highest) * u128::from(ago.div_ceil(60).max(1))
    )));
    if !knows_pace(taken) {
        lines.push(format!(
            "For --lift-max-seq and --lift-start: {PACE_UNKNOWN}"
        ));
    }
    lines.push(format!(
        "  --lift-max-seq N  numbers added to any one section since: at least {}",
        least.max_seq
    ));
    lines.push(format!(
        "  --lift-start N    numbers added to any one section first used since: at least {}",
        least.start
    ));
    lines.push(format!(
        "  --lift-epoch N    changes of owner of any one slot since (each death, move and restart is one or two): at least {}",
        least.epoch
    ));
    lines.join("\n")
}

fn span(seconds: u64) -> String {
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
