//! The command line of `dev`, `store`, `init` and `alloc`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::server_address::parse_server_address;
use seqsvr_gateway::{
    HTTP_CONNECTIONS_DEFAULT, HTTP_PORT, METRICS_PORT, REDIS_CONNECTIONS_DEFAULT, REDIS_PORT,
};
use seqsvr_proto::limits::{
    ALLOC_PORT, CALLS_PER_CONNECTION_DEFAULT, CONNECTIONS_DEFAULT, ITEMS_MAX, MESSAGE_BYTES_MAX,
    QUEUED_ITEMS_DEFAULT, STORE_PORT,
};

use super::common::{HTTP_HEADING, LIMITS_HEADING};
use super::http::{HttpHostArgs, StoreHttpArgs};
use super::value_parsers::{
    FormerSecret, parse_advertise_address, parse_cluster_id, parse_duration, parse_listen_address,
    parse_nonzero_duration,
};

/// Lease D of a new cluster, in milliseconds.
pub(crate) const LEASE_MS_DEFAULT: u32 = 3_000;
const MESSAGE_MAX_KIB: u64 = MESSAGE_BYTES_MAX as u64 >> 10;

/// Heading of the flags of the Redis endpoint.
const REDIS_HEADING: &str = "Redis options";
/// Heading of the ports of `dev`.
const PORTS_HEADING: &str = "Ports";

#[derive(Args)]
pub(crate) struct DevArgs {
    /// Directory of all data.
    #[arg(long, env = "SEQSVR_DATA_DIR", default_value = "./seqsvr-data")]
    pub(crate) data_dir: PathBuf,
    /// Accept a copied or moved data directory, once.
    ///
    /// No process may use the original any more. Without this flag, a copy does not start.
    #[arg(long)]
    pub(crate) moved_data_dir: bool,
    /// Put all gRPC under TLS, with certificates in the data directory.
    ///
    /// The first start makes them in its directory `tls`, with a CA and those of an operator
    /// (`admin-dev`) and of a client (`client-dev`). Redis and HTTP have no TLS.
    #[arg(long)]
    pub(crate) secure: bool,
    /// StoreSvrs to run, 1 to 7.
    ///
    /// Use an odd number.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=7))]
    pub(crate) stores: u64,
    /// AllocSvrs to run, 1 to 64.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) allocs: u64,
    /// Port of the first AllocSvr; the others get the following ports.
    #[arg(long, help_heading = PORTS_HEADING, default_value_t = ALLOC_PORT)]
    pub(crate) port: u16,
    /// Port of the first StoreSvr; the others get the following ports.
    #[arg(long, help_heading = PORTS_HEADING, default_value_t = STORE_PORT)]
    pub(crate) store_port: u16,
    /// Port of the first AllocSvr for Redis clients; 0 for none.
    ///
    /// The others get the following ports. Default: 6380, or none if that port is in use.
    #[arg(long, help_heading = PORTS_HEADING)]
    pub(crate) redis_port: Option<u16>,
    /// Port of the first AllocSvr for HTTP; 0 for none.
    ///
    /// The others get the following ports. Default: 7780, or none if that port is in use.
    #[arg(long, help_heading = PORTS_HEADING)]
    pub(crate) http_port: Option<u16>,
    /// Port of the first StoreSvr for metrics and health checks; 0 for none.
    ///
    /// The others get the following ports. Default: 7880, or none if that port is in use.
    #[arg(long, help_heading = PORTS_HEADING)]
    pub(crate) store_http_port: Option<u16>,
    /// Lease D in milliseconds, 300 to 60,000; fixed when the cluster is created.
    ///
    /// Default: 3000, or that of the cluster that the directory has.
    #[arg(long)]
    pub(crate) lease_ms: Option<u32>,
}

