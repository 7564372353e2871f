//! `next`, `current`, `route` and `raise-to`.

use std::io::Write;

use anyhow::bail;
use seqsvr_client::{Client, CurrentKind, Key, NextItem};
use serde_json::json;

use super::cli_client::CliClient;
use crate::cli;
use crate::output::{log, stdout};

/// Returns the client, in strict mode if `strict` is set.
fn choose_sdk(client: &CliClient, strict: bool) -> Client {
    match strict {
        true => client.sdk.strict(),
        false => client.sdk.clone(),
    }
}

pub(crate) async fn take_next(args: cli::NextArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let sdk = choose_sdk(&client, args.strict);
    let mut item = NextItem::new(Key::parse(&args.key)).with_count(args.count);
    if let Some(floor) = args.floor {
        item = item.with_floor(floor);
    }
    let namespace = sdk.namespace(&args.namespace.namespace);
    let numbers = namespace.next_item(&item).await?;
    let mut out = std::io::stdout().lock();
    for number in numbers.iter() {
        writeln!(out, "{number}")?;
    }
    Ok(())
}

pub(crate) async fn print_current(args: cli::CurrentArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let sdk = choose_sdk(&client, args.strict);
    let namespace = sdk.namespace(&args.namespace.namespace);
    // Without a namespace, decimals and keys belong to different ones, so each has its own call.
    let mut failed = 0;
    for text in &args.keys {
        let current = match namespace.current(Key::parse(text)).await {
            Ok(current) => current,
            Err(error) if args.keys.len() == 1 => return Err(error.into()),
            Err(error) => {
                log::print_error(format_args!("{text}: {error}"));
                failed += 1;
                continue;
            }
        };
        let (kind, value) = match current.kind {
            CurrentKind::Exact => ("exact", current.value.to_string()),
            CurrentKind::Never => ("never", "never".to_owned()),
            CurrentKind::AtMost => ("at-most", format!("at most {}", current.value)),
        };
        if args.json {
            stdout::print_json(
                json!({ "key": text, "kind": kind, "value": current.value, "epoch": current.epoch }),
            )?;
        } else if args.keys.len() == 1 {
            stdout::print_line(value)?;
        } else {
            stdout::print_row(text, value)?;
        }
    }
    if failed > 0 {
        bail!("{failed} of {} could not be answered", args.keys.len());
    }
    Ok(())
}

pub(crate) async fn print_route(args: cli::RouteArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let (section, slot, route) = client
        .sdk
        .namespace(&args.namespace.namespace)
        .route(Key::parse(&args.key))
        .await?;
    let owner = route.owner.as_ref();
    if args.json {
        let owner =
            owner.map(|o| json!({ "name": o.name, "address": o.address, "session": o.session.0 }));
        let namespace = section.namespace.0;
        stdout::print_json(
            json!({ "namespace_id": namespace, "section": section.section.0, "slot": slot.0, "epoch": route.epoch.0, "owner": owner }),
        )?;
    } else {
        let owner = owner.map_or_else(
            || "none at the moment".to_owned(),
            |o| format!("{} at {}", o.name, o.address),
        );
        stdout::print_line(format_args!(
            "section {section}  slot {slot}  epoch {}  owner {owner}",
            route.epoch
        ))?;
    }
    Ok(())
}

pub(crate) async fn raise_to(args: cli::RaiseToArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let raised = client
        .sdk
        .namespace(&args.namespace.namespace)
        .raise_to(Key::parse(&args.key), args.value)
        .force(args.force)
        .await?;
    stdout::print_line(raised.value)?;
    Ok(())
}
