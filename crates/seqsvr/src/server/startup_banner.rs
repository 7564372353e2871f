//! The startup banner of a server: what runs, its addresses and data, its security, and commands
//! to paste.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::output::log;
use crate::server::tls::ServerTls;

/// Prints a message of a server to stdout, or logs it if the log is JSON.
pub(crate) fn print_or_log(text: impl std::fmt::Display) {
    if log::is_json() {
        log::log_unfiltered(text);
    } else {
        log::print_server_text(text);
    }
}

/// Returns a command that calls a Redis endpoint without TLS.
pub(crate) fn redis_command(address: SocketAddr) -> String {
    let (host, port) = (address.ip(), address.port());
    format!("redis-cli -h {host} -p {port} incr alice")
}

/// Returns a command that calls an HTTP endpoint without TLS.
pub(crate) fn curl_command(address: SocketAddr) -> String {
    format!("curl 'http://{address}/v1/next?key=alice'")
}

/// Commands that call the endpoints of a server under TLS.
pub(crate) struct TlsCommands<'a> {
    /// Host that its certificate has.
    pub(crate) host: &'a str,
    /// Its callers may show tokens.
    pub(crate) has_principals: bool,
}

impl TlsCommands<'_> {
    /// Returns a command that calls the Redis endpoint at this port.
    pub(crate) fn redis(&self, port: u16) -> String {
        let (shown, host) = (
            match self.has_principals {
                true => "--cacert DIR/ca.pem --user NAME --askpass",
                false => "--cacert DIR/ca.pem --cert DIR/cert.pem --key DIR/key.pem",
            },
            self.host,
        );
        format!("redis-cli --tls {shown} -h {host} -p {port} incr alice")
    }

    /// Returns a command that calls the HTTP endpoint at this port.
    pub(crate) fn curl(&self, port: u16) -> String {
        let (shown, host) = (
            match self.has_principals {
                true => "--cacert DIR/ca.pem -H \"Authorization: Bearer $(cat TOKEN_FILE)\"",
                false => "--cacert DIR/ca.pem --cert DIR/cert.pem --key DIR/key.pem",
            },
            self.host,
        );
        format!("curl {shown} 'https://{host}:{port}/v1/next?key=alice'")
    }
}

/// Aligned lines, each with one fact about the server.
pub(crate) struct StartupBanner {
    text: String,
}

impl StartupBanner {
    /// Creates a banner whose first line has the version and this title.
    pub(crate) fn new(title: &str) -> StartupBanner {
        StartupBanner {
            text: format!("seqsvr {} {title}\n", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Adds a line with a name and a value.
    pub(crate) fn with_fact(mut self, name: &str, value: impl std::fmt::Display) -> StartupBanner {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {name:<10} {value}");
        self
    }

    /// Adds the protection of the server.
    pub(crate) fn with_security(self, is_insecure: bool, tls: &ServerTls) -> StartupBanner {
        let security = match tls.describe() {
            Some(text) => text,
            None if is_insecure => {
                "INSECURE: ANY PROGRAM THAT REACHES THIS SERVER MAY DO EVERYTHING".to_owned()
            }
            None => "no TLS, no authentication; loopback only".to_owned(),
        };
        self.with_fact("security", security)
    }

    /// Adds commands to paste.
    pub(crate) fn with_commands(mut self, commands: &[String]) -> StartupBanner {
        self.text.push_str("try:\n");
        for command in commands {
            let _ = writeln!(self.text, "  {command}");
        }
        self
    }

    /// Prints the banner.
    pub(crate) fn print(self) {
        print_or_log(self.text.trim_end());
    }
}
