//! Where `id new` takes its worker number from.

use std::fs;
use std::net::{IpAddr, UdpSocket};

use anyhow::{Context as _, bail};
use seqsvr_ids::generator::WorkerSource;

use super::bad_input;
use crate::cli::NewIdArgs;
use crate::output::log;

/// Returns the worker number for a field of `bits` bits. Warns that two processes may have the
/// same one, unless the operator chose it.
///
/// # Errors
/// The source has no number, or one that does not fit.
pub(super) fn find_worker(args: &NewIdArgs, bits: u32) -> anyhow::Result<u32> {
    let from = args.worker_from.as_deref();
    let variable = from.and_then(|from| from.strip_prefix("env:"));
    let value = variable.and_then(|variable| std::env::var(variable).ok());
    let host;
    let source = match (from, variable) {
        (None, _) => WorkerSource::Fixed(args.worker.unwrap_or(0)),
        (Some("hostname"), _) => {
            host = fs::read_to_string("/proc/sys/kernel/hostname")?;
            WorkerSource::HostOrdinal(host.trim_end())
        }
        (Some("ip"), _) => WorkerSource::Address(own_address()?),
        (Some("mac"), _) => WorkerSource::HardwareAddress(hardware_address()?),
        (_, Some(variable)) if !variable.is_empty() => WorkerSource::Environment {
            variable,
            value: value.as_deref(),
        },
        (Some(text), _) => bail!(bad_input(format!(
            "--worker-from {text:?} is no source; use env:VARIABLE, hostname, ip or mac, such as \
             env:WORKER"
        ))),
    };
    let worker = source.worker(bits)?;
    if args.worker.is_none() && bits > 0 {
        log::print_warning(format_args!(
            "worker {worker}: another process makes the same ids if {}; give each process a number \
             of its own by --worker",
            source.shared_when()
        ));
    }
    Ok(worker as u32)
}

/// Returns the address from which this machine would call others. No packet is sent.
fn own_address() -> anyhow::Result<IpAddr> {
    let address = UdpSocket::bind(("0.0.0.0", 0)).and_then(|socket| {
        // An address of the documentation range, which no machine has.
        socket.connect(("192.0.2.1", 9))?;
        socket.local_addr()
    });
    let address = address.context(
        "--worker-from ip: this machine has no route to others; use --worker, such as --worker 7",
    )?;
    Ok(address.ip())
}

/// Returns the address of the first network card by name. Loopback has zeros in place of one.
fn hardware_address() -> anyhow::Result<u64> {
    let cards = fs::read_dir("/sys/class/net")?.flatten();
    let mut files: Vec<_> = cards.map(|card| card.path().join("address")).collect();
    files.sort();
    let texts = files.iter().flat_map(fs::read_to_string);
    let texts = texts.map(|text| text.trim_end().replace(':', ""));
    let mut addresses = texts
        .filter(|digits| digits.len() == 12)
        .flat_map(|digits| u64::from_str_radix(&digits, 16));
    let address = addresses.find(|address| *address > 0);
    address.context(bad_input(
        "--worker-from mac: this machine has no network card with an address; use --worker, such \
         as --worker 7",
    ))
}
