//! The command line. Flag > environment (`SEQSVR_*`) > configuration file > default.

mod backup;
mod member;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use seqsvr_proto::limits::{
    ALLOC_PORT, CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_MAX, STORE_PORT, STREAMS_DEFAULT,
    WAITING_DEFAULT,
};

use backup::{BACKUP_HELP, RESTORE_HELP};
pub(crate) use backup::{Backup, Restore};
pub(crate) use member::Member;

const MESSAGE_MAX_KIB: u64 = MESSAGE_MAX as u64 >> 10;

/// The next number of every user: unique, rising, never lost.
///
/// Start with `seqsvr dev`, then `seqsvr next 42` in another shell.
#[derive(Parser)]
#[command(name = "seqsvr", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to log to stderr, such as `info` or `warn,seqsvr_alloc=debug`.
    #[arg(long, global = true, env = "SEQSVR_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// TOML file whose keys are flags, in tables `dev`, `store`, `alloc` and `client`.
    #[arg(long, global = true, env = "SEQSVR_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Everything in one process: real disk, real Raft, real network, for trying and developing.
    Dev(Dev),
    /// Runs a StoreSvr; it waits for `seqsvr init` if it belongs to no cluster yet.
    Store(Store),
    /// Makes the cluster, once, from StoreSvrs that are running.
    Init(Init),
    /// Runs an AllocSvr.
    Alloc(Alloc),
    /// Takes the next number of a uid or key and prints it.
    Next(Next),
    /// Prints the last number given out, without taking one.
    Current(Current),
    /// Prints where a uid or key lives: section, slot, epoch and owner.
    Route(Route),
    /// Makes every later number of a uid or key greater than N.
    RaiseTo(RaiseTo),
    /// Prints the cluster's state and counters.
    Status(Status),
    /// Creates, alters and lists namespaces.
    #[command(subcommand)]
    Namespace(Namespace),
    /// Lists, adds and removes StoreSvrs, and moves their leadership, while the cluster works.
    #[command(subcommand)]
    Member(Member),
    /// Moves one slot to another AllocSvr, with no number skipped and no call failed.
    Move(Move),
    /// Relieves an AllocSvr of all its slots, so that it can be stopped.
    Drain(Drain),
    /// Writes the state of a running cluster to a file, from which `restore` can make a new one.
    #[command(after_help = BACKUP_HELP)]
    Backup(Backup),
    /// Makes the first StoreSvr of a new cluster from a backup; it does not start it.
    #[command(after_help = RESTORE_HELP)]
    Restore(Restore),
    /// Checks a recorded history of calls for duplicates and order, exactly.
    Check(Check),
}

#[derive(Args)]
pub(crate) struct Dev {
    /// Where everything is kept.
    #[arg(long, env = "SEQSVR_DATA_DIR", default_value = "./seqsvr-data")]
    pub(crate) data_dir: PathBuf,
    /// StoreSvrs to run: 1, 3 or 5 (up to 7).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=7))]
    pub(crate) stores: u64,
    /// AllocSvrs to run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) allocs: u64,
    /// Port of the first AllocSvr; the others take the following ones.
    #[arg(long, default_value_t = ALLOC_PORT)]
    pub(crate) port: u16,
    /// Port of the first StoreSvr; the others take the following ones.
    #[arg(long, default_value_t = STORE_PORT)]
    pub(crate) store_port: u16,
    /// Lease D in milliseconds, fixed when the data directory is made.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) lease_ms: u32,
}

#[derive(Args)]
pub(crate) struct Store {
    /// This store's id in the cluster, 1 or more.
    #[arg(long, env = "SEQSVR_ID", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) id: u64,
    /// Address to listen on.
    #[arg(long, env = "SEQSVR_LISTEN", default_value_t = format!("127.0.0.1:{STORE_PORT}"), value_name = "ADDR")]
    pub(crate) listen: String,
    /// Address under which others reach this store, if not the one it listens on.
    #[arg(long, env = "SEQSVR_ADVERTISE", value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// This store's own directory.
    #[arg(long, env = "SEQSVR_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// A snapshot is taken and older log freed after so many log entries.
    #[arg(long, default_value_t = 20_000, value_name = "ENTRIES", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) snapshot_every: u64,
    #[command(flatten)]
    pub(crate) connections: Connections,
}

