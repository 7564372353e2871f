//! The startup banner of a server: what runs, its addresses and data, its security, and commands
//! to paste.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::{log, out};

/// Prints a message of a server to stdout, or logs it if the log is JSON.
pub(crate) fn say(text: impl std::fmt::Display) {
    if log::is_json() {
        log::say(text);
    } else {
        // A server continues when its stdout is closed.
        let _ = out::line(text);
    }
}

/// Returns a command that calls a Redis endpoint.
pub(crate) fn redis_cli(address: SocketAddr) -> String {
    format!(
        "redis-cli -h {} -p {} incr alice",
        address.ip(),
        address.port()
    )
}

/// Returns a command that calls an HTTP endpoint.
pub(crate) fn curl(address: SocketAddr) -> String {
    format!("curl 'http://{address}/v1/next?key=alice'")
}

/// Aligned lines, each with one fact about the server.
pub(crate) struct Screen {
    text: String,
}

impl Screen {
    pub(crate) fn new(what: &str) -> Screen {
        Screen {
            text: format!("seqsvr {} {what}\n", env!("CARGO_PKG_VERSION")),
        }
    }

    pub(crate) fn fact(mut self, name: &str, value: impl std::fmt::Display) -> Screen {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {name:<10} {value}");
        self
    }

    /// Adds whether other machines can reach the server. There is no TLS and no authentication
    /// yet.
    pub(crate) fn security(self, loopback: bool) -> Screen {
        let state = if loopback {
            "no TLS, no authentication; loopback only"
        } else {
            "no TLS, no authentication; REACHABLE FROM OTHER MACHINES: keep it inside a trusted network"
        };
        self.fact("security", state)
    }

    /// Adds commands to paste.
    pub(crate) fn paste(mut self, lines: &[String]) -> Screen {
        self.text.push_str("try:\n");
        for line in lines {
            let _ = writeln!(self.text, "  {line}");
        }
        self
    }

    pub(crate) fn print(self) {
        say(self.text.trim_end());
    }
}
