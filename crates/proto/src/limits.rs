//! Limits, each enforced where requests enter. Those of the contract are constants, because clients
//! size their requests by them. Those of one server's resources have a default here and are
//! configured (`--connections-max`, `--streams-max`, `--queued-items-max`).

/// Most items of one NextMany or CurrentMany.
pub const ITEMS_MAX: usize = 10_000;
/// Most numbers one NextMany may take in all.
pub const NUMBERS_MAX: u64 = 10_000_000;
/// Most ids of one NextIds.
pub const IDS_MAX: u32 = 100_000;
/// Most ids of one NextIds that is answered with runs.
pub const RUN_IDS_MAX: u32 = 1_000_000;
/// Largest message accepted, bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most commands of one Submit.
pub const SUBMIT_COMMANDS_MAX: usize = 1_000;
/// Most commands of one Workers, and most renewals of one RenewWorkers.
pub const WORKER_COMMANDS_MAX: usize = 1_000;
/// Most sections or slots of one Read.
pub const READ_ROWS_MAX: usize = 10_000;
/// Most connections of one server at a time, unless configured.
pub const CONNECTIONS_DEFAULT: usize = 16_384;
/// Most calls of one connection at a time, unless configured.
pub const CALLS_PER_CONNECTION_DEFAULT: u32 = 4_096;
/// Most items of calls that wait in one AllocSvr at a time, unless configured.
pub const QUEUED_ITEMS_DEFAULT: usize = 200_000;
/// Default port of an AllocSvr.
pub const ALLOC_PORT: u16 = 7700;
/// Default port of a StoreSvr.
pub const STORE_PORT: u16 = 7800;
/// Time after which a client stops retrying a call, unless configured.
pub const CALL_TIMEOUT_DEFAULT: std::time::Duration = std::time::Duration::from_secs(5);