/// What callers may use of one server.
#[derive(Args)]
pub(crate) struct Connections {
    /// Most connections at a time; more are refused.
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) connections_max: u64,
    /// Most calls of one connection at a time; more wait at the caller's side.
    #[arg(long, default_value_t = STREAMS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub(crate) streams_max: u32,
}

#[derive(Args)]
pub(crate) struct Init {
    /// All StoreSvrs of the new cluster, as id=address.
    #[arg(long, required = true, value_delimiter = ',', value_name = "ID=ADDR,…")]
    pub(crate) stores: Vec<String>,
    /// Lease D in milliseconds; a dead AllocSvr's keys are served elsewhere after about 1.25 D.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) lease_ms: u32,
    /// Slots of the cluster.
    #[arg(long, default_value_t = 1_024)]
    pub(crate) slots: u32,
    /// How long to wait for the stores to answer.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args)]
pub(crate) struct Alloc {
    /// Name, unique among running AllocSvrs.
    #[arg(long, env = "SEQSVR_NAME")]
    pub(crate) name: String,
    /// Address to listen on.
    #[arg(long, env = "SEQSVR_LISTEN", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR")]
    pub(crate) listen: String,
    /// Address under which clients reach this AllocSvr, if not the one it listens on.
    #[arg(long, env = "SEQSVR_ADVERTISE", value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// StoreSvr addresses.
    #[arg(
        long,
        env = "SEQSVR_STORES",
        required = true,
        value_delimiter = ',',
        value_name = "ADDR,…"
    )]
    pub(crate) stores: Vec<String>,
    /// Directory that lets this AllocSvr, when it is started again on this host, take its own place at
    /// once; without it, it waits until its earlier session has run out.
    #[arg(long, env = "SEQSVR_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// How long another session under this name may go on renewing before this process gives up; at
    /// least three times the takeover wait.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) name_wait: Duration,
    /// A section unused for about this long is handed back.
    #[arg(long, default_value = "10m", value_parser = duration)]
    pub(crate) idle_after: Duration,
    /// Memory for counters in MiB; above it sections are handed back even if busy.
    #[arg(long, default_value_t = 8_192)]
    pub(crate) memory_mib: u64,
    #[command(flatten)]
    pub(crate) connections: Connections,
    /// Most items of calls that have to wait (for a section, a window, a store), at a time; more are
    /// refused, to come again.
    #[arg(long, default_value_t = WAITING_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(crate) waiting_max: u64,
    /// Most items of one NextMany or CurrentMany; the same on all AllocSvrs of a cluster.
    #[arg(long, default_value_t = ITEMS_MAX as u64, value_parser = clap::value_parser!(u64).range(1..=ITEMS_MAX as u64))]
    pub(crate) items_max: u64,
    /// Largest message in KiB; the same on all AllocSvrs of a cluster.
    #[arg(long, default_value_t = MESSAGE_MAX_KIB, value_parser = clap::value_parser!(u64).range(64..=MESSAGE_MAX_KIB))]
    pub(crate) message_max_kib: u64,
}

/// Whom a client command asks.
#[derive(Args)]
pub(crate) struct Server {
    /// AllocSvr addresses; one is enough.
    #[arg(long, env = "SEQSVR_SERVER", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR[,ADDR]")]
    pub(crate) server: String,
    /// How long to keep trying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Which namespace a key is of.
#[derive(Args)]
pub(crate) struct InNamespace {
    /// Namespace; without it a decimal goes to `default`, anything else to `keys`.
    #[arg(
        long,
        short = 'n',
        env = "SEQSVR_NAMESPACE",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) namespace: String,
}

