//! TLS of a server: its certificate is read and checked before the process opens a port.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seqsvr_access::Access;
use seqsvr_core::server_address::{find_host, is_unspecified_address};
use seqsvr_gateway::{HTTP_ANSWER_WITHOUT_TLS, REDIS_ANSWER_WITHOUT_TLS};
use seqsvr_metrics::ServerSecurity;
use seqsvr_net::tls::{BadTlsDir, EXPIRY_WARNING_DAYS, Role, TlsDir, TlsTransport};
use seqsvr_net::{TcpTransport, Transport};

use tokio::time::interval;

use crate::output::exit_code::BadInput;
use crate::server::listen_rules::ListenAddress;

/// Interval of the warnings of a certificate that ends soon.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 3_600);

/// TLS of one server; without a directory, none.
#[derive(Clone)]
pub(crate) struct ServerTls(Option<Arc<TlsDir>>);

impl ServerTls {
    /// Returns that of a server without a directory.
    pub(crate) fn none() -> ServerTls {
        ServerTls(None)
    }

    /// Reads the directory of `--tls-dir`. Its certificate must be for this role, for the name, if
    /// there is one, and for the host of the address under which others reach the server.
    ///
    /// # Errors
    /// The directory cannot be used, or `--insecure` is set as well.
    pub(crate) fn read(
        dir: Option<&Path>,
        is_insecure: bool,
        role: Role,
        name: Option<&str>,
        advertise: &str,
    ) -> Result<ServerTls, BadInput> {
        let Some(path) = dir else {
            return Ok(ServerTls::none());
        };
        if is_insecure {
            return Err(BadInput(
                "--tls-dir with --insecure: the one closes the server to strangers, the other opens it; use one of them".to_owned(),
            ));
        }
        let read = TlsDir::read(path);
        let dir = read.map_err(|e| BadInput(format!("--tls-dir: {e}")))?;
        let bad = |e: BadTlsDir| BadInput(format!("--tls-dir {}: {e}", path.display()));
        dir.check_role(role).map_err(bad)?;
        if let Some(name) = name.filter(|name| *name != dir.identity().name()) {
            return Err(BadInput(format!(
                "--tls-dir {}: its certificate is for {}, not for --name {name}; use the directory of `seqsvr cert {role} --name {name}`",
                path.display(),
                dir.identity()
            )));
        }
        if is_unspecified_address(advertise) {
            return Err(BadInput(format!(
                "--tls-dir with --listen {advertise}: callers compare the address that they call with the certificate, and no certificate is for all interfaces; give the address under which others reach this server with --advertise"
            )));
        }
        dir.check_host(find_host(advertise)).map_err(bad)?;
        Ok(ServerTls(Some(Arc::new(dir))))
    }

    /// Returns whether the server is under TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the network of the server.
    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        match self.tls_transport() {
            Some(tls) => Arc::new(tls),
            None => Arc::new(TcpTransport),
        }
    }

    /// Returns the network of a server whose callers `access` judges: those of a file of principals
    /// need no certificate.
    pub(crate) fn transport_of(&self, access: &Access) -> Arc<dyn Transport> {
        match self.tls_transport() {
            Some(tls) if access.has_principals() => Arc::new(tls.with_optional_certificates()),
            _ => self.transport(),
        }
    }

    /// Returns the networks of the endpoints of a server whose callers `access` judges.
    pub(crate) fn endpoint_networks(&self, access: &Access) -> EndpointNetworks {
        let tls = self.clone();
        let has_principals = access.has_principals();
        EndpointNetworks {
            tls,
            has_principals,
        }
    }

    fn tls_transport(&self) -> Option<TlsTransport> {
        let dir = self.0.clone()?;
        Some(TlsTransport::new(Arc::new(TcpTransport), dir))
    }

    /// Returns what status and metrics show.
    pub(crate) fn security(&self, insecure: bool) -> ServerSecurity {
        let end = self.0.as_ref().map(|dir| dir.certificate().not_after);
        let end = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        ServerSecurity {
            insecure,
            certificate_expiry_s: end.map_or(0, |end| end.as_secs()),
        }
    }

    /// Logs a warning now and every day while the certificate ends soon, until the runtime ends.
    pub(crate) fn start_expiry_warnings(&self) {
        let Some(dir) = self.0.clone() else {
            return;
        };
        tokio::spawn(async move {
            let mut due = interval(WARNING_INTERVAL);
            loop {
                due.tick().await;
                let days = dir_days_left(&dir);
                if days < EXPIRY_WARNING_DAYS {
                    tracing::warn!(
                        identity = %dir.identity(),
                        days_left = days,
                        "the certificate of this server ends soon; make a new one with `seqsvr cert`, replace the directory that has it, and restart this server"
                    );
                }
            }
        });
    }

    /// Returns how many days its certificate is valid from now on, if it has one.
    pub(crate) fn days_left(&self) -> Option<i64> {
        self.0.as_deref().map(dir_days_left)
    }

    /// Returns what commands to this server need, for those that a server prints.
    pub(crate) fn command_flag(&self) -> &'static str {
        command_flag(self.is_on())
    }

    /// Returns the protection of the server, for the banner; None: there is none.
    pub(crate) fn describe(&self) -> Option<String> {
        let dir = self.0.as_ref()?;
        let days = dir_days_left(dir);
        Some(format!(
            "TLS 1.3 as {}, for {days} days more",
            dir.identity()
        ))
    }
}

/// Networks of the Redis and HTTP endpoints of a server.
pub(crate) struct EndpointNetworks {
    tls: ServerTls,
    /// Callers may have tokens, and then need no certificate.
    has_principals: bool,
}

impl EndpointNetworks {
    /// Returns that of the Redis endpoint with this address.
    pub(crate) fn redis(&self, listen: ListenAddress) -> Arc<dyn Transport> {
        self.of_protocol(listen, REDIS_ANSWER_WITHOUT_TLS)
    }

    /// Returns that of an HTTP endpoint with this address.
    pub(crate) fn http(&self, listen: ListenAddress) -> Arc<dyn Transport> {
        self.of_protocol(listen, HTTP_ANSWER_WITHOUT_TLS)
    }

    fn of_protocol(
        &self,
        listen: ListenAddress,
        answer_without_tls: &'static [u8],
    ) -> Arc<dyn Transport> {
        let tls = self.tls.tls_transport();
        match tls.filter(|_| listen.is_under_tls()) {
            None => Arc::new(TcpTransport),
            Some(tls) => {
                let tls = tls.for_endpoint(answer_without_tls);
                Arc::new(match self.has_principals {
                    true => tls.with_optional_certificates(),
                    false => tls,
                })
            }
        }
    }
}

/// Returns what printed commands need.
pub(crate) fn command_flag(has_tls: bool) -> &'static str {
    match has_tls {
        true => " --tls-dir DIR",
        false => "",
    }
}

/// Returns how many days the certificate of a directory is valid from now on.
#[expect(clippy::disallowed_methods, reason = "certificates are in wall time")]
fn dir_days_left(dir: &TlsDir) -> i64 {
    dir.certificate().days_left(SystemTime::now())
}

/// Returns the address under which others reach a server: that of `--advertise`, or under TLS the
/// name of `--listen`, since its certificate is for that name. None: the address that it listens
/// on.
pub(crate) fn advertised_name(
    advertise: Option<String>,
    listen: &str,
    has_tls: bool,
) -> Option<String> {
    let is_name = |text: &str| text.parse::<std::net::SocketAddr>().is_err();
    advertise.or_else(|| (has_tls && is_name(listen)).then(|| listen.to_owned()))
}
