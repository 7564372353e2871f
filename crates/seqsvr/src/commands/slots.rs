//! `seqsvr slot move` and `seqsvr slot drain`: move slots to other AllocSvrs of a running cluster.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

use super::cli_client::CliClient;
use crate::cli;
use crate::output::exit_code::ServerUnavailable;
use crate::output::{log, stdout};

/// Interval at which `drain` polls the number of remaining slots.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn move_slot(args: cli::MoveArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let epoch = client.sdk.admin().move_slot(args.slot, &args.name).await?;
    stdout::print_line(format_args!(
        "slot {} is {}'s at epoch {epoch}",
        args.slot, args.name
    ))?;
    Ok(())
}

pub(crate) async fn drain_alloc(args: cli::DrainArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let admin = client.sdk.admin();
    let deadline = Instant::now() + args.client.timeout;
    let mut last_printed = None;
    loop {
        let slots_left = admin.drain(&args.name, args.undo).await?;
        if args.undo {
            stdout::print_line(format_args!(
                "{} takes slots again; it owns {slots_left}",
                args.name
            ))?;
            return Ok(());
        }
        if slots_left == 0 {
            stdout::print_line(format_args!(
                "{} owns no slot any more and can be stopped",
                args.name
            ))?;
            return Ok(());
        }
        if last_printed != Some(slots_left) {
            log::log_unfiltered(format_args!("draining: {slots_left} slots left"));
            last_printed = Some(slots_left);
        }
        if Instant::now() >= deadline {
            bail!(ServerUnavailable(format!(
                "{} still owns {slots_left} slots; it goes on draining: ask again, or take it back with `seqsvr slot drain {} --cancel`",
                args.name, args.name
            )));
        }
        sleep(DRAIN_POLL_INTERVAL).await;
    }
}