#[derive(Args)]
pub(crate) struct Next {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// How many numbers, 1 to 100,000; printed one a line.
    #[arg(long, short = 'c', default_value_t = 1)]
    pub(crate) count: u32,
    /// Last number seen: the answer is greater, or an error.
    #[arg(long)]
    pub(crate) floor: Option<u64>,
    /// Have the store confirm the answer: right whatever clocks do, at the price of a round trip.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Current {
    /// Uids (decimals) or keys.
    #[arg(value_name = "UID|KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Have the store confirm the answers.
    #[arg(long)]
    pub(crate) strict: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Route {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct RaiseTo {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// Every later number will be greater than this one.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) value: u64,
    /// Skip the namespace's bound on jumps.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Status {
    /// As JSON, with all counters.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Move {
    /// The slot; `seqsvr route` says which one a uid or key is in.
    pub(crate) slot: u32,
    /// Name of the AllocSvr that is to own it.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Drain {
    /// Name of the AllocSvr.
    pub(crate) name: String,
    /// Let it have slots again.
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Subcommand)]
pub(crate) enum Namespace {
    /// Creates a namespace; the same settings again change nothing.
    Create(Create),
    /// Changes step and limits of a namespace.
    Alter(Alter),
    /// Lists all namespaces.
    List(List),
}

/// What may be altered later.
#[derive(Args)]
pub(crate) struct Limits {
    /// Most numbers one raise may add; equal to --step it pins the step.
    #[arg(long)]
    pub(crate) step_max: Option<u32>,
    /// How far RaiseTo may jump in one section, in all, without force.
    #[arg(long)]
    pub(crate) raise_to_max: Option<u64>,
}

#[derive(Args)]
pub(crate) struct Create {
    /// Name of the new namespace.
    pub(crate) name: String,
    /// Takes keys instead of uids.
    #[arg(long)]
    pub(crate) keyed: bool,
    /// Uids a dense section holds.
    #[arg(long, default_value_t = 100_000, conflicts_with = "keyed")]
    pub(crate) section_size: u32,
    /// Uids are below this.
    #[arg(long, default_value_t = 1 << 32, conflicts_with = "keyed")]
    pub(crate) max_uid: u64,
    /// Sections of a keyed namespace.
    #[arg(long, default_value_t = 4_096, requires = "keyed")]
    pub(crate) sections: u32,
    /// First number of every sequence.
    #[arg(long, default_value_t = 1)]
    pub(crate) start: u64,
    /// Distance between numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) stride: u32,
    /// Only numbers n with n mod stride = offset.
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: u32,
    /// Numbers a cold section's raise adds.
    #[arg(long, default_value_t = seqsvr_core::namespace::STEP_DEFAULT)]
    pub(crate) step: u32,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Have the store confirm every answer of this namespace, as --strict of a call does for one.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Alter {
    /// Name of the namespace.
    pub(crate) name: String,
    /// Numbers a cold section's raise adds.
    #[arg(long)]
    pub(crate) step: Option<u32>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Whether the store confirms every answer of this namespace.
    #[arg(long)]
    pub(crate) strict: Option<bool>,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct List {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Check {
    /// History file, as recorded by a load test.
    pub(crate) file: PathBuf,
}

/// Reads `1500ms`, `20s`, `10m` or `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("use a number and a unit, such as 1500ms, 20s, 10m".into()),
    };
    let n: u64 = digits
        .parse()
        .map_err(|_| "use a number and a unit, such as 1500ms, 20s, 10m".to_owned())?;
    n.checked_mul(unit)
        .map(Duration::from_millis)
        .ok_or_else(|| "too long".into())
}

/// Reads `ID=ADDR` of a StoreSvr; `what` names the argument in the error.
pub(crate) fn store_at(text: &str, what: &str) -> Result<(u64, String), crate::exit::BadInput> {
    let parts = text.split_once('=').and_then(|(id, address)| {
        let id = id.trim().parse::<u64>().ok().filter(|id| *id > 0)?;
        Some((id, address.trim()))
    });
    let (id, address) = parts.ok_or_else(|| {
        crate::exit::BadInput(format!(
            "{what} {text:?}: write id=address, such as 1=127.0.0.1:{STORE_PORT}"
        ))
    })?;
    Ok((id, socket_addr(address, STORE_PORT)?.to_string()))
}

/// Resolves `host:port`, `:port`-less hosts taking `port`.
pub(crate) fn socket_addr(text: &str, port: u16) -> Result<SocketAddr, crate::exit::BadInput> {
    let bad = |why: String| {
        crate::exit::BadInput(format!(
            "address {text:?}: {why}; use host:port, such as 127.0.0.1:{port}"
        ))
    };
    let full = if text
        .rsplit_once(':')
        .is_some_and(|(_, p)| p.parse::<u16>().is_ok())
    {
        text.to_owned()
    } else {
        format!("{text}:{port}")
    };
    let mut found = full.to_socket_addrs().map_err(|e| bad(e.to_string()))?;
    found.next().ok_or_else(|| bad("no such host".into()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for bad in [
            "",
            "5",
            "s",
            "-1s",
            "1 s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(socket_addr("127.0.0.1:9", 7).unwrap().port(), 9);
        assert_eq!(socket_addr("127.0.0.1", 7).unwrap().port(), 7);
        assert!(socket_addr("127.0.0.1:99999", 7).is_err());
    }
}
