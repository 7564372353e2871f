//! Headings and arguments that several commands share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use seqsvr_client::ClientOptions;
use seqsvr_net::tls::TlsTransport;
use seqsvr_net::{TcpTransport, Transport};
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
    tls_dir: Option<PathBuf>,
    /// CA of a cluster under TLS (ca.pem), for a caller without a certificate.
    ///
    /// Such a caller needs a token (--token-file). Not together with --tls-dir.
    #[arg(long, env = "SEQSVR_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the caller's token, which no other user may read.
    ///
    /// `seqsvr auth add` makes it. The token is sent under TLS (--ca or --tls-dir), or to this
    /// machine. Beside a certificate, the token decides what the caller may do.
    #[arg(long, env = "SEQSVR_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Time after which the command stops retrying.
    #[arg(long, env = "SEQSVR_TIMEOUT", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

impl ClientArgs {
    /// Returns the options of a client of the servers.
    pub(crate) fn options(&self) -> ClientOptions {
        let mut options = ClientOptions::new(self.addresses()).with_deadline(self.timeout);
        if let Some(dir) = &self.tls_dir {
            options = options.with_tls_dir(dir);
        }
        if let Some(file) = &self.ca {
            options = options.with_ca(file);
        }
        if let Some(file) = &self.token_file {
            options = options.with_token_file(file);
        }
        options
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
