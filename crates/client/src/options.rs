//! The settings of a client.

use std::path::PathBuf;
use std::time::Duration;

use seqsvr_net::tls::{BadTlsDir, CaTransport, TlsTransport};
use seqsvr_net::{ChannelPool, TokenFile};
use seqsvr_proto::limits::{CALL_TIMEOUT_DEFAULT, ITEMS_MAX};

use crate::error::Error;

/// Settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    pub(crate) servers: Vec<String>,
    pub(crate) deadline: Duration,
    pub(crate) seed: Option<u64>,
    pub(crate) batch_items_max: usize,
    tls_dir: Option<PathBuf>,
    ca: Option<PathBuf>,
    token_file: Option<TokenFile>,
}

impl ClientOptions {
    /// Returns the defaults with these AllocSvr addresses, `host:port` (port 7700 if left out). One
    /// that answers is enough to learn the others.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> ClientOptions {
        ClientOptions {
            servers: servers.into_iter().map(Into::into).collect(),
            deadline: CALL_TIMEOUT_DEFAULT,
            seed: None,
            batch_items_max: ITEMS_MAX,
            tls_dir: None,
            ca: None,
            token_file: None,
        }
    }

    /// Sets how long a call tries before it fails. Default: 5 s.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> ClientOptions {
        self.deadline = deadline;
        self
    }

    /// Sets the directory with `ca.pem`, `cert.pem` and `key.pem`, as `seqsvr cert client` makes
    /// it, for a cluster under TLS. Default: no TLS. It is read when the client is created.
    #[must_use]
    pub fn with_tls_dir(mut self, dir: impl Into<PathBuf>) -> ClientOptions {
        self.tls_dir = Some(dir.into());
        self
    }

    /// Sets the file with the CA of a cluster under TLS, such as `ca.pem`, for a client that has a
    /// token and no certificate. Default: no TLS. It is read when the client is created. Not
    /// together with [`with_tls_dir`](ClientOptions::with_tls_dir), whose directory has a `ca.pem`.
    #[must_use]
    pub fn with_ca(mut self, file: impl Into<PathBuf>) -> ClientOptions {
        self.ca = Some(file.into());
        self
    }

    /// Sets the file with the token of this client, as `seqsvr auth add --out` makes it; no other
    /// user may read it. Default: no token. It decides what the client may do, also beside a
    /// certificate.
    ///
    /// The file is read when the client is created, for each Pipe that it opens, and for each other
    /// request: to replace a token, replace the file. The token is sent under TLS, or to this
    /// machine: calls to another machine without TLS fail.
    #[must_use]
    pub fn with_token_file(mut self, file: impl Into<PathBuf>) -> ClientOptions {
        self.token_file = Some(TokenFile::new(file));
        self
    }

    /// Sets the seed of jitter and of the choice between equal servers, so that a simulation
    /// repeats. Default: random.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> ClientOptions {
        self.seed = Some(seed);
        self
    }

    /// Sets the maximum items of one frame, for a cluster whose `--batch-items-max` is lower than
    /// the 1,024 of a frame. The client splits a longer batch.
    #[must_use]
    pub fn with_items_max(mut self, batch_items_max: usize) -> ClientOptions {
        self.batch_items_max = batch_items_max;
        self
    }

    /// Returns channels as [`Client::new`](crate::Client::new) uses them, for calls without the
    /// client: under TLS with these files, and with the token.
    ///
    /// # Errors
    /// The directory for TLS or the file with the CA cannot be used, or both are set.
    pub fn channels(&self) -> Result<ChannelPool, Error> {
        let bad = |what: &str, e: BadTlsDir| Error::invalid(format!("{what}: {e}"));
        let channels = match (&self.tls_dir, &self.ca) {
            (None, None) => ChannelPool::new(),
            (Some(dir), None) => {
                let transport = TlsTransport::from_dir(dir);
                let transport = transport.map_err(|e| bad("directory for TLS", e))?;
                ChannelPool::with_transport(transport)
            }
            (None, Some(file)) => {
                let transport = CaTransport::from_file(file);
                let transport = transport.map_err(|e| bad("file with the CA", e))?;
                ChannelPool::with_transport(transport)
            }
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "a directory for TLS (`--tls-dir`, `with_tls_dir`) and a file with the CA (`--ca`, `with_ca`): the directory has a CA; give one of them",
                ));
            }
        };
        Ok(match &self.token_file {
            Some(file) => channels.with_token_file(file.clone()),
            None => channels,
        })
    }
}