/// Identity, addresses and data directory of a StoreSvr.
#[derive(Args)]
pub(crate) struct StoreIdentityArgs {
    /// Id of this store in the cluster, 1 or more.
    #[arg(long, env = "SEQSVR_ID", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) id: u64,
    /// Address to listen on.
    #[arg(
        long,
        env = "SEQSVR_LISTEN",
        default_value_t = format!("127.0.0.1:{STORE_PORT}"),
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, STORE_PORT)
    )]
    pub(crate) listen: String,
    /// Address under which other servers reach this store. Default: --listen.
    #[arg(
        long,
        env = "SEQSVR_ADVERTISE",
        value_name = "ADDR",
        value_parser = parse_advertise_address
    )]
    pub(crate) advertise: Option<String>,
    /// Directory of this store only.
    #[arg(long, env = "SEQSVR_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) identity: StoreIdentityArgs,
    /// Directory with ca.pem, cert.pem and key.pem, for TLS.
    ///
    /// `seqsvr cert` makes it. With it, endpoints may have addresses that other machines reach.
    #[arg(long, env = "SEQSVR_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Serve every program that reaches the addresses. For labs only.
    ///
    /// Without this flag or --tls-dir, a server on an address that other machines reach does not
    /// start.
    #[arg(long, env = "SEQSVR_INSECURE", value_parser = BoolishValueParser::new())]
    pub(crate) insecure: bool,
    /// Accept a copied or moved data directory, once.
    ///
    /// No process may use the original any more. Without this flag, a copy does not start.
    #[arg(long)]
    pub(crate) moved_data_dir: bool,
    /// Log entries between two snapshots. A snapshot frees older log entries.
    #[arg(
        long,
        default_value_t = 20_000,
        value_name = "ENTRIES",
        value_parser = clap::value_parser!(u64).range(100..=10_000_000)
    )]
    pub(crate) snapshot_interval_entries: u64,
    /// Shortest time without a leader before an election, in milliseconds.
    ///
    /// The longest time is twice as long. A vote counts only if the voter's disk syncs it within
    /// the shorter time, so raise it where a sync takes more than 200 ms. Give all stores the same
    /// value. Keep it below an eighth of the lease (`seqsvr init --lease-ms`): otherwise AllocSvrs
    /// may lose their leases when a leader dies.
    #[arg(
        long,
        default_value_t = 200,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(200..=10_000)
    )]
    pub(crate) election_timeout_ms: u64,
    #[command(flatten)]
    pub(crate) connection_limits: ConnectionLimitArgs,
    #[command(flatten)]
    pub(crate) http: StoreHttpArgs,
}

/// Limits of the connections to one server.
#[derive(Args)]
#[command(next_help_heading = LIMITS_HEADING)]
pub(crate) struct ConnectionLimitArgs {
    /// Maximum connections. Further connections are rejected.
    #[arg(
        long,
        default_value_t = CONNECTIONS_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20)
    )]
    pub(crate) connections_max: u64,
    /// Maximum concurrent calls of a connection. Further calls wait in the client.
    #[arg(
        long,
        default_value_t = CALLS_PER_CONNECTION_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=1 << 20)
    )]
    pub(crate) streams_max: u32,
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// All StoreSvrs of the new cluster, as id=address.
    #[arg(long, required = true, value_delimiter = ',', value_name = "ID=ADDR,…")]
    pub(crate) stores: Vec<String>,
    /// Lease D in milliseconds, 300 to 60,000.
    ///
    /// Other AllocSvrs serve the keys of a dead AllocSvr after about 1.25 D.
    #[arg(long, default_value_t = LEASE_MS_DEFAULT)]
    pub(crate) lease_ms: u32,
    /// Number of slots of the cluster, 1 to 16,384.
    #[arg(long, default_value_t = 1_024)]
    pub(crate) slots: u32,
    /// Directory with the certificate of an operator, if the stores are under TLS.
    #[arg(long, env = "SEQSVR_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Maximum wait for answers of the stores.
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Args)]
pub(crate) struct AllocArgs {
    /// Name of this AllocSvr, unique among running AllocSvrs.
    #[arg(long, env = "SEQSVR_NAME")]
    pub(crate) name: String,
    /// Address to listen on.
    #[arg(
        long,
        env = "SEQSVR_LISTEN",
        default_value_t = format!("127.0.0.1:{ALLOC_PORT}"),
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, ALLOC_PORT)
    )]
    pub(crate) listen: String,
    /// Address under which clients reach this AllocSvr. Default: --listen.
    #[arg(
        long,
        env = "SEQSVR_ADVERTISE",
        value_name = "ADDR",
        value_parser = parse_advertise_address
    )]
    pub(crate) advertise: Option<String>,
    /// Directory with ca.pem, cert.pem and key.pem, for TLS.
    ///
    /// `seqsvr cert` makes it. With it, endpoints may have addresses that other machines reach.
    #[arg(long, env = "SEQSVR_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// File of principals, for callers with tokens. Needs --tls-dir.
    ///
    /// `seqsvr auth` makes it. With it, each client has the rights that the file grants it, by a
    /// token or by a certificate of its name, and needs no certificate. It is read at the start
    /// only: restart the AllocSvr after a change. Give all AllocSvrs of a cluster the same file.
    #[arg(long, env = "SEQSVR_AUTH_FILE", value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Serve every program that reaches the addresses. For labs only.
    ///
    /// Without this flag or --tls-dir, a server on an address that other machines reach does not
    /// start.
    #[arg(long, env = "SEQSVR_INSECURE", value_parser = BoolishValueParser::new())]
    pub(crate) insecure: bool,
    /// StoreSvr addresses.
    #[arg(
        long,
        env = "SEQSVR_STORES",
        required = true,
        value_delimiter = ',',
        value_name = "ADDR,…",
        value_parser = |text: &str| parse_server_address(text, STORE_PORT)
    )]
    pub(crate) stores: Vec<String>,
    /// Directory that lets a restarted AllocSvr resume its session at once.
    ///
    /// Without it, a restarted AllocSvr waits until its previous session expires. The directory
    /// records the cluster: an AllocSvr that is started on it rejects stores of another cluster.
    #[arg(long, env = "SEQSVR_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Join this cluster, once, although --state-dir records another one.
    ///
    /// The id has 32 hexadecimal digits; `seqsvr status` shows it. The earlier cluster must be gone
    /// permanently: both may give the same numbers.
    #[arg(long, value_name = "ID", value_parser = parse_cluster_id)]
    pub(crate) join_cluster: Option<ClusterId>,
    /// Maximum wait for another session with this name; then exit with an error.
    ///
    /// The process waits at least three times the takeover wait.
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    pub(crate) name_conflict_timeout: Duration,
    /// Time after which an unused section is closed.
    #[arg(
        long,
        help_heading = LIMITS_HEADING,
        default_value = "10m",
        value_parser = parse_duration
    )]
    pub(crate) section_idle_timeout: Duration,
    /// Maximum memory for counters in MiB. Above it, sections in use are closed too.
    #[arg(long, help_heading = LIMITS_HEADING, default_value_t = 8_192)]
    pub(crate) section_memory_mib: u64,
    #[command(flatten)]
    pub(crate) connection_limits: ConnectionLimitArgs,
    /// Maximum items that are queued for a section, a window or a store.
    ///
    /// Items above the limit are rejected with a retry hint.
    #[arg(
        long,
        help_heading = LIMITS_HEADING,
        default_value_t = QUEUED_ITEMS_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 24)
    )]
    pub(crate) queued_items_max: u64,
    /// Maximum items of one NextMany or CurrentMany. Larger requests are rejected.
    ///
    /// Give all AllocSvrs of a cluster the same value.
    #[arg(
        long,
        help_heading = LIMITS_HEADING,
        default_value_t = ITEMS_MAX as u64,
        value_parser = clap::value_parser!(u64).range(1..=ITEMS_MAX as u64)
    )]
    pub(crate) batch_items_max: u64,
    /// Maximum size of a message in KiB. Larger messages are rejected.
    ///
    /// Give all AllocSvrs of a cluster the same value.
    #[arg(
        long,
        help_heading = LIMITS_HEADING,
        default_value_t = MESSAGE_MAX_KIB,
        value_parser = clap::value_parser!(u64).range(64..=MESSAGE_MAX_KIB)
    )]
    pub(crate) message_max_kib: u64,
    #[command(flatten)]
    pub(crate) endpoints: EndpointArgs,
}

