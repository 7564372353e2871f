//! An AllocSvr whose clock and link to the stores the test controls.

use std::sync::Arc;

use seqsvr_alloc::{AllocEnvironment, AllocServer};

use super::alloc_servers::wait_until_assigned;
use super::cuttable_link::CuttableLink;
use super::in_process_cluster::InProcessCluster;
use super::test_clock::TestClock;

/// Starts the only AllocSvr of a cluster, with a clock and a link of its own, and waits until it
/// owns all slots.
pub async fn start_controlled_alloc(
    cluster: &InProcessCluster,
    name: &str,
) -> (AllocServer, Arc<TestClock>, CuttableLink) {
    let link = CuttableLink::connected();
    let clock = Arc::new(TestClock::default());
    let options = cluster.alloc_options(name);
    let environment = AllocEnvironment {
        clock: clock.clone(),
        transport: Arc::new(link.clone()),
        ..AllocEnvironment::system()
    };
    let alloc = AllocServer::start_in(options, environment).await.unwrap();
    wait_until_assigned(std::slice::from_ref(&alloc)).await;
    (alloc, clock, link)
}
