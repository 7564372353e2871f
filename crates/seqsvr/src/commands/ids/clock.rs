//! `id clock`, `id clock accept`, `id clock back`.

use seqsvr_core::layout::format_utc_ms;
use seqsvr_proto::v1::IdsStatus;
use serde_json::{Value, json};

use crate::cli::{self, ClockChange};
use crate::commands::cli_client::CliClient;
use crate::output::{log, stdout};

/// Distance of store time in front of the clocks that is shown; smaller ones are between readings.
const AHEAD_SHOWN_MS: u64 = 2_000;

pub(crate) async fn run(args: cli::ClockArgs) -> anyhow::Result<()> {
    let list = match &args.change {
        None => &args.list,
        Some(ClockChange::Accept(list)) => list,
        Some(ClockChange::Back(back)) => &back.list,
    };
    let client = CliClient::connect(&list.client)?;
    let admin = client.sdk.admin();
    let status = match &args.change {
        None => admin.ids_status().await?,
        Some(ClockChange::Accept(_)) => admin.accept_clock().await?,
        Some(ClockChange::Back(back)) => admin.set_clock(back.to, back.force).await?,
    };
    match list.json {
        true => stdout::print_json(to_json(&status))?,
        false => print(&status)?,
    }
    if status.suspect {
        let grants = match status.grants {
            true => "grants continue by the time since then",
            false => "no worker is granted or renewed",
        };
        log::print_warning(format_args!(
            "store time does not follow the clocks of the stores, which show {}, and {grants}: correct them, or run `seqsvr id clock accept` if they are right",
            format_utc_ms(status.agreed_ms)
        ));
    }
    Ok(())
}

fn print(status: &IdsStatus) -> anyhow::Result<()> {
    let time = match status.store_time_ms {
        0 => "not set yet".to_owned(),
        ms => format_utc_ms(ms),
    };
    let resets = match status.resets {
        0 => String::new(),
        resets => format!(", set {resets} times by an operator"),
    };
    let ahead = match status.store_time_ms.saturating_sub(status.agreed_ms) {
        ms @ AHEAD_SHOWN_MS.. => format!(", {} s ahead of the clocks", ms / 1_000),
        _ => String::new(),
    };
    stdout::print_line(format_args!("store time {time}{ahead}{resets}"))?;
    let mut offsets: Vec<_> = status.clocks.iter().map(|clock| clock.offset_ms).collect();
    offsets.sort_unstable();
    // The leader's own clock may be the one that is wrong.
    let median = offsets.get(offsets.len().saturating_sub(1) / 2);
    for clock in &status.clocks {
        stdout::print_line(format_args!(
            "store {:>2}: clock {:+} ms from the median",
            clock.store,
            clock.offset_ms - median.unwrap_or(&0)
        ))?;
    }
    Ok(())
}

fn to_json(status: &IdsStatus) -> Value {
    let clocks = status.clocks.iter();
    let clocks = clocks.map(|clock| json!({ "store": clock.store, "offset_ms": clock.offset_ms }));
    json!({
        "store_time_ms": status.store_time_ms, "resets": status.resets,
        "clocks": clocks.collect::<Vec<_>>(), "suspect": status.suspect,
        "agreed_ms": status.agreed_ms, "grants": status.grants,
    })
}
