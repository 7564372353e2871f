//! `seqsvr move` and `seqsvr drain`: move slots to other AllocSvrs of a running cluster.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

use super::server::Session;
use crate::exit::Unavailable;
use crate::{cli, log, out};

/// Interval at which `drain` polls the number of remaining slots.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn move_slot(args: cli::Move) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let epoch = session
        .client
        .admin()
        .move_slot(args.slot, &args.name)
        .await?;
    out::line(format_args!(
        "slot {} is {}'s at epoch {epoch}",
        args.slot, args.name
    ))?;
    Ok(())
}

pub(crate) async fn drain(args: cli::Drain) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let admin = session.client.admin();
    let deadline = Instant::now() + args.server.timeout;
    let mut told = None;
    loop {
        let left = admin.drain(&args.name, args.undo).await?;
        if args.undo {
            out::line(format_args!(
                "{} takes slots again; it owns {left}",
                args.name
            ))?;
            return Ok(());
        }
        if left == 0 {
            out::line(format_args!(
                "{} owns no slot any more and can be stopped",
                args.name
            ))?;
            return Ok(());
        }
        if told != Some(left) {
            log::say(format_args!("draining: {left} slots left"));
            told = Some(left);
        }
        if Instant::now() >= deadline {
            bail!(Unavailable(format!(
                "{} still owns {left} slots; it goes on draining: ask again, or take it back with `seqsvr drain {} --undo`",
                args.name, args.name
            )));
        }
        sleep(LOOK).await;
    }
}
