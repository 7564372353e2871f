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
    /// The low bits of a hardware address (MAC).
    HardwareAddress([u8; 6]),
}

/// Why a source gives no worker number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The variable is not set.
    #[error("worker is missing: the variable {variable} is not set; set it, such as {variable}=7")]
    NotSet {
        /// Its name.
        variable: String,
    },
    /// A text is no number.
    #[error(
        "worker is not a number: {field} is {text:?}; use a decimal of at most {max}, such as 7"
    )]
    NotANumber {
        /// Where the text is from.
        field: String,
        /// The text.
        text: String,
        /// Greatest worker of the layout.
        max: u64,
    },
    /// A host name has no number at its end.
    #[error(
        "worker is missing: the host name {host:?} does not end in `-` and a number, such as ids-7"
    )]
    NoOrdinal {
        /// The host name.
        host: String,
    },
    /// The number does not fit the field.
    #[error(
        "worker out of range: {worker} is above {max}; use a number of 0 to {max}, such as {max}"
    )]
    TooLarge {
        /// The number.
        worker: u64,
        /// Greatest worker of the layout.
        max: u64,
    },
    /// The layout has no such field.
    #[error("worker is too wide: {bits} bits, at most 22; narrow it, such as worker:10")]
    Width {
        /// Bits of the field.
        bits: u32,
    },
}

impl WorkerSource<'_> {
    /// Returns the worker number for a field of `bits` bits.
    ///
    /// # Errors
    ///
    /// If the source has no number, or one that does not fit. Low bits of addresses always fit.
    pub fn worker(&self, bits: u32) -> Result<u64, WorkerError> {
        if bits > WORKER_BITS_MAX {
            return Err(WorkerError::Width { bits });
        }
        let max = (1 << bits) - 1;
        let worker = match *self {
            Self::Fixed(worker) => worker,
            Self::Environment { variable, value } => {
                let Some(text) = value else {
                    return Err(WorkerError::NotSet {
                        variable: variable.to_owned(),
                    });
                };
                parse_worker(variable, text, max)?
            }
            Self::HostOrdinal(host) => {
                let name = host.split('.').next().unwrap_or_default();
                match name.rsplit_once('-') {
                    Some((_, ordinal)) if is_decimal(ordinal) => {
                        parse_worker("the host name's number", ordinal, max)?
                    }
                    _ => {
                        return Err(WorkerError::NoOrdinal {
                            host: host.to_owned(),
                        });
                    }
                }
            }
            Self::Address(IpAddr::V4(address)) => u64::from(address.to_bits()) & max,
            Self::Address(IpAddr::V6(address)) => (address.to_bits() as u64) & max,
            Self::HardwareAddress(bytes) => {
                bytes
                    .iter()
                    .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
                    & max
            }
        };
        if worker > max {
            return Err(WorkerError::TooLarge { worker, max });
        }
        Ok(worker)
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

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_worker(field: &str, text: &str, max: u64) -> Result<u64, WorkerError> {
    let digits = text.trim();
    match digits.parse() {
        Ok(worker) if is_decimal(digits) => Ok(worker),
        _ => Err(WorkerError::NotANumber {
            field: field.to_owned(),
            text: text.to_owned(),
            max,
        }),
    }
}