/// Redis and HTTP endpoints of an AllocSvr.
#[derive(Args)]
#[command(next_help_heading = REDIS_HEADING)]
pub(crate) struct EndpointArgs {
    /// Address for Redis clients; port 6380 if it names none. Default: none.
    #[arg(
        long,
        env = "SEQSVR_REDIS_LISTEN",
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, REDIS_PORT)
    )]
    pub(crate) redis_listen: Option<String>,
    /// Maximum Redis connections. Further connections are rejected.
    #[arg(
        long,
        default_value_t = REDIS_CONNECTIONS_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20)
    )]
    pub(crate) redis_connections_max: u64,
    /// Close a Redis connection after this time without a command. Default: never.
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) redis_idle_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    former_secrets: FormerSecretArgs,
}

/// Shared secrets that tokens have replaced. Each is an error from every source, so that no server
/// starts without a check that its operator relies on.
#[derive(Args)]
struct FormerSecretArgs {
    #[arg(long, hide = true, env = "SEQSVR_REDIS_PASSWORD", hide_env_values = true, value_parser = FormerSecret)]
    redis_password: Option<String>,
    #[arg(long, hide = true, value_parser = FormerSecret)]
    redis_password_file: Option<String>,
    #[arg(long, hide = true, env = "SEQSVR_TINYID_TOKEN", hide_env_values = true, value_parser = FormerSecret)]
    tinyid_token: Option<String>,
    #[arg(long, hide = true, value_parser = FormerSecret)]
    tinyid_token_file: Option<String>,
}

/// HTTP endpoints of an AllocSvr.
#[derive(Args)]
#[command(next_help_heading = HTTP_HEADING)]
pub(crate) struct HttpArgs {
    /// Address for HTTP; port 7780 if it names none. Default: none.
    #[arg(
        long,
        env = "SEQSVR_HTTP_LISTEN",
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, HTTP_PORT)
    )]
    pub(crate) http_listen: Option<String>,
    /// Address for /metrics, /healthz and /readyz alone; port 7790 if it names none.
    ///
    /// They are then not on --http-listen. Default: none.
    #[arg(
        long,
        env = "SEQSVR_METRICS_LISTEN",
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, METRICS_PORT)
    )]
    pub(crate) metrics_listen: Option<String>,
    #[command(flatten)]
    pub(crate) hosts: HttpHostArgs,
    /// Maximum HTTP connections. Further connections are rejected.
    #[arg(
        long,
        default_value_t = HTTP_CONNECTIONS_DEFAULT as u64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20)
    )]
    pub(crate) http_connections_max: u64,
    /// Close an HTTP connection after this time without a request.
    #[arg(long, default_value = "75s", value_parser = parse_nonzero_duration, value_name = "TIME")]
    pub(crate) http_idle_timeout: Duration,
}
