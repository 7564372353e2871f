//! Clusters within the process of the test, and test doubles for clocks and networks.

mod call_history;
mod cuttable_link;
mod in_process_cluster;
mod memory_net;
mod test_clock;

pub use call_history::{HistoryClock, check_history, current_answer, next_answer, raise_answer};
pub use cuttable_link::CuttableLink;
pub use in_process_cluster::{
    InProcessCluster, LEASE, TEST_TIMEOUT, any_port, create_namespace, dense_namespace,
    expect_rejection, http_url, mark_forwarded, new_caller, new_client, new_runtime, next_request,
    read_counter, read_counters, start_alloc, wait_until, wait_until_settled, wait_until_within,
};
pub use memory_net::MemoryNet;
pub use test_clock::TestClock;
