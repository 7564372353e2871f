//! Headings and arguments that several commands share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use seqsvr_net::tls::TlsTransport;
use seqsvr_net::{ChannelPool, TcpTransport, Transport};
use seqsvr_proto::limits::ALLOC_PORT;

use crate::output::exit_code::BadInput;

use super::value_parsers::{parse_duration, parse_server_list, split_addresses};

/// Heading of the flags that every command has. They are the last in each help.
pub(super) const GLOBAL_HEADING: &str = "Global options";
/// Heading of the flags for the connection to a server.
pub(super) const CONNECTION_HEADING: &str = "Connection options";
/// Heading of the limits of a server.
pub(super) const LIMITS_HEADING: &str = "Limits";

/// Heading of the flags of HTTP endpoints.
pub(super) const HTTP_HEADING: &str = "HTTP options";

/// Addresses and timeout of a client command.
#[derive(Args)]
#[command(next_help_heading = CONNECTION_HEADING)]
pub(crate) struct ClientArgs {
    /// AllocSvr addresses; one reachable AllocSvr is enough.
    #[arg(
        long,
        env = "SEQSVR_SERVER",
        default_value_t = format!("127.0.0.1:{ALLOC_PORT}"),
        value_name = "ADDR[,ADDR]",
        value_parser = parse_server_list
    )]
    pub(crate) server: String,
    /// Directory with the caller's certificate, if the cluster is under TLS.
    #[arg(long, env = "SEQSVR_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Time after which the command stops retrying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

impl ClientArgs {
    /// Returns channels to the servers, for calls without the SDK.
    ///
    /// # Errors
    /// The directory of --tls-dir cannot be used.
    pub(crate) fn channels(&self) -> Result<ChannelPool, BadInput> {
        let transport = read_transport(self.tls_dir.as_deref())?;
        Ok(ChannelPool::with_transport(transport))
    }

    /// Returns the addresses.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        split_addresses(&self.server).collect()
    }
}

/// Returns the network of a caller; under TLS with the certificate of a directory.
///
/// # Errors
/// The directory cannot be used.
pub(crate) fn read_transport(tls_dir: Option<&Path>) -> Result<Arc<dyn Transport>, BadInput> {
    let Some(path) = tls_dir else {
        return Ok(Arc::new(TcpTransport));
    };
    TlsTransport::from_dir(path).map_err(|e| BadInput(format!("--tls-dir: {e}")))
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
