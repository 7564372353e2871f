//! AllocSvr: hands out numbers from memory for the slots it owns under a lease.
//!
//! Parts, in the order in which a request meets them:
//!
//! ```text
//! api ──> fast_path ──> core::section     answers from memory: no lock, one clock reading
//!     │ missed: from here on in the background, at a lower priority
//!     └─> slow_path                       answers by the deadline, or says why not
//!           ├─> try_owned ──> core::section    one pass over the loaded sections
//!           ├─> sections::section_lifecycle    opens a section at the store
//!           ├─> sections::refiller             raises max_seq ahead of need
//!           ├─> store_client                   reads sections, confirms ownership
//!           └─> forwarder                      sends items on to their owner
//! batch: requests and answers in columns
//! session, lease: registration, renewal of the lease, routing table
//! slots: hands slots over to other owners, when the store plans it or an operator requests it
//! sections::evictor: closes idle sections
//! metrics: counters, durations of calls, health checks
//! ```
//!
//! This crate does not use Raft, or disks except for the small file of a state directory. It
//! reaches StoreSvr only through `Store` and `Admin` calls. It reaches time, randomness and the
//! network only through [`AllocEnvironment`], its seed and tokio's timers, so that a simulation can
//! drive it.

mod alloc_identity;
mod alloc_server;
mod api;
mod background_executor;
mod batch;
mod clock;
mod error;
mod fast_path;
mod lease;
mod metrics;
mod options;
mod own_cluster;
mod random;
mod sections;
mod session;
mod slots;
mod slow_path;
mod store_client;

pub use alloc_server::AllocServer;
#[cfg(sim)]
pub use alloc_server::sim_view::{AllocView, SectionView, SessionView};
pub use clock::{Clock, SystemClock};
pub use error::Error;
pub use options::{AllocEnvironment, Options};
