//! The addresses of the servers of `seqsvr dev`.
//!
//! Each flag names the first port of its servers, and the others get the following ports. A default
//! port of an endpoint that may be absent gives way to a port that the command needs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use seqsvr_gateway::{HTTP_PORT, REDIS_PORT, STORE_HTTP_PORT};

use crate::cli;
use crate::output::exit_code::BadInput;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Addresses of all servers of a `dev`; None: the endpoint does not exist.
#[derive(Debug)]
pub(super) struct DevPorts {
    pub(super) stores: Vec<SocketAddr>,
    pub(super) allocs: Vec<SocketAddr>,
    pub(super) redis: Vec<Option<SocketAddr>>,
    pub(super) http: Vec<Option<SocketAddr>>,
    pub(super) store_http: Vec<Option<SocketAddr>>,
}

impl DevPorts {
    /// Chooses the addresses.
    ///
    /// # Errors
    /// A range ends above the last port, or two flags need one port.
    pub(super) fn choose(args: &cli::DevArgs) -> Result<DevPorts, BadInput> {
        let endpoints = [
            (args.redis_port, REDIS_PORT, args.allocs, "--redis-port"),
            (args.http_port, HTTP_PORT, args.allocs, "--http-port"),
            (
                args.store_http_port,
                STORE_HTTP_PORT,
                args.stores,
                "--store-http-port",
            ),
        ];
        let mut needed = NeededPorts::default();
        let stores = needed.add(args.store_port, args.stores, "--store-port")?;
        let allocs = needed.add(args.port, args.allocs, "--port")?;
        for (first, _, count, flag) in endpoints {
            if let Some(first) = first.filter(|first| *first != 0) {
                needed.add(first, count, flag)?;
            }
        }
        let [redis, http, store_http] = endpoints
            .map(|(first, default, count, flag)| needed.of_endpoint(first, default, count, flag));
        Ok(DevPorts {
            stores,
            allocs,
            redis: redis?,
            http: http?,
            store_http: store_http?,
        })
    }
}

/// Ports that the command needs, each with its flag.
#[derive(Default)]
struct NeededPorts(BTreeMap<u16, &'static str>);

impl NeededPorts {
    /// Adds the ports of a flag.
    ///
    /// # Errors
    /// The range ends above the last port, or another flag needs one of its ports.
    fn add(
        &mut self,
        first: u16,
        count: u64,
        flag: &'static str,
    ) -> Result<Vec<SocketAddr>, BadInput> {
        let ports = port_range(first, count, flag)?;
        for at in ports.iter().filter(|at| at.port() != 0) {
            if let Some(other) = self.0.insert(at.port(), flag) {
                return Err(BadInput(format!(
                    "{other} and {flag} both need port {}: each server has a port of its own, from the one of its flag on; choose another port for one of them",
                    at.port()
                )));
            }
        }
        Ok(ports)
    }

    /// Returns the addresses of an endpoint: those of its flag, or of its default port without
    /// those that the command needs.
    ///
    /// # Errors
    /// The range ends above the last port.
    fn of_endpoint(
        &self,
        first: Option<u16>,
        default: u16,
        count: u64,
        flag: &str,
    ) -> Result<Vec<Option<SocketAddr>>, BadInput> {
        let ports = match first {
            Some(0) => Vec::new(),
            first => port_range(first.unwrap_or(default), count, flag)?,
        };
        let is_free = |at: &SocketAddr| {
            let other = self.0.get(&at.port()).filter(|_| first.is_none());
            if let Some(other) = other {
                tracing::warn!(
                    listen = %at,
                    flag,
                    other,
                    "endpoint disabled: another flag needs its default port; choose another port with its flag"
                );
            }
            other.is_none()
        };
        Ok(ports
            .into_iter()
            .map(|at| Some(at).filter(is_free))
            .collect())
    }
}

fn port_range(first: u16, count: u64, flag: &str) -> Result<Vec<SocketAddr>, BadInput> {
    let ports = (u64::from(first)..u64::from(first) + count).map(u16::try_from);
    let addresses = ports.map(|port| port.map(|port| SocketAddr::new(LOOPBACK, port)));
    addresses.collect::<Result<_, _>>().map_err(|_| {
        BadInput(format!(
            "{flag} {first} leaves no room for {count} ports; choose a lower port"
        ))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Dev {
        #[command(flatten)]
        args: cli::DevArgs,
    }

    fn choose(flags: &str) -> Result<DevPorts, BadInput> {
        let words = std::iter::once("dev").chain(flags.split_whitespace());
        DevPorts::choose(&Dev::parse_from(words).args)
    }

    #[test]
    fn dev_ports_of_two_flags_that_meet_are_rejected() {
        for (flags, words) in [
            (
                "--port 9000 --store-port 9000",
                "--store-port and --port both need port 9000",
            ),
            (
                "--http-port 9000 --redis-port 9000",
                "--redis-port and --http-port both need",
            ),
            ("--port 7800", "--store-port and --port both need port 7800"),
            (
                "--allocs 3 --port 8998 --redis-port 9000",
                "--port and --redis-port both need",
            ),
            (
                "--port 65535 --allocs 2",
                "--port 65535 leaves no room for 2 ports",
            ),
        ] {
            let error = choose(flags).expect_err(flags).to_string();
            assert!(error.contains(words), "{flags}: {error}");
        }
    }

    #[test]
    fn default_port_of_dev_gives_way_to_a_port_that_is_needed() {
        let ports = choose("--port 7880").unwrap();
        assert_eq!(ports.store_http, [None]);
        assert_eq!(ports.allocs[0].port(), 7880);
        // The last AllocSvrs have no HTTP endpoint: the ports of the stores follow.
        let ports = choose("--allocs 64").unwrap();
        let http: Vec<bool> = ports.http.iter().map(Option::is_some).collect();
        assert_eq!(http.iter().filter(|is_open| !**is_open).count(), 1);
        assert!(!http[20] && http[21]);
        assert_eq!(choose("--http-port 0").unwrap().http, []);
    }
}
