//! AllocSvr: hands out numbers from memory for the slots it owns under a lease.
//!
//! What lives here, in the order a request meets it:
//!
//! ```text
//! service, pipe ──> hits ──> core::section             frames: no lock to wait for, one clock read for all
//!               │ missed: from here on in the background, below the others in priority
//!             serve ──> take ──> core::section          the same for one item, and why it waits
//!               │ miss
//!               ├─> sections  opens a section at the store
//!               ├─> reads     reads sections that are not loaded, for `current`
//!               ├─> refill    raises max_seq ahead of need
//!               ├─> guard     confirms with the store when a caller has seen more than we have
//!               └─> forward   sends the item on to its owner
//! group, waiting: what items of a request wait for, and how many may
//! moves: hands slots over to other owners, when the store has planned it or an operator asks
//! keeper: registers, renews the lease, learns the routing table      idle: closes idle sections
//! figures (survey, timing), hot: what operators are told
//! submit ──> stores: section commands, coalesced, to the StoreSvr leader
//! ```
//!
//! What it may not know: Raft, disks (but for the small file of a state directory). It sees StoreSvr
//! only through `Store` and `Admin` calls, and time, randomness and network only through
//! [`Environment`], its seed and tokio's timers, so that a simulation can drive it.

mod alloc_server;
mod api;
mod background_executor;
mod batch;
mod clock;
mod error;
mod fast_path;
mod lease;
mod metrics;
mod node;
mod options;
mod own_cluster;
mod random;
mod sections;
mod session;
mod slots;
mod slow_path;
mod store_client;

pub use alloc_server::Alloc;
#[cfg(sim)]
pub use alloc_server::sim_view::{AllocView, SectionView, SessionView};
pub use clock::{Clock, SystemClock};
pub use error::Error;
pub use options::{Environment, Options};
