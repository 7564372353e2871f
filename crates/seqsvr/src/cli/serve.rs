//! The command line of what serves: `dev`, `store`, `init`, `alloc`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seqsvr_client::server_address;
use seqsvr_gateway::{
    HTTP_CONNECTIONS_DEFAULT, HTTP_PORT, REDIS_CONNECTIONS_DEFAULT, REDIS_PORT, STORE_HTTP_PORT,
};
use seqsvr_proto::limits::{
    ALLOC_PORT, CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_MAX, STORE_PORT, STREAMS_DEFAULT,
    WAITING_DEFAULT,
};

use super::duration;
use super::parse::{advertise, listen, some_time};

const MESSAGE_MAX_KIB: u64 = MESSAGE_MAX as u64 >> 10;

#[derive(Args)]
pub(crate) struct Dev {
    /// Where everything is kept.
    #[arg(long, env = "SEQSVR_DATA_DIR", default_value = "./seqsvr-data")]
    pub(crate) data_dir: PathBuf,
    /// Accept a data directory that was copied or moved, once. No process may use the original.
    #[arg(long)]
    pub(crate) moved_data_dir: bool,
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
    /// Port of the first AllocSvr for Redis clients; the others take the following ones. 0: none. Without it
    /// 6380, or none where that is taken.
    #[arg(long)]
    pub(crate) redis_port: Option<u16>,
    /// Port of the first AllocSvr for HTTP; the others take the following ones. 0: none. Without it 7780, or
    /// none where that is taken.
    #[arg(long)]
    pub(crate) http_port: Option<u16>,
    /// Port of the first StoreSvr for what operators ask by HTTP; the others take the following ones. 0: none.
    /// Without it 7880, or none where that is taken.
    #[arg(long)]
    pub(crate) store_http_port: Option<u16>,
    /// Lease D in milliseconds, fixed when the data directory is made.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) lease_ms: u32,
}

/// Who a StoreSvr is and where it lives.
#[derive(Args)]
pub(crate) struct Place {
    /// This store's id in the cluster, 1 or more.
    #[arg(long, env = "SEQSVR_ID", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) id: u64,
    /// Address to listen on.
    #[arg(long, env = "SEQSVR_LISTEN", default_value_t = format!("127.0.0.1:{STORE_PORT}"), value_name = "ADDR", value_parser = |text: &str| listen(text, STORE_PORT))]
    pub(crate) listen: String,
    /// Address under which others reach this store, if not the one it listens on.
    #[arg(long, env = "SEQSVR_ADVERTISE", value_name = "ADDR", value_parser = advertise)]
    pub(crate) advertise: Option<String>,
    /// This store's own directory.
    #[arg(long, env = "SEQSVR_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct Store {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Accept a data directory that was copied or moved, once. No process may use the original.
    #[arg(long)]
    pub(crate) moved_data_dir: bool,
    /// A snapshot is taken and older log freed after so many log entries.
    #[arg(long, default_value_t = 20_000, value_name = "ENTRIES", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) snapshot_every: u64,
    #[command(flatten)]
    pub(crate) connections: Connections,
    /// Address to listen on for what operators ask by HTTP: /metrics, /healthz, /readyz (port 7880 if it names
    /// none); without it, none.
    #[arg(long, env = "SEQSVR_HTTP_LISTEN", value_name = "ADDR", value_parser = |text: &str| listen(text, STORE_HTTP_PORT))]
    pub(crate) http_listen: Option<String>,
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
    #[arg(long, env = "SEQSVR_LISTEN", default_value_t = format!("127.0.0.1:{ALLOC_PORT}"), value_name = "ADDR", value_parser = |text: &str| listen(text, ALLOC_PORT))]
    pub(crate) listen: String,
    /// Address under which clients reach this AllocSvr, if not the one it listens on.
    #[arg(long, env = "SEQSVR_ADVERTISE", value_name = "ADDR", value_parser = advertise)]
    pub(crate) advertise: Option<String>,
    /// StoreSvr addresses.
    #[arg(
        long,
        env = "SEQSVR_STORES",
        required = true,
        value_delimiter = ',',
        value_name = "ADDR,…",
        value_parser = |text: &str| server_address(text, STORE_PORT)
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
    #[command(flatten)]
    pub(crate) doors: Doors,
}

/// Where an AllocSvr serves the clients of other protocols.
#[derive(Args)]
pub(crate) struct Doors {
    /// Address to listen on for Redis clients (port 6380 if it names none); without it, none.
    #[arg(long, env = "SEQSVR_REDIS_LISTEN", value_name = "ADDR", value_parser = |text: &str| listen(text, REDIS_PORT))]
    pub(crate) redis_listen: Option<String>,
    /// Password that Redis clients must give (AUTH), of the user `default`; without it, none.
    #[arg(
        long,
        env = "SEQSVR_REDIS_PASSWORD",
        hide_env_values = true,
        value_name = "TEXT",
        requires = "redis_listen"
    )]
    pub(crate) redis_password: Option<String>,
    /// Most Redis connections at a time; more are refused.
    #[arg(long, default_value_t = REDIS_CONNECTIONS_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) redis_connections_max: u64,
    /// A Redis connection is closed after so long without a command; without it, never.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub(crate) redis_idle_max: Option<Duration>,
    #[command(flatten)]
    pub(crate) http: Http,
    /// Token that Tinyid clients must give; without it, any will do.
    #[arg(
        long,
        env = "SEQSVR_TINYID_TOKEN",
        hide_env_values = true,
        value_name = "TEXT",
        requires = "http_listen"
    )]
    pub(crate) tinyid_token: Option<String>,
}

/// Where HTTP is served.
#[derive(Args)]
pub(crate) struct Http {
    /// Address to listen on for HTTP (port 7780 if it names none); without it, none.
    #[arg(long, env = "SEQSVR_HTTP_LISTEN", value_name = "ADDR", value_parser = |text: &str| listen(text, HTTP_PORT))]
    pub(crate) http_listen: Option<String>,
    /// Most HTTP connections at a time; more are refused.
    #[arg(long, default_value_t = HTTP_CONNECTIONS_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) http_connections_max: u64,
    /// An HTTP connection is closed after so long without a request.
    #[arg(long, default_value = "75s", value_parser = some_time, value_name = "TIME")]
    pub(crate) http_idle_max: Duration,
}
