//! HTTP flags that StoreSvrs have, or all servers.

use clap::Args;
use seqsvr_gateway::{HttpHost, STORE_HTTP_PORT};

use super::common::HTTP_HEADING;
use super::value_parsers::parse_listen_address;

/// HTTP endpoints of a StoreSvr.
#[derive(Args)]
#[command(next_help_heading = HTTP_HEADING)]
pub(crate) struct StoreHttpArgs {
    /// Address for metrics and health checks; port 7880 if it names none.
    ///
    /// The paths are /metrics, /healthz and /readyz. Default: none.
    #[arg(
        long,
        env = "SEQSVR_HTTP_LISTEN",
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, STORE_HTTP_PORT)
    )]
    pub(crate) http_listen: Option<String>,
    /// Address for metrics and health checks; port 7880 if it names none.
    ///
    /// They are then not on --http-listen, which a StoreSvr with this flag does not need. Default:
    /// none.
    #[arg(
        long,
        env = "SEQSVR_METRICS_LISTEN",
        value_name = "ADDR",
        value_parser = |text: &str| parse_listen_address(text, STORE_HTTP_PORT)
    )]
    pub(crate) metrics_listen: Option<String>,
    #[command(flatten)]
    pub(crate) hosts: HttpHostArgs,
}

/// Hosts that the HTTP endpoints of a server answer for.
#[derive(Args)]
#[command(next_help_heading = HTTP_HEADING)]
pub(crate) struct HttpHostArgs {
    /// Further host names and IP addresses that HTTP requests may name, without a port.
    ///
    /// A server always answers for its own IP addresses, and for localhost on the same machine.
    /// Other requests get status 421, also for metrics. Name what scrapers, probes and proxies use.
    #[arg(
        long,
        env = "SEQSVR_HTTP_HOST",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub(crate) http_host: Vec<HttpHost>,
}
