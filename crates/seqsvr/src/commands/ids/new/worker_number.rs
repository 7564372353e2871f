//! Where `id new` takes its worker number from.

use std::fs;
use std::net::UdpSocket;

use anyhow::Context as _;
use seqsvr_ids::generator::WorkerSource;

use crate::cli::NewIdArgs;
use crate::output::exit_code::BadInput;
use crate::output::log;

/// Returns the worker number for a field of `bits` bits. Warns that two processes may have the
/// same one, unless the operator chose it.
///
/// # Errors
/// The source has no number, or one that does not fit: [`BadInput`].
pub(super) fn find_worker(args: &NewIdArgs, bits: u32) -> anyhow::Result<u32> {
    let (host, value): (String, Option<String>);
    let source = match (args.worker, args.worker_from.as_deref()) {
        (Some(worker), _) => WorkerSource::Fixed(worker),
        (None, None) => WorkerSource::Fixed(0),
        (None, Some("hostname")) => {
            host = fs::read_to_string("/proc/sys/kernel/hostname")?;
            WorkerSource::HostOrdinal(host.trim_end())
        }
        (None, Some("ip")) => WorkerSource::Address(own_address()?),
        (None, Some("mac")) => WorkerSource::HardwareAddress(hardware_address()?),
        (None, Some(text)) => {
            let bad = || {
                BadInput(format!(
                    "--worker-from {text:?} is no source; use env:VARIABLE, hostname, ip or mac, such as env:WORKER"
                ))
            };
            let variable = text.strip_prefix("env:").filter(|name| !name.is_empty());
            let variable = variable.ok_or_else(bad)?;
            value = std::env::var(variable).ok();
            WorkerSource::Environment {
                variable,
                value: value.as_deref(),
            }
        }
    };
    let worker = source
        .worker(bits)
        .map_err(|error| BadInput(error.to_string()))?;
    if args.worker.is_none() && bits > 0 {
        log::print_warning(format_args!(
            "worker {worker}: another process makes the same ids if {}; give each process a number of \
             its own by --worker",
            source.shared_when()
        ));
    }
    Ok(worker as u32)
}

/// Returns the address from which this machine would call others. No packet is sent.
fn own_address() -> anyhow::Result<std::net::IpAddr> {
    let address = || {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        // An address of the documentation range, which no machine has.
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    };
    let address = address().context(
        "--worker-from ip: this machine has no route to others; use --worker, such as --worker 7",
    )?;
    Ok(address.ip())
}

/// Returns the address of the first network card by name.
fn hardware_address() -> anyhow::Result<[u8; 6]> {
    let cards = fs::read_dir("/sys/class/net")?.flatten();
    let mut files: Vec<_> = cards.map(|card| card.path().join("address")).collect();
    files.sort();
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let mut addresses = texts.filter_map(|text| parse_hardware_address(text.trim_end()));
    addresses.next().ok_or_else(|| BadInput("--worker-from mac: this machine has no network card with an address; use --worker, such as --worker 7".to_owned()).into())
}

/// Parses an address; None for the one of all zeros that loopback has.
fn parse_hardware_address(text: &str) -> Option<[u8; 6]> {
    let bytes = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    <[u8; 6]>::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes != [0; 6])
}
