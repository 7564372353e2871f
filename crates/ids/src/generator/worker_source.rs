//! Worker numbers without a store: from a setting, a host name or an address.

use std::net::IpAddr;

use seqsvr_core::layout::{InputError, parse_decimal};

/// Widest worker of a layout, in bits.
const WORKER_BITS_MAX: u32 = 22;

/// Where a process without a store takes its worker number from.
///
/// Pure: the caller reads the environment, the host name or the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerSource<'a> {
    /// A number that the operator chose.
    Fixed(u64),
    /// The value of an environment variable.
    Environment {
        /// Its name, for errors.
        variable: &'a str,
        /// Its value; None if it is not set.
        value: Option<&'a str>,
    },
    /// The number after the last `-` of a host name, as Kubernetes names the pods of a StatefulSet.
    HostOrdinal(&'a str),
    /// The low bits of an IP address: 16 bits are its last two bytes.
    Address(IpAddr),
    /// The low bits of a hardware address (MAC), which is a number of 48 bits.
    HardwareAddress(u64),
}

impl WorkerSource<'_> {
    /// Returns the worker number for a field of `bits` bits.
    ///
    /// # Errors
    ///
    /// If the source has no number, or one that does not fit. Low bits of addresses always fit.
    pub fn worker(&self, bits: u32) -> Result<u64, InputError> {
        let max = (1 << bits.min(WORKER_BITS_MAX)) - 1;
        let found = match *self {
            _ if bits > WORKER_BITS_MAX => Err(format!(
                "the field has {bits} bits and may have at most {WORKER_BITS_MAX}, so narrow it"
            )),
            Self::Fixed(worker) => Ok(worker),
            Self::Environment { variable, value } => match value {
                None => Err(format!("the variable {variable} is not set, so set it")),
                Some(text) => parse_decimal(text.trim()).ok_or_else(|| {
                    format!("the variable {variable} is {text:?}, no decimal of at most {max}")
                }),
            },
            Self::HostOrdinal(host) => {
                let name = host.split('.').next().unwrap_or_default();
                let ordinal = name.rsplit_once('-').map(|(_, ordinal)| ordinal);
                ordinal.and_then(parse_decimal).ok_or_else(|| {
                    format!(
                        "the host name {host:?} does not end in `-` and a number, as ids-7 does"
                    )
                })
            }
            Self::Address(IpAddr::V4(address)) => Ok(u64::from(address.to_bits()) & max),
            Self::Address(IpAddr::V6(address)) => Ok(address.to_bits() as u64 & max),
            Self::HardwareAddress(address) => Ok(address & max),
        };
        let worker = found.and_then(|worker| match worker <= max {
            true => Ok(worker),
            false => Err(format!("{worker} is above {max}")),
        });
        worker.map_err(|why| {
            InputError(format!(
                "no worker number: {why}; use a number of 0 to {max}, such as {max}"
            ))
        })
    }

    /// Returns when two processes receive the same number from this source, so that their ids
    /// repeat: a warning to log once.
    pub fn shared_when(&self) -> &'static str {
        match self {
            Self::Fixed(_) => "two processes have the same setting",
            Self::Environment { .. } => "two processes have the same environment, such as a fork",
            Self::HostOrdinal(_) => {
                "two sets of pods use one layout, or two processes run on one host"
            }
            Self::Address(_) | Self::HardwareAddress(_) => {
                "the low bits of two addresses are equal, as in containers, or two processes run \
                 on one host"
            }
        }
    }
}
