//! `next`, `current`, `route` and `raise-to`.

use std::io::Write;

use anyhow::bail;
use seqsvr_client::{Client, CurrentKind, Key, NextOptions};
use serde_json::json;

use super::server::Session;
use crate::{cli, log, out};

/// Returns the client, in strict mode if `strict` is set.
fn choose(session: &Session, strict: bool) -> Client {
    match strict {
        true => session.client.strict(),
        false => session.client.clone(),
    }
}

pub(crate) async fn next(args: cli::Next) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let options = NextOptions {
        namespace: args.namespace.namespace,
        count: args.count,
        floor: args.floor,
    };
    let client = choose(&session, args.strict);
    let numbers = client.next_with(Key::parse(&args.key), options).await?;
    let mut out = std::io::stdout().lock();
    for number in numbers.iter() {
        writeln!(out, "{number}")?;
    }
    Ok(())
}

pub(crate) async fn current(args: cli::Current) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let client = choose(&session, args.strict);
    let namespace = &args.namespace.namespace;
    // Without a namespace, decimals and keys belong to different ones, so each has its own call.
    let mut failed = 0;
    for text in &args.keys {
        let kind = match client.current(namespace, Key::parse(text)).await {
            Ok(current) => current,
            Err(error) if args.keys.len() == 1 => return Err(error.into()),
            Err(error) => {
                log::error(format_args!("{text}: {error}"));
                failed += 1;
                continue;
            }
        };
        let word = match kind.kind {
            CurrentKind::Exact => "exact",
            CurrentKind::Never => "never",
            CurrentKind::AtMost => "at most",
        };
        let label = if args.keys.len() == 1 {
            String::new()
        } else {
            format!("{text}\t")
        };
        match (args.json, kind.kind) {
            (true, _) => out::line(
                json!({ "key": text, "kind": word.replace(' ', "-"), "value": kind.value, "epoch": kind.epoch }),
            )?,
            (false, CurrentKind::Exact) => out::line(format_args!("{label}{}", kind.value))?,
            (false, CurrentKind::Never) => out::line(format_args!("{label}never"))?,
            (false, CurrentKind::AtMost) => {
                out::line(format_args!("{label}at most {}", kind.value))?
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} could not be answered", args.keys.len());
    }
    Ok(())
}

pub(crate) async fn route(args: cli::Route) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let (section, slot, route) = session
        .client
        .route(&args.namespace.namespace, Key::parse(&args.key))
        .await?;
    let owner = route.owner.as_ref();
    if args.json {
        let owner =
            owner.map(|o| json!({ "name": o.name, "address": o.address, "session": o.session.0 }));
        let namespace = section.namespace.0;
        out::line(
            json!({ "namespace_id": namespace, "section": section.section.0, "slot": slot.0, "epoch": route.epoch.0, "owner": owner }),
        )?;
    } else {
        let owner = owner.map_or_else(
            || "nobody at the moment".to_owned(),
            |o| format!("{} at {}", o.name, o.address),
        );
        out::line(format_args!(
            "section {section}  slot {slot}  epoch {}  owner {owner}",
            route.epoch
        ))?;
    }
    Ok(())
}

pub(crate) async fn raise_to(args: cli::RaiseTo) -> anyhow::Result<()> {
    let session = Session::open(&args.server)?;
    let raised = session
        .client
        .raise_to(
            &args.namespace.namespace,
            Key::parse(&args.key),
            args.value,
            args.force,
        )
        .await?;
    out::line(raised.value)?;
    Ok(())
}
