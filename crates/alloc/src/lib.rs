//! AllocSvr: hands out numbers from memory for the slots it owns under a lease.
//!
//! Path of a request:
//!
//! ```text
//! api ──> fast_path ──> core::section     answers from memory: no lock, one clock reading
//!     │ missed: from here on in the background, at a lower priority
//!     └─> slow_path                       answers by the deadline, or says why not
//!           ├─> try_owned ──> core::section    one pass over the loaded sections
//!           ├─> sections::section_lifecycle    opens a section at the store
//!           ├─> sections::refiller             raises max_seq ahead of need
//!           ├─> store_client                   reads sections, confirms ownership
//!           └─> forwarder                      forwards items to their owner
//! ```
//!
//! Both paths pass `session::serving_check` before they answer.
//!
//! Components by layer. A component owns its state, has a clone of the shared parts, and gets the
//! others that it uses when it is built. It uses lower layers, and no component holds the server:
//!
//! ```text
//! 7  alloc_server   AllocServer builds all (components), runs their tasks and shuts down
//! 6  api            SequenceService, PipeResponses, IdsService, AdminService, SlotOperations,
//!                   GrpcServer, AllocCollector
//! 5  slow_path      SlowPath, Forwarder, WaitLimiter
//!    lease          LeaseKeeper renews, TableWatcher follows the routing table
//! 4  fast_path      FastPath
//!    slots          SlotMover hands slots over; close_session ends the session
//! 3  sections       SectionMap, SectionLifecycle, Refiller, Evictor, TableUpdater
//!    ids            WorkerRelay
//! 2  session        CurrentSession, RoutingTableCell, RenewalSignal, ServingCheck, StateDir
//!    store_client   StoreGroupClient, CommandQueue, OwnershipVerifier, SectionReader
//!    batch          requests and answers in columns
//!    shared_parts   SharedParts: session, table and what else many components use
//! 1  background_executor, clock, random, own_cluster, counters and call metrics; plain data
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
mod ids;
mod lease;
mod metrics;
mod options;
mod own_cluster;
mod random;
mod sections;
mod session;
mod shared_parts;
mod slots;
mod slow_path;
mod store_client;

pub use alloc_server::AllocServer;
#[cfg(sim)]
pub use alloc_server::sim_view::{AllocView, SectionView, SessionView};
pub use clock::{Clock, SystemClock};
pub use error::Error;
pub use options::{AllocEnvironment, Options};
