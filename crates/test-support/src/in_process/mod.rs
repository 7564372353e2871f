//! Clusters within the process of the test, and test doubles for clocks and networks.

mod alloc_servers;
mod blocked_threads;
mod call_history;
mod controlled_alloc;
mod cuttable_link;
mod forked_child;
mod in_process_cluster;
mod loopback;
mod memory_net;
mod requests;
mod test_clock;
mod with_cluster;

pub use alloc_servers::{
    new_caller, new_client, read_counter, read_counters, start_alloc, wait_until_assigned,
};
pub use blocked_threads::BlockedThreads;
pub use call_history::{HistoryClock, check_history, current_answer, next_answer, raise_answer};
pub use controlled_alloc::start_controlled_alloc;
pub use cuttable_link::CuttableLink;
pub use forked_child::run_in_forked_child;
pub use in_process_cluster::{InProcessCluster, LEASE, SLOTS, new_runtime};
pub use loopback::{any_port, http_url};
pub use memory_net::MemoryNet;
pub use requests::{
    create_family, create_namespace, dense_namespace, expect_rejection, mark_forwarded,
    next_request,
};
pub use test_clock::TestClock;
pub use with_cluster::run_with_cluster;
