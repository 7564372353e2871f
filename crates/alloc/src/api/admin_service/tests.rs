use std::future::pending;
use std::net::SocketAddr;

use futures::FutureExt;
use futures::future::join_all;

use super::*;
use crate::{AllocEnvironment, AllocServer, Options};

/// Maximum time of a process to meet itself: more than a few attempts.
const MEET_TIMEOUT: Duration = Duration::from_secs(20);

/// Schedule: callers request the status faster than one walk over all sections ends. The
/// process still meets itself at its address.
#[tokio::test]
async fn status_requests_wait_for_one_walk_in_bounded_number() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
    let alloc = AllocServer::start_in(options, AllocEnvironment::system()).await;
    let alloc = alloc.unwrap();
    let admin = alloc.components.admin.clone();
    let request_status = || admin.node_status(Request::new(NodeStatusRequest {}));

    let walk = Box::pin(admin.node_status.call(pending()));
    let (walk, mut waiting) = (poll_once(walk), Vec::new());
    let refused = loop {
        assert!(waiting.len() < 10_000, "no bound");
        match poll_once(Box::pin(request_status())) {
            Ok(answer) => break answer,
            Err(waits) => waiting.push(waits),
        }
    };
    let refused = RpcError::from_status(&refused.unwrap_err());
    assert_eq!(refused.reason(), Reason::Overloaded);
    assert!(refused.detail.retry_after_ms > 0, "no hint: {refused}");
    tokio::time::timeout(
        MEET_TIMEOUT,
        alloc.components.address_check.wait_until_met(),
    )
    .await
    .expect("callers keep the process from itself");
    drop(walk);
    for answer in join_all(waiting).await {
        assert_eq!(answer.unwrap().into_inner().role, "alloc");
    }
}

/// Polls a future once. Returns its output, or the future if it waits.
fn poll_once<F: Future + Unpin>(mut future: F) -> Result<F::Output, F> {
    (&mut future).now_or_never().ok_or(future)
}
