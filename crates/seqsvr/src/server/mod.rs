//! Parts of a server process: its endpoints, threads and file descriptors, its startup banner, and
//! the signals that stop it.

pub(crate) mod background_runtime;
pub(crate) mod connection_threads;
pub(crate) mod core_runtime;
pub(crate) mod endpoints;
pub(crate) mod fd_limit;
pub(crate) mod insecure_warning;
pub(crate) mod listen_rules;
pub(crate) mod private_dir;
pub(crate) mod runtime;
pub(crate) mod shutdown_signal;
pub(crate) mod startup_banner;
pub(crate) mod tls;
