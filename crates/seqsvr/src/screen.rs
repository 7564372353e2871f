//! The first screen of a server: what runs, where, on which data, how safe, what to paste next.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::{log, out};

/// Says what a server has to say of itself: on stdout, or as a line of a log that programs read.
pub(crate) fn say(text: impl std::fmt::Display) {
    if log::is_json() {
        log::say(text);
    } else {
        // A server goes on when nobody reads its words.
        let _ = out::line(text);
    }
}

/// A command that asks a Redis door.
pub(crate) fn redis_cli(address: SocketAddr) -> String {
    format!(
        "redis-cli -h {} -p {} incr alice",
        address.ip(),
        address.port()
    )
}

/// A command that asks an HTTP door.
pub(crate) fn curl(address: SocketAddr) -> String {
    format!("curl 'http://{address}/v1/next?key=alice'")
}

/// One line a fact, aligned.
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

    /// The state of security, the same everywhere for now.
    pub(crate) fn security(self, loopback: bool) -> Screen {
        let state = if loopback {
            "no TLS, no authentication; loopback only"
        } else {
            "no TLS, no authentication; REACHABLE FROM OTHER MACHINES: keep it inside a trusted network"
        };
        self.fact("security", state)
    }

    /// Commands to paste.
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
