//! `slot move|drain`: moves slots to other AllocSvrs of a running cluster.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

use super::cli_client::CliClient;
use crate::cli;
use crate::output::exit_code::ServerUnavailable;
use crate::output::{log, stdout};

/// Interval at which `slot drain` polls the number of remaining slots.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(command: cli::SlotCommand) -> anyhow::Result<()> {
    match command {
        cli::SlotCommand::Move(args) => move_slot(args).await,
        cli::SlotCommand::Drain(args) => drain_alloc(args).await,
    }
}

async fn move_slot(args: cli::MoveSlotArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let epoch = client.sdk.admin().move_slot(args.slot, &args.name).await?;
    stdout::print_line(format_args!(
        "{} owns slot {} at epoch {epoch}",
        args.name, args.slot
    ))?;
    Ok(())
}

async fn drain_alloc(args: cli::DrainArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let admin = client.sdk.admin();
    let deadline = Instant::now() + args.client.timeout;
    let mut last_printed = None;
    loop {
        let slots_left = admin.drain(&args.name, args.cancel).await?;
        if args.cancel {
            stdout::print_line(format_args!(
                "{} may own slots again; it owns {slots_left}",
                args.name
            ))?;
            return Ok(());
        }
        if slots_left == 0 {
            stdout::print_line(format_args!(
                "{} owns no slots; it can be stopped",
                args.name
            ))?;
            return Ok(());
        }
        if last_printed != Some(slots_left) {
            log::log_unfiltered(format_args!("draining: {slots_left} slots remain"));
            last_printed = Some(slots_left);
        }
        if Instant::now() >= deadline {
            bail!(ServerUnavailable(format!(
                "{} still owns {slots_left} slots and continues to drain; repeat the command to wait, or cancel with `seqsvr slot drain {} --cancel`",
                args.name, args.name
            )));
        }
        sleep(DRAIN_POLL_INTERVAL).await;
    }
}
