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

/// Returns a command that calls a Redis endpoint.
pub(crate) fn redis_command(address: SocketAddr) -> String {
    format!(
        "redis-cli -h {} -p {} incr alice",
        address.ip(),
        address.port()
    )
}

/// Returns a command that calls an HTTP endpoint.
pub(crate) fn curl_command(address: SocketAddr) -> String {
    format!("curl 'http://{address}/v1/next?key=alice'")
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
