//! Worker numbers without a store: from a setting, a host name or an address.

use std::net::IpAddr;

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

/// A source that gives no worker number: what is wrong, the bounds, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {0}")]
pub struct WorkerError(String);

impl WorkerSource<'_> {
    /// Returns the worker number for a field of `bits` bits.
    ///
    /// # Errors
    ///
    /// If the source has no number, or one that does not fit. Low bits of addresses always fit.
    pub fn worker(&self, bits: u32) -> Result<u64, WorkerError> {
        if bits > WORKER_BITS_MAX {
            return Err(WorkerError(format!(
                "is too wide: {bits} bits, at most {WORKER_BITS_MAX}; narrow it, such as worker:10"
            )));
        }
        let max = (1 << bits) - 1;
        let worker = match *self {
            Self::Fixed(worker) => worker,
            Self::Environment { variable, value } => {
                let text = value.ok_or_else(|| {
                    WorkerError(format!(
                        "is missing: the variable {variable} is not set; set it, such as \
                         {variable}=7"
                    ))
                })?;
                parse_decimal(text.trim()).ok_or_else(|| {
                    WorkerError(format!(
                        "is not a number: {variable} is {text:?}; use a decimal of at most {max}, \
                         such as 7"
                    ))
                })?
            }
            Self::HostOrdinal(host) => {
                let name = host.split('.').next().unwrap_or_default();
                let ordinal = name.rsplit_once('-').map(|(_, ordinal)| ordinal);
                ordinal.and_then(parse_decimal).ok_or_else(|| {
                    WorkerError(format!(
                        "is missing: the host name {host:?} does not end in `-` and a number of \
                         at most {max}, such as ids-7"
                    ))
                })?
            }
            Self::Address(IpAddr::V4(address)) => u64::from(address.to_bits()) & max,
            Self::Address(IpAddr::V6(address)) => address.to_bits() as u64 & max,
            Self::HardwareAddress(address) => address & max,
        };
        match worker <= max {
            true => Ok(worker),
            false => Err(WorkerError(format!(
                "out of range: {worker} is above {max}; use a number of 0 to {max}, such as {max}"
            ))),
        }
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
            Self::Address(_) => {
                "the low bits of two addresses are equal, or two processes run on one host"
            }
            Self::HardwareAddress(_) => {
                "the low bits of two hardware addresses are equal, as in containers, or two \
                 processes run on one host"
            }
        }
    }
}

/// Parses digits alone; None for a sign or more than 64 bits.
fn parse_decimal(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}
