//! `seqsvr status`: prints the cluster as its leader sees it, and the counters of every process.

use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use seqsvr_gateway::http::{NodeStatuses, cluster_status_json};
use seqsvr_net::tls::EXPIRY_WARNING_DAYS;
use seqsvr_proto::v1::{ClusterStatusResponse, NodeStatusResponse};

use super::cli_client::CliClient;
use super::member::role_name;
use crate::cli;
use crate::output::stdout;

const DAY_SECS: u64 = 86_400;

pub(crate) async fn run(args: cli::StatusArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.client)?;
    let admin = client.sdk.admin();
    let cluster = admin.cluster_status().await?;
    let members: Vec<String> = cluster
        .stores
        .iter()
        .map(|s| s.address.clone())
        .chain(cluster.sessions.iter().map(|s| s.address.clone()))
        .collect();
    // An AllocSvr that serves nothing may have no session. It is known by its own address, because
    // the operator may reach one of the others by another name.
    let servers = args.client.addresses().into_iter().map(str::to_owned);
    let others = servers.filter(|server| !members.contains(server));
    let addresses: Vec<String> = members.iter().cloned().chain(others).collect();
    // A process that does not answer is part of the result, not a failure of the command.
    let admin_with_short_deadline = client
        .sdk
        .with_deadline(std::time::Duration::from_secs(2))
        .admin();
    let nodes = join_all(
        addresses
            .iter()
            .map(|address| admin_with_short_deadline.node_status(address)),
    )
    .await;
    let nodes: NodeStatuses = addresses
        .into_iter()
        .zip(nodes.into_iter().map(|n| n.map_err(|e| e.to_string())))
        .enumerate()
        .filter(|(n, (_, node))| {
            let is_new = |node: &NodeStatusResponse| {
                node.role == "alloc" && !members.contains(&node.address)
            };
            *n < members.len() || node.as_ref().is_ok_and(is_new)
        })
        .map(|(_, node)| node)
        .collect();
    if args.json {
        stdout::print_json(serde_json::to_string_pretty(&cluster_status_json(
            &cluster, &nodes,
        ))?)?;
    } else {
        print_status(&cluster, &nodes)?;
    }
    Ok(())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn print_status(c: &ClusterStatusResponse, nodes: &NodeStatuses) -> std::io::Result<()> {
    stdout::print_line(format_args!(
        "cluster   {}  lease {} ms  term {}  table version {}",
        to_hex(&c.cluster),
        c.lease_ms,
        c.term,
        c.table_version
    ))?;
    let moving = match c.moves_planned {
        0 => String::new(),
        n => format!(", {n} planned moves"),
    };
    stdout::print_line(format_args!(
        "slots     {} ({} free{})  sections {} open of {} known",
        c.slot_count, c.free_slots, moving, c.sections_open, c.sections_known
    ))?;
    let counter = |address: &str, name: &str| {
        let found = nodes
            .iter()
            .find(|(a, _)| a == address)
            .and_then(|(_, n)| n.as_ref().ok());
        found.and_then(|n| n.counters.get(name).copied())
    };
    for s in &c.stores {
        let role = role_name(s);
        let syncs = counter(&s.address, "raft_log_syncs")
            .map_or_else(|| "does not answer".to_owned(), |n| format!("{n} fsyncs"));
        let marks = warning_marks(|name| counter(&s.address, name));
        stdout::print_line(format_args!(
            "store     {}  {}  {role}  {syncs}{marks}",
            s.id, s.address
        ))?;
    }
    for s in &c.sessions {
        let draining = if s.draining { ", draining" } else { "" };
        let renewed = s.last_renewal_age_ms.map_or_else(
            || "not renewed in this term".to_owned(),
            |ms| format!("renewed {ms} ms ago"),
        );
        let numbers = counter(&s.address, "numbers_issued").map_or_else(
            || "does not answer".to_owned(),
            |n| {
                let get = |name| {
                    counter(&s.address, name)
                        .map_or_else(|| "unknown".to_owned(), |n| n.to_string())
                };
                format!(
                    "{n} numbers, {} raises, {} window waits",
                    get("raises"),
                    get("window_waits")
                )
            },
        );
        stdout::print_line(format_args!(
            "alloc     {}  {}  {} slots{draining}  {renewed}  {numbers}{}",
            s.name,
            s.address,
            s.slots,
            warning_marks(|name| counter(&s.address, name))
        ))?;
    }
    let has_session = |address: &str| c.sessions.iter().any(|s| s.address == address);
    for node in nodes.iter().filter_map(|(_, node)| node.as_ref().ok()) {
        if node.role == "alloc" && !has_session(&node.address) {
            stdout::print_line(format_args!(
                "alloc     {}  {}  no session{}",
                node.name,
                node.address,
                warning_marks(|name| node.counters.get(name).copied())
            ))?;
        }
    }
    Ok(())
}

/// Returns the marks behind a process: an AllocSvr that takes no slots because it cannot record its
/// cluster, and a process that runs with `--insecure`.
fn warning_marks(counter: impl Fn(&str) -> Option<u64>) -> String {
    let marks = [
        ("cluster_unrecorded", "  CANNOT WRITE ITS STATE DIRECTORY"),
        ("insecure", "  INSECURE"),
    ];
    let set = marks
        .into_iter()
        .filter(|(name, _)| counter(name) == Some(1));
    let set: String = set.map(|(_, mark)| mark).collect();
    match counter("certificate_expiry_seconds") {
        Some(at) if at > 0 => set + &certificate_mark(at),
        _ => set,
    }
}

/// Returns the mark of a process under TLS, by the end of its certificate in Unix time.
fn certificate_mark(expiry_s: u64) -> String {
    #[expect(clippy::disallowed_methods, reason = "certificates are in wall time")]
    let now = SystemTime::now();
    let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = expiry_s.saturating_sub(now_s) / DAY_SECS;
    match i64::try_from(days) {
        Ok(days) if days < EXPIRY_WARNING_DAYS => format!("  CERTIFICATE ENDS IN {days} DAYS"),
        _ => format!("  TLS, {days} days left"),
    }
}
